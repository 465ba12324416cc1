"""Columns of Arrow in the kinds that other programs write; lines of JSON unlike the rest."""

import decimal

import numpy as np
import pytest

from wildcal import read_rows
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io import read_table

Z = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32).round(3)
Y = np.array([0, 1, 2, 0, 1, 2])


@pytest.fixture
def read(tmp_path, needs):
    """Write columns as Parquet and read them."""
    needs("pyarrow")
    import pyarrow as arrow
    from pyarrow import parquet

    def reread(columns):
        parquet.write_table(arrow.table(columns), tmp_path / "x.parquet")
        return read_rows(tmp_path / "x.parquet")

    return reread


def test_a_matrix_of_fixed_shape(read):
    import pyarrow as arrow

    if not hasattr(arrow, "FixedShapeTensorArray"):
        pytest.skip("this pyarrow has no matrices of fixed shape")
    found = read({"logits": arrow.FixedShapeTensorArray.from_numpy_ndarray(Z), "y": Y})
    assert np.array_equal(found.logits, Z)
    assert np.array_equal(found.y, Y)


def test_words_that_are_kept_once_are_labels(read):
    import pyarrow as arrow

    words = arrow.array(["cat", "dog", "eel"])
    y = arrow.DictionaryArray.from_arrays(arrow.array(Y), words)
    found = read({**{name: Z[:, i] for i, name in enumerate(words.to_pylist())}, "y": y})
    assert np.array_equal(found.logits, Z)
    assert np.array_equal(found.y, Y)


def test_decimal_numbers_are_numbers(read):
    import pyarrow as arrow

    exact = [[decimal.Decimal(f"{v:.3f}") for v in column] for column in Z.T]
    columns = {f"c{i}": arrow.array(c, arrow.decimal128(9, 3)) for i, c in enumerate(exact)}
    assert np.allclose(read({**columns, "y": Y}).logits, Z, atol=1e-6)


def test_a_column_without_values_is_named(read):
    import pyarrow as arrow

    columns = {"a": Z[:, 0], "b": arrow.nulls(len(Z)), "c": Z[:, 2], "y": Y}
    with pytest.raises(FileFormatError, match=r"row 0 is empty \(NaN\) in column 'b'"):
        read(columns)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"logits": [1, 2]}\n[1, 2]\n', "row 1 is a list, the first a dict"),
        ("[1, 2]\n[1, 2, 3]\n", "its lists must be numbers and of one length"),
    ],
)
def test_lines_unlike_the_first(tmp_path, lines, said):
    path = tmp_path / "x.jsonl"
    path.write_text(lines)
    with pytest.raises(FileFormatError, match=said):
        read_table(path)


def test_lines_of_bare_lists_are_logits(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("[1.5, 2.0]\n\n[0.25, 4.0]\n")
    assert np.array_equal(read_table(path).logits, [[1.5, 2.0], [0.25, 4.0]])
