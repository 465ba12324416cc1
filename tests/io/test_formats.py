"""Formats of files of samples."""

import json
from decimal import Decimal

import numpy as np
import pytest

from wildcal import Columns, Identity, read_samples
from wildcal.core.exceptions import InputError
from wildcal.io.chunked import predict_file

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

pandas = pytest.importorskip("pandas")

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


@pytest.mark.parametrize("cells", [list(Z), Z.tolist()], ids=["arrays", "lists"])
def test_frames_with_a_list_in_each_cell(cells):
    frame = pandas.DataFrame({"logits": cells, "y": [0, 1, 1]})
    np.testing.assert_array_equal(read_samples(frame).X, Z)


def test_columns_of_different_lengths():
    with pytest.raises(InputError, match="logit_a, logit_b must be columns of equal length"):
        read_samples({"logit_a": Z[:, 0], "logit_b": Z[:2, 1]})


def test_lists_of_tokens_in_lines_of_json(tmp_path):
    tokens = [{"token": "yes", "logprob": -0.1}, {"token": "no", "logprob": -3.0}]
    (tmp_path / "x.jsonl").write_text(json.dumps({"top_logprobs": tokens, "y": 0}))
    samples = read_samples(tmp_path / "x.jsonl", input="log_proba", class_names=["yes", "no"])
    np.testing.assert_array_equal(samples.X, [[-0.1, -3.0]])


def test_patterns_of_folders(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "test.npz", logits=Z, y=[0, 1, 1])
    assert len(read_samples(tmp_path / "*" / "test.npz")) == 6


def test_class_names_after_a_word():
    table = {"class cat": [2.0, 0.0], "class dog": [0.0, 1.0], "label": ["dog", "cat"]}
    samples = read_samples(table, score_columns="class*")
    assert (samples.class_names, samples.y.tolist()) == (("cat", "dog"), [1, 0])
