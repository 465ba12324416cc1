"""Calibrators behind a user's own ONNX network."""

import contextlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from wildcal.core.errors import FileFormatError
from wildcal.interop.onnx import attach, export
from wildcal.interop.onnx.agreement import DisagreementError

WEIGHTS = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)


def network(path, *tail, outputs=("scores",), opset=17, dtype=np.float32, widths=(5,), ir=8):
    """Write a linear classifier, x -> scores, and what comes after it; return its path."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["scores"]), *tail]
    widths = widths * len(outputs) if len(widths) == 1 else widths
    shapes = [["batch", width] if width else ["batch"] for width in widths]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", kind, ["batch", 7])],
        [helper.make_tensor_value_info(n, kind, s) for n, s in zip(outputs, shapes, strict=True)],
        [numpy_helper.from_array(WEIGHTS.astype(dtype), "w")],
    )
    opsets = [helper.make_opsetid("", opset)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=ir), path)
    return path


def node(op, source, target, **attributes):
    return helper.make_node(op, [source], [target], **attributes)


@pytest.fixture
def x():
    return np.random.default_rng(1).standard_normal((12, 7)).astype(np.float32)


@pytest.mark.parametrize("name", ["energy", "ets", "irm", "beta", "sms"])
def test_attached(name, fitted, open_model, tmp_path, x):
    calibrator = fitted(name)
    path = network(tmp_path / "net.onnx")
    attach(path, calibrator, tmp_path / "both.onnx")
    model = onnx.load(tmp_path / "both.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {n.domain for n in model.graph.node} == {""}
    assert [value.name for value in model.graph.input] == ["x"]
    found = open_model(str(tmp_path / "both.onnx"))(x=x)
    assert list(found)[:3] == ["scores", "calibrated_probabilities", "calibrated_confidence"]
    expected = calibrator.predict_proba(found["scores"])
    np.testing.assert_allclose(found["calibrated_probabilities"], expected, atol=1e-5)
    rows = model.graph.output[1].type.tensor_type.shape.dim[0].dim_param
    assert rows == "batch"


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_precisions(dtype, fitted, open_model, tmp_path, x):
    """Half logits are worked on in float32, double ones in float64, as in NumPy."""
    path = network(tmp_path / "net.onnx", dtype=dtype)
    attach(path, fitted("energy"), tmp_path / "both.onnx")
    found = open_model(str(tmp_path / "both.onnx"))(x=x.astype(dtype))
    expected = fitted("energy").predict_proba(found["scores"])
    assert found["calibrated_probabilities"].dtype == expected.dtype
    atol = 1e-5 if dtype == np.float16 else 1e-12
    np.testing.assert_allclose(found["calibrated_probabilities"], expected, atol=atol)


@pytest.mark.parametrize(("opset", "ir"), [(13, 7), (15, 8), (18, 8), (21, 10)])
def test_the_operator_set_of_the_network_is_kept(opset, ir, fitted, open_model, tmp_path, x):
    path = network(tmp_path / "net.onnx", opset=opset, ir=ir)
    attach(path, fitted("dirichlet"), tmp_path / "both.onnx")
    model = onnx.load(tmp_path / "both.onnx")
    assert (model.opset_import[0].version, model.ir_version) == (opset, ir)
    found = open_model(model)(x=x)
    expected = fitted("dirichlet").predict_proba(found["scores"])
    np.testing.assert_allclose(found["calibrated_probabilities"], expected, atol=1e-5)


def test_a_converted_network(fitted, open_model, tmp_path, x):
    """It says that it is older than numbers that are not inputs as well, which ours are."""
    path = network(tmp_path / "net.onnx", opset=8, ir=3)
    old = onnx.load(path)
    old.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [7, 5]))
    converted = onnx.version_converter.convert_version(old, 13)
    assert converted.ir_version == 3
    onnx.save(converted, path)
    attach(path, fitted("energy"), tmp_path / "both.onnx")
    model = onnx.load(tmp_path / "both.onnx")
    assert model.ir_version == 7
    onnx.checker.check_model(model, full_check=True)
    found = open_model(model)(x=x)["calibrated_probabilities"]
    np.testing.assert_allclose(found, fitted("energy").predict_proba(x @ WEIGHTS), atol=1e-5)


def test_operator_sets_that_are_too_old(fitted, tmp_path):
    path = network(tmp_path / "net.onnx", opset=11, ir=6)
    with pytest.raises(ValueError, match=r"operator set of the network must be from 13 .* got 11"):
        attach(path, fitted("ts"), tmp_path / "both.onnx")
    assert not (tmp_path / "both.onnx").exists()


SOFTMAX = [
    ([node("Softmax", "scores", "p", axis=1)], "Softmax: these are probabilities"),
    ([node("LogSoftmax", "scores", "p", axis=1)], "LogSoftmax: these are log probabilities"),
    ([node("Sigmoid", "scores", "p")], "Sigmoid: these are probabilities of independent"),
    (
        [
            node("Softmax", "scores", "a", axis=1),
            node("Identity", "a", "b"),
            node("Cast", "b", "c", to=TensorProto.FLOAT),
            node("Flatten", "c", "p"),
        ],
        "Softmax: these are probabilities",
    ),
    (
        [
            node("Exp", "scores", "e"),
            helper.make_node("ReduceSum", ["e"], ["s"], keepdims=1),
            helper.make_node("Div", ["e", "s"], ["p"]),
        ],
        "Div: these are probabilities",
    ),
    (
        [
            node("Exp", "scores", "e"),
            helper.make_node("ReduceSum", ["e"], ["s"], keepdims=1),
            node("Reciprocal", "s", "r"),
            helper.make_node("Mul", ["r", "e"], ["p"]),
        ],
        "Mul: these are probabilities",
    ),
]


@pytest.mark.parametrize(("tail", "text"), SOFTMAX, ids=lambda v: v if isinstance(v, str) else "")
def test_probabilities_are_refused(tail, text, fitted, open_model, tmp_path, x):
    """With the name of what to use instead, which then works."""
    path = network(tmp_path / "net.onnx", *tail, outputs=("p",))
    with pytest.raises(ValueError, match=f"p must hold logits, .*{text}") as caught:
        attach(path, fitted("energy"), tmp_path / "both.onnx")
    assert "Use logits_output='scores'." in str(caught.value)
    attach(path, fitted("energy"), tmp_path / "both.onnx", logits_output="scores")
    found = open_model(str(tmp_path / "both.onnx"))(x=x)
    expected = fitted("energy").predict_proba(x @ WEIGHTS)
    np.testing.assert_allclose(found["calibrated_probabilities"], expected, atol=1e-5)


def test_classical_models_that_end_in_a_softmax(fitted, tmp_path):
    classifier = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "p"],
        domain="ai.onnx.ml",
        coefficients=WEIGHTS.T.ravel().tolist(),
        classlabels_ints=list(range(5)),
        post_transform="SOFTMAX",
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [classifier],
        "net",
        [value("x", TensorProto.FLOAT, ["n", 7])],
        [value("label", TensorProto.INT64, ["n"]), value("p", TensorProto.FLOAT, ["n", 5])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx")
    with pytest.raises(ValueError, match="LinearClassifier: these are probabilities"):
        attach(tmp_path / "net.onnx", fitted("ts"), tmp_path / "both.onnx")


def test_which_output_holds_the_logits(fitted, open_model, tmp_path, x):
    twice = [node("Relu", "scores", "logits"), node("Neg", "scores", "other")]
    path = network(tmp_path / "net.onnx", *twice, outputs=("other", "logits"))
    attach(path, fitted("ts"), tmp_path / "both.onnx")  # the one with the name
    found = open_model(str(tmp_path / "both.onnx"))(x=x)
    expected = fitted("ts").predict_proba(np.maximum(x @ WEIGHTS, 0))
    np.testing.assert_allclose(found["calibrated_probabilities"], expected, atol=1e-5)

    tail = [node("Neg", "scores", "other")]
    path = network(tmp_path / "two.onnx", *tail, outputs=("other", "scores"))
    with pytest.raises(ValueError, match="of other, scores, 2 are a float matrix. Name it with"):
        attach(path, fitted("ts"), tmp_path / "both.onnx")
    attach(path, fitted("ts"), tmp_path / "both.onnx", logits_output="other")
    with pytest.raises(ValueError, match="has no value 'absent'; its outputs are other, scores"):
        attach(path, fitted("ts"), tmp_path / "both.onnx", logits_output="absent")

    sums = helper.make_node("ReduceSum", ["scores", "axes"], ["s"], keepdims=0)
    axes = helper.make_node("Constant", [], ["axes"], value_ints=[1])
    path = network(tmp_path / "vector.onnx", axes, sums, outputs=("s",), widths=(None,))
    with pytest.raises(ValueError, match="of s, none is a float matrix"):
        attach(path, fitted("ts"), tmp_path / "both.onnx")
    with pytest.raises(ValueError, match=r"s must have shape \(n, 5\), got \('batch',\)"):
        attach(path, fitted("ts"), tmp_path / "both.onnx", logits_output="s")


def test_logits_of_another_kind(fitted, tmp_path):
    path = network(tmp_path / "net.onnx")
    with pytest.raises(ValueError, match="scores has 5 classes, but .* was fitted on 3"):
        attach(path, fitted("ts", 3), tmp_path / "both.onnx")
    tail = [node("Cast", "scores", "whole", to=TensorProto.INT32)]
    path = network(tmp_path / "whole.onnx", *tail)
    with pytest.raises(ValueError, match="whole must hold floats, got int32"):
        attach(path, fitted("ts"), tmp_path / "both.onnx", logits_output="whole")


def test_names_never_clash(fitted, open_model, tmp_path, x):
    """A network may have outputs with the names of ours; a second calibrator needs a prefix."""
    tail = [node("Softmax", "scores", "probabilities", axis=1)]
    path = network(tmp_path / "net.onnx", *tail, outputs=("scores", "probabilities"))
    attach(path, fitted("ts"), tmp_path / "once.onnx", logits_output="scores")
    with pytest.raises(ValueError, match="already has a value 'calibrated_"):
        attach(tmp_path / "once.onnx", fitted("ets"), tmp_path / "b.onnx", logits_output="scores")
    attach(
        tmp_path / "once.onnx",
        fitted("ets"),
        tmp_path / "twice.onnx",
        logits_output="scores",
        prefix="ets_",
    )
    found = open_model(str(tmp_path / "twice.onnx"))(x=x)
    for name, prefix in (("ts", "calibrated_"), ("ets", "ets_")):
        expected = fitted(name).predict_proba(x @ WEIGHTS)
        np.testing.assert_allclose(found[f"{prefix}probabilities"], expected, atol=1e-5)


def test_attached_context(fitted, open_model, tmp_path, x):
    from wildcal.interop.onnx import context_vector

    calibrator = fitted("context")
    attach(network(tmp_path / "net.onnx"), calibrator, tmp_path / "both.onnx")
    run = open_model(str(tmp_path / "both.onnx"))
    clean = run(x=x, calibrated_context=np.zeros((1, 20), np.float32))
    around = clean["calibrated_statistics"].sum(axis=0, keepdims=True)
    found = run(x=x, calibrated_context=around)["calibrated_probabilities"]
    context = calibrator.context(clean["scores"])
    np.testing.assert_allclose(context_vector(context), around, atol=1e-4)
    expected = calibrator.predict_proba(clean["scores"], context=context)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found - clean["calibrated_probabilities"]).max() > 1e-3


@pytest.mark.parametrize("opset", [13, 18])
def test_contexts_that_do_not_match_the_rows(opset, fitted, open_model, tmp_path, x):
    """One for all rows or one for each; else one row of logits would be answered five times."""
    calibrator = fitted("context")
    attach(network(tmp_path / "net.onnx", opset=opset), calibrator, tmp_path / "both.onnx")
    export(calibrator, tmp_path / "cal.onnx", opset=opset)
    run, alone = (open_model(str(tmp_path / name)) for name in ("both.onnx", "cal.onnx"))
    context = np.ones((12, 20), np.float32)
    expected = run(x=x, calibrated_context=context[:1])
    for name, value in run(x=x, calibrated_context=context).items():
        np.testing.assert_array_equal(value, expected[name])
    single = run(x=x[:1], calibrated_context=context[:1])["calibrated_probabilities"]
    np.testing.assert_allclose(single, expected["calibrated_probabilities"][:1], atol=1e-6)
    nothing = run(x=x[:0], calibrated_context=context[:1])
    assert nothing["calibrated_probabilities"].shape == (0, 5)
    for n, rows in ((1, 5), (12, 5), (5, 12), (1, 0), (2, 0)):
        with pytest.raises(Exception, match="must_have_1_row_or_those_of_the_logits"):
            run(x=x[:n], calibrated_context=context[:rows])
        with pytest.raises(Exception, match="must_have_1_row_or_those_of_the_logits"):
            alone(logits=(x @ WEIGHTS)[:n], context=context[:rows])


def test_operators_that_onnx_runtime_does_not_know(fitted, tmp_path):
    """There is no comparison, but there is a file."""
    own = helper.make_node("Own", ["scores"], ["z"], domain="my.ops")
    path = network(tmp_path / "net.onnx", own, outputs=("z",))
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("my.ops", 1))
    onnx.save(model, path)
    attach(path, fitted("energy"), tmp_path / "both.onnx")
    names = [value.name for value in onnx.load(tmp_path / "both.onnx").graph.output]
    assert names[:2] == ["z", "calibrated_probabilities"]


def test_a_network_that_disagrees_is_not_written(fitted, tmp_path, wrong_numbers):
    path, target = network(tmp_path / "net.onnx"), tmp_path / "both.onnx"
    with pytest.raises(DisagreementError, match="differ by .* the file was not written"):
        attach(path, fitted("energy"), target)
    assert not target.exists()
    attach(path, fitted("energy"), target, check=False)
    assert target.exists()


def test_weights_beside_the_file_are_refused(fitted, tmp_path):
    path = network(tmp_path / "net.onnx")
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="net.data", size_threshold=0)
    with pytest.raises(FileFormatError, match="keeps weights in other files"):
        attach(path, fitted("ts"), tmp_path / "both.onnx")
    assert not (tmp_path / "both.onnx").exists()


def test_a_file_that_no_message_fits_is_not_read(fitted, tmp_path):
    with (tmp_path / "net.onnx").open("wb") as file:
        file.truncate(300 << 30)
    with pytest.raises(FileFormatError, match="322,122,547,200 bytes, and none has more"):
        attach(tmp_path / "net.onnx", fitted("ts"), tmp_path / "both.onnx")


def test_damaged_files(fitted, tmp_path):
    whole = network(tmp_path / "net.onnx").read_bytes()
    path, target = tmp_path / "bad.onnx", tmp_path / "both.onnx"
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(FileFormatError, match="cannot read .*bad.onnx as an ONNX network"):
            attach(path, fitted("ts"), target)
    for content in (b"\x00" * 100, b"PK\x03\x04 a zip", b"{}", bytes(range(256))):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match="cannot read"):
            attach(path, fitted("ts"), target)
    with pytest.raises(FileNotFoundError, match="there is no network"):
        attach(tmp_path / "absent.onnx", fitted("ts"), target)
    assert not target.exists()


def test_any_flipped_byte_gives_an_error_or_a_model(fitted, tmp_path):
    """Never a crash, and never a file that is not valid."""
    whole = network(tmp_path / "net.onnx").read_bytes()
    path, target = tmp_path / "bad.onnx", tmp_path / "both.onnx"
    rng = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(whole)
        bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        target.unlink(missing_ok=True)
        with contextlib.suppress(ValueError):  # FileFormatError is one
            attach(path, fitted("ts"), target)
        if target.exists():
            onnx.checker.check_model(onnx.load(target))


def test_outputs_of_a_calibrator_are_probabilities(fitted, tmp_path):
    export(fitted("ts"), tmp_path / "cal.onnx")
    with pytest.raises(ValueError, match="Softmax: these are probabilities"):
        attach(tmp_path / "cal.onnx", fitted("ts"), tmp_path / "both.onnx")


@pytest.mark.parametrize("batch", [10**9, 2**62])
def test_a_claimed_batch_is_not_allocated(batch: int) -> None:
    from onnx import TensorProto, helper

    from wildcal.interop.onnx.agreement import _made_up

    small = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 8, 8])
    huge = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 224, 224])
    assert _made_up([small])["x"].shape == (2, 3, 8, 8)
    assert _made_up([huge]) is None
