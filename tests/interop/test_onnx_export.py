"""Calibrators as ONNX files of their own."""

import sys

import numpy as np
import onnx
import pytest

from wildcal import CALIBRATORS, TemperatureScaling
from wildcal.core.errors import MissingExtraError, NotFittedError
from wildcal.core.rows import Rows
from wildcal.interop.maps import map_of
from wildcal.interop.onnx import export
from wildcal.interop.onnx.agreement import DisagreementError
from wildcal.interop.onnx.describe import interface, opset_of
from wildcal.interop.onnx.export import as_model
from wildcal.interop.onnx.graph import DEFAULT_OPSET, OPSETS, Graph

NAMES = list(CALIBRATORS)


@pytest.fixture
def z():
    return (4 * np.random.default_rng(0).standard_normal((30, 5))).astype(np.float32)


def no_context(calibrator):
    """Zeros, where the method reads a context."""
    width = map_of(calibrator).width("context")
    return {"context": np.zeros((1, width), np.float32)} if "window" in calibrator.reads else {}


@pytest.mark.parametrize("name", NAMES)
def test_file(name, fitted, open_model, tmp_path, z):
    """It is valid, has no operator of its own, and names its outputs as promised."""
    calibrator = fitted(name)
    export(calibrator, tmp_path / "cal.onnx")
    model = onnx.load(tmp_path / "cal.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", DEFAULT_OPSET)]
    assert {node.domain for node in model.graph.node} == {""}
    feed = no_context(fitted(name))
    found = open_model(str(tmp_path / "cal.onnx"))(logits=z, **feed)
    expected = ["probabilities", "confidence", "energy"]
    if calibrator.bind(Rows(z)).temperature is not None:
        expected.insert(2, "temperature")
    if "window" in calibrator.reads:
        expected.append("statistics")
    assert list(found) == expected
    assert found["probabilities"].shape == z.shape
    assert found["confidence"].shape == found["energy"].shape == (30,)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("opset", [OPSETS[0], 18, 21])
def test_operator_sets(name, opset, fitted, open_model, z):
    model = as_model(map_of(fitted(name)), opset=opset)
    assert opset_of(model) == opset
    feed = no_context(fitted(name))
    found = open_model(model)(logits=z, **feed)["probabilities"]
    np.testing.assert_allclose(found, fitted(name).predict_proba(z), atol=1e-5)


def test_the_newest_operator_set(fitted, open_model, z):
    model = as_model(map_of(fitted("energy")), opset=OPSETS[1])
    try:
        found = open_model(model)(logits=z)
    except Exception as error:
        if "opset" not in str(error).lower():
            raise
        pytest.skip("this ONNX Runtime is older than the newest operator set of onnx")
    np.testing.assert_allclose(found["probabilities"], fitted("energy").predict_proba(z), atol=1e-5)


def test_one_row_and_many(fitted, open_model, z):
    run = open_model(as_model(map_of(fitted("irova"))))
    whole = run(logits=z)["probabilities"]
    for i in (0, 17):
        np.testing.assert_allclose(
            run(logits=z[i : i + 1])["probabilities"][0], whole[i], atol=1e-6
        )


def test_the_same_bytes_every_time(fitted, tmp_path):
    for name in ("a.onnx", "b.onnx"):
        export(fitted("context"), tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_interface(fitted):
    assert interface(as_model(map_of(fitted("context")), dtype="float16")) == [
        "input   logits                      float16   n x 5",
        "input   context                     float     context_rows x 20",
        "output  probabilities               float     n x 5",
        "output  confidence                  float     n",
        "output  temperature                 float     n",
        "output  energy                      float     n",
        "output  statistics                  float     n x 20",
    ]


def test_a_failed_export_leaves_what_was_there(fitted, tmp_path, monkeypatch):
    path = tmp_path / "cal.onnx"
    path.write_text("old")

    def fail(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(onnx, "save", fail)
    with pytest.raises(OSError, match="no space"):
        export(fitted("ts"), path)
    assert [p.name for p in tmp_path.iterdir()] == ["cal.onnx"]
    assert path.read_text() == "old"


def test_a_file_that_disagrees_is_not_written(fitted, tmp_path, wrong_numbers):
    with pytest.raises(DisagreementError, match="differ by .* the file was not written"):
        export(fitted("energy"), tmp_path / "cal.onnx")
    assert list(tmp_path.iterdir()) == []
    export(fitted("energy"), tmp_path / "cal.onnx", check=False)
    assert len(list(tmp_path.iterdir())) == 1


def test_without_onnx_runtime_there_is_no_comparison(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    export(fitted("energy"), tmp_path / "cal.onnx")
    assert len(list(tmp_path.iterdir())) == 1


def test_what_cannot_be_exported(fitted, tmp_path):
    with pytest.raises(ValueError, match="the output must be a .onnx file, got cal.json"):
        export(fitted("ts"), tmp_path / "cal.json")
    with pytest.raises(FileNotFoundError, match="the folder .* does not exist"):
        export(fitted("ts"), tmp_path / "no" / "cal.onnx")
    with pytest.raises(ValueError, match=f"opset must be from {OPSETS[0]} to {OPSETS[1]}, got 12"):
        export(fitted("ts"), tmp_path / "cal.onnx", opset=12)
    with pytest.raises(ValueError, match="dtype must be one of float16, float32, float64, got 'x'"):
        export(fitted("ts"), tmp_path / "cal.onnx", dtype="x")
    with pytest.raises(NotFittedError, match="is not fitted"):
        export(TemperatureScaling(), tmp_path / "cal.onnx")
    assert list(tmp_path.iterdir()) == []


def test_types_are_never_mixed(fitted):
    """What ONNX would refuse when it is run is refused when it is written."""
    graph = Graph(map_of(fitted("ts")), np.dtype(np.float32), 17, "")
    x = graph.input("x", np.dtype(np.float32))
    with pytest.raises(TypeError, match="must have one type"):
        x + graph.wide(x)


@pytest.mark.parametrize(
    ("package", "module", "line"),
    [
        (
            "onnx",
            "wildcal.interop.onnx",
            'needs onnx. Install it with: pip install "wildcal[onnx]"',
        ),
        (
            "torch",
            "wildcal.interop.torch",
            'PyTorch. Install it with: pip install "wildcal[torch]"',
        ),
    ],
)
def test_missing_packages(package, module, line, monkeypatch):
    import importlib

    for name in [n for n in sys.modules if n.startswith(module)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as caught:
        importlib.import_module(module)
    assert line in str(caught.value)
