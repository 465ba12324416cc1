"""Calibrators as torch modules, behind networks, and logits collected from a data loader."""

import copy

import numpy as np
import pytest
import torch

from wildcal.core.exceptions import InputError
from wildcal.core.registry import CALIBRATORS
from wildcal.interop.torch import as_module, attach, collect

pytestmark = pytest.mark.slow

METHODS = [*CALIBRATORS, "dac+ets"]
BATCH = {0: torch.export.Dim("n")}


@pytest.fixture
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 5))


def tensors(arrays):
    return tuple(torch.from_numpy(part) for part in arrays)


@pytest.mark.parametrize("name", METHODS)
def test_module_agrees_with_numpy(fitted, samples, name):
    calibrator = fitted(name)
    x, *others = samples(calibrator)
    expected = calibrator.predict_proba(x, knn_distances=others[0] if others else None)
    module = as_module(calibrator)
    found = module(*tensors((x, *others)))
    assert (np.abs(found.numpy() - expected).max(axis=1) <= 1e-6).mean() >= 0.999
    # The state is all of the fit, and in float32: the devices of Apple have no float64.
    state = copy.deepcopy(module.state_dict())
    assert torch.float64 not in {buffer.dtype for buffer in module.buffers()}
    for buffer in module.buffers():
        buffer.zero_()
    module.load_state_dict(state)
    np.testing.assert_array_equal(module(*tensors((x, *others))), found)


@pytest.mark.parametrize("name", METHODS)
def test_torch_export(fitted, samples, name):
    calibrator = fitted(name)
    inputs = samples(calibrator)
    module = as_module(calibrator)
    shapes = (BATCH,) * len(inputs)
    program = torch.export.export(module, tensors(inputs), dynamic_shapes=shapes).module()
    few = tensors(part[:7] for part in inputs)
    np.testing.assert_allclose(program(*few), module(*few), atol=1e-6)


@pytest.mark.parametrize("kind", ["proba", "log_proba", "score", "confidence"])
def test_input_kinds(fitted, samples, kind):
    calibrator = fitted("ts", kind)
    (x,) = samples(calibrator, kind=kind)
    found = as_module(calibrator)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, calibrator.predict_proba(x), atol=1e-6)


def test_half_precision(fitted, samples):
    (x,) = tensors(samples(fitted("energy")))
    p = as_module(fitted("energy"))(x.bfloat16())
    assert p.dtype == torch.float32
    np.testing.assert_allclose(p, fitted("energy").predict_proba(x.bfloat16().float()), atol=1e-6)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # of torch
@pytest.mark.parametrize("name", ["ts", "energy", "irova"])
def test_attach_and_export(fitted, network, needs, tmp_path, name):
    """The network with its calibrator goes through both exporters of torch, for any batch size."""
    model = attach(network.eval(), fitted(name))
    assert not model.training
    x = torch.randn(40, 3)
    expected = fitted(name).predict_proba(network(x).detach().numpy())
    np.testing.assert_allclose(model(x).detach(), expected, atol=1e-5)
    program = torch.export.export(model, (x,), dynamic_shapes=(BATCH,))
    np.testing.assert_allclose(program.module()(x[:3]).detach(), expected[:3], atol=1e-5)
    needs("onnxruntime")
    needs("onnxscript")
    import onnxruntime

    file = tmp_path / "model.onnx"
    torch.onnx.export(model, (x,), file, dynamic_shapes=(BATCH,), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x[:3].numpy()})
    np.testing.assert_allclose(found, expected[:3], atol=1e-5)


def test_refusals(fitted, network):
    window = fitted("window").calibrator
    for call in (lambda: as_module(window), lambda: attach(network, window)):
        with pytest.raises(InputError, match="must be adapted to a window first"):
            call()
    with pytest.raises(InputError, match=r"needs knn_distances\. Try as_module"):
        attach(network, fitted("dac"))


def test_collect(network):
    x, y = torch.randn(25, 3), torch.arange(25) % 5
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=10)
    logits, labels = collect(network.train(), loader)
    assert network.training
    np.testing.assert_allclose(logits, network(x).detach(), atol=1e-6)
    np.testing.assert_array_equal(labels, y)
    *_, features = collect(network, loader, features=["1"])
    np.testing.assert_allclose(features["1"], network[:2](x).detach(), atol=1e-6)


def test_collected_features_are_averaged_over_positions():
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    images = torch.randn(6, 1, 8, 8)
    logits, _, features = collect(network, [(images, torch.zeros(6))], features=["0"])
    np.testing.assert_allclose(features["0"], logits, atol=1e-6)
    assert not network[0]._forward_hooks


def test_half_precision_around_a_calibrator(fitted, samples):
    """Neither autocast nor half() round the fitted numbers."""
    for name in ("irova", "matrix"):
        (x,) = tensors(samples(fitted(name)))
        module = as_module(fitted(name))
        expected = module(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(module(x), expected, rtol=0, atol=0)
        torch.testing.assert_close(module.half()(x), expected, rtol=0, atol=0)
        assert module.to("meta").bound(torch.float32)  # devices are followed
        assert {buffer.device.type for buffer in module.buffers()} == {"meta"}


def test_shapes_are_checked(fitted, samples):
    x, distances = tensors(samples(fitted("dac")))
    with pytest.raises(InputError, match=r"X must have shape \(n_samples, 5\), got \(3, 4\)"):
        as_module(fitted("ts"))(x[:3, :4])
    with pytest.raises(InputError, match="knn_distances must be given to DensityAware"):
        as_module(fitted("dac"))(x)
    with pytest.raises(InputError, match="knn_distances must not be given to TemperatureScaling"):
        as_module(fitted("ts"))(x, distances)


def test_attached_networks_return_logits(fitted, network):
    """A softmax before the calibrator raises at the first batch."""
    x, calibrator = torch.randn(20, 3), fitted("ts")
    model = attach(torch.nn.Sequential(network, torch.nn.Softmax(dim=1)).eval(), calibrator)
    with pytest.raises(InputError, match="X must be logits, got values in"):
        model(x)
    frozen = network.train()
    frozen[0].eval()
    assert attach(frozen, calibrator).training
    assert not frozen[0].training
    attached = attach(network.eval(), calibrator)
    attached(x)
    probabilities = fitted("ts", "proba")
    model = attach(torch.nn.Sequential(network, torch.nn.Softmax(dim=1)).eval(), probabilities)
    torch.testing.assert_close(model(x), as_module(probabilities)(network(x).softmax(dim=1)))


@pytest.mark.parametrize("name", [name for name in METHODS if not name.startswith("dac")])
def test_compile(fitted, network, name):
    """torch.compile makes one graph of the network and its calibrator, for any batch size."""
    torch.compiler.reset()  # it counts compilations of a function of all models
    model = attach(network.eval(), fitted(name))
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    for n in (1, 8, 33):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), model(x))


def test_collect_restores_modes_and_checks_batches(network):
    network.train()
    network[0].eval()
    x = torch.randn(4, 3)
    collect(network, [(x, torch.zeros(4))], device="cpu")
    assert [module.training for module in network] == [False, True, True]
    with pytest.raises(InputError, match="must yield .inputs, labels. with a tensor .* got dict"):
        collect(network, [{"x": x, "y": 0}])
    with pytest.raises(InputError, match="at least one batch"):
        collect(network, [])
