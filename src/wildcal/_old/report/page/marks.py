"""The marks of methods: a color and a shape each, told apart without color too."""

from collections.abc import Iterable, Sequence
from typing import Final

from wildcal._old.report.page.markup import tag, words

N_COLORS: Final = 10
"""How many colors page.css has, besides the gray of what is not calibrated."""
# Drawn around (0, 0), about eight pixels wide.
_SHAPES: Final = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
    "M-3.5 -3.5h7v7h-7Z",
    "M0 -4.6L4.4 3.4H-4.4Z",
    "M0 -5L4.2 0L0 5L-4.2 0Z",
    "M0 4.6L4.4 -3.4H-4.4Z",
    "M-1.4 -4.2h2.8v2.8h2.8v2.8h-2.8v2.8h-2.8v-2.8h-2.8v-2.8h2.8Z",
    "M-4.4 0L3.4 -4.4V4.4Z",
    "M4.4 0L-3.4 -4.4V4.4Z",
    "M0 -4.8L4.6 -1.5L2.8 3.9H-2.8L-4.6 -1.5Z",
)


class Marks:
    """Colors and shapes for a number of methods, in the order in which they are given."""

    def __init__(self, methods: Sequence[str]) -> None:
        self._place = {method: i for i, method in enumerate(methods)}

    def style(self, method: str) -> str:
        """Return the class that gives a method its color."""
        return "plain" if method == "identity" else f"m{self._place[method] % N_COLORS}"

    def mark(self, method: str, x: float, y: float, said: str) -> str:
        """Return the mark of a method at a place, with a text for the mouse."""
        return tag(
            "path",
            tag("title", words(said)),
            d=_SHAPES[self._place[method] % len(_SHAPES)],
            transform=f"translate({x:g} {y:g})",
            class_=f"mark {self.style(method)}",
            data_method=method,
        )

    def legend(self, methods: Iterable[str] | None = None) -> str:
        """Return methods with their marks, by default all."""
        items = [
            tag(
                "li",
                tag(
                    "svg",
                    self.mark(method, 7.0, 7.0, shown(method)),
                    viewBox="0 0 14 14",
                    aria_hidden="true",
                ),
                words(shown(method)),
                data_method=method,
            )
            for method in (self._place if methods is None else methods)
        ]
        return tag("ul", *items, class_="legend")


def shown(method: str) -> str:
    """Return what the page calls a method."""
    return "uncalibrated" if method == "identity" else method
