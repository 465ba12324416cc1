"""What the streaming metrics have in common: sums of fixed size that can be added and stored."""

from typing import Any, ClassVar, Self

import numpy as np

from wildcal.core.checks import check_same


class Accumulator:
    """Sums over rows, from which a metric is computed at the end.

    A subclass names its settings (numbers given to the constructor) and its sums (arrays that grow
    with the rows by addition alone). Adding two accumulators is then the same as having seen both
    sets of rows, whatever their order, up to float64 rounding.
    """

    _settings: ClassVar[tuple[str, ...]] = ()
    _sums: ClassVar[tuple[str, ...]] = ()

    def merge(self, other: Self) -> Self:
        """Add the rows that `other` has seen to this accumulator, and return it."""
        mine, theirs = self._described(), other._described()
        check_same(type(self).__name__, mine, theirs)
        for name in self._sums:
            # Not in place: `other` may be this very accumulator.
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def _fresh(self) -> Self:
        """Return an empty accumulator with the same settings.

        `update` fills one and merges it, so that bad input leaves the sums as they were.
        """
        return type(self)(**{name: getattr(self, name) for name in self._settings})

    def to_dict(self) -> dict[str, Any]:
        """Return settings and sums as plain numbers and lists, ready for JSON."""
        sums = {name: getattr(self, name).tolist() for name in self._sums}
        return {**self._described(), **sums}

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Return the accumulator that `to_dict` described."""
        check_same(cls.__name__, cls.__name__, state.get("kind"))
        made = cls(**{name: state[name] for name in cls._settings})
        for name in cls._sums:
            blank = getattr(made, name)
            stored = np.asarray(state[name], dtype=blank.dtype)
            check_same(f"{name} of {cls.__name__}", blank.shape, stored.shape)
            setattr(made, name, stored)
        return made

    def _described(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in self._settings}
        return {"kind": type(self).__name__, **settings}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name)}" for name in self._settings)
        return f"{type(self).__name__}({settings})"
