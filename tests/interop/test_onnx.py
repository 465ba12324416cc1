"""Exported calibrators in ONNX Runtime, alone and behind a classifier."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from scipy.stats import norm

from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.core.registry import CALIBRATORS
from wildcal.interop.onnx import attach, export

pytestmark = pytest.mark.slow

METHODS = [*CALIBRATORS, "dac+ets"]
WEIGHTS = 2 * np.random.default_rng(0).standard_normal((7, 5))
X = np.random.default_rng(1).standard_normal((40, 7))


def run(path, **feed):
    """Return the outputs of a file by name."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


def compare(found, expected):
    off = np.abs(found - expected).reshape(len(expected), -1).max(axis=1)
    assert (off <= 1e-5).mean() >= 0.999


@pytest.mark.parametrize("name", METHODS)
def test_export(fitted, samples, tmp_path, name):
    calibrator, file = fitted(name), tmp_path / "calibrator.onnx"
    export(calibrator, file)
    for n in (1, 5000):
        x, *others = samples(calibrator, n)
        x[1::9, 1] = -np.inf  # a masked class
        feed = {"logits": x} | ({"knn_distances": others[0]} if others else {})
        found = run(file, **feed)
        p = calibrator.predict_proba(x, knn_distances=others[0] if others else None)
        compare(found["probabilities"], p)
        compare(found["confidence"], p.max(axis=1))
        np.testing.assert_array_equal(found["probabilities"][1::9, 1], 0.0)
        assert found["probabilities"].dtype == found["confidence"].dtype == np.float32
    x, *others = samples(calibrator, 9)
    for i in range(5):
        x[i, i] = np.nan  # is not hidden
    found = run(file, logits=x, **({"knn_distances": others[0]} if others else {}))
    np.testing.assert_array_equal(np.isnan(found["confidence"]), np.arange(9) < 5)
    assert np.isnan(found["probabilities"][:5]).all()
    content = file.read_bytes()  # with no path of this machine
    for part in (b".py", str(Path(__file__).parents[2]).encode(), str(tmp_path).encode()):
        assert part not in content


@pytest.mark.parametrize("kind", ["proba", "log_proba", "score", "confidence"])
@pytest.mark.parametrize("name", ["ts", "beta", "isotonic"])
def test_input_kinds(fitted, samples, tmp_path, name, kind):
    """The input has the name of its kind, and zeros are replaced in the graph."""
    calibrator = fitted(name, kind)
    export(calibrator, tmp_path / "calibrator.onnx")
    (x,) = samples(calibrator, kind=kind)
    if kind == "proba":
        x[:9] = [0.0, 0.25, 0.0, 0.75, 0.0]
    found = run(tmp_path / "calibrator.onnx", **{kind: x})
    p = calibrator.predict_proba(x)
    compare(found["probabilities"], p)
    if kind == "confidence":
        assert list(found) == ["probabilities"]
    else:
        compare(found["confidence"], p.max(axis=1))


def test_a_window_calibrator_must_be_adapted_first(fitted, tmp_path):
    with pytest.raises(InputError, match="must be adapted to a window first"):
        export(fitted("window").calibrator, tmp_path / "calibrator.onnx")


@pytest.fixture
def classifier(tmp_path):
    """Write x -> scores = x @ WEIGHTS, then the given nodes; return the path."""

    def write(*nodes, outputs=("scores",), dtype=np.float32, weights=WEIGHTS):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["scores"]), *nodes],
            "classifier",
            [helper.make_tensor_value_info("x", kind, ["batch", 7])],
            [helper.make_tensor_value_info(o, kind, ["batch", weights.shape[1]]) for o in outputs],
            [numpy_helper.from_array(weights.astype(dtype), "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, tmp_path / "classifier.onnx")
        return tmp_path / "classifier.onnx"

    return write


SOFTMAX = helper.make_node("Softmax", ["scores"], ["p"], axis=-1)
OTHER = helper.make_node("Neg", ["scores"], ["other"])


@pytest.mark.parametrize(
    ("nodes", "outputs", "given"),
    [
        ((), ("scores",), None),
        ((SOFTMAX,), ("p",), None),
        ((SOFTMAX,), ("p", "scores"), None),
        ((OTHER,), ("other", "scores"), "scores"),
    ],
)
@pytest.mark.parametrize("name", ["ts", "energy", "irm"])
def test_attach(fitted, classifier, tmp_path, name, nodes, outputs, given):
    file = tmp_path / "calibrated.onnx"
    used = attach(classifier(*nodes, outputs=outputs), fitted(name), file, logits_output=given)
    assert used == "scores"
    found = run(file, x=X.astype(np.float32))
    assert list(found) == [*outputs, "calibrated_probabilities", "calibrated_confidence"]
    p = fitted(name).predict_proba(X.astype(np.float32) @ WEIGHTS.astype(np.float32))
    compare(found["calibrated_probabilities"], p)
    compare(found["calibrated_confidence"], p.max(axis=1))


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_attach_to_double_and_half_precision(fitted, classifier, tmp_path, dtype):
    attach(classifier(dtype=dtype), fitted("ts"), tmp_path / "calibrated.onnx")
    found = run(tmp_path / "calibrated.onnx", x=X.astype(dtype))
    # ONNX Runtime multiplies float16 in float32, and the calibrator gets logits before rounding.
    wide = np.float64 if dtype == np.float64 else np.float32
    logits = X.astype(dtype).astype(wide) @ WEIGHTS.astype(dtype).astype(wide)
    expected = fitted("ts").predict_proba(logits)
    assert found["calibrated_probabilities"].dtype == np.float32
    np.testing.assert_allclose(found["calibrated_probabilities"], expected, atol=1e-5)


def test_attach_to_probabilities(fitted, classifier, tmp_path):
    """A calibrator of probabilities reads those, not the logits before the softmax."""
    calibrator, file = fitted("beta", "proba"), tmp_path / "calibrated.onnx"
    assert attach(classifier(SOFTMAX, outputs=("p",)), calibrator, file) == "p"
    found = run(file, x=X.astype(np.float32))
    compare(found["calibrated_probabilities"], calibrator.predict_proba(found["p"]))


@pytest.mark.parametrize(
    ("nodes", "more", "given", "message"),
    [
        ((OTHER,), {"outputs": ("scores", "other")}, None, "logits_output must be named"),
        ((), {}, "nothing", "logits_output must be one of scores, got 'nothing'"),
        ((SOFTMAX,), {"outputs": ("p",)}, "p", "logits_output must be logits, got 'p'"),
        ((), {"weights": WEIGHTS[:, :4]}, None, "the 4 classes of 'scores', got 5"),
        ((), {"weights": WEIGHTS[:, :4]}, "scores", "the 4 classes of 'scores', got 5"),
    ],
)
def test_attach_refuses_outputs(fitted, classifier, tmp_path, nodes, more, given, message):
    with pytest.raises(InputError, match=message):
        attach(classifier(*nodes, **more), fitted("ts"), tmp_path / "out.onnx", logits_output=given)
    assert not (tmp_path / "out.onnx").exists()


def test_attach_reads_weights_beside_the_file(fitted, classifier, tmp_path):
    path, file = classifier(), tmp_path / "out" / "calibrated.onnx"
    file.parent.mkdir()
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    attach(path, fitted("ts"), file)
    found = run(file, x=X.astype(np.float32))
    compare(found["calibrated_probabilities"], fitted("ts").predict_proba(found["scores"]))


@pytest.mark.parametrize(("opset", "ir_version"), [(7, 3), (13, 7), (17, 8), (22, 10), (24, 11)])
def test_attach_matches_versions(fitted, classifier, tmp_path, opset, ir_version):
    """Nodes of other domains stay; each domain is imported once."""
    path, file = classifier(SOFTMAX, outputs=("p",)), tmp_path / "calibrated.onnx"
    model = onnx.load(path)
    model.ir_version, model.opset_import[0].version = ir_version, opset
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.graph.node.insert(1, helper.make_node("Gelu", ["s"], ["scores"], domain="com.microsoft"))
    model.graph.node[0].output[0] = "s"
    if ir_version < 4:  # weights are inputs too
        model.graph.input.append(helper.make_tensor_value_info("w", 1, WEIGHTS.shape))
    onnx.save(model, path)
    assert attach(path, fitted("energy"), file) == "scores"
    written = {o.domain: o.version for o in onnx.load(file).opset_import}
    assert written == {"": max(opset, 21), "com.microsoft": 1}
    assert len(onnx.load(file).opset_import) == 2
    found = run(file, x=X.astype(np.float32))["calibrated_probabilities"]
    s = gelu(X.astype(np.float32) @ WEIGHTS.astype(np.float32))
    compare(found, fitted("energy").predict_proba(s))


def gelu(x):
    return (x * norm.cdf(x)).astype(np.float32)


def test_attach_refuses_files(fitted, classifier, tmp_path):
    path, out = classifier(), tmp_path / "out.onnx"
    with pytest.raises(InputError, match="needs knn_distances"):
        attach(path, fitted("dac"), out)
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").rename(tmp_path.parent / "w.bin")
    model = onnx.load(path, load_external_data=False)
    next(
        e for e in model.graph.initializer[0].external_data if e.key == "location"
    ).value = "../w.bin"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FileFormatError, match=r"must be an ONNX model: .*\.\./w\.bin"):
        attach(path, fitted("ts"), out)
    node = helper.make_node("BatchNormalization", ["scores", *"wwww"], ["y"], is_test=0)
    model = onnx.load(classifier(node, outputs=("scores",)))
    model.opset_import[0].version = 6
    onnx.save(model, path)
    with pytest.raises(InputError, match="classifier must be convertible from opset 6 to 21"):
        attach(path, fitted("ts"), out, logits_output="scores")
    attach(classifier(), fitted("ts"), out)
    with pytest.raises(InputError, match="classifier must be without a calibrator"):
        attach(out, fitted("ts"), out, logits_output="scores")
    out.unlink()
    path.write_bytes(b"no model")
    with pytest.raises(FileFormatError, match="must be an ONNX model"):
        attach(path, fitted("ts"), out)
    assert not out.exists()
