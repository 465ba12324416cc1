"""One formula, the same probabilities on every array library."""

from importlib import import_module

import numpy as np
import pytest

from wildcal.core.registry import CALIBRATORS

METHODS = [*CALIBRATORS, "dac+ets"]
BACKENDS = ["numpy", "torch", "array_api_strict", "dask.array", "jax.numpy"]


def to_backend(library, x):
    """Return a NumPy array as an array of the library."""
    if library == "numpy":
        return x
    if library == "dask.array":
        return import_module(library).from_array(x, chunks=(700, -1)[: x.ndim])
    return import_module(library).asarray(x)


def masked_samples(samples, calibrator, dtype):
    """Return samples with masked classes, constant logits and all classes but one masked."""
    x, *others = samples(calibrator, dtype=dtype)
    x = x.copy()
    x[::7, 1], x[::11, 4] = -np.inf, -np.inf
    x[0], x[1], x[2] = 2.0, 0.0, [-np.inf, -np.inf, 1.0, -np.inf, -np.inf]
    return x, *others


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("library", BACKENDS)
def test_same_probabilities(fitted, samples, needs, name, library):
    pytest.importorskip(library) if library == "jax.numpy" else needs(library.partition(".")[0])
    calibrator = fitted(name)
    for dtype in (np.float32, np.float64):
        if library == "jax.numpy" and dtype == np.float64:
            continue  # JAX computes in float32 unless it is told otherwise
        x, *others = masked_samples(samples, calibrator, dtype)
        given, *more = (to_backend(library, part) for part in (x, *others))
        p = calibrator.predict_proba(given, knn_distances=more[0] if more else None)
        assert type(p) is type(given)
        found = np.asarray(p)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found[np.isneginf(x)], 0.0)
        np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)
        # NumPy in float32 is compared with NumPy in float64, other libraries with NumPy.
        reference = np.float64 if library == "numpy" else dtype
        x, *others = (part.astype(reference) for part in (x, *others))
        expected = calibrator.predict_proba(x, knn_distances=others[0] if others else None)
        if dtype == np.float64:
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-15)
        else:
            assert (np.abs(found - expected).max(axis=1) <= 1e-5).mean() >= 0.999


@pytest.mark.parametrize("name", METHODS)
def test_gradients_reach_torch_logits(fitted, samples, needs, name):
    needs("torch")
    import torch

    calibrator = fitted(name)
    x, *others = (torch.from_numpy(part) for part in samples(calibrator, 50))
    x.requires_grad_()
    p = calibrator.predict_proba(x, knn_distances=others[0] if others else None)
    (gradient,) = torch.autograd.grad(p[:, 0].sum(), x)
    assert gradient.isfinite().all()
    # An isotonic regression is constant for most samples.
    assert (gradient != 0).any(dim=1).float().mean() > 0.25
