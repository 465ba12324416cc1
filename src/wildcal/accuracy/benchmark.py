"""Test accuracy estimators on the shifted calibration splits of a suite."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from zlib import crc32

import numpy as np
from scipy.stats import spearmanr

from wildcal.accuracy.base import AccuracyEstimator, get_estimator
from wildcal.core.arrays import IntArray
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.core.registry import ESTIMATORS
from wildcal.core.validation import check_choice

SETTINGS: Final[Mapping[str, tuple[int | None, float | None]]] = {
    "whole": (None, None),
    "512": (512, None),
    "128": (128, None),
    "32": (32, None),
    "dirichlet-1": (256, 1.0),
    "dirichlet-0.3": (256, 0.3),
}
"""Windows: number of samples, and concentration of the class frequencies if they change."""


@dataclass(frozen=True)
class EstimatedWindow:
    """An estimate and the true accuracy of one window."""

    estimator: str
    setting: str
    split: str
    n_samples: int
    value: float
    low: float
    high: float
    accuracy: float
    warned: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def benchmark_estimators(
    suite: Any,
    estimators: Sequence[str] | None = None,
    *,
    settings: Sequence[str] = ("whole", "128"),
    second_suite: Any = None,
    n_draws: int = 2,
    use_domains: bool = True,
    seed: int = 0,
    progress: Callable[[str], object] | None = None,
) -> list[EstimatedWindow]:
    """Return the estimates for windows of the shifted calibration splits of a suite.

    Each kind of shift (a corruption, or a domain) is estimated after a fit on the source and the
    splits of all other kinds. Test splits are not used.

    Parameters
    ----------
    suite
        A `Suite` with shifted calibration splits of at least two kinds.
    estimators
        Names of estimators. Default: all that can be fitted.
    settings
        Names of `SETTINGS`.
    second_suite
        A suite of another network with the same samples, for GDE.
    n_draws
        Windows of each size from a split.
    use_domains
        Fit on the source and the other splits; False: on the source alone.
    seed
        Seed of the windows.
    progress
        Called with a description of each step.
    """
    names = list(ESTIMATORS) if estimators is None else list(estimators)
    chosen = {name: get_estimator(name) for name in names}
    if second_suite is None and estimators is None:
        chosen = {n: e for n, e in chosen.items() if not e.requires_second_logits}
    for setting in settings:
        check_choice("settings", setting, tuple(SETTINGS))
    splits = [s for s in suite.calibration if s.is_shifted]
    kinds = list(dict.fromkeys(_kind(s) for s in splits))
    if len(kinds) < 2:
        raise InputError(
            "suite must have shifted calibration splits of at least two kinds, got"
            f" {len(kinds)}. Try `extract` with validation corruptions.",
            "suite",
        )
    source = [s for s in suite.calibration if s.is_source]
    found: list[EstimatedWindow] = []
    for kind in kinds:
        parts = [*source, *(s for s in splits if use_domains and _kind(s) != kind)]
        X, y = (np.concatenate([np.asarray(getattr(s, k)) for s in parts]) for k in ("logits", "y"))
        domain = np.repeat(
            ["source" if s.is_source else s.name for s in parts], [s.n_samples for s in parts]
        )
        for name, unfitted in chosen.items():
            if progress is not None:
                progress(f"{name} without {kind}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)
                estimator = unfitted.fit(X, y, domain=domain)
            for split in (s for s in splits if _kind(s) == kind):
                found += _windows(name, estimator, split, settings, second_suite, n_draws, seed)
    return found


def summarize(windows: Sequence[EstimatedWindow]) -> list[dict[str, Any]]:
    """Return a row for each setting and estimator, with the smallest error first.

    `mae` is the mean of |value - accuracy|, `worst` the largest, `bias` the mean of value -
    accuracy, `spearman` their rank correlation, `coverage` the share of intervals that contain the
    accuracy, `width` their mean width, `warned` the share of windows with a warning.
    """
    groups: dict[tuple[str, str], list[EstimatedWindow]] = {}
    for window in windows:
        groups.setdefault((window.setting, window.estimator), []).append(window)
    rows = []
    for (setting, name), some in groups.items():
        value, truth = np.array([(w.value, w.accuracy) for w in some]).T
        varies = np.ptp(value) > 0 and np.ptp(truth) > 0
        rows.append(
            {
                "setting": setting,
                "estimator": name,
                "n_windows": len(some),
                "mae": float(np.abs(value - truth).mean()),
                "worst": float(np.abs(value - truth).max()),
                "bias": float((value - truth).mean()),
                "spearman": float(spearmanr(value, truth).statistic) if varies else 0.0,
                "coverage": float(np.mean([w.low <= w.accuracy <= w.high for w in some])),
                "width": float(np.mean([w.high - w.low for w in some])),
                "warned": float(np.mean([w.warned for w in some])),
            }
        )
    order = list(SETTINGS)
    return sorted(rows, key=lambda row: (order.index(row["setting"]), row["mae"]))


def draw_window(y: IntArray, setting: str, rng: np.random.Generator) -> IntArray:
    """Return the indices of the samples of a window.

    With the frequencies of y samples are drawn without replacement, else with replacement.
    """
    size, concentration = SETTINGS[setting]
    if size is None or (concentration is None and size >= len(y)):
        return np.arange(len(y))
    if concentration is None:
        return np.sort(rng.permutation(len(y))[:size])
    classes = np.unique(y)
    counts = rng.multinomial(size, rng.dirichlet(np.full(len(classes), concentration)))
    drawn = [rng.choice(np.flatnonzero(y == k), c) for k, c in zip(classes, counts, strict=True)]
    return np.sort(np.concatenate(drawn))


def _windows(
    name: str,
    estimator: AccuracyEstimator,
    split: Any,
    settings: Sequence[str],
    second_suite: Any,
    n_draws: int,
    seed: int,
) -> Iterator[EstimatedWindow]:
    X, y = np.asarray(split.logits), np.asarray(split.y)
    second = None
    if estimator.requires_second_logits and second_suite is not None:
        other = second_suite.split(split.name)
        if not np.array_equal(y, np.asarray(other.y)):
            raise InputError(
                f"second_suite must have the samples of the suite in {split.name}, got other"
                " labels.",
                "second_suite",
            )
        second = np.asarray(other.logits)
    for setting in settings:
        rng = np.random.default_rng([seed, crc32(f"{split.name} {setting}".encode())])
        for _ in range(1 if SETTINGS[setting][0] is None else n_draws):
            i = draw_window(y, setting, rng)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", CalibrationWarning)
                more = None if second is None else second[i]
                e = estimator.estimate(X[i], second_logits=more)
            accuracy = float((X[i].argmax(axis=1) == y[i]).mean())
            yield EstimatedWindow(
                name, setting, split.name, len(i), e.value, e.low, e.high, accuracy, bool(caught)
            )


def _kind(split: Any) -> str:
    return str(split.corruption or split.domain)
