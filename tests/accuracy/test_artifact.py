"""Estimators come back from their files with the same answers, and damaged files do not."""

import json

import numpy as np
import pytest

from wildcal._old.accuracy import ESTIMATORS, AverageConfidence, load, save
from wildcal._old.accuracy.artifact import _KIND
from wildcal._old.core.errors import FileFormatError, NotFittedError

NAMES = list(ESTIMATORS)


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name, fitted, window, tmp_path):
    first, second, _ = window
    path = tmp_path / "estimator.json"
    save(fitted[name], path)
    again = load(path)
    other = second if again.needs_second else None
    assert again.estimate(first, other) == fitted[name].estimate(first, other)
    assert again.describe() == fitted[name].describe()
    save(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_options_come_back(tuning, tmp_path):
    estimator = AverageConfidence(scaled=False).fit(*tuning[:3])
    save(estimator, tmp_path / "ac.json")
    assert load(tmp_path / "ac.json").scaled is False


def test_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(AverageConfidence(), tmp_path / "ac.json")
    assert not (tmp_path / "ac.json").exists()


def test_a_changed_file_is_noticed(fitted, tmp_path):
    path = tmp_path / "ac.json"
    save(fitted["ac"], path)
    path.write_text(path.read_text().replace('"scaled": true', '"scaled": false'))
    with pytest.raises(FileFormatError, match="was changed after it was saved"):
        load(path)


def test_other_files_are_not_read(tmp_path, fitted):
    path = tmp_path / "x.json"
    with pytest.raises(FileFormatError, match="does not exist"):
        load(path)
    path.write_text("{}")
    with pytest.raises(FileFormatError, match="is not a wildcal accuracy estimator"):
        load(path)
    path.write_text('{"format": ')
    with pytest.raises(FileFormatError, match="cut short"):
        load(path)


def resealed(estimator, path, change):
    """Write a file whose hash is right and whose content is not."""
    save(estimator, path)
    document = json.loads(path.read_text())
    for key in ("sha256", "format", "format_version"):
        del document[key]
    change(document)
    path.write_text(json.dumps(_KIND.seal(document)))


HOSTILE = [
    ("ac", "temperature_", -1.0),
    ("ac", "temperature_", "1"),
    ("ac", "temperature_", True),
    ("ac", "n_classes_", 1),
    ("ac", "n_classes_", 3),
    ("ac", "n_classes_", 4.0),
    ("ac", "clean_accuracy_", 1.5),
    ("ac", "clean_counts_", [1, 2, 3]),
    ("ac", "clean_counts_", [1, 2, 3, -1]),
    ("ac", "clean_counts_", [0, 0, 0, 0]),
    ("ac", "clean_counts_", [0.5, 0.5, 1.0, 1.0]),
    ("ac", "line_", [0.0]),
    ("ac", "line_", [0.0, 1e400]),
    ("ac", "line_", [[0.0, 1.0]]),
    ("ac", "error_", [-0.1, 0.1, 0.1]),
    ("ac", "error_sizes_", [128, 32, 400]),
    ("ac", "error_sizes_", []),
    ("ac", "error_slope_", -1.0),
    ("ac", "mix_slope_", -1.0),
    ("ac", "n_environments_", 0),
    ("ac", "n_environments_", -1),
    ("ac", "line_", {"dtype": "int64", "values": [0, 1]}),
    ("ac", "clean_counts_", {"dtype": "float64", "values": [1.0, 2.0, 3.0, 4.0]}),
    ("ac", "error_", {"dtype": "float32", "values": [0.1, 0.1, 0.1]}),
    ("cot", "prior_", {"dtype": "float32", "values": [0.25, 0.25, 0.25, 0.25]}),
    ("cbpe", "knots_", {"dtype": "int64", "values": []}),
    ("atc-ne", "threshold_", None),
    ("cot", "prior_", [0.5, 0.5, 0.5, 0.5]),
    ("cot", "prior_", [1.5, -0.5, 0.0, 0.0]),
    ("cot", "prior_", [0.5, 0.5]),
    ("cbpe", "lengths_", [0, 0, 0]),
    ("cbpe", "lengths_", [1000, 0, 0, 0]),
    ("cbpe", "lengths_", [-1, 1, 0, 0]),
    ("context", "calibrator_", {}),
    ("context", "calibrator_", "context"),
]


@pytest.mark.parametrize(("name", "field", "value"), HOSTILE)
def test_values_that_cannot_be(name, field, value, fitted, tmp_path):
    path = tmp_path / "bad.json"

    def change(document):
        stored = document["fitted"][field]
        if isinstance(stored, dict) and "values" in stored and isinstance(value, list):
            stored["values"] = value
        else:
            document["fitted"][field] = value

    resealed(fitted[name], path, change)
    with pytest.raises(FileFormatError):
        load(path)


def test_curves_that_fall(fitted, tmp_path):
    def change(document):
        document["fitted"]["heights_"]["values"].reverse()

    assert (np.diff(fitted["cbpe"].heights_) > 0).any()
    resealed(fitted["cbpe"], tmp_path / "bad.json", change)
    with pytest.raises(FileFormatError, match="must not fall"):
        load(tmp_path / "bad.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(estimator="oracle"),
        lambda d: d.update(estimator=["ac"]),
        lambda d: d.update(options={}),
        lambda d: d.update(options={"scaled": 1}),
        lambda d: d.update(fitted=[]),
        lambda d: d["fitted"].pop("line_"),
        lambda d: d["fitted"].update(extra=1),
        lambda d: d.pop("fitted"),
    ],
)
def test_documents_that_cannot_be(change, fitted, tmp_path):
    resealed(fitted["ac"], tmp_path / "bad.json", change)
    with pytest.raises(FileFormatError, match="is not a valid accuracy estimator"):
        load(tmp_path / "bad.json")


def test_another_calibrator_inside(fitted, tuning, tmp_path):
    from wildcal._old.calibrators.temperature import TemperatureScaling
    from wildcal._old.io.artifact import describe_file

    other = TemperatureScaling().fit(tuning[0], tuning[1])

    def change(document):
        document["fitted"]["calibrator_"] = describe_file(other)

    resealed(fitted["context"], tmp_path / "bad.json", change)
    with pytest.raises(FileFormatError, match="must be context, got ts"):
        load(tmp_path / "bad.json")
