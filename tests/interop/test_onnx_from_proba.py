"""Calibrators that were fitted on probabilities, as ONNX files: alone and behind a network."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from wildcal import ContextScaling, TemperatureScaling, logits_from_proba, logits_from_score, save
from wildcal.cli.main import run
from wildcal.interop.onnx import attach
from wildcal.io import About

FLOOR = 0.005
RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((7, 5)).astype(np.float32)


# As a forest of 100 trees says it, with many zeros.
PROBA = np.stack([RNG.multinomial(100, p) / 100 for p in RNG.dirichlet(np.full(5, 0.3), 300)])
Y = (np.log(PROBA + 0.01) + RNG.gumbel(size=PROBA.shape)).argmax(axis=1)


@pytest.fixture
def calibrator():
    return TemperatureScaling().fit(logits_from_proba(PROBA, floor=FLOOR), Y)


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


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("method", [TemperatureScaling, ContextScaling])
def test_a_file_of_its_own_takes_probabilities(
    method, dtype, tmp_path, monkeypatch, capsys, open_model
):
    monkeypatch.chdir(tmp_path)
    calibrator = method().fit(logits_from_proba(PROBA, floor=FLOOR), Y)
    save(calibrator, "cal.json", About(kind="proba", floor=FLOOR))
    assert run(["export", "cal.json", "-o", "cal.onnx", "--dtype", dtype]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split()[:2] == ["input", "proba"]
    assert err.startswith("The file takes probabilities; those below 0.005 are read as that")
    assert "on 301 random rows." in err
    proba = PROBA.astype(dtype)
    around = {}
    if method is ContextScaling:
        around["context"] = np.zeros((1, 20), dtype if dtype == "float64" else "float32")
    found = open_model("cal.onnx")(proba=proba, **around)["probabilities"]
    expected = calibrator.predict_proba(logits_from_proba(proba, floor=FLOOR))
    np.testing.assert_allclose(found, expected, atol=1e-12 if dtype == "float64" else 1e-5)


def test_other_scores_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    score = RNG.normal(size=100)
    fitted = TemperatureScaling().fit(
        logits_from_score(score), (score > RNG.normal(size=100)).astype(int)
    )
    save(fitted, "ts.json", About(kind="score"))
    assert run("export ts.json -o cal.onnx".split()) == 0
    assert "one score s for each row; the file takes the logits -s / 2" in capsys.readouterr().err


def test_a_file_without_its_floor_is_refused(calibrator, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    save(calibrator, "ts.json", About(kind="proba"))
    assert run("export ts.json -o cal.onnx".split()) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ts.json does not say what probabilities of zero were read as.")
