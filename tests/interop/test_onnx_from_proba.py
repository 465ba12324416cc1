"""Calibrators that were fitted on probabilities, behind a network."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from wildcal import TemperatureScaling, logits_from_proba, save
from wildcal.cli.main import run
from wildcal.interop.onnx import attach
from wildcal.io import About

FLOOR = 0.005
RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((7, 5)).astype(np.float32)


@pytest.fixture
def calibrator():
    proba = RNG.multinomial(100, np.full(5, 0.2), size=200) / 100
    y = (np.log(proba + 0.01) + RNG.gumbel(size=proba.shape)).argmax(axis=1)
    return TemperatureScaling().fit(logits_from_proba(proba, floor=FLOOR), y)


def network(path, *tail, output="scores", n=5, fixed=()):
    """Write a linear classifier, x -> scores, and what comes after it; return its path."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["scores"]), *tail],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 7])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", n])],
        [numpy_helper.from_array(WEIGHTS, "w"), *fixed],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def node(op, source, target, **attributes):
    return helper.make_node(op, [source], [target], **attributes)


SOFTMAX = node("Softmax", "scores", "p", axis=1)
# No node tells of a matrix product what it is; its numbers do.
MIXED = helper.make_node("MatMul", ["p", "mixing"], ["mixed"])
MIXING = numpy_helper.from_array(RNG.dirichlet(np.ones(5), 5).astype(np.float32), "mixing")


def test_probabilities_are_taken(calibrator, open_model, tmp_path):
    for name, *tail in (("p", SOFTMAX), ("mixed", SOFTMAX, MIXED)):
        path = network(tmp_path / "net.onnx", *tail, output=name, fixed=[MIXING])
        attach(path, calibrator, tmp_path / "both.onnx", floor=FLOOR)
        x = 3 * RNG.standard_normal((12, 7)).astype(np.float32)
        found = open_model(str(tmp_path / "both.onnx"))(x=x)
        expected = calibrator.predict_proba(logits_from_proba(found[name], floor=FLOOR))
        np.testing.assert_allclose(found["calibrated_probabilities"], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ([], "scores must hold probabilities, .* on random inputs a row lies between -"),
        ([node("Relu", "scores", "p")], "p must hold probabilities, .* on random inputs a row"),
        ([node("LogSoftmax", "scores", "p", axis=1)], "node LogSoftmax: these are log prob"),
        ([node("Sigmoid", "scores", "p")], "node Sigmoid: these are probabilities of independent"),
    ],
)
def test_other_scores_are_refused(tail, reason, calibrator, tmp_path):
    path = network(tmp_path / "net.onnx", *tail, output="p" if tail else "scores")
    with pytest.raises(ValueError, match=reason):
        attach(path, calibrator, tmp_path / "both.onnx", floor=FLOOR)
    assert not (tmp_path / "both.onnx").exists()


def test_the_command_refuses_them(calibrator, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save(calibrator, "ts.json", About(kind="proba", floor=FLOOR))
    network("net.onnx")
    assert run("export ts.json --attach net.onnx -o both.onnx".split()) == 1
    err = capsys.readouterr().err
    assert "error: scores must hold probabilities, as the calibrator was fitted on them" in err
    assert "with --logits-output, or fit the calibrator on these scores." in err
    network("soft.onnx", SOFTMAX, output="p")
    assert run("export ts.json --attach soft.onnx -o both.onnx".split()) == 0
    assert re.match("Calibrating the value 'p' of soft.onnx.", capsys.readouterr().err)
