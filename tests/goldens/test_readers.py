"""Stored sample files are read as version 0.1 read them.

`readers/index.json` has the options of each file and `readers/expected.json` what they hold. An
entry with `"guess": true` depends on a guess of 0.1 and may change; `why` says which.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from wildcal._old.io import read_rows

FOLDER = Path(__file__).parent / "readers"
INDEX = json.loads((FOLDER / "index.json").read_text("utf-8"))
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))

# Options and columns of the index by their names in the present reader.
OPTIONS = {
    "input": "kind",
    "score_columns": "columns",
    "class_names": "classes",
    "positive_class": "pos_label",
    "labels_file": "labels",
}
ROLES = {"domain": "environment", "knn_distances": "distances"}
INPUTS = {"log_proba": "logprobs"}


def read(file, options):
    """Read a file by the present reader; return its fields by their names in expected.json."""
    words = {OPTIONS.get(name, name): value for name, value in options.items()}
    arrays = {ROLES.get(role, role): name for role, name in words.pop("map", {}).items()}
    for role in ("weight", "domain"):
        if (name := words.pop(f"{role}_column", None)) is not None:
            arrays[ROLES.get(role, role)] = name
    if "kind" in words:
        words["kind"] = INPUTS.get(words["kind"], words["kind"])
    if "labels" in words:
        words["labels"] = FOLDER / words["labels"]
    samples = read_rows(FOLDER / file, arrays=arrays, **words)
    return {
        "logits": samples.logits,
        "y": samples.y,
        "weight": samples.weight,
        "domain": samples.environment,
        "knn_distances": samples.distances,
        "id": samples.ids,
        "class_names": None if samples.classes is None else samples.classes.names,
        "input": {new: old for old, new in INPUTS.items()}.get(samples.kind, samples.kind),
    }


def log_softmax(logits):
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["file"])
def test_a_stored_file(entry):
    found, expected = read(entry["file"], entry["options"]), EXPECTED[entry["file"]]
    logits, stored = np.asarray(found.pop("logits"), np.float64), np.array(expected["logits"])
    if expected["input"] == "logits":
        np.testing.assert_allclose(logits, stored, rtol=1e-6)
    else:  # converted scores are logits up to a constant of each sample
        np.testing.assert_allclose(log_softmax(logits), log_softmax(stored), rtol=1e-6, atol=1e-9)
    for name, value in found.items():
        plain = value if value is None or isinstance(value, str) else np.asarray(value).tolist()
        assert plain == expected.get(name), name


def test_every_stored_file_is_listed():
    listed = {entry["file"] for entry in INDEX}
    labels = {entry["options"].get("labels_file") for entry in INDEX} - {None}
    stored = {path.name for path in FOLDER.iterdir() if path.suffix != ".json"}
    assert stored == listed | labels
    assert EXPECTED.keys() == listed
