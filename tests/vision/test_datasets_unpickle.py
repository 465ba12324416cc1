"""Pickles that want more than to hold data: refused by name, and nothing of theirs happens."""

import codecs
import operator
import os
import pickle
import struct

import numpy as np
import pytest

from wildcal.core.errors import FileFormatError
from wildcal.vision.datasets import unpickle
from wildcal.vision.datasets.unpickle import read_pickle


class Call:
    """An object that pickle would make by calling a function."""

    def __init__(self, function, *arguments):
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


@pytest.fixture
def read(tmp_path):
    def read_bytes(content):
        path = tmp_path / "file"
        path.write_bytes(content)
        return read_pickle(path)

    return read_bytes


def refused(read, content, message):
    with pytest.raises(FileFormatError) as caught:
        read(content)
    text = str(caught.value)
    assert message in text
    assert text.count("\n") == 0
    assert text.endswith("Unpack the published archive again.")


def test_what_it_reads(read):
    content = {
        b"list": [0, 255, 65535, -1, 2**31, -(2**40), None, True, False],
        b"bytes": bytes(range(256)),
        "text": "latin-1: é",
        b"array": np.arange(6, dtype=np.uint8).reshape(2, 3),
        b"tuples": [(1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        b"nested": {b"a": {b"b": []}},
    }
    got = read(pickle.dumps(content, 2))
    assert got["list"] == content[b"list"]
    assert got["bytes"] == content[b"bytes"]
    assert got["text"] == "latin-1: é".encode("latin-1")
    assert np.array_equal(got["array"], content[b"array"])
    assert got["tuples"] == content[b"tuples"]
    assert got["nested"] == {b"a": {b"b": []}}


def test_more_than_256_memos_and_long_text(read):
    content = {b"names": [b"name-%d" % k for k in range(1000)], b"x": bytes(range(256)) * 10_000}
    got = read(pickle.dumps(content, 2))
    assert got["names"] == content[b"names"]
    assert got["x"] == content[b"x"]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (Call(os.system, "touch owned"), "system"),
        (Call(eval, "open('owned', 'w')"), "__builtin__.eval"),
        (Call(exec, "open('owned', 'w')"), "__builtin__.exec"),
        (Call(getattr, Call(__import__, "os"), "system"), "__builtin__.getattr"),
        (Call(__import__, "os"), "__builtin__.__import__"),
        (Call(open, "owned", "w"), "open"),
        (Call(operator.attrgetter, "x"), "operator.attrgetter"),
        (Call(codecs.decode, b"", "zlib"), "_codecs.decode"),
        (Call(np.load, "x.npy"), "load"),
        (Call(np.fromfile, "x"), "fromfile"),
        (Call(bytearray, 10), "__builtin__.bytearray"),
        (np.float64, "numpy.float64"),
    ],
)
def test_other_names_are_refused(read, tmp_path, monkeypatch, call, name):
    monkeypatch.chdir(tmp_path)
    refused(read, pickle.dumps({b"data": call}, 2), name)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("protocol", [0, 1, 3, 4, 5])
def test_other_protocols(read, protocol):
    refused(read, pickle.dumps({b"data": 1}, protocol), "it is not a pickle of protocol 2")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"i__builtin__\neval\n", "0x69"),  # INST
        (b"(c__builtin__\neval\no", "it refers to '__builtin__.eval'"),  # OBJ
        (b"cnumpy\nndarray\n)", "0x29"),
        (b"cnumpy\nndarray\nK\x01\x85\x81", "0x81"),  # NEWOBJ: numpy.ndarray(10**10) would allocate
        (b"\x82\x01", "0x82"),  # EXT1
        (b"\x93", "0x93"),  # STACK_GLOBAL
        (b"Pid\n", "0x50"),  # PERSID
        (b"I1\n", "0x49"),
        (b"\x8b\xff\xff\xff\x7f", "0x8b"),  # LONG4
        (b"\x8e" + b"\xff" * 8, "0x8e"),  # BINBYTES8
        (b"\x95" + b"\xff" * 8, "0x95"),  # FRAME
        (b"\x80\x02", "0x80"),
        (b"0", "0x30"),
        (b"2", "0x32"),
    ],
)
def test_other_opcodes(read, body, code):
    refused(read, b"\x80\x02}" + body + b".", code)


NDARRAY = b"cnumpy\nndarray\n"
RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
DTYPE = b"cnumpy\ndtype\n"
U1 = DTYPE + b"U\x02u1\x85R"


def with_state(shape, kind=U1, data=b"U\x00"):
    return RECONSTRUCT + NDARRAY + b"\x85R(K\x01" + shape + kind + b"\x89" + data + b"tb"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (NDARRAY + b"K\x05\x85R", "makes an array in an unknown way"),  # numpy.ndarray(5)
        (RECONSTRUCT + b"K\x05\x85R", "makes an array in an unknown way"),
        (RECONSTRUCT + NDARRAY + b"R", "calls what cannot be called"),
        (b"U\x04evalU\x00\x85R", "calls what cannot be called"),
        (DTYPE + b"U\x01O\x85R", "another type than uint8"),
        (DTYPE + b"U\x02f8\x85R", "another type than uint8"),
        (DTYPE + DTYPE + b"\x85R", "another type than uint8"),
        (b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x04\x00\x00\x00zlib\x86R", "not as latin-1"),
        (b"c_codecs\nencode\nX\x01\x00\x00\x00a\x85R", "not as latin-1"),
        (b"c_codecs\nencode\nK\x05X\x06\x00\x00\x00latin1\x86R", "not as latin-1"),
        (b"X\x03\x00\x00\x00\xe2\x82\xac", "text that is not latin-1"),
        (b"X\x01\x00\x00\x00\xc3", "text that is not latin-1"),
        (with_state(b"K\x02K\x02\x86"), "shape does not fit its data"),
        (with_state(b"\x8a\x05\x00\x00\x00\x00\x7f\x85"), "shape does not fit its data"),
        (with_state(b"J\xff\xff\xff\xffJ\xff\xff\xff\xff\x86"), "shape does not fit its data"),
        (with_state(b"(" + b"K\x01" * 5 + b"t"), "shape does not fit its data"),
        (with_state(b"K\x00"), "shape does not fit its data"),
        (with_state(b"\x88\x85", data=b"U\x01a"), "shape does not fit its data"),
        (with_state(b"K\x00\x85", kind=b"N"), "not made of bytes"),
        (with_state(b"K\x00\x85", data=b"]"), "not made of bytes"),  # an array of objects
        (RECONSTRUCT + NDARRAY + b"\x85RNb", "its parts do not fit together"),
        (RECONSTRUCT + b"}U\x08__dict__Nsb", "sets the state of what has none"),
        (b"]}b", "sets the state of what has none"),
        (b"K\x01K\x02a", "appends to what is no list"),
        (b"]K\x01K\x02s", "what is no dictionary"),
        (b"}K\x01K\x02s", "a key of its dictionary is no text"),
        (b"}(U\x01au", "its parts do not fit together"),
        (b"h\x07", "its parts do not fit together"),
        (b"e", "its parts do not fit together"),
        (b"t", "its parts do not fit together"),
        (b"cnumpy", "its parts do not fit together"),
        (b"c" + b"a" * 300 + b"\nb\n", "its parts do not fit together"),
        (b"T\xff\xff\xff\xffabc", "it is cut short"),
        (b"X\xff\xff\xff\xffabc", "it is cut short"),
    ],
)
def test_misuse_of_the_names_it_knows(read, value, message):
    refused(read, b"\x80\x02}U\x04data" + value + b"s.", message)


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x80\x02", b"\x80\x02.", b"\x80\x02]."])
def test_no_dictionary(read, content):
    refused(read, content, "")


def test_every_cut_is_noticed(read):
    whole = pickle.dumps({b"labels": [1, 2], b"data": np.zeros((2, 4), np.uint8)}, 2)
    assert read(whole)["labels"] == [1, 2]
    for size in range(len(whole)):
        refused(read, whole[:size], "cannot read")
    refused(read, whole + b"x", "does not hold one dictionary")


def test_a_huge_memo_number_costs_nothing(read):
    assert read(b"\x80\x02}r\xff\xff\xff\xff.") == {}


def test_the_same_long_text_many_times_costs_nothing(read):
    """Each reference encodes the text again in `pickle`; 100 kB would become 20 GB."""
    text = b"X" + struct.pack("<I", 100_000) + b"a" * 100_000
    start = b"c_codecs\nencode\nq\x00" + text + b"X\x06\x00\x00\x00latin1\x86q\x01R"
    body = b"]q\x02(" + start + b"h\x00h\x01R" * 200_000 + b"e"
    got = read(b"\x80\x02}U\x01a" + body + b"s.")["a"]
    assert len(got) == 200_001
    assert all(item is got[0] for item in got)


def test_small_objects_without_end(read, monkeypatch):
    monkeypatch.setattr(unpickle, "_MOST_STEPS", 100_000)
    refused(read, b"\x80\x02" + b"]" * 100_001, "more than 100,000 steps")


def test_deep_nesting_ends_in_a_sentence(read):
    deep = b"N" + b"\x85" * 500_000
    refused(read, b"\x80\x02}" + deep + b"Ns.", "a key of its dictionary is no text")
    assert list(read(b"\x80\x02}U\x01a" + deep + b"s.")) == ["a"]


def test_a_list_that_holds_itself(read):
    got = read(b"\x80\x02}U\x01a]q\x01h\x01as.")["a"]
    assert got[0] is got
