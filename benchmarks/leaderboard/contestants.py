"""The contestants: our calibrators and those of other libraries.

Each is a function of calibration scores, their labels and test scores that returns probabilities.
Ours take the scores as the model returns them, others take probabilities, which is what they want;
scikit-learn takes log probabilities as a decision function, with which its sigmoid is better.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from wildcal import CALIBRATORS, get_calibrator

Contestant: TypeAlias = Callable[["Scores", Any, "Scores"], Any]

# They need distances or a window of test samples.
_LEFT_OUT: Final = ("identity", "dac", "window", "matching", "label-shift", "match")
BASELINE: Final = "uncalibrated"


class NotForThisData(Exception):
    """The method is for two classes only, or for logits only."""


class Scores(NamedTuple):
    """Scores of samples: as the model returns them ("logits" or "proba"), and as probabilities."""

    X: Any
    input: str
    proba: Any

    def __getitem__(self, rows: Any) -> "Scores":
        return Scores(self.X[rows], self.input, self.proba[rows])

    @property
    def has_energy(self) -> bool:
        """Whether the scores have a free energy: that of log-probabilities is 0."""
        energy = -np.logaddexp.reduce(self.X[:1000], axis=1)
        return self.input == "logits" and bool((np.abs(energy) > 0.1).any())


def _ours(name: str) -> Contestant:
    def run(scores: Scores, y: Any, test: Scores) -> Any:
        calibrator = get_calibrator(name)
        if calibrator.requires_raw_logits and not scores.has_energy:
            raise NotForThisData
        return calibrator.fit(scores.X, y, input=scores.input).predict_proba(test.X)

    return run


def _peer(function: Callable[[Any, Any, Any], Any]) -> Contestant:
    """Return a contestant from a function of probabilities."""

    def run(scores: Scores, y: Any, test: Scores) -> Any:
        return function(scores.proba, y, test.proba)

    return run


def _sklearn(method: str) -> Contestant:
    @_peer
    def run(p: Any, y: Any, q: Any) -> Any:
        from sklearn.base import BaseEstimator, ClassifierMixin
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        class Scores(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
            classes_ = np.arange(p.shape[1])

            def fit(self, X: Any, y: Any) -> "Scores":
                return self

            def predict(self, X: Any) -> Any:
                return self.classes_[X.argmax(axis=1)]

            def decision_function(self, X: Any) -> Any:
                logs = np.log(X)
                return logs[:, 1] - logs[:, 0] if X.shape[1] == 2 else logs

            def __sklearn_is_fitted__(self) -> bool:
                return True

        model = CalibratedClassifierCV(FrozenEstimator(Scores()), method=method)
        return model.fit(p, y).predict_proba(q)

    return run


def _netcal(package: str, name: str) -> Contestant:
    @_peer
    def run(p: Any, y: Any, q: Any) -> Any:
        from importlib import import_module

        model = getattr(import_module(f"netcal.{package}"), name)()
        # Of two classes netcal takes the probability of the second.
        p, q = (p[:, 1], q[:, 1]) if p.shape[1] == 2 else (p, q)
        return _both(model.fit(p, y).transform(q))

    return run


def _probmetrics(name: str, **options: Any) -> Contestant:
    @_peer
    def run(p: Any, y: Any, q: Any) -> Any:
        from probmetrics.calibrators import get_calibrator as get

        return get(name, **options).fit(p, y).predict_proba(q)

    return run


def _probmetrics_class(name: str, **options: Any) -> Contestant:
    @_peer
    def run(p: Any, y: Any, q: Any) -> Any:
        from probmetrics import calibrators

        return getattr(calibrators, name)(**options).fit(p, y).predict_proba(q)

    return run


def _binary(fit: Callable[[Any, Any, Any], Any]) -> Contestant:
    """Return a contestant from a function of the second class's probabilities."""

    @_peer
    def run(p: Any, y: Any, q: Any) -> Any:
        if p.shape[1] != 2:
            raise NotForThisData
        return _both(fit(p[:, 1], y, q[:, 1]))

    return run


def _for_two(name: str) -> Contestant:
    def run(p: Any, y: Any, q: Any) -> Any:
        from probmetrics import calibrators

        columns = np.stack([1 - p, p], axis=1), np.stack([1 - q, q], axis=1)
        return getattr(calibrators, name)().fit(columns[0], y).predict_proba(columns[1])

    return _binary(run)


def _both(proba: Any) -> Any:
    """Return two columns for the probability of the second class."""
    proba = np.asarray(proba, np.float64)
    return proba if proba.ndim == 2 else np.stack([1 - proba, proba], axis=1)


def _betacal(p: Any, y: Any, q: Any) -> Any:
    from betacal import BetaCalibration

    return BetaCalibration("abm").fit(p[:, None], y).predict(q[:, None])


def _probcal(name: str) -> Contestant:
    def run(p: Any, y: Any, q: Any) -> Any:
        import probcal

        found = getattr(probcal, name)().fit(p, y).predict_proba(q)
        return np.asarray(found)[:, 1] if np.ndim(found) == 2 else found

    return _binary(run)


def _calibre(p: Any, y: Any, q: Any) -> Any:
    from calibre import ISplineCalibrator

    return np.clip(ISplineCalibrator().fit(p, y).transform(q), 0, 1)


@_peer
def _venn_abers(p: Any, y: Any, q: Any) -> Any:
    from venn_abers import VennAbersCalibrator

    return VennAbersCalibrator().predict_proba(p_cal=p, y_cal=y, p_test=q)


@_peer
def _platt_binner(p: Any, y: Any, q: Any) -> Any:
    from calibration import PlattBinnerMarginalCalibrator

    model = PlattBinnerMarginalCalibrator(len(y), num_bins=10)
    model.train_calibration(p, y)
    found = np.asarray(model.calibrate(q))
    return found / found.sum(axis=1, keepdims=True)  # classes one by one: the sum is not 1


OURS: Final[dict[str, Contestant]] = {
    name: _ours(name) for name in CALIBRATORS if name not in _LEFT_OUT
}
FAST_PEERS: Final[dict[str, Contestant]] = {
    **{f"sklearn {m}": _sklearn(m) for m in ("sigmoid", "isotonic", "temperature")},
    "netcal temperature": _netcal("scaling", "TemperatureScaling"),
    "netcal histogram": _netcal("binning", "HistogramBinning"),
    "netcal isotonic": _netcal("binning", "IsotonicRegression"),
    "netcal bbq": _netcal("binning", "BBQ"),
    "probmetrics ts": _probmetrics("temp-scaling"),
    "probmetrics ts-mix": _probmetrics("ts-mix"),
    "probmetrics logistic-mix": _probmetrics("logistic-mix"),
    "probmetrics svs": _probmetrics("svs", svs_print_init_info=False),
    "probmetrics sms": _probmetrics("sms", sms_print_init_info=False),
    "probmetrics ets": _probmetrics_class("ETSCalibrator"),
    "probmetrics cdf-spline": _for_two("CDFSplineCalibrator"),
    "probmetrics cir": _probmetrics("cir"),
    "betacal abm": _binary(_betacal),
    "probcal beta": _probcal("BetaCalibrator"),
    "probcal spline": _probcal("SplineCalibrator"),
    "uncertainty-calibration platt-binner": _platt_binner,
}
SLOW_PEERS: Final[dict[str, Contestant]] = {
    "netcal logistic": _netcal("scaling", "LogisticCalibration"),
    "netcal beta": _netcal("scaling", "BetaCalibration"),
    "netcal enir": _netcal("binning", "ENIR"),
    "probmetrics venn-abers": _probmetrics("ivap-ovr"),
    "probmetrics kernel": _probmetrics_class("KernelCalibrator"),
    "probcal selector": _probcal("CalibratorSelector"),
    "calibre i-spline": _binary(_calibre),
    "venn-abers": _venn_abers,
}
PEERS: Final = {**FAST_PEERS, **SLOW_PEERS}
ALL: Final = {**OURS, **PEERS}


def library(name: str) -> str:
    """Return the library of a contestant."""
    if name == BASELINE or name in OURS:
        return "wildcal"
    return "venn-abers" if name == "venn-abers" else name.partition(" ")[0]


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings and what libraries print."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def calibrate(name: str, scores: Scores, y: Any, test: Scores) -> Any:
    """Return calibrated probabilities of test samples; raise NotForThisData or another error."""
    with quietly():
        found = np.asarray(ALL[name](scores, y, test), np.float64)
    if found.shape != test.proba.shape:
        raise ValueError(f"returned shape {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError("returned NaN or infinity")
    return found
