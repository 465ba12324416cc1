"""From a network of this project to calibrated confidences in one file."""

import warnings

import numpy as np
import onnx
import pytest
import torch

from wildcal import CALIBRATORS, EnergyScaling
from wildcal.interop.onnx import attach as attach_onnx
from wildcal.interop.torch import attach as attach_torch
from wildcal.vision.networks import build


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    network = build("resnet20", 10)
    images = torch.rand(64, 3, 32, 32)
    for _ in range(5):
        network(images)  # so that the norms have seen some images
    return network.eval()


@pytest.fixture(scope="module")
def images():
    return torch.rand(300, 3, 32, 32, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def logits(network, images):
    with torch.no_grad():
        return network(images)


@pytest.fixture(scope="module")
def classifier(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("net") / "resnet20.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter that needs no further package
        torch.onnx.export(
            network,
            (torch.zeros(2, 3, 32, 32),),
            str(path),
            input_names=["images"],
            output_names=["logits"],
            dynamic_axes={"images": {0: "n"}, "logits": {0: "n"}},
            dynamo=False,
        )
    return path


@pytest.fixture(scope="module")
def energy(logits):
    """Energy scaling for labels that this network is right about half of the time."""
    z, rng = logits.numpy(), np.random.default_rng(0)
    z = (z - z.mean()) / z.std() + rng.standard_normal(z.shape).astype(np.float32)
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return EnergyScaling().fit(logits.numpy() + rng.normal(0, 0.1, z.shape), y)


def test_same_confidences_everywhere(
    network, images, logits, classifier, energy, open_model, tmp_path
):
    assert energy.theta_correct_ > 0 or energy.theta_incorrect_ > 0
    attach_onnx(classifier, energy, tmp_path / "both.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "both.onnx"), full_check=True)
    found = open_model(str(tmp_path / "both.onnx"))(images=images.numpy())
    expected = energy.confidence(logits.numpy())
    np.testing.assert_allclose(found["calibrated_confidence"], expected, atol=1e-5)
    model = attach_torch(network, energy, returns="confidence").eval()
    with torch.no_grad():
        np.testing.assert_allclose(model(images).numpy(), expected, atol=1e-5)


def test_an_attached_torch_model_can_be_exported_itself(
    network, images, logits, energy, open_model, tmp_path
):
    """The other way round: the calibrator first, then torch's own exporter."""
    model = attach_torch(network, energy).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (torch.zeros(2, 3, 32, 32),),
            str(tmp_path / "net.onnx"),
            input_names=["images"],
            output_names=["p"],
            dynamic_axes={"images": {0: "n"}, "p": {0: "n"}},
            dynamo=False,
        )
    found = open_model(str(tmp_path / "net.onnx"))(images=images[:50].numpy())
    np.testing.assert_allclose(found["p"], energy.predict_proba(logits[:50].numpy()), atol=1e-5)


def test_a_rolling_context_on_a_server(network, images, logits, classifier, open_model, tmp_path):
    """Batches come in; what the graph gives out of the last ones is the context of the next."""
    z, rng = logits.numpy(), np.random.default_rng(0)
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    environment = np.repeat([0, 1], 150)
    calibrator = CALIBRATORS["context"]().fit(z, y, environment=environment)
    attach_onnx(classifier, calibrator, tmp_path / "both.onnx")
    run = open_model(str(tmp_path / "both.onnx"))
    context, seen = np.zeros((1, 35), np.float32), []
    for start in range(0, 300, 50):
        found = run(images=images[start : start + 50].numpy(), calibrated_context=context)
        around = calibrator.context(z[:start]) if start else None
        expected = calibrator.confidence(z[start : start + 50], context=around)
        np.testing.assert_allclose(found["calibrated_confidence"], expected, atol=1e-5)
        seen.append(found["calibrated_statistics"])
        context = np.concatenate(seen).sum(axis=0, keepdims=True)
