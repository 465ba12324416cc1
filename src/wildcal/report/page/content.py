"""What all sections of the page are made from."""

from dataclasses import dataclass

from wildcal.evaluation.protocol import FittedMethod, Results
from wildcal.io.suite import Suite, SuiteSplit
from wildcal.report.page.marks import Marks
from wildcal.report.page.markup import tag, words
from wildcal.report.page.observe import Observed


@dataclass(frozen=True, slots=True)
class Content:
    """One suite and the methods on it."""

    results: Results
    name: str
    """The suite's name in the results."""
    suite: Suite
    n_bins: int
    splits: list[SuiteSplit]
    """The test splits that could be read, clean first."""
    order: list[FittedMethod]
    """Best first."""
    marks: Marks
    seen: Observed


def section(title: str, *parts: str) -> str:
    """Return a section with its heading."""
    return tag("section", tag("h2", words(title)), *parts)


def note(text: str) -> str:
    """Return a paragraph in smaller, paler letters."""
    return tag("p", words(text), class_="soft")


def figure(title: str, chart: str, caption: str = "") -> str:
    """Return a chart with its title and, below, what to know about it."""
    below = tag("figcaption", words(caption)) if caption else ""
    return tag("figure", tag("h3", words(title)), chart, below)


def charts(*figures: str) -> str:
    """Return figures side by side, as many as fit."""
    return tag("div", *figures, class_="charts")
