"""Synthetic logits, and the contract of a calibrator as checks for your own methods.

To check a calibrator of your own, register it (`wildcal.core.registry.register`), then::

    from wildcal.testing import check_calibrator
    check_calibrator(MyCalibrator())
"""

import re
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import BLOCK_ENTRIES, log_softmax, softmax
from wildcal.core.calibrator import Calibrator, clone
from wildcal.core.exceptions import CalibrationWarning, InputError, NotFittedError
from wildcal.io.artifact import load, save

Fit: TypeAlias = dict[str, Any]
"""Arguments of `fit`: X, y and what else the method uses, by name."""

# Methods that draw samples, or pair domains, with a fixed seed: the order of samples decides which.
_ORDER_TOLERANCE: Final = {"auto": 1e-2, "window": 1e-2}
_N_CLASSES: Final = 5
# Checks provoke warnings about samples and windows.
_without_warnings: Final = partial(
    warnings.catch_warnings, action="ignore", category=CalibrationWarning
)


class Split(NamedTuple):
    """Logits of shape (n_samples, n_classes) and labels, -1 for OOD samples."""

    logits: NDArray[np.float32]
    y: NDArray[np.int64]


@dataclass(frozen=True)
class SyntheticSuite:
    """Logits like those of an overconfident network."""

    calibration: Split
    """In-distribution samples, followed by OOD samples (y == -1), one for twenty."""
    test: Split
    shifted: Split
    """Severities 1 to 5, equally many samples each, in this order."""
    ood: Split


def make_suite(n_samples: int = 5000, n_classes: int = 10, *, seed: int = 0) -> SyntheticSuite:
    """Return synthetic logits and labels.

    The logits of a sample are Gaussian noise plus a signal at the true class. Under shift the
    signal falls faster than the scale of the logits; OOD samples have no signal, but large logits.
    So confidence exceeds accuracy away from the training distribution, as in real networks.

    Parameters
    ----------
    n_samples
        Number of in-distribution samples of the calibration and test sets, and of shifted samples.
    n_classes
        Number of classes.
    seed
        Seed of the random numbers.

    Examples
    --------
    >>> suite = make_suite(1000, n_classes=3)
    >>> suite.calibration.logits.shape, suite.test.logits.shape
    ((1050, 3), (1000, 3))
    """
    rng = np.random.default_rng(seed)

    def known(n: int, severity: float) -> Split:
        y = rng.integers(0, n_classes, n)
        signal = rng.normal(4.2 - 0.62 * severity, 1.6, n)
        z = rng.normal(0.0, 1.0, (n, n_classes))
        z[np.arange(n), y] += signal
        return Split((3.4 * (1 - 0.03 * severity) * z + 0.5).astype(np.float32), y)

    def ood(n: int) -> Split:
        scale = 3.0 * rng.uniform(0.8, 1.4, (n, 1))
        z = scale * rng.normal(0.0, 1.0, (n, n_classes)) + 0.5
        return Split(z.astype(np.float32), np.full(n, -1))

    shifted = [known(n_samples // 5, severity) for severity in range(1, 6)]
    return SyntheticSuite(
        calibration=join(known(n_samples, 0), ood(n_samples // 20)),
        test=known(n_samples, 0),
        shifted=join(*shifted),
        ood=ood(n_samples // 5),
    )


def join(*splits: Split) -> Split:
    """Return several splits as one."""
    return Split(np.concatenate([s.logits for s in splits]), np.concatenate([s.y for s in splits]))


def check_probabilities(calibrator: Calibrator) -> None:
    """Probabilities lie in [0, 1] and sum to one; `confidence` and `predict` belong to them."""
    x = _new_logits()
    fitted = _fit(calibrator)
    proba = _proba(fitted, x)
    _check_distribution(proba)
    extra = _extra(fitted, x)
    with _without_warnings():
        _agree("confidence", fitted.confidence(x, **extra), proba.max(axis=1), 1e-6)
        _agree("predict", fitted.predict(x, **extra), proba.argmax(axis=1))


def check_shape_and_dtype(calibrator: Calibrator) -> None:
    """float32 stays float32, float64 stays float64, half precision becomes float32; C order."""
    x = np.round(_new_logits(), 1).astype(np.float16)
    fitted = _fit(calibrator)
    expected = _proba(fitted, x.astype(np.float64))
    for given, returned in (("f2", "f4"), ("f4", "f4"), ("f8", "f8"), (">f4", "f4")):
        for order in ("C", "F"):
            proba = _proba(fitted, x.astype(given, order=order))
            assert proba.shape == x.shape, f"shape {proba.shape} for logits of shape {x.shape}"
            assert proba.dtype == returned, f"dtype {proba.dtype} for logits of dtype {given}"
            assert proba.flags.c_contiguous, f"not in C order for logits in {order} order"
            # A step function may fall on either side of a step for a few samples.
            far = np.abs(proba - expected).max(axis=1) > 1e-4
            assert far.mean() <= 0.01, f"{far.sum()} samples differ between {given} and float64"


def check_inputs_not_modified(calibrator: Calibrator) -> None:
    """`fit` and `predict_proba` accept read-only arrays and do not write to them."""
    data, x = _samples(calibrator), _new_logits()
    given = [*data.values(), x]
    before = [array.copy() for array in given]
    for array in given:
        array.setflags(write=False)
    fitted = _fit(calibrator, data)
    _proba(fitted, x)
    _proba(fitted, x[:3])  # few samples are not copied
    for array, copy in zip(given, before, strict=True):
        _agree("input after fit and predict_proba", array, copy)


def check_same_data_same_fit(calibrator: Calibrator) -> None:
    """Two fits on the same samples give the same probabilities."""
    x = _new_logits()
    _agree("a second fit", _proba(_fit(calibrator), x), _proba(_fit(calibrator), x))


def check_sample_order(calibrator: Calibrator) -> None:
    """The order of the calibration samples does not matter."""
    data, x = _samples(calibrator), _new_logits()
    order = np.random.default_rng(0).permutation(len(data["y"]))
    shuffled = _proba(_fit(calibrator, _take(data, order)), x)
    tolerance = _ORDER_TOLERANCE.get(calibrator.name, 1e-5)
    _agree("shuffled samples", shuffled, _proba(_fit(calibrator, data), x), tolerance)


def check_weights_are_counts(calibrator: Calibrator) -> None:
    """A weight of 2 equals the sample twice, a weight of 0 leaves it out."""
    data, x = _samples(calibrator), _new_logits()
    weight = np.resize([2.0, 1.0, 1.0, 0.0, 1.0], len(data["y"]))
    repeated = np.repeat(np.arange(len(weight)), weight.astype(int))
    tolerance = _ORDER_TOLERANCE.get(calibrator.name, 1e-4)
    weighted = _proba(_fit(calibrator, data | {"sample_weight": weight}), x)
    _agree("weights", weighted, _proba(_fit(calibrator, _take(data, repeated)), x), tolerance)


def check_large_logits(calibrator: Calibrator) -> None:
    """Logits of 1e4, and ties, give finite probabilities, in `fit` too."""
    hard = np.zeros((4, _N_CLASSES))
    hard[:3] = [[1e4, -1e4, 0, 0, 0], [1e4, 1e4, 0, 0, 0], [-1e4] * 5]
    data, x = _samples(calibrator), _new_logits()
    fitted = _fit(calibrator, data)
    for dtype in (np.float32, np.float64):
        _check_distribution(_proba(fitted, hard.astype(dtype)))
    scale = 1e4 / np.abs(data["X"]).max()
    large = _fit(calibrator, data | {"X": data["X"] * scale})
    _check_distribution(_proba(large, x * scale))
    _check_distribution(_proba(large, hard))


def check_few_or_equal_samples(calibrator: Calibrator) -> None:
    """Few, tied, all right, all wrong, one class: probabilities or an InputError, never NaN."""
    data, x = _samples(calibrator), _new_logits()
    known, top = data["y"] >= 0, data["X"].argmax(axis=1)
    cases = {
        "one sample": _take(data, [0]),
        "three samples": _take(data, [0, 1, 2]),
        "one class": _take(data, data["y"] == 2),
        "all right": data | {"y": np.where(known, top, -1)},
        "all wrong": data | {"y": np.where(known, (top + 1) % _N_CLASSES, -1)},
        "constant logits": data | {"X": np.full_like(data["X"], 2.0)},
        "two different samples": _take(data, np.resize([0, 1], 60)),
        "logits of 1e30": data | {"X": data["X"].astype(np.float64) * 1e30},
    }
    for case, samples in cases.items():
        try:
            fitted = _fit(calibrator, samples)
        except InputError:
            continue
        _check_distribution(_proba(fitted, x), case)


def check_refit(calibrator: Calibrator) -> None:
    """A second `fit` forgets the first, which may have had other classes."""
    x = _new_logits()
    used = _fit(calibrator, _samples(calibrator, n_classes=7))
    with _without_warnings():
        used.fit(**_samples(calibrator))
    _agree("a fit after another one", _proba(used, x), _proba(_fit(calibrator), x))


def check_save_and_load(calibrator: Calibrator) -> None:
    """A saved and loaded calibrator has the same options, fit information and probabilities."""
    fitted, x = _fit(calibrator), _new_logits()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrator.json"
        save(fitted, path)
        loaded = load(path)
    assert type(loaded) is type(fitted), f"a {type(loaded).__name__} was loaded"
    for each in ("name", "input_", "fit_info_", "feature_names_in_"):
        _same(each, getattr(loaded, each), getattr(fitted, each))
    _same("repr", repr(loaded), repr(fitted))
    _agree("predict_proba", _proba(loaded, x), _proba(fitted, x))


def check_invalid_input(calibrator: Calibrator) -> None:
    """Wrong shapes, values and labels raise an InputError that names the argument."""
    data = _samples(calibrator)
    data = _take(data, data["y"] >= 0)
    n, x, y = len(data["y"]), data["X"], data["y"]
    with_nan, with_inf = x.copy(), x.copy()
    with_nan[7, 1], with_inf[3, 0] = np.nan, np.inf
    half = np.linspace(0.1, 0.9, n)
    shape = "X must have shape (n_samples, n_classes >= 2), got"
    wrong: list[tuple[Fit, str, str]] = [
        ({"X": x[:, 0]}, "X", f"{shape} ({n},)."),
        ({"X": x[:, :1]}, "X", f"{shape} ({n}, 1)."),
        ({"X": x[:0], "y": y[:0]}, "X", f"{shape} (0, 5)."),
        ({"X": with_nan}, "X", "X must be finite, got nan at index 7."),
        ({"X": with_inf}, "X", "X must be finite, got inf at index 3."),
        ({"X": np.c_[half, 1 - half], "y": y % 2}, "input", "X must be logits, got values in ["),
        ({"y": y[1:]}, "y", f"y must have one label per sample, got {n - 1} for {n} samples."),
        ({"y": y + 1}, "y", "y must lie in [0, 4], got [1, 5]."),
        ({"y": y - 2}, "y", "y must lie in [0, 4], got [-2, 2]."),
        ({"sample_weight": -y}, "sample_weight", "sample_weight must be finite, not negative"),
    ]
    for change, param, text in wrong:
        _raises(InputError, text, param, partial(clone(calibrator).fit, **data | change))
    fitted = _fit(calibrator, data)
    shape = "X must have shape (n_samples, 5), got"
    _raises(InputError, f"{shape} ({n}, 4).", "X", partial(_proba, fitted, x[:, :4]))
    _raises(InputError, f"{shape} (0, 5).", "X", partial(_proba, fitted, x[:0]))
    text = "X must be finite, got nan at index 7."
    _raises(InputError, text, "X", partial(_proba, fitted, with_nan))
    text = f"{type(calibrator).__name__} is not fitted; call fit(X, y) first."
    _raises(NotFittedError, text, None, partial(_proba, clone(calibrator), x))


def check_promises(calibrator: Calibrator) -> None:
    """`preserves_accuracy` and `uses_ood` hold."""
    x, data = _new_logits(), _samples(calibrator, ood=True)
    known = _fit(calibrator, _take(data, data["y"] >= 0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        everything = clone(calibrator).fit(**data)
    if calibrator.preserves_accuracy:
        for dtype in (np.float32, np.float64):
            predicted = everything.predict(x.astype(dtype), **_extra(everything, x))
            _agree("predict", predicted, x.argmax(axis=1))
    same = np.array_equal(_proba(everything, x), _proba(known, x))
    assert same != calibrator.uses_ood, f"OOD samples {'do not ' * same}change the fit"
    n_ood = int((data["y"] < 0).sum())
    told = sum(f"{n_ood} OOD samples" in str(w.message) for w in caught)
    assert told == (not calibrator.uses_ood), f"{told} warnings about OOD samples that are left out"


def check_sample_by_sample(calibrator: Calibrator) -> None:
    """Probabilities of a sample do not depend on the samples predicted with it."""
    n = 2 * BLOCK_ENTRIES // _N_CLASSES + 1000  # three blocks
    x = np.resize(_new_logits(), (n, _N_CLASSES)) + np.linspace(0, 1, n)[:, None]
    x[:, 0] += np.linspace(0, 1, n)
    fitted: Any = _fit(calibrator)
    if hasattr(fitted, "adapt"):  # for one window it is
        with _without_warnings():
            fitted = fitted.adapt(x)
    whole = _proba(fitted, x)
    for cuts in ([n // 2], [1, 2, 7], [n - 1]):
        parts = np.concatenate([_proba(fitted, part) for part in np.split(x, cuts)])
        _agree(f"samples cut at {cuts}", parts, whole, 1e-7)


def check_masked_classes(calibrator: Calibrator) -> None:
    """A class whose logit is -inf gets probability 0, and the others sum to one."""
    x, data = _new_logits(), _samples(calibrator)
    x[::2, 1], x[::3, 4], x[5] = -np.inf, -np.inf, [-np.inf] * 4 + [1.0]
    masked = data["X"].copy()
    masked[:, 1] = np.where(np.arange(len(masked)) % 9 == 0, -np.inf, masked[:, 1])
    for fitted in (_fit(calibrator), _fit(calibrator, data | {"X": masked})):
        for dtype in (np.float32, np.float64):
            proba = _proba(fitted, x.astype(dtype))
            _check_distribution(proba)
            _agree("masked classes", proba[np.isneginf(x)], 0.0)
            _agree("the only class", proba[5, 4], 1.0, 1e-6)


def check_params(calibrator: Calibrator) -> None:
    """`get_params`, `set_params`, `clone` and `repr` work, before and after `fit`."""
    fitted = _fit(calibrator)
    params = fitted.get_params(deep=False)
    _same("get_params", sorted(params), sorted(f.name for f in fields(fitted) if f.init))
    for copy in (clone(fitted), type(fitted)(**params), type(fitted)().set_params(**params)):
        assert not copy.is_fitted, "a copy by its options is fitted"
        _same("repr", repr(copy), repr(calibrator))
    assert repr(fitted).startswith(f"{type(fitted).__name__}("), f"repr is {fitted!r}"
    assert isinstance(fitted.describe(), str)
    text = f"{type(fitted).__name__} has no option 'no_such'"
    _raises(InputError, text, "no_such", partial(fitted.set_params, no_such=1))


def check_input_kinds(calibrator: Calibrator) -> None:
    """Logits, probabilities, their logarithms, binary scores and confidences are accepted."""
    data, x = _samples(calibrator), _new_logits().astype(np.float64)
    correct = data["X"].argmax(axis=1) == data["y"]
    kinds: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
        "proba": lambda z: softmax(np, np.where(z < z.max(axis=1)[:, None] - 9, -np.inf, z)),
        "log_proba": lambda z: log_softmax(np, z),
        "score": lambda z: z[:, 1] - z[:, 0],
        "confidence": lambda z: softmax(np, z).max(axis=1),
    }
    for kind, convert in kinds.items():
        y = {"score": np.minimum(data["y"], 1), "confidence": correct}.get(kind, data["y"])
        samples = data | {"X": convert(data["X"].astype(np.float64)), "y": y, "input": kind}
        if calibrator.requires_raw_logits and kind != "score":
            text = f"input must be 'logits' for {type(calibrator).__name__}, got {kind!r}"
            _raises(InputError, text, "input", partial(clone(calibrator).fit, **samples))
            continue
        proba = _proba(_fit(calibrator, samples), convert(x))
        if kind == "confidence":
            assert proba.shape == (len(x),), f"shape {proba.shape} with input='confidence'"
            proba = np.c_[1 - proba, proba]
        _check_distribution(proba, f"input={kind!r}")


CALIBRATOR_CHECKS: tuple[Callable[[Calibrator], None], ...] = tuple(
    each for name, each in list(globals().items()) if name.startswith("check_")
)
"""The contract: each function takes an unfitted calibrator and raises AssertionError."""


def check_calibrator(calibrator: Calibrator) -> None:
    """Run all checks of the contract; the first that fails raises AssertionError.

    Parameters
    ----------
    calibrator
        An unfitted calibrator, whose class is registered so that it can be loaded.

    Examples
    --------
    >>> from wildcal.core.registry import get_calibrator
    >>> check_calibrator(get_calibrator("ts"))
    """
    if not isinstance(calibrator, Calibrator):
        raise InputError(f"calibrator must be an instance, got {calibrator!r}.", "calibrator")
    for check in CALIBRATOR_CHECKS:
        try:
            check(calibrator)
        except Exception as error:
            what = f"{calibrator!r} fails {check.__name__} ({check.__doc__})"
            raise AssertionError(f"{what}: {error}") from error


def _samples(calibrator: Calibrator, *, n_classes: int = _N_CLASSES, ood: bool = False) -> Fit:
    """Return 400 samples, with OOD samples and domains if the method uses them or `ood` is true."""
    suite = make_suite(400, n_classes, seed=1)
    split = suite.calibration
    if not (ood or calibrator.uses_ood):
        split = Split(split.logits[:400], split.y[:400])
    data: Fit = {}
    if hasattr(calibrator, "adapt"):  # methods for windows are fitted on domains
        data["domain"] = np.r_[np.zeros(len(split.y), int), np.repeat(np.arange(1, 6), 80)]
        split = join(split, suite.shifted)
    return {"X": split.logits, "y": split.y, **data, **_extra(calibrator, split.logits)}


def _new_logits() -> NDArray[np.float32]:
    suite = make_suite(200, _N_CLASSES, seed=2)
    return join(suite.test, suite.shifted, suite.ood).logits


def _extra(calibrator: Calibrator, x: NDArray[Any]) -> Fit:
    """Return made-up distances to training samples if the method requires them."""
    if "knn_distances" not in calibrator.requires:
        return {}
    z = np.nan_to_num(np.asarray(x, np.float64).T, posinf=0, neginf=0)
    top, total = (z, 2 * z) if z.ndim == 1 else (z.max(axis=0), z.sum(axis=0))
    return {"knn_distances": 1 + np.sin(np.column_stack([top, total])) / 2}


def _take(data: Mapping[str, Any], samples: Any) -> Fit:
    return {name: column[samples] for name, column in data.items()}


def _fit(calibrator: Calibrator, data: Fit | None = None) -> Calibrator:
    """Return a fitted clone."""
    with _without_warnings():
        return clone(calibrator).fit(**(_samples(calibrator) if data is None else data))


def _proba(fitted: Calibrator, x: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities."""
    with _without_warnings():
        return np.asarray(fitted.predict_proba(x, **_extra(fitted, x)))


def _check_distribution(proba: NDArray[Any], what: str = "predict_proba") -> None:
    bad = np.flatnonzero(~((proba >= 0) & (proba <= 1)).all(axis=1))  # NaN too
    assert not len(bad), f"{what}: sample {bad[0]} has {proba[bad[0]]}, outside of [0, 1]"
    _agree(f"{what}: sums", proba.sum(axis=1, dtype=np.float64), 1.0, 1e-5)


def _agree(what: str, found: Any, expected: Any, tolerance: float = 0.0) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, err_msg=what)


def _same(what: str, found: Any, expected: Any) -> None:
    # repr, because NaN differs from itself
    assert repr(found) == repr(expected), f"{what} is {found!r}, not {expected!r}"


def _raises(kind: type[Exception], text: str, param: str | None, call: Callable[[], Any]) -> None:
    """Raise unless the call raises an error that starts with `text` and names the argument."""
    with np.testing.assert_raises_regex(kind, f"^{re.escape(text)}") as caught:
        call()
    found = getattr(caught.exception, "param", None)
    assert found == param, f"the error is about {found!r}, not {param!r}: {caught.exception}"
