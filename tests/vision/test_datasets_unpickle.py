"""Pickles that want more than to hold data: refused by name, and nothing of theirs happens."""

import codecs
import operator
import os
import pickle

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError
from wildcal._old.vision.datasets.unpickle import read_pickle


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
