"""Where the logits of a scikit-learn classifier come from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal.core.arrays import Labels, Logits
from wildcal.core.calibrator import Calibrator
from wildcal.core.convert import logits_from_proba, logits_from_score, proba_floor
from wildcal.interop.sklearn.method import can_read_energy
from wildcal.interop.sklearn.mlp import ends_in_mlp, mlp_logits

# What these return has been through a softmax, or might as well have been.
NORMALIZED = ("predict_log_proba", "predict_proba")


@dataclass(frozen=True)
class ScoreSource:
    """How the logits of a fitted estimator are had: by a method of its own, or by a function."""

    name: str
    function: Callable[[Any, Any], Any] | None = None
    floor: float | None = None
    """What a probability of zero is read as; known once the held-out rows were scored."""

    @property
    def normalized(self) -> bool:
        """Whether these are probabilities or their logarithms."""
        return self.function is None and self.name in NORMALIZED

    def logits(self, estimator: Any, X: Any, n_classes: int) -> Logits:
        """Return the scores of the rows, shape (n_samples, n_classes)."""
        if self.function is not None:
            raw = self.function(estimator, X)
        elif self.name == "predict_log_proba":
            with np.errstate(divide="ignore"):  # the logarithm of a probability of zero
                log_proba = np.asarray(estimator.predict_log_proba(X))
            raw = np.maximum(log_proba, np.log(self.floor or _tiny(log_proba)))
        elif self.name == "predict_proba":
            proba = np.asarray(estimator.predict_proba(X))
            raw = logits_from_proba(proba, floor=self.floor or _tiny(proba))
        else:
            raw = getattr(estimator, self.name)(X)
            if self.name == "decision_function":
                _refuse_one_vs_one(estimator, n_classes)
        return as_columns(raw, n_classes, self.name)

    def settle(self, logits: Logits) -> tuple[Self, Logits]:
        """Return this source with the floor of its zeros, and the held-out logits above it.

        The floor is that of `proba_floor` on the held-out rows, and from then on that of any row.
        """
        if not self.normalized or not np.isfinite(logits).all():  # `fit` says which row
            return self, logits
        proba = np.exp(logits)
        proba[proba <= _tiny(logits) * (1 + 1e-6)] = 0
        floor = proba_floor(np.minimum(proba, 1.0))
        return replace(self, floor=floor), np.maximum(logits, np.log(floor))


def find_source(logits: Any, estimator: Any, calibrator: Calibrator) -> ScoreSource:
    """Return where to read the logits, by the option of that name.

    Raises where the source does not exist, or has lost what the method reads.
    """
    who = type(estimator).__name__
    if callable(logits):
        return ScoreSource(getattr(logits, "__name__", type(logits).__name__), logits)
    if not isinstance(logits, str):
        raise ValueError(
            "logits must be 'auto', the name of a method, or a function(estimator, X) -> scores,"
            f" got {logits!r}."
        )
    if logits == "auto":
        return _automatic(estimator, calibrator)
    if not callable(getattr(estimator, logits, None)):
        raise ValueError(
            f"logits={logits!r}, but {who} has no such method. Try logits='auto', or a"
            " function(estimator, X) that returns one score per class."
        )
    if logits in NORMALIZED and can_read_energy(calibrator):
        raise ValueError(
            f"{type(calibrator).__name__} reads the energy of the scores, and {logits} has lost it:"
            f" it is zero in every row. {_ways_out(estimator)}"
        )
    return ScoreSource(logits)


def _automatic(estimator: Any, calibrator: Calibrator) -> ScoreSource:
    who = type(estimator).__name__
    if hasattr(estimator, "decision_function"):
        return ScoreSource("decision_function")
    if ends_in_mlp(estimator):
        return ScoreSource("mlp_logits", mlp_logits)
    found = next((name for name in NORMALIZED if hasattr(estimator, name)), None)
    if found is None:
        raise ValueError(
            f"{who} has neither decision_function nor predict_proba. Pass"
            " logits=function(estimator, X) that returns one score per class."
        )
    if not calibrator.takes_log_proba:
        raise ValueError(
            f"{who} has no decision_function, and {type(calibrator).__name__} needs the scores from"
            f" before the softmax. {_ways_out(estimator)}"
        )
    return ScoreSource(found)


def _ways_out(estimator: Any) -> str:
    if hasattr(estimator, "decision_function"):
        better = "logits='decision_function'"
    elif ends_in_mlp(estimator):
        better = "logits=wildcal.interop.sklearn.mlp_logits"
    elif hasattr(estimator, "predict_joint_log_proba"):
        better = "logits='predict_joint_log_proba'"
    else:
        better = "a function(estimator, X) that returns raw scores as logits"
    return f"Use {better}, or a method that can do without, such as method='ts'."


def as_columns(raw: ArrayLike, n_classes: int, name: str) -> Logits:
    """Return scores with one column per class.

    The one score of a binary classifier becomes two by the rule of `logits_from_score`.
    """
    array = np.asarray(raw)
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    if n_classes == 2 and (array.ndim == 1 or array.shape[1:] == (1,)):
        return logits_from_score(array)
    if array.ndim == 2 and array.shape[1] == n_classes:
        return array
    if array.ndim == 2 and array.shape[1] == n_classes * (n_classes - 1) // 2:
        _raise_one_vs_one()
    raise ValueError(
        f"{name} must return one score per class, shape (n_samples, {n_classes}), got"
        f" {array.shape}."
    )


def predicted(logits: Logits) -> Labels:
    """Return the column of the largest score of each row, the first one on ties."""
    return np.asarray(np.argmax(logits, axis=1), np.int64)


def _refuse_one_vs_one(estimator: Any, n_classes: int) -> None:
    # Three classes have three pairs: only then does the number of columns not tell.
    if n_classes != 3 or not hasattr(estimator, "get_params"):
        return
    for name, value in estimator.get_params().items():
        if name.rsplit("__", 1)[-1] == "decision_function_shape" and value == "ovo":
            _raise_one_vs_one()


def _raise_one_vs_one() -> NoReturn:
    raise ValueError(
        "decision_function returns a score for each pair of classes (one-vs-one), not for each"
        " class. Set decision_function_shape='ovr' in the estimator."
    )


def _tiny(array: NDArray[np.floating[Any]]) -> float:
    """Return the smallest normal number, which marks a zero until the floor is known."""
    return float(np.finfo(array.dtype).tiny)
