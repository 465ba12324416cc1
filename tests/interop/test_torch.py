"""Calibrators as torch modules: gradients, compilers, precisions, states, and networks."""

import copy
import io
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from wildcal import CALIBRATORS, Identity, TemperatureScaling
from wildcal.core.calibrator import Calibrator, FitSummary
from wildcal.core.errors import NotFittedError
from wildcal.interop.maps import map_of
from wildcal.interop.torch import as_module, attach, context_vector

NAMES = list(CALIBRATORS)


@pytest.fixture
def logits():
    return torch.from_numpy(4 * np.random.default_rng(0).standard_normal((9, 5)))


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name, fitted, logits):
    """By finite differences in float64; a step function has those of its shares of the rest."""
    module = as_module(fitted(name, dtype=np.float64))
    assert torch.autograd.gradcheck(module, (logits.requires_grad_(),))


@pytest.mark.parametrize("output", ["confidence", "temperature", "energy"])
def test_gradients_of_other_outputs(output, fitted, logits):
    module = as_module(fitted("energy", dtype=np.float64), returns=output)
    assert torch.autograd.gradcheck(module, (logits.requires_grad_(),))


@pytest.mark.parametrize("name", ["energy", "hts", "context", "pts", "vector", "dirichlet", "beta"])
def test_gradients_where_a_class_is_ruled_out(name, fitted, logits):
    logits[:, 1] = -torch.inf
    logits.requires_grad_()
    as_module(fitted(name))(logits)[:, 0].sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[:, 1] == 0).all()
    assert (logits.grad[:, 0] != 0).any()


def test_gradients_by_the_context(fitted, logits):
    calibrator = fitted("context", dtype=np.float64)
    context = torch.from_numpy(context_vector(calibrator.context(logits.numpy())))
    module = as_module(calibrator)
    assert torch.autograd.gradcheck(lambda z: module(z, context), (logits.requires_grad_(),))


@pytest.mark.parametrize("backend", ["aot_eager"])
@pytest.mark.parametrize("name", ["energy", "context", "irova"])
def test_compiled(name, backend, fitted, logits):
    """In one graph, without a break. (inductor gives the same, after a minute of C++.)"""
    torch._dynamo.reset()
    module = as_module(fitted(name))
    compiled = torch.compile(module, backend=backend, fullgraph=True)
    for dtype in (torch.float32, torch.float64):
        z = logits.to(dtype)
        torch.testing.assert_close(compiled(z), module(z), atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["energy", "context", "irova", "spline", "dirichlet"])
def test_exported_program(name, fitted, logits):
    """For any number of rows."""
    module = as_module(fitted(name), returns=map_of(fitted(name)).outputs)
    rows = {0: torch.export.Dim("n")}
    program = torch.export.export(module, (logits.float(),), dynamic_shapes={"logits": rows})
    for n in (2, 9, 40):
        z = torch.randn(n, 5, generator=torch.Generator().manual_seed(n))
        for key, value in program.module()(z).items():
            torch.testing.assert_close(value, module(z)[key], atol=1e-6, rtol=1e-6)


def test_exported_program_with_a_context(fitted, logits):
    calibrator = fitted("context")
    module = as_module(calibrator)
    context = torch.from_numpy(context_vector(calibrator.context(logits.numpy())))
    program = torch.export.export(
        module,
        (logits.float(), context),
        dynamic_shapes={"logits": {0: torch.export.Dim("n")}, "context": None},
    )
    z = logits.float()[:4]
    torch.testing.assert_close(program.module()(z, context), module(z, context))
    assert (module(z, context) != module(z)).any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_cast_module_keeps_its_numbers(name, dtype, fitted, logits):
    """Logits may be of any precision; the fitted numbers do not lose digits."""
    calibrator = fitted(name)
    module = as_module(calibrator).to(dtype)
    expected = calibrator.predict_proba(logits.to(dtype).double().numpy().astype(np.float32))
    found = module(logits.to(dtype))
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    if dtype != torch.float64:
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    for key, value in module.state_dict().items():
        if not key.endswith("_extra_state"):
            np.testing.assert_array_equal(value.numpy(), map_of(calibrator).parameters[key])


def test_half_and_other_ways_to_move(fitted, logits):
    module = as_module(fitted("matrix"))
    expected = module(logits.float())
    for moved in (module.half(), module.float(), module.double(), module.to("cpu"), module.cpu()):
        assert (moved(logits.float()) == expected).all()
    shapes = {key: value.shape for key, value in module.state_dict().items()}
    ghost = copy.deepcopy(module).to("meta")
    assert ghost(logits.float().to("meta")).shape == (9, 5)
    assert {k: v.shape for k, v in ghost.to_empty(device="cpu").state_dict().items()} == shapes
    assert (ghost.load_state_dict(module.state_dict()).missing_keys) == []
    assert (ghost(logits.float()) == expected).all()


def test_autocast_does_not_round(fitted, logits):
    module = as_module(fitted("matrix"))
    expected = module(logits.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (module(logits.float()) == expected).all()


@pytest.mark.parametrize("name", NAMES)
def test_state_round_trip(name, fitted, logits):
    """Into a module that was made from another fit, through a file."""
    here, there = as_module(fitted(name, n=400)), as_module(fitted(name, n=600))
    file = io.BytesIO()
    torch.save(here.state_dict(), file)
    file.seek(0)
    assert name == "identity" or (here(logits) != there(logits)).any()
    there.load_state_dict(torch.load(file, weights_only=True))
    assert (here(logits) == there(logits)).all()


def test_state_through_safetensors(fitted, logits, tmp_path):
    from safetensors.torch import load_file, save_file

    here, there = as_module(fitted("irm")), as_module(fitted("irm", n=600))
    save_file(here.state_dict(), tmp_path / "irm.safetensors")
    there.load_state_dict(load_file(tmp_path / "irm.safetensors"))
    assert (here(logits) == there(logits)).all()


def test_states_that_do_not_fit(fitted, logits):
    module = as_module(fitted("ts"))
    before = module(logits)
    with pytest.raises(ValueError, match="the state belongs to .*'n_classes': 3.* this module is"):
        module.load_state_dict(as_module(fitted("ts", 3)).state_dict())
    with pytest.raises(ValueError, match="'method': 'identity'"):
        module.load_state_dict(as_module(fitted("identity")).state_dict())
    plain, swapped = (as_module(fitted("spline", interp=how)) for how in ("exact", "reference"))
    was = swapped(logits)
    with pytest.raises(ValueError, match="'interp': 'exact'"):
        swapped.load_state_dict(plain.state_dict())
    assert (swapped(logits) == was).all()
    with pytest.raises(ValueError, match="not that of a wildcal calibrator"):
        module.load_state_dict(module.state_dict() | {"_extra_state": torch.zeros(3)})
    with pytest.raises(RuntimeError, match="Missing key"):
        module.load_state_dict({})
    with pytest.raises(RuntimeError, match="size mismatch"):
        module.load_state_dict(module.state_dict() | {"temperature": torch.zeros(3)})
    assert (module(logits) == before).all()


@pytest.mark.parametrize("name", ["ts", "isotonic", "irm", "spline"])
def test_a_refused_state_changes_nothing(name, fitted, logits):
    """Whether it belongs to another method, or is a part of one that would fit."""
    module, other = as_module(fitted(name)), as_module(fitted(name, n=600)).state_dict()
    before = module(logits)
    with pytest.raises(ValueError, match="the state belongs to"):
        module.load_state_dict(as_module(fitted(name, 3)).state_dict())
    assert (module(logits) == before).all()
    for key in other:
        some = {k: v for k, v in other.items() if k != key}
        with pytest.raises(RuntimeError, match=f"Missing key.*{key}"):
            module.load_state_dict(some)
        assert (module(logits) == before).all()
    module.load_state_dict(other)
    assert (module(logits) == as_module(fitted(name, n=600))(logits)).all()


def test_a_state_that_an_attached_model_refuses(fitted, x):
    """The network keeps its own weights as well."""
    model, other = attach(Network(), fitted("ts")), attach(Network(), fitted("energy"))
    nn.init.zeros_(other.model.fc.weight)
    before = model(x)
    with pytest.raises(ValueError, match="the state belongs to .*'method': 'energy'"):
        nn.Sequential(model).load_state_dict(nn.Sequential(other).state_dict())
    assert (model(x) == before).all()


@pytest.mark.filterwarnings("ignore:`torch.jit.trace:DeprecationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_traced(name, fitted, logits):
    """Alone and behind a network, for any number of rows; lengths of tables are fixed."""
    module = as_module(fitted(name))
    traced = torch.jit.trace(module, (logits.float(),))
    z = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(traced(z), module(z), atol=1e-6, rtol=0)
    torch.manual_seed(0)
    model = attach(nn.Linear(5, 5).eval(), fitted(name))
    traced = torch.jit.trace(model, (z[:3],))
    torch.testing.assert_close(traced(z), model(z), atol=1e-6, rtol=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["energy", "irm", "spline", "histogram", "isotonic", "bbq", "pts"])
def test_the_older_exporter_of_torch(name, fitted, open_model, x):
    """It works by tracing."""
    model, file = attach(Network().eval(), fitted(name)), io.BytesIO()
    names = {"input_names": ["x"], "output_names": ["p"], "dynamic_axes": {"x": {0: "n"}}}
    torch.onnx.export(model, (x[:2],), file, dynamo=False, **names)
    found = open_model(onnx.load_from_string(file.getvalue()))(x=x.numpy())["p"]
    np.testing.assert_allclose(found, model(x).detach().numpy(), atol=1e-5)


def test_what_is_returned(fitted, logits):
    calibrator, z = fitted("energy"), logits.float()
    found = as_module(calibrator, returns=("temperature", "confidence"))(z)
    assert list(found) == ["confidence", "temperature"]
    for name, value in found.items():
        expected = getattr(calibrator, name)(z.numpy())
        np.testing.assert_allclose(value.numpy(), expected, rtol=1e-6)
        assert (as_module(calibrator, returns=name)(z) == value).all()
    assert "energy, n_classes=5, returns=confidence" in repr(
        as_module(calibrator, returns="confidence")
    )


@pytest.mark.parametrize(
    ("name", "returns", "text"),
    [
        ("ts", "proba", "returns must be of probabilities, confidence, temperature, energy, got"),
        ("ets", "temperature", "got 'temperature'; not every method has every output"),
        ("ts", (), "got nothing"),
    ],
)
def test_outputs_that_are_not_there(name, returns, text, fitted):
    with pytest.raises(ValueError, match=text):
        as_module(fitted(name), returns=returns)


def test_wrong_inputs(fitted, logits):
    module = as_module(fitted("ts"))
    with pytest.raises(
        ValueError, match=r"must have shape \(n_samples, 5\), as in fit, got \(5,\)"
    ):
        module(logits[0])
    with pytest.raises(ValueError, match=r"got \(9, 4\)"):
        module(logits[:, :4])
    with pytest.raises(ValueError, match="ts does not read context; leave it out"):
        module(logits, torch.zeros(1, 9))
    with pytest.raises(ValueError, match=r"context must have shape \(1, 20\) or \(n_samples, 20\)"):
        as_module(fitted("context"))(logits, torch.zeros(8))
    for rows in (0, 2, 10):
        with pytest.raises(ValueError, match=f"one for each of the 9 rows of logits, got {rows}"):
            as_module(fitted("context"))(logits, torch.zeros(rows, 20))
    with pytest.raises(ValueError, match="one for each of the 1 rows of logits, got 5"):
        as_module(fitted("context"))(logits[:1], torch.zeros(5, 20))
    with pytest.raises(NotFittedError, match="TemperatureScaling is not fitted"):
        as_module(TemperatureScaling())
    with pytest.raises(ValueError, match="must be a fitted wildcal calibrator, got str"):
        as_module("energy.json")


def test_integer_logits_are_numbers(fitted):
    z = np.array([[3, 0, 1, 0, -2]])
    found = as_module(fitted("energy"))(torch.from_numpy(z))
    np.testing.assert_allclose(found.numpy(), fitted("energy").predict_proba(z), atol=1e-12)


def test_methods_without_a_map(fitted):
    class Own(Calibrator):
        name, preserves_accuracy, shift_invariant = "own", True, True

        def _fit(self, rows):
            return FitSummary()

        def _bind(self, rows):
            raise NotImplementedError

    own = Own().fit([[1.0, 0.0], [0.0, 3.0]], [1, 1])
    with pytest.raises(
        ValueError, match=r"own cannot be exported: its map is Python code .* energy"
    ):
        as_module(own)


class Network(nn.Module):
    """A classifier whose outputs come in the wrappings that libraries use."""

    def __init__(self, wrap=lambda z: z):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.wrap = nn.Linear(7, 5), wrap

    def forward(self, x, times=1.0):
        return self.wrap(times * self.fc(x))


@pytest.fixture
def x():
    return torch.randn(20, 7, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "wrap", [lambda z: z, lambda z: {"logits": z, "other": 1}, lambda z: SimpleNamespace(logits=z)]
)
def test_attach(wrap, fitted, x):
    network, calibrator = Network(wrap), fitted("energy")
    model = attach(network, calibrator, returns=("probabilities", "logits", "temperature")).eval()
    found = model(x, times=3.0)
    logits = 3 * network.fc(x)
    assert (found["logits"] == logits).all()
    z = logits.detach().numpy()
    np.testing.assert_allclose(
        found["probabilities"].detach().numpy(), calibrator.predict_proba(z), atol=1e-5
    )
    np.testing.assert_allclose(
        found["temperature"].detach().numpy(), calibrator.temperature(z), rtol=1e-5
    )
    alone = attach(network, calibrator).eval()
    assert (alone(x, times=3.0) == found["probabilities"]).all()
    assert (attach(network, calibrator, returns="logits")(x) == network.fc(x)).all()


def test_attached_model_is_a_module(fitted, x):
    """It learns, it is saved, and it is exported."""
    model = attach(Network(), fitted("energy"))
    model(x)[:, 0].sum().backward()
    assert (model.model.fc.weight.grad != 0).any()
    assert {"model.fc.weight", "calibrator.temperature"} <= set(model.state_dict())
    model.eval()
    rows = {0: torch.export.Dim("n")}
    program = torch.export.export(model, (x,), dynamic_shapes={"inputs": (rows,)})
    torch.testing.assert_close(program.module()(x[:6]), model(x[:6]))


def test_attach_with_a_context(fitted, x):
    calibrator, network = fitted("context"), Network()
    logits = network(x).detach().numpy()
    context = calibrator.context(logits)
    found = attach(network, calibrator)(x, context=torch.from_numpy(context_vector(context)))
    np.testing.assert_allclose(
        found.detach().numpy(), calibrator.predict_proba(logits, context=context), atol=1e-5
    )


def test_probabilities_are_refused(fitted, x):
    network = nn.Sequential(Network(), nn.Softmax(dim=1))
    with pytest.raises(ValueError, match="sums to 1: these are probabilities. Attach the calib"):
        attach(network, fitted("ts")).eval()(x)
    # Few rows may look so by chance; eight of them do not.
    model = attach(network, fitted("ts")).eval()
    for row in x[:7]:
        model(row[None])
    with pytest.raises(ValueError, match="these are probabilities"):
        model(x[7:8])
    with pytest.raises(ValueError, match="these are probabilities"):
        model(x[:1])  # and again


def test_the_mode_is_that_of_the_network(fitted, x):
    """So the look at the first rows needs no further call of eval()."""
    network = nn.Sequential(Network(), nn.Softmax(dim=1)).eval()
    model = attach(network, fitted("ts"))
    assert not any(module.training for module in model.modules())
    with pytest.raises(ValueError, match="these are probabilities"):
        model(x)
    network.train()[0].eval()  # a part that is frozen stays so
    assert attach(network, fitted("ts")).training
    assert not network[0].training


@pytest.mark.parametrize("name", NAMES)
def test_log_probabilities_are_for_methods_that_can_do_with_them(name, fitted, x):
    calibrator = fitted(name)
    network, last = Network().eval(), nn.LogSoftmax(dim=1)
    model = attach(nn.Sequential(network, last), calibrator).eval()
    if not calibrator.takes_log_proba:
        with pytest.raises(ValueError, match="these are log probabilities"):
            model(x)
        return
    expected = calibrator.predict_proba(network(x).detach().numpy())
    np.testing.assert_allclose(model(x).detach().numpy(), expected, atol=1e-5)


def test_scores_minus_the_largest_are_refused(fitted, x):
    network = Network(lambda z: z - z.amax(dim=1, keepdim=True)).eval()
    with pytest.raises(ValueError, match="the largest of every row is 0"):
        attach(network, fitted("energy"))(x)
    attach(network, fitted("ts"))(x)
    # Those behind a ReLU may all be zero.
    attach(Network(lambda z: torch.relu(z - 100)).eval(), fitted("energy"))(x)


def test_an_attached_model_without_numbers(fitted, x):
    """On the meta device there is nothing to look at."""
    model = attach(Network(), fitted("energy")).eval().to("meta")
    assert model(x.to("meta")).shape == (20, 5)


def test_models_that_return_something_else(fitted, x):
    with pytest.raises(ValueError, match="must return a tensor of logits, got tuple"):
        attach(Network(lambda z: (z, z)), fitted("ts"))(x)
    with pytest.raises(ValueError, match=r"must have shape \(n_samples, 3\)"):
        attach(Network(), fitted("ts", 3)).eval()(x)
    with pytest.raises(ValueError, match="returns must be of .*, logits, got 'proba'"):
        attach(Network(), fitted("ts"), returns="proba")


def test_every_device_there_is(fitted, logits):
    """On a graphics card too, where there is one."""
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        module = as_module(fitted("energy")).to(device)
        found = module(logits.float().to(device)).cpu().numpy()
        np.testing.assert_allclose(
            found, fitted("energy").predict_proba(logits.float().numpy()), atol=1e-5
        )


def test_the_options_that_shape_a_map_are_in_its_layout(fitted):
    """Else a state could be loaded into a module that reads it differently."""
    assert map_of(fitted("spline")).layout["fill"] == "scale"
    assert map_of(fitted("irm", normalize="none")).layout["normalize"] == "none"
    context = map_of(fitted("context")).layout
    assert (context["read_at"], context["rule"]) == (1, "total")
    assert map_of(Identity().fit([[1.0, 0.0], [0.0, 2.0]], [0, 1])).layout == {
        "method": "identity",
        "n_classes": 2,
    }
