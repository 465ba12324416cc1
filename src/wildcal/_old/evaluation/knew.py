"""What a method knew when it was fitted and asked, as data; worded in one place."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Window: TypeAlias = int | Literal["whole"]
"""How many unlabeled test rows share a context, or all rows of a set."""
Lack: TypeAlias = Literal["shifted", "window"]
"""What a method could have used: shifted sets; a window."""


@dataclass(frozen=True, slots=True)
class Knew:
    """The information that a method used; all that is 0, None or empty it did without.

    >>> print(Knew(labels=800, ood=100, ood_set="svhn"))
    800 labels, 100 rows of svhn
    """

    labels: int = 0
    """Clean labeled rows."""
    ood: int = 0
    """Rows that belong to none of the classes."""
    ood_set: str | None = None
    """The set they are of, where it has a name."""
    layers: int = 0
    """Layers in which it read distances to training rows."""
    shifted: tuple[int, ...] = ()
    """Labels of each shifted set."""
    window: Window | None = None
    """The unlabeled test rows that it read together."""
    lacked: tuple[Lack, ...] = ()
    """What it could have used and did not have."""

    def words(self) -> str:
        """Return it in words, what most methods know first."""
        lacked = {"shifted": "no shifted sets", "window": "no test window"}
        parts = [
            f"{self.labels:,} labels" * bool(self.labels),
            f"{self.ood:,} {f'rows of {self.ood_set}' if self.ood_set else 'OOD rows'}"
            * bool(self.ood),
            f"distances to training images in {self.layers} layers" * bool(self.layers),
            self._shifted_words(),
            f"unlabeled {self._window_words()}" if self.window else "",
            *(text for name, text in lacked.items() if name in self.lacked),
        ]
        return ", ".join(part for part in parts if part) or "nothing"

    def __str__(self) -> str:
        return self.words()

    def knows_less_than(self, other: "Knew") -> bool:
        """Whether all it knew, and not all that `other` knew, was known to both.

        >>> Knew(labels=800).knows_less_than(Knew(labels=800, ood=100))
        True
        """
        return self._parts() < other._parts()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return {**asdict(self), "shifted": list(self.shifted), "lacked": list(self.lacked)}

    def _parts(self) -> frozenset[tuple[str, object]]:
        known = {"ood": (self.ood, self.ood_set)} if self.ood else {}
        for name in ("labels", "layers", "shifted", "window"):
            if getattr(self, name):
                known[name] = getattr(self, name)
        return frozenset(known.items())

    def _shifted_words(self) -> str:
        sizes = self.shifted
        if not sizes:
            return ""
        sets = f"{len(sizes)} shifted set{'s' * (len(sizes) > 1)}"
        if len(set(sizes)) == 1:
            return f"{sets} of {sizes[0]:,} labels"
        return f"{sets} with {sum(sizes):,} labels"

    def _window_words(self) -> str:
        return "test window" if self.window == "whole" else f"windows of {self.window:,} test rows"
