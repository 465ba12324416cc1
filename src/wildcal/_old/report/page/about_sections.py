"""Sections about the report itself: what each method knew, and how the numbers were made."""

import platform
import shlex

import numpy as np
import scipy

from wildcal._old.report.names import plain
from wildcal._old.report.page.content import Content, section
from wildcal._old.report.page.marks import shown
from wildcal._old.report.page.markup import tag, words
from wildcal.version import __version__


def left_out_section(content: Content) -> str:
    """Return what could not be read or fitted; nothing where all went well."""
    found = content.results.suites[content.name].failed
    troubles = [
        f"{what}: {reason}"
        for what, reason in content.results.skipped.items()
        if what.startswith(f"{content.name}: ")
    ]
    troubles += [f"{shown(m)} could not be fitted: {reason}" for m, reason in found.items()]
    if not troubles:
        return ""
    return section("Left out", tag("ul", *(tag("li", words(text)) for text in troubles)))


def knowledge_section(content: Content) -> str:
    """Return what each method is, what its fit used, and whether it keeps the classes."""
    heads = ("method", "what it is", "its fit used", "it stores", "predicted class", "published in")
    rows = []
    for method in content.order:
        calibrator = method.calibrator
        cells = (
            shown(method.name),
            calibrator.title,
            method.knew.words(),
            calibrator.stores,
            "kept" if calibrator.preserves_accuracy else "may change",
            calibrator.reference,
        )
        rows.append(tag("tr", *(tag("td", words(cell), class_="left") for cell in cells)))
    head = tag("tr", *(tag("th", words(text), class_="left", scope="col") for text in heads))
    table = tag("table", tag("thead", head), tag("tbody", *rows))
    region = tag("div", table, class_="wide", tabindex=0, role="region", aria_label="methods")
    return section("What each method knew", region)


def computed_section(content: Content) -> str:
    """Return everything needed to make the numbers again."""
    results = content.results.suites[content.name]
    n_boot = 0 if results.replicates is None else results.replicates.n_boot
    names = ",".join(method.name for method in content.order)
    made = ", ".join(f"{plain(k)} {plain(v)}" for k, v in content.suite.versions.items())
    facts = {
        "Command": f"wildcal report {_place(content)} --methods {names}"
        f" --bins {content.n_bins} --bootstrap {n_boot}",
        "Tuned on": _tuned(content),
        "Bins": f"{content.n_bins} of equal width, (lo, hi], by the confidence in the class of the"
        " largest logit",
        "Average": "(clean + the means over corruption types at severities 1 to 5) / 6"
        if content.results.has_levels(content.name) else "of clean rows and of each shift, alike",
        "Intervals": f"{n_boot} bootstrap replicates over rows, the same rows in all cells and"
        " for all methods, fewer for metrics that are costly to draw; seed 0" if n_boot else "none",
        "Suite": f"network {plain(content.suite.network.get('name', ''))}, data"
        f" {plain(content.suite.data.get('name', ''))}, seed {plain(content.suite.seed)}",
        "Suite made with": made or "not given",
        "Report made with": f"wildcal {__version__}, NumPy {np.__version__}, SciPy"
        f" {scipy.__version__}, Python {platform.python_version()}",
    }  # fmt: skip
    items = [tag("dt", words(k)) + tag("dd", words(v)) for k, v in facts.items()]
    return section("How it was computed", tag("dl", *items))


def _tuned(content: Content) -> str:
    rows = sum(split.rows for split in content.suite.tune("none"))
    return f"{rows:,} clean validation rows, and what the table above says"


def _place(content: Content) -> str:
    """Return the suite as the command takes it; of a path the last part, which may be shared."""
    path = content.suite.path
    shipped = path.parent.parts[-2:] == ("wildcal", "suites")
    return shlex.quote(plain(content.name if shipped else path.name))
