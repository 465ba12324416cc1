"""Methods that read a window, by short names: imported when they are asked for.

They stand in a room above this one (what matches an accuracy needs the accuracy estimators), so
they are known here by name.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from wildcal._old.core.calibrator import Calibrator

_ESTIMATORS: Final = ("ac", "doc", "atc-mc", "atc-ne", "cot", "cott", "cbpe", "context")
_MATCH: Final = "wildcal._old.window.match:MatchedConfidence"

WINDOW_METHODS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    **{f"match+{name}": (_MATCH, {"estimator": name}) for name in _ESTIMATORS},
    "em-bcts": ("wildcal._old.window.label_shift:LabelShift", {}),
}
"""MODULE:CLASS and options of each."""


def window_class(name: str) -> type[Calibrator]:
    """Return the class of a method of `WINDOW_METHODS`."""
    module, _, attribute = WINDOW_METHODS[name][0].partition(":")
    kind: type[Calibrator] = getattr(import_module(module), attribute)
    return kind


def make_window_method(name: str) -> Calibrator:
    """Return an unfitted calibrator of `WINDOW_METHODS`.

    >>> make_window_method("match+cot").estimator
    'cot'
    """
    return window_class(name)(**WINDOW_METHODS[name][1])
