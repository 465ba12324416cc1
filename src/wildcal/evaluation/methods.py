"""Specifications of methods in benchmarks, written ``NAME[@DATA]``."""

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from wildcal.core.calibrator import Calibrator, clone
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.core.registry import CALIBRATORS, get_calibrator
from wildcal.metrics._scores import Scores

FIT_ERRORS: Final = (ValueError, ArithmeticError, MemoryError)
"""Errors of a method that cannot be fitted on some samples."""
DATA: Final = ("source", "ood", "shifted")
"""Kinds of calibration samples: in-distribution, OOD, and in-distribution under shift."""
PAPER_METHODS: Final = ("identity", "ts", "ets", "irm", "irova", "irovats", "spline", "energy")
"""The methods of Table 1 of the paper on energy scaling, in its order."""
DEFAULT_METHODS: Final = (*PAPER_METHODS, "auto")
"""The methods of a benchmark that names none."""
SHORT_LISTS: Final = {
    "paper": PAPER_METHODS,
    "all": tuple(name for name in CALIBRATORS if name != "dac"),  # it needs distances
}
"""Names of several methods."""


@dataclass(frozen=True)
class MethodSpec:
    """A method in a benchmark: an unfitted calibrator and the kinds of samples it is fitted on.

    Examples
    --------
    >>> spec = MethodSpec.parse("ts@source,shifted")
    >>> spec.calibrator, sorted(spec.data)
    (TemperatureScaling(), ['shifted', 'source'])
    """

    name: str
    """Its name in tables."""
    calibrator: Calibrator
    data: frozenset[str]
    """Which of `DATA` the method is fitted on."""
    scores: Callable[[Any, Any, Any], Scores] | None = None
    """``scores(calibrator, logits, y)`` instead of those of `predict_proba`, for predictions that
    are no probabilities."""

    def __post_init__(self) -> None:
        unknown = sorted(self.data - set(DATA))
        if unknown:
            raise InputError(
                f"data must be of {', '.join(DATA)}, got {', '.join(unknown)}.", "methods"
            )
        if not self.data - {"ood"}:
            raise InputError(f"{self.name} must be fitted on source or shifted.", "methods")
        if "ood" in self.data and not self.calibrator.uses_ood:
            raise InputError(
                f"{self.name} must not be fitted on ood: it does not use OOD samples.", "methods"
            )

    @classmethod
    def parse(cls, text: str) -> "MethodSpec":
        """Return the method of ``NAME[@DATA]``, such as dac+energy or ts@source,shifted.

        Default data: source; ood for methods that use OOD samples; shifted for methods that adapt
        to a window, which learn from labelled domains.
        """
        name, at, listed = text.strip().partition("@")
        calibrator = get_calibrator(name)
        if not at:
            return cls(text.strip(), calibrator, default_data(calibrator))
        data = frozenset(word.strip() for word in listed.split(","))
        if "ood" in data and "ood" in calibrator.get_params(deep=False):
            calibrator.set_params(ood=True)
        return cls(text.strip(), calibrator, data)


def timed_fit(calibrator: Calibrator, **arguments: Any) -> float:
    """Fit a calibrator and return how many seconds it took. Warnings are in its `fit_info_`."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(**arguments)
    return time.perf_counter() - start


def default_data(calibrator: Calibrator) -> frozenset[str]:
    """Return the kinds of samples that a method is fitted on by default."""
    used = {"source": True, "ood": calibrator.uses_ood, "shifted": hasattr(calibrator, "adapt")}
    return frozenset(kind for kind, is_used in used.items() if is_used)


def get_methods(
    methods: Iterable[str | MethodSpec | Calibrator] | str | None = None,
) -> list[MethodSpec]:
    """Return methods by their specifications; by default those of the paper and `auto`.

    A calibrator has its registered name.

    Examples
    --------
    >>> [method.name for method in get_methods("ts@source,shifted,energy")]
    ['ts@source,shifted', 'energy']
    """
    if isinstance(methods, str):
        methods = split_list(methods)
    found = []
    for method in DEFAULT_METHODS if methods is None else methods:
        if isinstance(method, str):
            found += [MethodSpec.parse(name) for name in SHORT_LISTS.get(method, (method,))]
        elif isinstance(method, MethodSpec):
            found.append(method)
        else:
            found.append(MethodSpec(method.name, clone(method), default_data(method)))
    names = [method.name for method in found]
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InputError(f"methods must have different names, got {double!r} twice.", "methods")
    return found


def split_list(text: str) -> list[str]:
    """Return the specifications in a list with commas.

    Examples
    --------
    >>> split_list("ts@source,shifted,ets")
    ['ts@source,shifted', 'ets']
    """
    specs: list[str] = []
    for word in map(str.strip, text.split(",")):
        if word in DATA and specs and "@" in specs[-1]:
            specs[-1] += f",{word}"
        elif word:
            specs.append(word)
    return specs
