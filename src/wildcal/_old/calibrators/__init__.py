"""The methods by name for callers that expect the interface of 0.1."""

from typing import Any, Final

from wildcal._old.bridge import Bridged, bridged_class
from wildcal._old.calibrators.context import Context, ContextScaling
from wildcal._old.calibrators.own import add_own
from wildcal._old.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError
from wildcal.core.registry import CALIBRATORS as NEW
from wildcal.core.registry import get_calibrator

CALIBRATORS: dict[str, type[Any]] = {name: bridged_class(name) for name in NEW if name != "dac"}

DENSITY_METHODS: Final[tuple[str, ...]] = tuple(
    f"{prefix}+{base}" if base else prefix
    for prefix in ("dac", "dac-first")
    for base in ("", *(name for name in CALIBRATORS if name not in ("identity", "window")))
)
"""Density-aware calibration alone or before another method."""


def make_calibrator(name: str) -> Calibrator:
    """Return an unfitted calibrator by its short name, with the interface of 0.1."""
    prefix, _, base = name.partition("+")
    if prefix == "dac-first":
        first = get_calibrator(f"dac+{base}" if base else "dac")
        return Bridged(first.set_params(neighbor="first"))
    if ":" in name:
        name = add_own(name, CALIBRATORS) or name
    try:
        return Bridged(get_calibrator(name))
    except InputError as error:
        raise ValueError(str(error)) from None


PAPER_METHODS = ("identity", "ts", "ets", "irm", "irova", "irovats", "spline", "energy")
"""The columns of the energy paper's Table 1, in its order."""

__all__ = [
    "CALIBRATORS",
    "DENSITY_METHODS",
    "PAPER_METHODS",
    "Context",
    "ContextScaling",
    "make_calibrator",
]
