"""Saved calibrators come back, and damaged or hostile files are refused."""

import json
import sys
import warnings
from copy import copy
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import wildcal
from wildcal import CALIBRATORS, TemperatureScaling, get_calibrator, load, save
from wildcal.core.exceptions import CalibrationWarning, FileFormatError, InputError, NotFittedError
from wildcal.io.artifact import _digest
from wildcal.testing import join, make_suite

SUITE = make_suite(300, n_classes=4)
ALL = join(SUITE.calibration, SUITE.shifted)
DISTANCES = 1 + np.abs(ALL.logits[:, :2])
DOMAIN = np.r_[np.zeros(len(SUITE.calibration.y), int), np.repeat(np.arange(1, 6), 60)]
X = SUITE.test.logits
NEAR = 1 + np.abs(X[:, :2])


@cache
def fitted(name):
    method = get_calibrator(name)
    more = {"knn_distances": DISTANCES} if method.requires else {}
    if hasattr(method, "adapt"):
        more["domain"] = DOMAIN
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return method.fit(ALL.logits, ALL.y, **more)


def proba(calibrator):
    more = {"knn_distances": NEAR} if calibrator.requires else {}
    return calibrator.predict_proba(X, **more)


def rewrite(path, change):
    """Change the document and give it a checksum that matches."""
    document = json.loads(path.read_text())
    change(document)
    payload = {key: document.get(key) for key in ("calibrator", "metadata", "columns")}
    path.write_text(json.dumps({**document, "sha256": _digest(payload)}))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "energy.json"
    save(fitted("energy"), path)
    return path


@pytest.mark.filterwarnings("ignore:LabelShiftEM")  # the window is small
@pytest.mark.parametrize("name", [*CALIBRATORS, "dac+energy", "adapted"])
def test_round_trip(name, tmp_path):
    calibrator = fitted("window").adapt(X) if name == "adapted" else fitted(name)
    path = tmp_path / "calibrator.json"
    save(calibrator, path)
    loaded = load(path)
    assert type(loaded) is type(calibrator)
    assert loaded.get_params().keys() == calibrator.get_params().keys()
    assert repr(loaded.fit_info_) == repr(calibrator.fit_info_)
    assert loaded.describe() == calibrator.describe()
    np.testing.assert_array_equal(proba(loaded), proba(calibrator))
    save(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_metadata_columns_and_class_names(tmp_path):
    frame = pytest.importorskip("pandas").DataFrame(ALL.logits, columns=list("abcd"))
    known = ALL.y >= 0
    names = np.array(list("abcd"))[ALL.y[known]]
    calibrator = TemperatureScaling().fit(frame[known], names)
    metadata = {"network": "resnet20", "epochs": [10, 20]}
    save(calibrator, tmp_path / "ts.json", metadata=metadata, columns={"label": "species"})
    loaded, info = load(tmp_path / "ts.json", return_info=True)
    assert (info.version, info.metadata) == (wildcal.__version__, metadata)
    assert info.columns == {"label": "species"}
    assert loaded.class_names_ == calibrator.class_names_ == tuple("abcd")
    assert loaded.feature_names_in_ == calibrator.feature_names_in_


def test_a_failed_save_keeps_the_old_file(path, monkeypatch):
    before = path.read_bytes()
    with pytest.raises(NotFittedError):
        save(TemperatureScaling(), path)
    with pytest.raises(TypeError):
        save(fitted("ts"), path, metadata={"network": object()})
    odd = copy(fitted("ts"))
    odd.bounds = object()
    with pytest.raises(InputError, match="options must be numbers, texts or calibrators"):
        save(odd, path)
    monkeypatch.setattr(Path, "replace", lambda *names: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save(fitted("ts"), path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_links_and_permissions_are_kept(path):
    pytest.importorskip("fcntl", reason="Windows has other links and permissions")
    link = path.with_name("link.json")
    link.symlink_to(path)
    path.chmod(0o600)
    save(fitted("ts"), link)
    assert link.is_symlink()
    assert type(load(path)) is TemperatureScaling
    assert path.stat().st_mode & 0o777 == 0o600


def test_checksum(path):
    path.write_text(path.read_text().replace('"n_classes_": 4', '"n_classes_": 5'))
    with pytest.raises(FileFormatError, match="is damaged: its checksum does not match"):
        load(path)


WRONG = {
    "": "must be a JSON file",
    '{"format": "wildcal calibr': "must be a JSON file",
    "[" * 100_000: "must be a JSON file",
    "[]": "not of a calibrator",
    '{"format": "wildcal accuracy estimator", "format_version": 1}': "not of a calibrator",
    '{"format": "wildcal calibrator", "format_version": "2"}': "not of a calibrator",
    '{"format": "wildcal calibrator", "format_version": 1}': "written by wildcal 0.1; fit again",
    '{"format": "wildcal calibrator", "format_version": 3}': "written by a newer wildcal",
}


@pytest.mark.parametrize(("content", "text"), WRONG.items(), ids=range(len(WRONG)))
def test_other_files(path, content, text):
    path.write_text(content)
    with pytest.raises(FileFormatError, match=text):
        load(path)


HOSTILE = {
    "unknown class": (lambda c: c.update({"class": "Popen"}), "'Popen', which is not registered"),
    "module": (lambda c: c.update({"class": "named_by_a_file:Own"}), "which is not registered"),
    "list": (lambda c: c.update({"class": ["EnergyScaling"]}), "cannot be read"),
    "no class": (lambda c: c.pop("class"), "cannot be read"),
    "part": (lambda c: (c.clear(), c.update({"class": "FitInfo"})), "must hold a calibrator"),
    "unknown field": (lambda c: c.update(__class__=1), "EnergyScaling has no field '__class__'"),
    "objects": (lambda c: c.update(theta_=dict(dtype="O", array=[1], shape=[1])), "cannot be read"),
    "shape": (lambda c: c.update(theta_=dict(dtype="f8", array=[1], shape=[9])), "cannot be read"),
    "bytes": (lambda c: c.update(theta_=dict(dtype="f8", base64="??", shape=[1])), "cannot be"),
    "deep": (lambda c: c.update(base=json.loads("[" * 600 + "]" * 600)), "recursion"),
}


@pytest.mark.parametrize(("change", "text"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_content_with_a_matching_checksum(path, change, text, monkeypatch):
    (path.parent / "named_by_a_file.py").write_text("class Own:\n    pass\n")
    monkeypatch.syspath_prepend(path.parent)
    rewrite(path, lambda document: change(document["calibrator"]))
    with pytest.raises(FileFormatError, match=text):
        load(path)
    assert "named_by_a_file" not in sys.modules
