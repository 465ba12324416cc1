"""What passes for the logits of an ONNX network, by its nodes and by its numbers."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from wildcal.interop.onnx import attach


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def reduced(op, source, output):
    """Over the columns; the axes of ReduceSum are an input, those of the others an attribute."""
    if op == "ReduceSum":
        return node(op, f"{source} axes", output, keepdims=1)
    return node(op, source, output, axes=[1], keepdims=1)


MINUS_MAX = [reduced("ReduceMax", "scores", "m"), node("Sub", "scores m", "d")]
EXP = [node("Exp", "d", "e"), reduced("ReduceSum", "e", "s")]
REST = [*MINUS_MAX, *EXP, node("Log", "s", "l")]
SOFTMAX = [node("Softmax", "scores", "s", axis=1)]

PROBABILITIES = {
    "stable softmax": [*MINUS_MAX, *EXP, node("Div", "e s", "p")],
    "clipped": [*SOFTMAX, node("Clip", "s little", "p")],
    "in percent": [*SOFTMAX, node("Mul", "two s", "p")],
    "halved": [*SOFTMAX, node("Div", "s two", "p")],
    "smoothed": [*SOFTMAX, node("Add", "s little", "p")],
    "at least": [*SOFTMAX, node("Max", "s little", "p")],
    "with limits": [
        node("Exp", "scores", "e"),
        reduced("ReduceL1", "e", "s"),
        node("Clip", "s little", "c"),
        node("Shape", "e", "shape"),
        node("Expand", "c shape", "wide"),
        node("Div", "e wide", "p"),
    ],
    "exp of log_softmax": [node("LogSoftmax", "scores", "l", axis=1), node("Exp", "l", "p")],
    "softmax twice": [*SOFTMAX, node("Softmax", "s", "p", axis=1)],
}
SHIFTED = {
    "log_softmax": [node("LogSoftmax", "scores", "p", axis=1)],
    "minus logsumexp": [reduced("ReduceLogSumExp", "scores", "l"), node("Sub", "scores l", "p")],
    "minus log sum exp": [
        node("Exp", "scores", "e"),
        reduced("ReduceSum", "e", "s"),
        node("Log", "s", "l"),
        node("Sub", "scores l", "p"),
    ],
    "minus stable logsumexp": [*REST, node("Add", "l m", "t"), node("Sub", "scores t", "p")],
    "in two steps": [*REST, node("Sub", "d l", "p")],
    "log of softmax": [*SOFTMAX, node("Add", "s little", "a"), node("Log", "a", "p")],
    "minus the largest": [reduced("ReduceMax", "scores", "m"), node("Sub", "scores m", "p")],
}


@pytest.mark.parametrize("form", PROBABILITIES)
@pytest.mark.parametrize("method", ["energy", "ts"])
def test_probabilities(form, method, fitted, classifier, open_model, tmp_path, weights):
    """They are refused by every method, with the name of the scores themselves, which then work."""
    path, target = classifier(*PROBABILITIES[form], outputs=("p",)), tmp_path / "both.onnx"
    calibrator = fitted(method)
    with pytest.raises(ValueError, match="p must hold logits, .*: these are probabilities") as said:
        attach(path, calibrator, target, check=False)
    assert "Use logits_output='scores'." in str(said.value)
    assert not target.exists()
    attach(path, calibrator, target, logits_output="scores")
    x = np.random.default_rng(0).standard_normal((9, 7)).astype(np.float32)
    found = open_model(str(target))(x=x)["calibrated_probabilities"]
    np.testing.assert_allclose(found, calibrator.predict_proba(x @ weights), atol=1e-5)


@pytest.mark.parametrize("form", SHIFTED)
def test_scores_without_their_energy(form, fitted, classifier, tmp_path):
    """A constant is missing in each row, which matters to some methods."""
    path, target = classifier(*SHIFTED[form], outputs=("p",)), tmp_path / "both.onnx"
    for method in ("energy", "vector", "pts"):
        with pytest.raises(ValueError, match="the energy of a row is lost in them") as said:
            attach(path, fitted(method), target, check=False)
        assert "Use logits_output='scores'." in str(said.value)
    assert not target.exists()
    for method in ("ts", "irova", "dirichlet"):
        attach(path, fitted(method), target)
        target.unlink()


def test_an_average_of_softmaxes(fitted, classifier, tmp_path):
    """There are no single scores to name."""
    tail = [*SOFTMAX, node("Mul", "scores two", "d"), node("Softmax", "d", "t", axis=1)]
    tail += [node("Add", "s t", "a"), node("Div", "a two", "p")]
    path = classifier(*tail, outputs=("p",))
    with pytest.raises(ValueError, match="node Add: these are probabilities, .* lost in them.$"):
        attach(path, fitted("energy"), tmp_path / "both.onnx", check=False)


def test_a_slice_of_a_wider_softmax(fitted, classifier, tmp_path):
    """The scores before it have another number of classes, so they are not recommended."""
    tail = [
        node("Concat", "scores scores", "both", axis=1),
        node("Softmax", "both", "s", axis=1),
        node("Constant", "", "zero", value_ints=[0]),
        node("Constant", "", "five", value_ints=[5]),
        node("Slice", "s zero five axes", "p"),
    ]
    path = classifier(*tail, outputs=("p",))
    with pytest.raises(ValueError, match="node Softmax: .* lost in them.$"):
        attach(path, fitted("energy"), tmp_path / "both.onnx", check=False)


@pytest.mark.parametrize(
    "tail",
    [
        [node("Sigmoid", "scores", "s"), node("Mul", "s two", "p")],
        [node("Mul", "scores scores", "p")],
        [reduced("ReduceMax", "scores", "m"), node("Add", "scores m", "p")],
        [node("Neg", "scores", "n"), reduced("ReduceMax", "n", "m"), node("Sub", "scores m", "p")],
        [*SOFTMAX, node("Sub", "two s", "p")],
        [*SOFTMAX, node("Mul", "s scores", "p")],
    ],
    ids=["scaled sigmoid", "square", "plus", "minus another", "two minus", "weighted"],
)
def test_what_only_resembles_a_softmax(tail, fitted, classifier, tmp_path):
    attach(classifier(*tail, outputs=("p",)), fitted("energy"), tmp_path / "both.onnx")


def test_long_chains_are_looked_through_quickly(fitted, classifier, tmp_path):
    """A value that is used twice at every step has 2**300 ways back to the scores."""
    tail = [node("Add", "scores scores", "v0")]
    tail += [node("Add", f"v{i} v{i}", f"v{i + 1}") for i in range(300)]
    path = classifier(*tail, outputs=("v300",))
    attach(path, fitted("ts"), tmp_path / "both.onnx", check=False)


@pytest.mark.parametrize("kind", ["probabilities", "log probabilities", "the largest"])
def test_numbers_tell_where_no_node_does(kind, fitted, classifier, tmp_path):
    """Hidden behind a product with the unit matrix; Python looks as the command line does."""
    tail = {
        "probabilities": SOFTMAX,
        "log probabilities": [node("LogSoftmax", "scores", "s", axis=1)],
        "the largest": [reduced("ReduceMax", "scores", "m"), node("Sub", "scores m", "s")],
    }[kind]
    unit = helper.make_tensor("unit", TensorProto.FLOAT, [5, 5], np.eye(5).ravel())
    tail = [*tail, node("Constant", "", "unit", value=unit), node("MatMul", "s unit", "p")]
    path, target = classifier(*tail, outputs=("p",)), tmp_path / "both.onnx"
    with pytest.raises(ValueError, match=f"p must hold logits, but on random inputs .*{kind}"):
        attach(path, fitted("energy"), target)
    assert not target.exists()
    if kind != "probabilities":
        attach(path, fitted("ts"), target)
    attach(path, fitted("energy"), target, check=False)


def test_scores_and_their_softmax(fitted, classifier, open_model, tmp_path, weights):
    """Of two outputs, the one that is not a softmax."""
    path = classifier(node("Softmax", "scores", "p", axis=1), outputs=("p", "scores"))
    attach(path, fitted("energy"), tmp_path / "both.onnx")
    x = np.random.default_rng(0).standard_normal((9, 7)).astype(np.float32)
    found = open_model(str(tmp_path / "both.onnx"))(x=x)["calibrated_probabilities"]
    np.testing.assert_allclose(found, fitted("energy").predict_proba(x @ weights), atol=1e-5)


def test_values_of_unknown_type(fitted, classifier, open_model, tmp_path, weights):
    """Made by an operator from outside ONNX, so that nothing is known of them but the name."""
    fused = helper.make_node("FusedMatMul", ["x", "w"], ["h"], domain="com.microsoft")
    path = classifier(
        fused, node("Softmax", "h", "p", axis=1), outputs=("p",), domains=["com.microsoft"]
    )
    with pytest.raises(ValueError, match="Use logits_output='h'"):
        attach(path, fitted("energy"), tmp_path / "both.onnx")
    attach(path, fitted("energy"), tmp_path / "both.onnx", logits_output="h")
    x = np.random.default_rng(0).standard_normal((9, 7)).astype(np.float32)
    found = open_model(str(tmp_path / "both.onnx"))(x=x)
    expected = fitted("energy").predict_proba(x @ weights)
    np.testing.assert_allclose(found["calibrated_probabilities"], expected, atol=1e-5)
    np.testing.assert_allclose(found["calibrated_logits"], x @ weights, rtol=1e-4, atol=1e-5)


def test_an_open_number_of_classes(fitted, classifier, open_model, tmp_path):
    """What the nodes tell counts; where they do not, the file looks when it runs."""
    target = tmp_path / "both.onnx"
    with pytest.raises(ValueError, match="scores has 5 classes, but .* was fitted on 3"):
        attach(classifier(width="k"), fitted("ts", 3), target)
    attach(classifier(width="k"), fitted("ts"), target)

    custom = [helper.make_node("FusedMatMul", ["x", "w"], ["p"], domain="com.microsoft")]
    path = classifier(*custom, outputs=("p",), width="k", domains=["com.microsoft"])
    attach(path, fitted("ts"), target)
    x = np.ones((9, 7), np.float32)
    assert open_model(str(target))(x=x)["calibrated_probabilities"].shape == (9, 5)
    target.unlink()
    for n_classes in (3, 10):
        with pytest.raises(ValueError, match=rf"p must have shape \(n, {n_classes}\), but on ran"):
            attach(path, fitted("ts", n_classes), target)
        assert not target.exists()
        attach(path, fitted("ts", n_classes), target, check=False)
        run = open_model(str(target))
        for n in (1, 3, 10):
            with pytest.raises(Exception, match=f"must_have_{n_classes}_classes"):
                run(x=x[:1].repeat(n, axis=0))
        target.unlink()


@pytest.mark.parametrize("inside", [False, True])
def test_half_networks(inside, fitted, classifier, open_model, tmp_path):
    """The logits that were read are shown, and are the rounded ones where these are an output."""
    tail = [node("Softmax", "scores", "p", axis=1)] if inside else []
    path = classifier(*tail, outputs=("p",) if inside else ("scores",), dtype=np.float16)
    attach(path, fitted("energy"), tmp_path / "both.onnx", logits_output="scores")
    model = onnx.load(tmp_path / "both.onnx")
    assert model.graph.output[-1].name == "calibrated_logits"
    x = (3 * np.random.default_rng(0).standard_normal((200, 7))).astype(np.float16)
    found = open_model(model)(x=x)
    z = found["calibrated_logits"]
    assert z.dtype == np.float32
    if not inside:
        np.testing.assert_array_equal(z, found["scores"])
    expected = fitted("energy").predict_proba(z)
    np.testing.assert_allclose(found["calibrated_probabilities"], expected, atol=1e-6)
