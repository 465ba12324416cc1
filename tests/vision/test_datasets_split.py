"""Splits: disjoint, seeded, and the same after a round trip through a file."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.sealed import digest
from wildcal._old.vision.datasets import Split, make_split


@given(
    n=st.integers(1, 200),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_parts_are_disjoint_sorted_and_of_the_size_asked_for(n, shares, seed):
    sizes = {f"part {k}": int(n * share / len(shares)) for k, share in enumerate(shares)}
    split = make_split(n, {**sizes, "rest": -1}, seed)
    rows = {name: split.rows(name) for name in split.parts}
    assert {name: len(rows[name]) for name in sizes} == sizes
    assert sorted(np.concatenate(list(rows.values())).tolist()) == list(range(n))
    for part in rows.values():
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


def test_they_are_the_pieces_of_one_permutation():
    order = np.random.default_rng(7).permutation(20)
    split = make_split(20, {"train": 12, "tune": 3}, 7)
    assert split.rows("train").tolist() == sorted(order[:12])
    assert split.rows("tune").tolist() == sorted(order[12:15])


def test_same_seed_same_parts_and_other_seed_other_parts():
    one, two, other = (make_split(1000, {"a": 500}, seed).rows("a") for seed in (3, 3, 4))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_rows_are_a_copy():
    split = make_split(10, {"a": 5}, 0)
    split.rows("a")[:] = 0
    assert len(set(split.rows("a").tolist())) == 5


@pytest.mark.parametrize(
    ("n", "sizes", "seed", "message"),
    [
        (10, {"a": 6, "b": 5}, 0, "sizes must sum to at most n = 10, got 11."),
        (10, {"a": -1, "b": -1}, 0, r"the rest \(-1\) to one part, got a, b."),
        (10, {"a": -2}, 0, r"sizes\['a'\] must be a whole number of at least -1, got -2."),
        (10, {"a": 0.5}, 0, r"sizes\['a'\] must be a whole number"),
        (0, {"a": 0}, 0, "n must be a whole number of at least 1, got 0."),
        (10, {"a": 1}, -1, "seed must be a whole number of at least 0, got -1."),
        (10, {"a": 1}, None, "seed must be a whole number"),
    ],
)
def test_wrong_wishes(n, sizes, seed, message):
    with pytest.raises(ValueError, match=message):
        make_split(n, sizes, seed)


def test_an_unknown_part():
    with pytest.raises(ValueError, match="name must be one of 'tune', 'test', got 'val'."):
        make_split(10, {"tune": 3, "test": -1}, 0).rows("val")


def test_round_trip(tmp_path):
    split = make_split(1000, {"tune": 100, "none": 0, "test": -1}, 5, data="cifar10-test")
    path = tmp_path / "split.json"
    split.save(path)
    again = Split.load(str(path))
    assert (again.n, again.seed, again.data) == (1000, 5, "cifar10-test")
    assert list(again.parts) == ["tune", "none", "test"]
    for name in split.parts:
        assert np.array_equal(again.rows(name), split.rows(name))
        assert again.rows(name).dtype == np.int64
    assert [p.name for p in tmp_path.iterdir()] == ["split.json"]


def test_the_file_can_be_read_by_a_person(tmp_path):
    make_split(6, {"tune": 2, "test": -1}, 0, data="six").save(tmp_path / "split.json")
    text = (tmp_path / "split.json").read_text()
    sha = json.loads(text)["sha256"]
    rows = make_split(6, {"tune": 2, "test": -1}, 0)
    assert text.splitlines() == [
        "{",
        '  "format": "wildcal split",',
        '  "format_version": 1,',
        '  "data": "six",',
        '  "n": 6,',
        '  "seed": 0,',
        '  "parts": {',
        f'    "tune": {rows.rows("tune").tolist()},',
        f'    "test": {rows.rows("test").tolist()}',
        "  },",
        f'  "sha256": "{sha}"',
        "}",
    ]


def document(**changes):
    content = {
        "format": "wildcal split",
        "format_version": 1,
        "data": "six",
        "n": 6,
        "seed": 0,
        "parts": {"tune": [0, 2], "test": [1, 5]},
    } | changes
    return {**content, "sha256": digest(content)}


def test_the_document_of_the_tests_below_is_valid(tmp_path):
    (tmp_path / "split.json").write_text(json.dumps(document()))
    assert Split.load(tmp_path / "split.json").rows("test").tolist() == [1, 5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "wildcal calibrator"}, "is not a wildcal split"),
        ({"format_version": 2}, "has format version 2; this wildcal .* reads version 1"),
        ({"format_version": True}, "has format version True"),
        ({"data": 3}, "data must be the name of a data set, got int"),
        ({"n": 6.0}, "n must be a whole number"),
        ({"n": 5}, r"part 'test' must be row numbers in \[0, 4\]"),
        ({"n": 10**30, "parts": {"a": [10**25]}}, "is not a valid split"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": None}, "seed must be a whole number"),
        ({"parts": []}, "is not a valid split"),
        ({"parts": {"a": [0, 1], "b": [1, 2]}}, "parts must be disjoint"),
        ({"parts": {"a": [1, 1]}}, "some rows occur twice"),
        ({"parts": {"a": [-1, 0]}}, "must be row numbers in"),
        ({"parts": {"a": [0, 1.0]}}, "must be a list of integers"),
        ({"parts": {"a": [False, True]}}, "must be a list of integers"),
        ({"parts": {"a": "01"}}, "must be a list of integers"),
        ({"parts": {"a": [[0]]}}, "must be a list of integers"),
    ],
)
def test_wrong_content(tmp_path, changes, message):
    path = tmp_path / "split.json"
    path.write_text(json.dumps(document(**changes)))
    with pytest.raises(FileFormatError, match=message) as caught:
        Split.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("key", ["data", "n", "seed", "parts"])
def test_missing_content(tmp_path, key):
    content = document()
    del content[key], content["sha256"]
    (tmp_path / "split.json").write_text(json.dumps({**content, "sha256": digest(content)}))
    with pytest.raises(FileFormatError, match="is not a valid split"):
        Split.load(tmp_path / "split.json")


def test_a_changed_file_is_noticed(tmp_path):
    path = tmp_path / "split.json"
    make_split(6, {"tune": 2}, 0).save(path)
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(FileFormatError, match="its SHA-256 does not match"):
        Split.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"[]", b"null"])
def test_no_json(tmp_path, content):
    (tmp_path / "split.json").write_bytes(content)
    with pytest.raises(FileFormatError, match="not a whole JSON file|is not a wildcal split"):
        Split.load(tmp_path / "split.json")


def test_no_file(tmp_path):
    with pytest.raises(FileFormatError, match="none.json does not exist"):
        Split.load(tmp_path / "none.json")
    with pytest.raises(FileFormatError, match="is a folder"):
        Split.load(tmp_path)
