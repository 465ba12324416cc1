"""From the `method` of a wrapper to a fresh calibrator that can do without more than (X, y)."""

from copy import deepcopy
from typing import Any

from wildcal.calibrators import CALIBRATORS
from wildcal.core.calibrator import Calibrator


def fresh_calibrator(method: Any) -> Calibrator:
    """Return a calibrator of its own: by its short name, or a copy of the one given."""
    if isinstance(method, Calibrator):
        calibrator = deepcopy(method)
    elif isinstance(method, str) and method in CALIBRATORS:
        calibrator = CALIBRATORS[method]()
    else:
        raise ValueError(
            f"method must be a calibrator such as EnergyScaling(), or one of"
            f" {', '.join(map(repr, usable_methods()))}, got {method!r}."
        )
    who = type(calibrator).__name__
    if "environment" in calibrator.reads - calibrator.can_do_without:
        raise ValueError(
            f"{who} learns from environments, which fit(X, y) does not know. Use method='energy',"
            f" or fit {who} itself on the scores of a fitted classifier."
        )
    if "distances" in calibrator.reads:
        raise ValueError(
            f"{who} reads the distances of inner features, which scikit-learn's classifiers do not"
            f" have. Use method='energy', or fit {who} itself."
        )
    return calibrator


def usable_methods() -> list[str]:
    """Return the short names that need no more than scores and labels."""
    kinds = CALIBRATORS.items()
    return [n for n, kind in kinds if "environment" not in kind.reads - kind.can_do_without]


def can_read_energy(calibrator: Calibrator) -> bool:
    """Return whether the method looks at the energy of a row, which a softmax removes."""
    return calibrator.needs_raw_logits
