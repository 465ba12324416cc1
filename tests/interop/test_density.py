"""Density-aware calibration in torch and ONNX: distances are one more input."""

import numpy as np
import pytest
import torch

from wildcal import DensityAware, load, save
from wildcal.calibrators import CALIBRATORS, make_calibrator
from wildcal.cli.main import run
from wildcal.interop.onnx import attach, export
from wildcal.interop.torch import as_module, context_vector
from wildcal.interop.torch import attach as attach_module
from wildcal.testing import make_suite

SUITE = make_suite(4, n_classes=5, n_tuning=500, n_ood_tuning=60, n_test=300)
EVERY = ["dac", *(f"dac+{name}" for name in CALIBRATORS if name != "identity")]


def distances(n, seed=0):
    return (0.1 + np.random.default_rng(seed).gamma(3.0, 0.03, (n, 3))).astype(np.float32)


def fitted(name):
    calibrator = make_calibrator(name)
    z, y, more = *SUITE.tuning, {}
    if "environment" in calibrator.reads:
        z = np.concatenate([z, SUITE.shifted.logits])
        y = np.concatenate([y, SUITE.shifted.y])
        clean = np.where(SUITE.tuning.y >= 0, 0, 6)
        more["environment"] = np.r_[clean, 1 + np.repeat(np.arange(5), 60)]
    s = distances(len(y))
    if not calibrator.accepts_ood:
        z, s, y = z[y >= 0], s[y >= 0], y[y >= 0]
    return calibrator.fit(z, y, distances=s, **more)


X = np.concatenate([SUITE.clean.logits, SUITE.ood.logits, 1e4 * SUITE.clean.logits[:20]])
S = distances(len(X), 1)


@pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning")
@pytest.mark.parametrize("name", EVERY)
def test_numpy_torch_and_onnx_agree(name, tmp_path, open_model):
    calibrator = fitted(name)
    around, feed, more = None, {}, {}
    if "window" in calibrator.reads:
        around = calibrator.context(X[:100], distances=S[:100])
        feed["context"] = context_vector(around).astype(np.float32)
        more["context"] = torch.from_numpy(context_vector(around))
    beside = {"distances": S, "context": around}
    export(calibrator, tmp_path / "dac.onnx")
    found = open_model(str(tmp_path / "dac.onnx"))(logits=X, distances=S, **feed)
    module = as_module(calibrator, returns=("probabilities", "confidence"))
    from_torch = module(torch.from_numpy(X), distances=torch.from_numpy(S), **more)
    for result in (found, {n: v.numpy() for n, v in from_torch.items()}):
        np.testing.assert_allclose(
            result["probabilities"], calibrator.predict_proba(X, **beside), atol=1e-5
        )
        np.testing.assert_allclose(
            result["confidence"], calibrator.confidence(X, **beside), atol=1e-5
        )
    if "temperature" in found:
        np.testing.assert_allclose(
            found["temperature"], calibrator.temperature(X, **beside), rtol=1e-5
        )


def test_gradients():
    calibrator = fitted("dac+energy")
    module = as_module(calibrator)
    z = torch.from_numpy(X[:6].astype(np.float64)).requires_grad_()
    s = torch.from_numpy(S[:6].astype(np.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: module(a, distances=b), (z, s))


def test_behind_a_network(tmp_path, classifier, weights, open_model, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calibrator = fitted("dac+energy")
    path = classifier()
    x = np.random.default_rng(3).standard_normal((9, 7)).astype(np.float32)
    s = distances(9, 4)
    expected = calibrator.confidence(x @ weights, distances=s)
    attach(path, calibrator, tmp_path / "both.onnx")
    found = open_model(str(tmp_path / "both.onnx"))(x=x, calibrated_distances=s)
    np.testing.assert_allclose(found["calibrated_confidence"], expected, atol=1e-5)
    network = torch.nn.Linear(7, 5, bias=False).eval()
    with torch.no_grad():
        network.weight.copy_(torch.from_numpy(weights.T.copy()))
        model = attach_module(network, calibrator, returns="confidence")
        got = model(torch.from_numpy(x), distances=torch.from_numpy(s))
    np.testing.assert_allclose(got, expected, atol=1e-5)
    save(calibrator, "dac.json")
    assert run("export dac.json -o cal.onnx".split()) == 0
    assert "input   distances" in capsys.readouterr().out


def test_states_and_refusals():
    one, other = fitted("dac+ts"), fitted("dac+ts")
    other.weights_, other.offset_ = other.weights_ + 1, other.offset_ + 0.5
    module, filled = as_module(one), as_module(other)
    filled.load_state_dict(module.state_dict())
    z, s = torch.from_numpy(X), torch.from_numpy(S)
    assert torch.equal(module(z, distances=s), filled(z, distances=s))
    with pytest.raises(ValueError, match="the state belongs to"):
        as_module(fitted("dac+ets")).load_state_dict(module.state_dict())
    with pytest.raises(ValueError, match="dac needs distances"):
        module(z)
    with pytest.raises(ValueError, match="distances must have shape"):
        module(z, distances=s[:, :2])
    with pytest.raises(ValueError, match="one for each of the"):
        module(z, distances=s[:7])
    with pytest.raises(ValueError, match="ts does not read distances; leave it out"):
        as_module(one.base_)(z, distances=s)


def test_a_saved_one(tmp_path):
    calibrator = fitted("dac+spline")
    save(calibrator, tmp_path / "dac.json")
    loaded = load(tmp_path / "dac.json")
    assert isinstance(loaded, DensityAware)
    z, s = torch.from_numpy(X), torch.from_numpy(S)
    assert torch.equal(as_module(calibrator)(z, distances=s), as_module(loaded)(z, distances=s))
