"""Saved calibrators: readable, verified, and harmless whatever the file says."""

import json
import sys
from dataclasses import FrozenInstanceError, dataclass, field, fields

import numpy as np
import pytest

from wildcal import CALIBRATORS, EnergyScaling, TemperatureScaling, load, make_calibrator, save
from wildcal.calibrators import DensityAware
from wildcal.core.calibrator import FitSummary
from wildcal.core.errors import FileFormatError, NotFittedError
from wildcal.core.stored import kind_of
from wildcal.io.artifact import About, load_with_about
from wildcal.io.sealed import digest
from wildcal.io.values import decode_array, encode_array
from wildcal.testing import make_suite

SUITE = make_suite(0, n_tuning=500, n_ood_tuning=50, n_test=100)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "energy.json"
    save(EnergyScaling().fit(*SUITE.tuning), path)
    return path


def rewrite(path, change):
    """Change the document and give it a hash that matches, as a hostile hand would."""
    document = json.loads(path.read_text())
    document.pop("sha256")
    change(document)
    document["sha256"] = digest(document)
    path.write_text(json.dumps(document))


def test_a_person_can_read_it(saved):
    document = json.loads(saved.read_text())
    assert document["method"] == "energy"
    assert document["title"] == "energy-based instance-wise scaling"
    options = {"box": "safe", "bounds": [0.01, 100.0], "ood_share": "paper"}
    assert document["options"] == options
    assert document["fitted"]["temperature_"] == load(saved).temperature_
    assert document["fit"]["n_rows"] == 550
    assert document["fit"]["converged"] is True
    assert document["wildcal"]


def test_nothing_but_the_file_is_left_behind(saved):
    assert [p.name for p in saved.parent.iterdir()] == ["energy.json"]


def test_overwriting_keeps_the_old_file_when_saving_fails(saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(json, "dumps", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save(load(saved), saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["energy.json"]


def test_unfitted_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError, match="nothing to save"):
        save(TemperatureScaling(), tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


def test_missing_folder_is_named(tmp_path, saved):
    with pytest.raises(FileNotFoundError, match="the folder .* does not exist"):
        save(load(saved), tmp_path / "nowhere" / "x.json")


@pytest.mark.parametrize("keep", [0, 1, 40, 400, -30, -3])
def test_truncated(saved, keep):
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match="cut short"):
        load(saved)


def test_changed_after_saving(saved):
    saved.write_text(saved.read_text().replace('"n_classes": 10', '"n_classes": 11'))
    with pytest.raises(FileFormatError, match="changed after it was saved"):
        load(saved)


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    fitted = TemperatureScaling().fit(*SUITE.clean)
    fitted.bounds = (np.float32(0.01), 100.0)
    with pytest.raises((TypeError, ValueError)):
        save(fitted, tmp_path / "x.json")
    fitted.bounds = (True, 100.0)
    with pytest.raises(ValueError, match="bounds"):
        save(fitted, tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


def test_numbers_too_long_for_python(saved):
    saved.write_text('{"format": ' + "9" * 5000 + "}")
    with pytest.raises(FileFormatError, match="not a whole JSON file"):
        load(saved)


def test_unknown_version(saved):
    rewrite(saved, lambda d: d.update(format_version=99))
    with pytest.raises(FileFormatError, match="has format version 99; this wildcal"):
        load(saved)


@pytest.mark.parametrize(
    "content",
    ["[]", "3", '"text"', "{}", '{"format": "something else"}', "[" * 100_000, "\x00\xff"],
)
def test_not_a_calibrator(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=r"not a (wildcal calibrator|whole JSON file)"):
        load(path)


def test_not_a_file(tmp_path):
    with pytest.raises(FileFormatError, match="does not exist"):
        load(tmp_path / "missing.json")
    with pytest.raises(FileFormatError, match="is a folder"):
        load(tmp_path)
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    with pytest.raises(FileFormatError, match="not a whole JSON file"):
        load(tmp_path / "binary")


HOSTILE = {
    "unknown method": (lambda d: d.update(method="os.system"), "unknown method 'os.system'"),
    "method is a list": (lambda d: d.update(method=["energy"]), "unknown method"),
    "no method": (lambda d: d.pop("method"), "method"),
    "extra value": (lambda d: d["fitted"].update(__class__="x"), "fitted must hold"),
    "missing value": (lambda d: d["fitted"].pop("temperature_"), "fitted must hold"),
    "text for a number": (lambda d: d["fitted"].update(temperature_="1"), "temperature_ is '1'"),
    "true for a number": (lambda d: d["fitted"].update(temperature_=True), "temperature_ is True"),
    "NaN": (lambda d: d["fitted"].update(temperature_=float("nan")), "temperature_ is nan"),
    "huge integer": (lambda d: d["fitted"].update(temperature_=10**400), "temperature_ is 1000"),
    "huge count": (lambda d: d["fit"].update(n_rows=10**400), "n_rows is 1000"),
    "bad option": (lambda d: d["options"].update(box="huge"), "box must be .* got 'huge'"),
    "bad bounds": (lambda d: d["options"].update(bounds=[3, 1]), "bounds must be"),
    "no temperature": (lambda d: d["fitted"].update(temperature_=1e-300), "must be positive"),
    "one class": (lambda d: d.update(n_classes=1), "n_classes must be at least 2"),
    "bad summary": (lambda d: d["fit"].update(notes=[1]), "notes is 1"),
    "summary is a list": (lambda d: d.update(fit=[]), "fit must hold"),
}


@pytest.mark.parametrize(("change", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_content_with_a_matching_hash(saved, change, message):
    rewrite(saved, change)
    with pytest.raises(FileFormatError, match=message):
        load(saved)


def test_no_module_is_imported_because_a_file_names_it(saved, tmp_path, monkeypatch):
    (tmp_path / "named_by_a_file.py").write_text("class Own:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    rewrite(saved, lambda d: d.update(method="named_by_a_file:Own"))
    with pytest.raises(FileFormatError, match="unknown method 'named_by_a_file:Own'"):
        load(saved)
    assert "named_by_a_file" not in sys.modules


@pytest.mark.parametrize("box", ["safe", "paper", "free"])
@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("theta_correct_", 1e308, r"theta must be at most 10|lets the temperature fall to -"),
        ("theta_incorrect_", 1e308, r"largest rise must be positive, from 1e-06 to 1e\+06, got"),
        ("theta_incorrect_", 1e20, r"largest rise must be positive, from 1e-06 to 1e\+06, got"),
        ("correct_std_", 1e-320, r"correct_std_ must be positive, at least 1e-06"),
        ("incorrect_std_", 1e-320, r"incorrect_std_ must be positive, at least 1e-06"),
    ],
)
def test_heights_and_widths_beyond_all_reason(tmp_path, box, field, value, message):
    """They would make temperatures of inf and NaN: no class is kept by dividing by those."""
    path = tmp_path / "energy.json"
    save(EnergyScaling(box=box).fit(*SUITE.tuning), path)
    rewrite(path, lambda d: d["fitted"].update({field: value}))
    with pytest.raises(FileFormatError, match=message):
        load(path)


@pytest.mark.parametrize("size", [5, 5001])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_arrays_survive_bit_for_bit(size, dtype):
    rng = np.random.default_rng(0)
    array = (rng.standard_normal((size, 2)) * 1e3).astype(dtype)
    through = json.loads(json.dumps(encode_array(array)))
    assert ("values" in through) == (size == 5)
    back = decode_array(through, "x")
    assert back.tobytes() == array.tobytes()
    assert back.shape == array.shape
    assert back.dtype == array.dtype


@pytest.mark.parametrize(
    "value",
    [
        3,
        {"dtype": "object", "values": [1]},
        {"dtype": "float64", "base64": "????", "shape": [1]},
        {"dtype": "float64", "base64": "AAAA", "shape": [1]},
        {"dtype": "float64", "base64": "", "shape": [10**12]},
        {"dtype": "float64", "values": [[1], [1, 2]]},
        {"dtype": "float64", "values": [None]},
        {"dtype": "float64", "values": [float("inf")]},
        {"dtype": "float64", "values": [10**400]},
        {"dtype": "float64", "values": ["1"]},
        {"dtype": "float64", "values": [True]},
        {"dtype": "float32", "values": [1e300]},
        {"dtype": "int64", "values": [1.9]},
        {"dtype": "int64", "values": [1.0]},
        {"dtype": "int64", "values": ["1"]},
        {"dtype": "int64", "values": [1, True]},
        {"dtype": "int64", "values": [2**63]},
        {"dtype": "float64", "base64": "AAAAAAAAAAA=", "shape": [-1]},
        {"dtype": "float64", "base64": "AAAAAAAAAAA=", "shape": 1},
    ],
)
def test_bad_arrays(value):
    with pytest.raises(ValueError, match=r"^x |reshape|buffer"):
        decode_array(value, "x")


def test_registry_names_are_those_of_the_classes():
    assert all(name == kind.name for name, kind in CALIBRATORS.items())


@pytest.mark.parametrize("kind", [*CALIBRATORS.values(), DensityAware, FitSummary])
def test_every_field_says_how_it_is_stored(kind):
    assert all(kind_of(field, kind.__name__) for field in fields(kind))


def test_a_field_that_does_not_is_named_before_anything_is_written(tmp_path, monkeypatch):
    @dataclass(kw_only=True, eq=False)
    class Silent(TemperatureScaling):
        name = "silent"
        extra_: float = field(init=False, repr=False, default=1.0)

    monkeypatch.setitem(CALIBRATORS, "silent", Silent)
    with pytest.raises(TypeError, match=r"Silent.extra_ does not say .* metadata=stored"):
        save(Silent().fit(*SUITE.clean), tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


def test_what_is_said_of_the_rows_comes_back(saved):
    fitted = load(saved)
    assert "input" not in json.loads(saved.read_text())
    about = About(kind="proba", floor=1e-6, notes={"network": "small"})
    save(fitted, saved, about)
    assert json.loads(saved.read_text())["input"] == {"kind": "proba", "floor": 1e-6}
    assert load_with_about(saved)[1] == about
    with pytest.raises(FrozenInstanceError):
        about.kind = "logits"


@pytest.mark.parametrize("floor", [0.0, 1.0, -0.5, 1, "0.5", float("nan")])
def test_a_floor_lies_between_0_and_1(floor):
    with pytest.raises(ValueError, match="floor must be a number between 0 and 1"):
        About(kind="proba", floor=floor)


def test_an_estimator_inside_a_calibrator_comes_back(tmp_path):
    logits, y = make_suite(0, n_tuning=400, n_ood_tuning=0, n_test=100).tuning
    fitted = make_calibrator("match+cot").fit(logits, y)
    save(fitted, tmp_path / "match.json")
    inside = json.loads((tmp_path / "match.json").read_text())["fitted"]
    assert any(isinstance(value, dict) for value in inside.values())
    again = load(tmp_path / "match.json").predict_proba(logits)
    assert again.tobytes() == fitted.predict_proba(logits).tobytes()
