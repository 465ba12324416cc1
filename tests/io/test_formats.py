"""Formats of files of samples."""

from decimal import Decimal

import numpy as np
import pytest

from wildcal import Columns, Identity, read_samples
from wildcal.io.chunked import predict_file

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

Z = np.array([[1.5, 0.25], [-2.0, 3.0], [0.5, 1.0]])


def test_names_in_capital_letters(tmp_path):
    """In a folder and as a file; decimals and dictionaries are read as numbers and names."""
    columns = {
        f"logit_{name}": [Decimal(str(v)) for v in z] for name, z in zip("ab", Z.T, strict=True)
    }
    labels = pyarrow.array(["a", "b", "b"]).dictionary_encode()
    path = tmp_path / "DATA.PARQUET"
    parquet.write_table(pyarrow.table({**columns, "label": labels}), path)
    samples = read_samples(tmp_path)
    np.testing.assert_array_equal(samples.X, Z)
    assert samples.y.tolist() == [0, 1, 1]
    identity = Identity().fit(samples.X, samples.y)
    predict_file(path, tmp_path / "OUT.PARQUET", identity, Columns())
    assert parquet.read_table(tmp_path / "OUT.PARQUET")["label"].type == labels.type
