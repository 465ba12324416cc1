"""What all sections of the page are made from."""

from dataclasses import dataclass

from wildcal._old.evaluation.protocol import FittedMethod, Results
from wildcal._old.evaluation.protocol.observe import Observed
from wildcal._old.io.suite import Suite
from wildcal._old.report.page.marks import Marks
from wildcal._old.report.page.markup import tag, words


@dataclass(frozen=True, slots=True)
class Content:
    """One suite and the methods on it."""

    results: Results
    name: str
    """The suite's name in the results."""
    suite: Suite
    order: list[FittedMethod]
    """Best first."""
    marks: Marks
    seen: Observed
    """What the run kept to be drawn."""

    @property
    def n_bins(self) -> int:
        """The number of bins of the run."""
        return self.seen.n_bins

    @property
    def places(self) -> list[int]:
        """Where each method stands in what the run kept, best method first."""
        found = self.results.suites[self.name]
        return [found.index(method.name) for method in self.order]


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
