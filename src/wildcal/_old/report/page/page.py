"""Put the report together: one HTML file that needs no other and asks no server."""

from importlib.resources import files
from typing import Final

from wildcal._old.evaluation.protocol import Results
from wildcal._old.io.suite import Suite
from wildcal._old.report.names import plain, suite_labels
from wildcal._old.report.page.about_sections import (
    computed_section,
    knowledge_section,
    left_out_section,
)
from wildcal._old.report.page.class_section import class_section
from wildcal._old.report.page.content import Content, note
from wildcal._old.report.page.error_sections import (
    methods_section,
    ood_section,
    reliability_section,
    shift_section,
)
from wildcal._old.report.page.marks import Marks
from wildcal._old.report.page.markup import tag, words
from wildcal._old.report.page.score_sections import energy_section, temperature_section
from wildcal._old.report.page.verdict import verdict

METRICS: Final = ("accuracy", "mean_confidence", "ece", "ood_auroc")
"""What a run of the protocol must have measured for the page."""
# Nothing is fetched, whatever the names in a suite may hold.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_SECTIONS: Final = (
    left_out_section,
    methods_section,
    shift_section,
    reliability_section,
    class_section,
    ood_section,
    energy_section,
    temperature_section,
    knowledge_section,
    computed_section,
)


def make_page(results: Results, name: str, suite: Suite) -> str:
    """Return the report on one suite, as HTML.

    Parameters
    ----------
    results
        A run of the protocol with `METRICS` that was told to observe; every number of the page is
        read off it, and nothing is measured.
    name
        The suite's name there.
    suite
        The suite itself, for what it says of its network and data.

    Examples
    --------
    >>> import wildcal
    >>> from wildcal._old.evaluation.protocol import choose_methods, run_protocol
    >>> from wildcal._old.report import make_page
    >>> suite = wildcal._old.suites.load("cifar10-resnet20")
    >>> results = run_protocol({"mine": suite}, choose_methods(["identity", "ts"]), observe=True)
    >>> make_page(results, "mine", suite)[:15]
    '<!doctype html>'
    """
    if name not in results.suites or not results.suites[name].methods:
        reason = results.skipped.get(name, "no method could be fitted").rstrip(".")
        raise ValueError(f"there is nothing to report on {name}: {reason}.")
    if not results.select(suite=name):
        raise ValueError(f"there is nothing to report on {name}: it has no rows to test on.")
    seen = results.suites[name].observed
    if seen is None:
        raise ValueError(f"there is nothing to draw of {name}: run the protocol with observe=True.")
    order = results.ranked(name)
    marks = Marks([method.name for method in order])
    content = Content(results, name, suite, order, marks, seen)
    data, network = suite_labels({name: suite})[name]
    body = tag(
        "main",
        tag("h1", words(_title(content, network, data))),
        note(f"Suite {plain(name)}: {_size(content)}."),
        tag("p", verdict(results, name, order), class_="verdict"),
        *(make(content) for make in _SECTIONS),
    )
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        + tag("title", words(f"{plain(name)}: calibration report"))
        + tag("style", _asset("page.css"))
    )
    script = tag("script", _asset("page.js"))
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}{script}</body></html>\n'
    )


def _title(content: Content, network: str, data: str) -> str:
    """Return what the report is on; a suite need not say of which network and data it is."""
    named = [about.get("name") for about in (content.suite.network, content.suite.data)]
    if not any(named):
        return f"Calibration of {plain(content.name)}"
    return f"Calibration of {network}" + (f" on {data}" if named[1] else "")


def _size(content: Content) -> str:
    """Return what the suite tests on, in words."""
    measured = {record.split for record in content.results.select(suite=content.name)}
    splits = [s.split for s in content.seen.scores.values() if s.split.name in measured]
    cells = [split for split in splits if split.corruption]
    parts = [f"{split.rows:,} clean rows" for split in splits if split.shift == "none"]
    if cells:
        kinds = {split.corruption for split in cells}
        parts.append(f"{len(cells)} corrupted cells of {len(kinds)} types")
    others = [split for split in splits if split.shift != "none" and not split.corruption]
    parts += [f"{split.rows:,} rows of {plain(split.name)}" for split in others]
    return ", ".join(parts) or "no test rows"


def _asset(name: str) -> str:
    return files("wildcal._old.report.page").joinpath(name).read_text("utf-8")
