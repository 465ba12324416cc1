"""Pairs of axes in SVG: where a number lies on the picture, round ticks, grid and labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from wildcal._old.report.page.markup import tag, words

_SHORT = 5
"""Letters of a tick that has room beside its neighbors."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight map of numbers from `low` to `high` to places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a number, rounded to a tenth of a pixel."""
        span = self.high - self.low or 1.0
        return round(self.start + (value - self.low) / span * (self.end - self.start), 1)

    def ticks(self, about: int = 5) -> list[float]:
        """Return round numbers on the scale, some `about` of them.

        >>> Scale(0, 31, 0, 100).ticks()
        [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
        """
        span = self.high - self.low
        if not span > 0 or not math.isfinite(span):
            return [self.low]
        rough = span / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = min((1, 2, 5, 10), key=lambda m: abs(math.log(m * power / rough))) * power
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Picture:
    """The size of a picture and the room for labels, in pixels at its natural size.

    It is as wide as a phone, so that its letters stay readable there.
    """

    height: float = 260
    left: float = 44
    bottom: float = 42
    width: float = 400
    right: float = 14
    top: float = 26
    parts: list[str] = field(default_factory=list)

    def x(self, low: float, high: float) -> Scale:
        """Return a scale from left to right."""
        return Scale(low, high, self.left, self.width - self.right)

    def y(self, low: float, high: float) -> Scale:
        """Return a scale from the bottom up."""
        return Scale(low, high, self.height - self.bottom, self.top)

    def add(self, *parts: str) -> None:
        """Put markup on top of what is there."""
        self.parts.extend(parts)

    def bottom_axis(
        self, scale: Scale, label: str, ticks: Sequence[tuple[float, str]] | None = None
    ) -> None:
        """Add ticks and the name of the axis below; every other long word stands a line lower."""
        floor = self.height - self.bottom
        for i, (value, text) in enumerate(_labeled(scale) if ticks is None else ticks):
            at = scale(value)
            down = 30 if len(text) > _SHORT and i % 2 else 17
            self.add(tag("line", x1=at, x2=at, y1=floor, y2=floor + 4, class_="tick"))
            self.add(tag("text", words(text), x=at, y=floor + down, class_="middle"))
        self.add(
            tag("line", x1=scale.start, x2=scale.end, y1=floor, y2=floor, class_="axis"),
            tag(
                "text",
                words(label),
                x=(scale.start + scale.end) / 2,
                y=self.height - 6,
                class_="middle label",
            ),
        )

    def left_axis(self, scale: Scale, label: str) -> None:
        """Add grid lines, their numbers, and the name of the axis above it, where it is read."""
        for value, text in _labeled(scale):
            at = scale(value)
            self.add(
                tag("line", x1=self.left, x2=self.width - self.right, y1=at, y2=at, class_="grid"),
                tag("text", words(text), x=self.left - 6, y=at + 4, class_="end"),
            )
        self.add(tag("text", words(label), x=self.left, y=self.top - 12, class_="label"))

    def right_axis(self, scale: Scale, label: str) -> None:
        """Add numbers at the right, without grid lines."""
        edge = self.width - self.right
        for value, text in _labeled(scale):
            self.add(tag("text", words(text), x=edge + 6, y=scale(value) + 4, class_="second"))
        self.add(
            tag("text", words(label), x=self.width - 2, y=self.top - 12, class_="end label second")
        )

    def svg(self, described: str, **attributes: object) -> str:
        """Return the picture, with what a screen reader says of it."""
        return tag(
            "svg",
            *self.parts,
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            role="img",
            aria_label=described,
            **attributes,
        )


def _labeled(scale: Scale) -> list[tuple[float, str]]:
    return [(value, f"{value:g}") for value in scale.ticks()]


def padded(values: Sequence[float], share: float = 0.04) -> tuple[float, float]:
    """Return limits a little wider than the finite values; (0, 1) where there are none."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = share * (high - low) or abs(low) * share or 1.0
    return low - room, high + room
