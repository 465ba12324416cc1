"""Public test helpers: a seeded synthetic suite, and the checks every calibrator must pass.

To hold your own calibrator to the contract::

    from wildcal._old.testing import check_calibrator
    check_calibrator(MyCalibrator)
"""

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.errors import CalibrationWarning, NotFittedError
from wildcal._old.core.rows import Rows
from wildcal._old.io.artifact import load, save


class Split(NamedTuple):
    """Logits of shape (n, K) and their labels, -1 on out-of-distribution rows."""

    logits: NDArray[np.float32]
    y: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SyntheticSuite:
    """Logits that behave like an overconfident network's: clean, shifted and OOD rows."""

    tuning: Split
    """Held-out clean rows, followed by some out-of-distribution rows with label -1."""
    clean: Split
    shifted: Split
    """Severities 1 to 5, equally many rows each, in this order."""
    ood: Split


def make_suite(
    seed: int = 0,
    *,
    n_classes: int = 10,
    n_tuning: int = 5000,
    n_ood_tuning: int = 250,
    n_test: int = 5000,
) -> SyntheticSuite:
    """Return a seeded synthetic suite.

    A row is noise plus a signal at its class. Shift weakens the signal much more than it shrinks
    the logits, and out-of-distribution rows have no signal but still some spread: the two habits
    of real networks that make them overconfident away from home.
    """
    rng = np.random.default_rng(seed)

    def rows(n: int, severity: float) -> Split:
        y = rng.integers(0, n_classes, n)
        signal = rng.normal(4.2 - 0.62 * severity, 1.6, n)
        z = rng.normal(0.0, 1.0, (n, n_classes))
        z[np.arange(n), y] += signal
        return Split((3.4 * (1 - 0.03 * severity) * z + 0.5).astype(np.float32), y)

    def ood(n: int) -> Split:
        spread = rng.uniform(0.8, 1.4, (n, 1))
        z = 3.0 * spread * rng.normal(0.0, 1.0, (n, n_classes)) + 0.5
        return Split(z.astype(np.float32), np.full(n, -1))

    shifted = [rows(n_test // 5, severity) for severity in range(1, 6)]
    return SyntheticSuite(
        tuning=join(rows(n_tuning, 0), ood(n_ood_tuning)),
        clean=rows(n_test, 0),
        shifted=join(*shifted),
        ood=ood(n_test // 5),
    )


def join(*splits: Split) -> Split:
    """Return several splits as one, rows in order."""
    return Split(np.concatenate([s.logits for s in splits]), np.concatenate([s.y for s in splits]))


Make = Callable[[], Calibrator]


def made_up_distances(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return two numbers of each row that no order of classes and no constant changes.

    They stand for distances to training rows, so that methods that read those can be checked.
    """
    z = np.asarray(logits, np.float64)
    if z.ndim != 2 or z.shape[1] < 2 or not np.isfinite(z.max(axis=1)).all():
        return np.zeros((len(z), 2))  # the logits will be refused first
    below = np.sort(np.minimum(z.max(axis=1, keepdims=True) - z, 50.0), axis=1)
    return np.asarray(1 / (1 + np.column_stack([below[:, 1], below.mean(axis=1)])))


def _beside(calibrator: Calibrator, logits: NDArray[Any]) -> dict[str, Any]:
    """Return what a method wants to read beside the logits."""
    reads_distances = "distances" in calibrator.reads
    return {"distances": made_up_distances(logits)} if reads_distances else {}


def _proba(calibrator: Calibrator, logits: NDArray[Any]) -> NDArray[Any]:
    return calibrator.predict_proba(logits, **_beside(calibrator, logits))


def _confidence(calibrator: Calibrator, logits: NDArray[Any]) -> NDArray[Any]:
    return calibrator.confidence(logits, **_beside(calibrator, logits))


class _Tuning(NamedTuple):
    """Rows to fit on, and where the method reads them, their environments."""

    logits: NDArray[Any]
    y: NDArray[np.int64]
    environment: NDArray[np.int64] | None = None

    def at(self, dtype: Any) -> "_Tuning":
        """Return the same rows in another precision."""
        return self._replace(logits=self.logits.astype(dtype))

    def take(self, rows: NDArray[Any]) -> "_Tuning":
        """Return some of the rows."""
        return _Tuning(*(None if column is None else column[rows] for column in self))  # type: ignore[arg-type]

    def fit(self, make: Make, **options: Any) -> Calibrator:
        """Fit, with warnings about the data silenced: these checks provoke them on purpose."""
        if self.environment is not None:
            options["environment"] = self.environment
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            calibrator = make()
            return calibrator.fit(
                self.logits, self.y, **_beside(calibrator, self.logits), **options
            )


def _tunings(make: Make, n: int = 400, n_classes: int = 5, seed: int = 1) -> list[_Tuning]:
    """Return rows to fit on; where the method accepts environments, also some with them."""
    suite = make_suite(seed, n_classes=n_classes, n_tuning=n, n_ood_tuning=n // 8, n_test=n)
    clean = np.where(suite.tuning.y >= 0, 0, 6)
    everything = _Tuning(
        *join(suite.tuning, suite.shifted), np.r_[clean, 1 + np.repeat(np.arange(5), n // 5)]
    )
    plain = _Tuning(*suite.tuning)
    if not make().accepts_ood:
        plain, everything = (data.take(data.y >= 0) for data in (plain, everything))
    return [plain, everything] if "environment" in make().reads else [plain]


def _unseen(n_classes: int = 5, n: int = 300) -> NDArray[np.float32]:
    suite = make_suite(2, n_classes=n_classes, n_tuning=10, n_ood_tuning=5, n_test=n)
    return np.concatenate([suite.clean.logits, suite.shifted.logits, suite.ood.logits])


def _agree(
    what: str, found: NDArray[Any], expected: Any, *, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Raise an AssertionError that names the farthest entry and both its values."""
    wanted = np.broadcast_to(np.asarray(expected), np.shape(found))
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.asarray(found, np.float64) - np.asarray(wanted, np.float64))
        beyond = ~(apart <= atol + rtol * np.abs(np.asarray(wanted, np.float64)))
    if not beyond.any():
        return
    worst = np.unravel_index(int(np.where(beyond, np.nan_to_num(apart, nan=np.inf), -1).argmax()),
                             beyond.shape)  # fmt: skip
    allowed = f", at most {atol or rtol:.3g} apart" if atol or rtol else " exactly"
    raise AssertionError(
        f"{what}: {_where(worst)} is {float(found[worst])!r} where"
        f" {float(wanted[worst])!r} was expected{allowed};"
        f" {int(beyond.sum())} of {beyond.size} entries differ."
    )


def _where(place: tuple[Any, ...]) -> str:
    """Return an index in words."""
    return ", ".join(f"{name} {int(i)}" for name, i in zip(("row", "class"), place, strict=False))


def _check_distribution(what: str, proba: NDArray[Any]) -> None:
    """Raise unless rows lie in [0, 1] and sum to one."""
    inside = (proba >= 0) & (proba <= 1)  # False for NaN
    if not inside.all():
        place = tuple(np.argwhere(~inside)[0])
        raise AssertionError(
            f"{what}: {_where(place)} is {float(proba[place])!r}, no probability from 0 to 1."
        )
    _agree(f"{what}, sums of rows", proba.sum(axis=1, dtype=np.float64), 1.0, atol=1e-5)


def check_output_is_a_distribution(make: Make) -> None:
    """Rows lie in [0, 1] and sum to one; shape and dtype are those of the logits."""
    for data in _tunings(make):
        for dtype in (np.float32, np.float64):
            x = _unseen().astype(dtype)
            proba = _proba(data.at(dtype).fit(make), x)
            assert proba.shape == x.shape, f"shape {proba.shape} of logits of shape {x.shape}."
            assert proba.dtype == dtype, f"dtype {proba.dtype} of logits of {np.dtype(dtype)}."
            _check_distribution("predict_proba", proba)


def check_confidence_is_that_of_the_predicted_class(make: Make) -> None:
    """`confidence` equals the column of `predict_proba` that the raw logits choose."""
    x = _unseen()
    pred = x.argmax(axis=1)
    for data in _tunings(make):
        calibrator = data.fit(make)
        _agree("predict", calibrator.predict(x), pred)
        expected = _proba(calibrator, x)[np.arange(len(x)), pred]
        _agree("confidence", _confidence(calibrator, x), expected, rtol=1e-5, atol=1e-7)


def check_inputs_are_not_written_to(make: Make) -> None:
    """Read-only arrays go in; nothing complains and nothing changes."""
    x = _unseen()
    before = x.copy()
    for data in _tunings(make):
        for array in (x, *data):
            if array is not None:
                array.setflags(write=False)
        calibrator = data.fit(make)
        _proba(calibrator, x)
        _confidence(calibrator, x)
        _agree("the logits after predict_proba", x, before)


def check_fit_is_deterministic(make: Make) -> None:
    """Check that the same data gives the same fit."""
    x = _unseen()
    for data in _tunings(make):
        expected = _proba(data.fit(make), x)
        _agree("a second fit", _proba(data.fit(make), x), expected)
        for other in _tunings(make, seed=9, n_classes=7):
            used = other.fit(make)
            again = data.fit(lambda used=used: used)  # type: ignore[misc]
            _agree("a fit after one on other rows", _proba(again, x), expected)


def check_row_order_is_irrelevant(make: Make) -> None:
    """Shuffling the tuning rows changes nothing beyond rounding."""
    x = _unseen().astype(np.float64)
    for data in _tunings(make):
        order = np.random.default_rng(0).permutation(len(data.y))
        _agree(
            "shuffled rows",
            _proba(data.at(np.float64).take(order).fit(make), x),
            _proba(data.at(np.float64).fit(make), x),
            atol=1e-6,
        )


def check_class_order_is_irrelevant(make: Make) -> None:
    """Permuting the classes permutes the output."""
    x = _unseen().astype(np.float64)
    order = np.array([3, 0, 4, 1, 2])
    where = np.append(np.argsort(order), -1)  # the last entry sends label -1 to itself
    for data in _tunings(make):
        data = data.at(np.float64)
        permuted = data._replace(logits=data.logits[:, order], y=where[data.y]).fit(make)
        _agree(
            "permuted classes",
            _proba(permuted, x[:, order]),
            _proba(data.fit(make), x)[:, order],
            atol=1e-5,
        )


def check_environment_numbers_are_names(make: Make) -> None:
    """Which shifted environment has which number is irrelevant; 0 is the clean one."""
    x = _unseen().astype(np.float64)
    for data in _tunings(make):
        if data.environment is None:
            continue
        data = data.at(np.float64)
        renamed = np.array([0, 40, 3, 10**12, 1, 2, 7])[data.environment]
        _agree(
            "other numbers",
            _proba(data._replace(environment=renamed).fit(make), x),
            _proba(data.fit(make), x),
            atol=1e-6,
        )


def check_weight_two_is_a_row_twice(make: Make) -> None:
    """Doubling some rows equals giving them weight 2."""
    x = _unseen().astype(np.float64)
    for data in _tunings(make):
        data = data.at(np.float64)
        weight = np.ones(len(data.y))
        weight[::3] = 2
        doubled = np.repeat(np.arange(len(weight)), weight.astype(int))
        _agree(
            "weight 2",
            _proba(data.fit(make, sample_weight=weight), x),
            _proba(data.take(doubled).fit(make), x),
            atol=1e-5,
        )


def check_rows_do_not_depend_on_each_other(make: Make) -> None:
    """Predicting in pieces of any size, or a row alone, gives the same result."""
    x = _unseen()
    for data in _tunings(make):
        calibrator = data.fit(make)
        whole = _proba(calibrator, x)
        # Matrix products may round by batch size.
        exact = _temperature_is_known(calibrator, x)
        for cuts in ([1, 2, 3, 10], [len(x) - 1], [250]):
            pieces = np.concatenate([_proba(calibrator, p) for p in np.split(x, cuts)])
            what = f"rows cut at {', '.join(map(str, cuts))}"
            _agree(what, pieces, whole, atol=0 if exact else 1e-6)


def check_layout_and_precision_hardly_matter(make: Make) -> None:
    """float16, float32, float64, Fortran order and strided views agree within float error."""
    x = _unseen().astype(np.float16).astype(np.float32)
    strided = np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3]
    for data in _tunings(make):
        data = data.at(np.float16).at(np.float32)  # so that all precisions hold it
        expected = _proba(data.fit(make), x)
        for dtype in (np.float16, np.float64):
            calibrator = data.at(dtype).fit(make)
            variants: dict[str, NDArray[Any]] = {
                "float16": x.astype(np.float16),
                "float64": x.astype(np.float64),
                "Fortran order": np.asfortranarray(x),
                "a strided view": strided,
            }
            for what, variant in variants.items():
                _agree(what, _proba(calibrator, variant), expected, rtol=1e-7, atol=2e-4)


def check_huge_logits_stay_finite(make: Make) -> None:
    """Logits of 1e4, ties, and classes ruled out with -inf give finite probabilities."""
    hard = np.array(
        [
            [1e4, -1e4, 0, 0, 0],
            [1e4, 1e4, 0, 0, 0],
            [0, 0, 0, 0, 0],
            [-1e4, -1e4, -1e4, -1e4, -1e4],
            [3, 1, -np.inf, 0, -np.inf],
        ],
        np.float32,
    )
    for data in _tunings(make):
        calibrator = data.fit(make)
        for dtype in (np.float32, np.float64):
            proba = _proba(calibrator, hard.astype(dtype))
            _check_distribution("logits up to 1e4", proba)
        huge = data._replace(logits=data.logits * 1e3).fit(make)
        _check_distribution("fitted on logits times 1000", _proba(huge, _unseen() * 1e3))


def check_degenerate_tuning_sets(make: Make) -> None:
    """All correct, all wrong, one class only, one row, all logits equal: finite output."""
    x = _unseen()
    for data in _tunings(make):
        known = data.y >= 0
        pred = data.logits.argmax(axis=1)
        cases = {
            "all correct": data._replace(y=np.where(known, pred, data.y)),
            "all wrong": data._replace(y=np.where(known, (pred + 1) % 5, data.y)),
            "one class": data.take(data.y == 2),
            "one row": data.take(np.array([0])),
            "all logits equal": data._replace(logits=np.full_like(data.logits, 2.0)),
        }
        for what, case in cases.items():
            _check_distribution(what, _proba(case.fit(make), x))


def check_saved_and_loaded_is_the_same(make: Make) -> None:
    """Check that a round trip through a file gives the same output."""
    x = _unseen()
    for data in _tunings(make):
        calibrator = data.fit(make)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "calibrator.json"
            save(calibrator, path)
            loaded = load(path)
        assert type(loaded) is type(calibrator), f"a {type(loaded).__name__} came back."
        assert loaded.fit_ == calibrator.fit_, f"fit_ was {calibrator.fit_}, is {loaded.fit_}."
        for option in fields(calibrator):  # type: ignore[arg-type]  # calibrators are dataclasses
            if option.init and not isinstance(getattr(loaded, option.name), Calibrator):
                old, new = getattr(calibrator, option.name), getattr(loaded, option.name)
                assert new == old, f"{option.name} was {old!r}, is {new!r}."
        _agree("predict_proba", _proba(loaded, x), _proba(calibrator, x))
        _agree("confidence", _confidence(loaded, x), _confidence(calibrator, x))


def check_bad_input_is_refused(make: Make) -> None:
    """Wrong shapes, values and labels raise errors that name what was wrong."""
    data = _tunings(make)[0]
    logits, known = data.logits, np.where(data.y < 0, 0, data.y)
    fitted = data._replace(y=known).fit(make)
    spoiled = logits.copy()
    spoiled[7, 1] = np.nan
    proba = np.full((20, 5), 0.2)
    zeros = np.zeros_like(known)

    def fit(z: NDArray[Any], y: NDArray[Any], **options: Any) -> Calibrator:
        calibrator = make()
        return calibrator.fit(z, y, **_beside(calibrator, np.atleast_2d(z)), **options)

    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: fit(logits[0], known), "shape"),
        (lambda: fit(logits[:, :1], known), "shape"),
        (lambda: fit(logits[:0], known[:0]), "at least one row"),
        (lambda: fit(spoiled, known), "row 7 holds NaN"),
        (lambda: fit(np.where(np.isnan(spoiled), np.inf, spoiled), known), "+inf"),
        (lambda: fit(logits, known[:-1]), "one label per row"),
        (lambda: fit(logits, np.where(known == 4, 5, known)), "must lie in"),
        (lambda: fit(logits, np.where(known == 4, -2, known)), "must lie in"),
        (lambda: fit(logits, known.astype(str)), "integers"),
        (lambda: fit(proba, known[:20]), "probabilities"),
        (lambda: fit(logits, known, sample_weight=-np.ones(len(known))), "negative"),
        (lambda: _proba(fitted, logits[:, :4]), "5 columns"),
        (lambda: _proba(fitted, spoiled), "row 7 holds NaN"),
        (lambda: fit(logits, known, environment=zeros[1:]), "environment must have shape"),
        (lambda: fit(logits, known, environment=zeros * 0.5), "must be integers"),
        (lambda: fit(logits, known, environment=zeros - 1), "must not be negative"),
        (lambda: fit(logits, known, environment=zeros + 1), "environment 0"),
    ]
    if not make().accepts_ood:
        refusals.append((lambda: fit(logits, np.where(known == 0, -1, known)), "drop y"))
    if "environment" not in make().reads:
        refusals.append((lambda: fit(logits, known, environment=zeros), "does not read"))
    for call, text in refusals:
        _expect(ValueError, text, call)
    _expect(NotFittedError, "call fit", lambda: _proba(make(), logits))


def check_promises_are_kept(make: Make) -> None:
    """`preserves_accuracy` and `shift_invariant` hold where they are declared."""
    x = _unseen().astype(np.float64)
    for data in _tunings(make):
        calibrator = data.at(np.float64).fit(make)
        proba = _proba(calibrator, x)
        if calibrator.preserves_accuracy:
            chosen = proba[np.arange(len(x)), x.argmax(axis=1)]
            _agree("preserves_accuracy, the top class", chosen, proba.max(axis=1))
        if calibrator.shift_invariant:
            shift = np.random.default_rng(0).normal(0, 5, (len(x), 1))
            moved = _proba(calibrator, x + shift)
            _agree("shift_invariant, a constant added", moved, proba, rtol=1e-7, atol=1e-9)


def check_windows_are_read_together(make: Make) -> None:
    """In windows, by number or as contexts, rows say the same; odd windows have an answer."""
    x = _unseen(n=200).astype(np.float64)
    odd = {
        "one row": x[:1],
        "equal rows": x[[3] * 20],
        "fewer rows than classes": x[:3],
        "one class": x[x.argmax(axis=1) == 1],
        "all logits equal": np.full((9, x.shape[1]), 2.0),
        "classes ruled out": np.where(np.arange(x.shape[1]) < 3, x, -np.inf)[:40],
    }
    spoiled = x.copy()
    spoiled[7, 1] = np.nan
    for data in _tunings(make) if "window" in make().reads else []:
        calibrator = data.at(np.float64).fit(make)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            window = np.arange(len(x)) % 2
            rows = Rows(x, window=window, **_beside(calibrator, x))
            both = calibrator.bind(rows).confidences()
            for number in (0, 1):
                mine = x[window == number]
                proba, confidence = _in_window(calibrator, mine)
                np.testing.assert_array_equal(both[window == number], confidence)
                turned, _ = _in_window(calibrator, mine[::-1])
                np.testing.assert_allclose(turned[::-1], proba, atol=1e-6)
            for what, some in odd.items():
                proba, _ = _in_window(calibrator, some)
                assert np.isfinite(proba).all(), what
                np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-5, err_msg=what)
        _expect(ValueError, "row 7 holds NaN", lambda c=calibrator: _in_window(c, spoiled))  # type: ignore[misc]


def _in_window(calibrator: Calibrator, logits: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return probabilities and confidences of rows that are each other's window."""
    beside = _beside(calibrator, logits)
    around = calibrator.context(logits, **beside)
    return (
        calibrator.predict_proba(logits, context=around, **beside),
        calibrator.confidence(logits, context=around, **beside),
    )


def _temperature_is_known(calibrator: Calibrator, logits: NDArray[Any]) -> bool:
    rows = Rows(logits, **_beside(calibrator, logits))
    return calibrator.bind(rows).temperature is not None


def _expect(kind: type[Exception], text: str, call: Callable[[], object]) -> None:
    try:
        call()
    except kind as error:
        if text not in str(error):
            raise AssertionError(f"expected a message with {text!r}, got {error}") from error
    else:
        raise AssertionError(f"expected a {kind.__name__} with {text!r}; nothing was raised")


CALIBRATOR_CHECKS: tuple[Callable[[Make], None], ...] = (
    check_output_is_a_distribution,
    check_confidence_is_that_of_the_predicted_class,
    check_inputs_are_not_written_to,
    check_fit_is_deterministic,
    check_row_order_is_irrelevant,
    check_class_order_is_irrelevant,
    check_environment_numbers_are_names,
    check_weight_two_is_a_row_twice,
    check_rows_do_not_depend_on_each_other,
    check_layout_and_precision_hardly_matter,
    check_huge_logits_stay_finite,
    check_degenerate_tuning_sets,
    check_saved_and_loaded_is_the_same,
    check_bad_input_is_refused,
    check_promises_are_kept,
    check_windows_are_read_together,
)


def check_calibrator(make: Make) -> None:
    """Run every contract check on a calibrator class, or on a function that makes one.

    The first promise that does not hold raises an AssertionError that names it, with the values.
    """
    for check in CALIBRATOR_CHECKS:
        try:
            check(make)
        except Exception as error:
            broken = isinstance(error, AssertionError)
            what = str(error) if broken else f"it raised {type(error).__name__}: {error}"
            promise = check.__name__.removeprefix("check_").replace("_", " ")
            meaning = str(check.__doc__).splitlines()[0]
            raise AssertionError(
                f"{getattr(make, '__name__', 'the calibrator')} breaks a promise, {promise!r}."
                f" {meaning} But: {what}"
            ) from (None if broken else error)
