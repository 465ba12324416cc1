"""One formula, the same probabilities on every array library."""

from contextlib import nullcontext
from importlib import import_module

import numpy as np
import pytest

from wildcal.core.exceptions import InputError
from wildcal.core.registry import CALIBRATORS

pytestmark = pytest.mark.slow

METHODS = [*CALIBRATORS, "dac+ets"]
LIBRARIES = ["torch", "jax.numpy", "dask.array", "array_api_strict"]
KINDS = ["logits", "proba", "log_proba", "score", "confidence"]


@pytest.fixture
def convert(needs):
    """Return a function from a NumPy array to an array of a library."""

    def get(library):
        needs(library.partition(".")[0])
        module = import_module(library)
        if library == "dask.array":
            return lambda x: module.from_array(x, chunks=(700, -1)[: x.ndim])
        return module.asarray

    return get


def precision(library, dtype):
    """Return a context in which the library computes in this precision."""
    if library == "jax.numpy":
        return import_module("jax").enable_x64(dtype == np.float64)
    return nullcontext()


def masked_samples(samples, calibrator, dtype):
    """Return samples with masked classes, constant logits and all classes but one masked."""
    x, *others = samples(calibrator, dtype=dtype)
    x = x.copy()
    x[::7, 1], x[::11, 4] = -np.inf, -np.inf
    x[0], x[1], x[2] = 2.0, 0.0, [-np.inf, -np.inf, 1.0, -np.inf, -np.inf]
    return x, *others


def predict(calibrator, x, *others, method="predict_proba"):
    return getattr(calibrator, method)(x, knn_distances=others[0] if others else None)


def compare(found, expected):
    """Raise unless both agree within the tolerance of their precision."""
    assert found.shape == expected.shape
    if found.dtype == np.float64:
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-15)
    else:
        off = np.abs(found - expected).reshape(len(found), -1).max(axis=1)
        assert (off <= 1e-5).mean() >= 0.999


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("library", ["numpy", *LIBRARIES])
def test_same_probabilities(fitted, samples, convert, name, library, dtype):
    calibrator, asarray = fitted(name), convert(library)
    x, *others = masked_samples(samples, calibrator, dtype)
    with precision(library, dtype):
        given = [asarray(part) for part in (x, *others)]
        p = predict(calibrator, *given)
        assert type(p) is type(given[0])
        found = np.asarray(p)
        confidence = np.asarray(predict(calibrator, *given, method="confidence"))
        classes = np.asarray(predict(calibrator, *given, method="predict"))
    np.testing.assert_array_equal(found[np.isneginf(x)], 0.0)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(confidence, found.max(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(classes, found.argmax(axis=1))
    if library == "numpy":  # float32 is compared with float64
        expected = predict(calibrator, *(part.astype(np.float64) for part in (x, *others)))
        compare(found, expected.astype(dtype))
    else:
        compare(found, predict(calibrator, x, *others))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_input_kinds(fitted, samples, convert, library, kind):
    asarray = convert(library)
    for name in ("ts", "beta", "isotonic"):
        calibrator = fitted(name, kind)
        (x,) = samples(calibrator, kind=kind)
        for method in ("predict_proba", "confidence", "predict"):
            if (kind, method) != ("confidence", "predict"):
                found = predict(calibrator, asarray(x), method=method)
                compare(np.asarray(found), predict(calibrator, x, method=method))


@pytest.mark.parametrize("name", METHODS)
def test_jax_compiles_and_differentiates(fitted, samples, convert, name):
    asarray = convert("jax.numpy")
    import jax

    calibrator = fitted(name)
    x, *others = masked_samples(samples, calibrator, np.float32)
    found = jax.jit(lambda *given: predict(calibrator, *given))(*map(asarray, (x, *others)))
    compare(np.asarray(found), predict(calibrator, x, *others))
    x, *others = map(asarray, samples(calibrator, 50))
    gradient = jax.grad(lambda z: predict(calibrator, z, *others)[:, 0].sum())(x)
    check_gradient(np.asarray(gradient))


@pytest.mark.parametrize("name", METHODS)
def test_torch_differentiates(fitted, samples, convert, name):
    calibrator = fitted(name)
    x, *others = map(convert("torch"), samples(calibrator, 50))
    predict(calibrator, x.requires_grad_(), *others)[:, 0].sum().backward()
    check_gradient(x.grad.numpy())


def check_gradient(gradient):
    assert np.isfinite(gradient).all()
    # An isotonic regression is constant for most samples.
    assert (gradient != 0).any(axis=1).mean() > 0.25


@pytest.mark.parametrize("library", LIBRARIES)
def test_distances_of_another_kind(fitted, samples, convert, library):
    """NumPy distances are converted; a wrong shape raises."""
    asarray, calibrator = convert(library), fitted("dac")
    x, distances = samples(calibrator)
    found = predict(calibrator, asarray(x), distances.astype(np.float64))
    compare(np.asarray(found), predict(calibrator, x, distances))
    for wrong in (distances[:, 0], distances[:, :1], distances[:-1]):
        with pytest.raises(InputError, match=r"knn_distances must have shape \(1320, 2\), got"):
            predict(calibrator, asarray(x), wrong)


def test_dask_chunks(fitted, samples, convert):
    """Chunks may divide classes, be empty or have an unknown size."""
    asarray, calibrator = convert("dask.array"), fitted("dac")
    x, distances = samples(calibrator)
    expected = predict(calibrator, x, distances)
    divided = asarray(x).rechunk((300, 2)), asarray(distances).rechunk((500, 1))
    np.testing.assert_array_equal(predict(calibrator, *divided), expected)
    kept = np.arange(len(x)) >= 700  # none of the first chunk
    unknown = [asarray(part)[asarray(kept)] for part in (x, distances)]
    np.testing.assert_array_equal(predict(calibrator, *unknown).compute(), expected[kept])


@pytest.mark.parametrize("library", LIBRARIES)
def test_window_in_memory_or_on_dask(fitted, samples, convert, library):
    """A window is the array that is given; on Dask its statistics are a first pass."""
    calibrator, asarray = fitted("window").calibrator, convert(library)
    (x,) = samples(calibrator, dtype=np.float64)
    with precision(library, np.float64):
        found = calibrator.window_statistics(asarray(x))
        p = np.asarray(calibrator.predict_proba(asarray(x)))
    expected = calibrator.window_statistics(x)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.confidence_sums, expected.confidence_sums, rtol=1e-9)
    compare(p, calibrator.predict_proba(x))


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace is deprecated
def test_window_under_a_tracer(fitted, samples, convert):
    """Samples that are traced or differentiated are no window."""
    calibrator = fitted("window").calibrator
    x, torch_x = (convert(library)(samples(calibrator)[0]) for library in ("jax.numpy", "torch"))
    import jax
    import torch

    module = torch.nn.Module()
    module.forward = calibrator.predict_proba
    calls = [
        lambda: jax.jit(calibrator.predict_proba)(x),
        lambda: jax.grad(lambda z: calibrator.confidence(z).sum())(x),
        lambda: torch.export.export(module, (torch_x,)),
        lambda: torch.jit.trace(calibrator.predict_proba, (torch_x,)),
        lambda: torch.func.grad(lambda z: calibrator.confidence(z).sum())(torch_x),
        lambda: calibrator.confidence(torch_x.clone().requires_grad_()),
    ]
    for call in calls:
        with pytest.raises(InputError, match="must be adapted to a window first"):
            call()
    differentiable = torch_x.clone().requires_grad_()
    adapted = calibrator.adapt(differentiable)  # statistics are numbers
    assert adapted.confidence(differentiable).requires_grad


@pytest.mark.filterwarnings("ignore")  # of distributed, when it closes
def test_dask_cluster_of_processes(fitted, samples, convert, needs):
    needs("distributed")
    from distributed import Client

    asarray, calibrator = convert("dask.array"), fitted("window").calibrator
    (x,) = samples(calibrator, 3000)
    with Client(processes=True, n_workers=2, threads_per_worker=1, dashboard_address=":0"):
        found = calibrator.predict_proba(asarray(x)).compute()
    np.testing.assert_allclose(found, calibrator.predict_proba(x), rtol=1e-6)
