"""Fitted calibrators of every method, and the three ways to ask them."""

import importlib.util
import os
import warnings
from functools import cache

import numpy as np
import pytest

from wildcal import CALIBRATORS
from wildcal.core.errors import CalibrationWarning
from wildcal.testing import make_suite


@cache
def _fit(name, n_classes, dtype, n, options):
    suite = make_suite(1, n_classes=n_classes, n_tuning=n, n_ood_tuning=n // 8, n_test=n)
    make = CALIBRATORS[name]
    rows, more = suite.tuning, {}
    if "environment" in make.reads:
        rows = tuple(np.concatenate([suite.tuning[i], suite.shifted[i]]) for i in (0, 1))
        clean = np.where(suite.tuning.y >= 0, 0, 6)
        more["environment"] = np.r_[clean, 1 + np.repeat(np.arange(5), n // 5)]
    z, y = rows
    if not make.accepts_ood:
        z, y = z[y >= 0], y[y >= 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return make(**dict(options)).fit(z.astype(dtype), y, **more)


@pytest.fixture(scope="session")
def fitted():
    """A method fitted on a small synthetic suite; contexts are learned from environments."""

    def get(name, n_classes=5, dtype=np.float32, n=400, **options):
        return _fit(name, n_classes, dtype, n, tuple(options.items()))

    return get


@pytest.fixture(scope="session")
def open_model():
    """Return what runs a model or a file: feeds in, outputs by name out."""
    import onnxruntime

    def start(model):
        source = model if isinstance(model, str) else model.SerializeToString()
        session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return lambda **feed: dict(zip(names, session.run(None, feed), strict=True))

    return start


@pytest.fixture
def wrong_numbers(monkeypatch):
    """The graphs of energy scaling are off in the fifth digit."""
    from wildcal.interop.maps.temperatures import Energy

    kept = Energy.__init__

    def off(self, calibrator, prefix=""):
        kept(self, calibrator, prefix)
        self.parameters["temperature"] = self.parameters["temperature"] * 1.0003

    monkeypatch.setattr(Energy, "__init__", off)


@pytest.fixture(scope="session")
def weights():
    """Of the linear classifier that `classifier` writes."""
    return np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)


@pytest.fixture
def classifier(tmp_path, weights):
    """Write x -> scores, then the nodes that are given; return the path."""
    import onnx
    from onnx import helper, numpy_helper

    def write(*tail, outputs=("scores",), width=5, dtype=np.float32, domains=(), opset=17):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["scores"]), *tail],
            "net",
            [value("x", kind, ["batch", 7])],
            [value(name, kind, ["batch", width]) for name in outputs],
            [
                numpy_helper.from_array(weights.astype(dtype), "w"),
                numpy_helper.from_array(np.array([1]), "axes"),
                numpy_helper.from_array(np.array([1e-7], dtype), "little"),
                numpy_helper.from_array(np.array([2.0], dtype), "two"),
            ],
        )
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        path = tmp_path / "net.onnx"
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path

    return write


@pytest.fixture(scope="session")
def three_ways(open_model):
    """Ask torch and ONNX Runtime about logits: a dict of outputs from each.

    Where there is no torch, ONNX Runtime alone, unless this run requires both.
    """
    from wildcal.interop.maps import map_of
    from wildcal.interop.onnx.export import as_model

    known = {}
    by_torch = importlib.util.find_spec("torch") or os.environ.get("WILDCAL_REQUIRE_EXTRAS")

    def ask(calibrator, z, context=None):
        key = id(calibrator), z.dtype.name
        if key not in known:
            maps = map_of(calibrator)
            model = as_model(maps, dtype=z.dtype.name)
            module = _module(calibrator, maps.outputs) if by_torch else None
            # The calibrator is kept, so that its id is not given to another one.
            known[key] = (maps, module, open_model(model), calibrator)
        maps, module, run, _ = known[key]
        wide = z.dtype == np.float64
        feed = {"logits": z}
        if maps.reads:
            given = np.zeros((1, maps.width("context"))) if context is None else context
            feed["context"] = given.astype(np.float64 if wide else np.float32)
        answers = {"onnx": run(**feed)}
        return answers if module is None else {"torch": module(z, context), **answers}

    return ask


def _module(calibrator, outputs):
    """Return the calibrator in torch, arrays in and arrays out."""
    import torch

    from wildcal.interop.torch import as_module

    module = as_module(calibrator, returns=outputs)

    def ask(z, context):
        around = None if context is None else torch.from_numpy(context)
        answers = module(torch.from_numpy(z), around)
        return {name: value.numpy() for name, value in answers.items()}

    return ask
