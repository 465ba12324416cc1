"""Stored sample files are read as version 0.1 read them.

`readers/index.json` has the options of each file and `readers/expected.json` what they hold. An
entry with `"guess": true` depends on a guess of 0.1 and may change; `why` says which.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from wildcal import read_samples
from wildcal.core.conversion import smallest_positive, to_logits
from wildcal.core.exceptions import InputError

FOLDER = Path(__file__).parent / "readers"
INDEX = json.loads((FOLDER / "index.json").read_text("utf-8"))
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))

# Guesses of 0.1 that are errors now, with a part of the message.
REMOVED = {
    "logits-undeclared.csv": "score_columns must be given",
    "no-header.csv": "must have column names",
    "semicolon.csv": "logit_cat must be numbers, got '4,25'",
}
# Roles of the index that are declared by another name.
ROLES = {"y": "label_column", "weight": "weight_column", "domain": "domain_column"}


def read(file, options):
    """Read a file; return its fields by their names in expected.json."""
    declared = dict(options)
    for role, name in declared.pop("map", {}).items():
        if role in ROLES:
            declared[ROLES[role]] = name
        elif role == "knn_distances":
            declared["knn_columns"] = [name]
        else:
            declared["score_columns"] = [name]
    labels = declared.pop("labels_file", None)
    y = None if labels is None else np.load(FOLDER / labels)
    samples = read_samples(FOLDER / file, y, **declared)
    x, kind = samples.X.astype(np.float64), samples.input
    eps = smallest_positive(x) if kind == "proba" else 1e-30
    return {
        "logits": to_logits(np, x, kind, eps),
        "y": samples.y,
        "weight": samples.sample_weight,
        "domain": None if samples.domain is None else samples.domain.astype(int),
        "knn_distances": samples.knn_distances,
        "id": samples.id,
        "class_names": samples.class_names,
        "input": kind,
    }


def log_softmax(logits):
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


@pytest.mark.parametrize("entry", INDEX, ids=lambda entry: entry["file"])
def test_a_stored_file(entry):
    if entry["file"] in REMOVED:
        with pytest.raises(InputError, match=REMOVED[entry["file"]]):
            read(entry["file"], entry["options"])
        return
    found, expected = read(entry["file"], entry["options"]), EXPECTED[entry["file"]]
    logits, stored = np.asarray(found.pop("logits"), np.float64), np.array(expected["logits"])
    if expected["input"] == "logits":
        np.testing.assert_allclose(logits, stored, rtol=1e-6)
    elif entry["file"] == "proba-rounded.csv":  # sums of 0.99 to 1.01 are not divided out
        np.testing.assert_allclose(log_softmax(logits), log_softmax(stored), atol=0.011)
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
