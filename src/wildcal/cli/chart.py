"""ECE by severity as a chart of letters, for a terminal; figure 4 without a picture."""

import math
import sys
from collections.abc import Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from wildcal.evaluation.protocol import Results

if TYPE_CHECKING:
    from rich.text import Text

WIDTH: Final = 72
_LETTERS: Final = ascii_uppercase + ascii_lowercase
_MOST_LINES: Final = 11
"""Lines between the smallest and the largest value."""
_MARGIN: Final = 6
"""Columns for the numbers at the left and the axis."""
_MORE: Final = "+"
_HINT: Final = "Side by side: the lowest first; + where there is no room."
# The letter says which method it is; color only helps the eye to follow the first few.
_STYLES: Final = ("bold green", "cyan", "yellow", "magenta", "blue", "red")


def print_chart(results: Results, suite: str) -> None:
    """Write the chart of one suite to stdout; nothing where there is none to draw."""
    from rich.console import Console

    console = Console(file=sys.stdout)
    width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    lines = severity_chart(results, suite, width)
    if lines:
        console.print()
    for line in lines:
        # A line is as wide as it is; rich must neither wrap it nor color its numbers.
        console.print(line, soft_wrap=True, highlight=False)


def severity_chart(results: Results, suite: str, width: int = WIDTH) -> list["Text"]:
    """Return the lines of a chart: ECE in percent upwards, severity 0 to 5 across.

    Methods are lettered by their average ECE, A the lowest. A letter stands in the line whose
    number is nearest to its value. Letters of one line and severity stand side by side, the lowest
    value first; where there is no room for all, a plus sign stands for the rest. Methods without a
    value at every severity are left out.
    """
    from rich.text import Text

    curves = _curves(results, suite)
    if not curves:
        return []
    letters = dict(zip(curves, _LETTERS, strict=False))
    step = _step(max(level for levels in curves.values() for level in levels))
    n_levels = len(next(iter(curves.values())))
    room = max(2, (width - _MARGIN) // n_levels)
    cells: dict[tuple[int, int], list[str]] = {}
    for severity in range(n_levels):
        for method in sorted(letters, key=lambda m: curves[m][severity]):
            place = math.floor(curves[method][severity] / step + 0.5)
            cells.setdefault((place, severity), []).append(letters[method])

    title = f"{suite}: ECE (%) by severity, A lowest on average"
    lines = [Text(part, style="italic") for part in wrap(title, width)]
    for place in range(max(place for place, _ in cells), -1, -1):
        line = Text(f"{place * step:>{_MARGIN - 2}g} |")
        for severity in range(n_levels):
            shown = cells.get((place, severity), [])
            if len(shown) > room - 1:
                shown = [*shown[: room - 2], _MORE]
            for letter in shown:
                line.append(letter, _style(letter))
            line.append(" " * (room - len(shown)))
        line.rstrip()
        lines.append(line)
    axis = "".join(str(severity).ljust(room) for severity in range(n_levels))
    lines.append(Text(f"{'+':>{_MARGIN}}{'-' * (room * n_levels)}"))
    lines.append(Text(f"{'':{_MARGIN}}{axis}".rstrip()))
    lines += _legend(results, suite, letters, width)
    return lines + [Text(part, style="italic") for part in wrap(_HINT, width)]


def _curves(results: Results, suite: str) -> Mapping[str, Sequence[float]]:
    """Return ECE in percent at each severity, by method, the lowest average first."""
    if suite not in results.suites or not results.has_levels(suite):
        return {}
    found = {m.name: results.average(suite, m.name) for m in results.suites[suite].methods}
    known = {name: a for name, a in found.items() if not math.isnan(a.value)}
    order = sorted(known, key=lambda name: known[name].value)[: len(_LETTERS)]
    return {name: [100 * level for level in known[name].levels] for name in order}


def _step(highest: float) -> float:
    """Return the round number that neighboring lines are apart.

    >>> _step(28.2), _step(3.1), _step(0.0)
    (3.0, 0.3, 0.1)
    """
    steps = (round(n * size, 1) for size in (0.1, 1.0, 10.0) for n in (1, 2, 3, 4, 5, 8))
    return next(step for step in steps if step * _MOST_LINES >= highest)


def _legend(results: Results, suite: str, letters: Mapping[str, str], width: int) -> list["Text"]:
    """Return the letters with names and average ECE, in as many lines as they need."""
    from rich.text import Text  # as all of rich, only when something is printed

    lines = [Text("")]
    for method, letter in letters.items():
        entry = f"{letter} {method} {100 * results.average(suite, method).value:.2f}"
        if len(lines[-1]) and len(lines[-1]) + 3 + len(entry) > width:
            lines.append(Text(""))
        if len(lines[-1]):
            lines[-1].append("   ")
        lines[-1].append(letter, _style(letter)).append(entry[1:])
    return lines


def _style(letter: str) -> str:
    place = _LETTERS.find(letter)
    return _STYLES[place] if 0 <= place < len(_STYLES) else ""
