"""What the streaming metrics have in common: sums of fixed size that can be added."""

from typing import Any, ClassVar, Self

from wildcal._old.core.checks import check_same


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

    def _described(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in self._settings}
        return {"kind": type(self).__name__, **settings}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name)}" for name in self._settings)
        return f"{type(self).__name__}({settings})"
