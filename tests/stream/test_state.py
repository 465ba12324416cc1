"""A saved stream goes on as if nothing had been; a damaged or foreign file is refused."""

import json

import numpy as np
import pytest

import wildcal
from wildcal import Stream
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.artifact import load, save
from wildcal._old.io.sealed import Kind

KIND = Kind("wildcal stream state", "", "", version=1, largest=1 << 24)


@pytest.fixture
def saved(calibrator, clean, tmp_path):
    stream = Stream(calibrator, 20)
    stream.read(clean.logits[:50])
    stream.save(tmp_path / "state.json")
    return tmp_path / "state.json"


def rewrite(path, **changes):
    """Change fields and seal the file again, as someone would who knows the format."""
    document = json.loads(path.read_text())
    for name in ("format", "format_version", "sha256"):
        del document[name]
    path.write_text(json.dumps(KIND.seal({**document, **changes})))


@pytest.mark.parametrize("cut", [1, 17, 100, 256, 300, 999])
def test_cut_and_restored(calibrator, clean, foggy, tmp_path, cut):
    z = np.concatenate([clean.logits[:400], foggy.logits[:600]])
    whole = Stream(calibrator, 100, false_alarms=0.001).read(z)
    first = Stream(calibrator, 100, false_alarms=0.001)
    first.read(z[:cut])
    first.save(tmp_path / "state.json")
    second = Stream.load(tmp_path / "state.json", calibrator)
    assert second.drift == first.drift
    assert second.estimated_accuracy == first.estimated_accuracy
    rest = second.read(z[cut:])
    for name in ("temperature", "confidence", "accuracy_low", "accuracy_high", "drift", "alarm"):
        np.testing.assert_array_equal(getattr(rest, name), getattr(whole, name)[cut:])
    assert rest.first == cut


def test_a_stream_that_has_not_begun(calibrator, tmp_path):
    Stream(calibrator, 5).save(tmp_path / "state.json")
    assert Stream.load(tmp_path / "state.json", calibrator).seen == 0


def test_the_rate_can_be_set_anew(calibrator, saved):
    assert Stream.load(saved, calibrator).false_alarms == 0.01
    assert Stream.load(saved, calibrator, false_alarms=0.5).false_alarms == 0.5


@pytest.mark.parametrize(
    "option", [{"false_alarms": 0}, {"false_alarms_per_100k": 0}, {"alarm": ""}]
)
def test_options_are_refused_as_by_a_new_stream(option, saved, calibrator):
    with pytest.raises(ValueError, match=f"{next(iter(option))} must be") as new:
        Stream(calibrator, **option)
    with pytest.raises(ValueError, match=f"{next(iter(option))} must be") as loaded:
        Stream.load(saved, calibrator, **option)
    assert str(loaded.value) == str(new.value)


def test_a_calibrator_from_a_file_is_the_same_one(calibrator, saved, tmp_path):
    save(calibrator, tmp_path / "context.json")
    assert Stream.load(saved, load(tmp_path / "context.json")).seen == 50


def test_another_calibrator_is_refused(suite, saved):
    rows = wildcal._old.evaluation.environments(suite, only=lambda split: split.severity == 5)
    other = ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)
    with pytest.raises(FileFormatError, match="another calibrator"):
        Stream.load(saved, other)


def test_a_file_cut_short_is_refused(calibrator, saved):
    text = saved.read_text()
    for n in (0, 1, len(text) // 2, len(text) - 3):
        saved.write_text(text[:n])
        with pytest.raises(FileFormatError):
            Stream.load(saved, calibrator)


def test_a_changed_file_is_refused(calibrator, saved):
    saved.write_text(saved.read_text().replace('"seen": 50', '"seen": 51'))
    with pytest.raises(FileFormatError, match="was changed after it was saved"):
        Stream.load(saved, calibrator)


@pytest.mark.parametrize(
    "changes",
    [
        {"window": 0},
        {"window": 10**9},
        {"window": True},
        {"window": 21},
        {"false_alarms": 2.0},
        {"false_alarms": None},
        {"seen": -1},
        {"seen": 10**30},
        {"seen": 5},
        {"seen": "50"},
        {"filled": None},
        {"filled": [1]},
        {"filled": [10**17, 0, 0]},
        {"warmer": [0] * 19},
        {"warmer": [10**13] * 20},
        {"warmer": [0.5] * 20},
        {"warmer": {"0": 1}},
        {"confidence": [None] * 20},
        {"probability": [-1] * 20},
        {"probability": [2**41] * 20},
        {"class": [10] * 20},
        {"class": [-1] * 20},
        {"class": "0" * 20},
        {"calibrator": []},
    ],
    ids=str,
)
def test_hostile_states_are_refused(calibrator, saved, changes):
    rewrite(saved, **changes)
    with pytest.raises(FileFormatError) as caught:
        Stream.load(saved, calibrator)
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_refused(calibrator, saved):
    document = json.loads(saved.read_text())
    for name in ("window", "seen", "warmest", "class", "filled", "calibrator"):
        rest = {k: v for k, v in document.items() if k not in (name, "sha256")}
        del rest["format"], rest["format_version"]
        saved.write_text(json.dumps(KIND.seal(rest)))
        with pytest.raises(FileFormatError):
            Stream.load(saved, calibrator)


def test_a_calibrator_is_no_state(calibrator, tmp_path):
    save(calibrator, tmp_path / "context.json")
    with pytest.raises(FileFormatError, match="is not a wildcal stream state"):
        Stream.load(tmp_path / "context.json", calibrator)
