"""Fitted calibrators of every method, and the three ways to ask them."""

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
    if make.accepts_environments:
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
    """A method fitted on a small synthetic suite; contexts are learnt from environments."""

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


@pytest.fixture(scope="session")
def three_ways(open_model):
    """Ask torch and ONNX Runtime about logits: a dict of outputs from each."""
    import torch

    from wildcal.interop.maps import map_of
    from wildcal.interop.onnx.export import as_model
    from wildcal.interop.torch import as_module

    known = {}

    def ask(calibrator, z, context=None):
        key = id(calibrator), z.dtype.name
        if key not in known:
            maps = map_of(calibrator)
            model = as_model(maps, dtype=z.dtype.name)
            # The calibrator is kept, so that its id is not given to another one.
            known[key] = (
                maps,
                as_module(calibrator, returns=maps.outputs),
                open_model(model),
                calibrator,
            )
        maps, module, run, _ = known[key]
        wide = z.dtype == np.float64
        feed = {"logits": z}
        if maps.reads:
            given = np.zeros((1, maps.width("context"))) if context is None else context
            feed["context"] = given.astype(np.float64 if wide else np.float32)
        around = None if context is None else torch.from_numpy(context)
        from_torch = module(torch.from_numpy(z), around)
        return {
            "torch": {name: value.numpy() for name, value in from_torch.items()},
            "onnx": run(**feed),
        }

    return ask
