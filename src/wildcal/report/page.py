"""`make_report`: one HTML file on one suite, which needs no other file and no network."""

import platform
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

import numpy as np
import scipy

from wildcal.core.exceptions import InputError, MissingExtraError
from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.results import Evaluation
from wildcal.report.sections import Content, Section, sections
from wildcal.report.summary import summary
from wildcal.version import __version__

METRICS: Final = ("nll", "ece", "accuracy", "mean_confidence", "ood_auroc")
"""What a benchmark must measure for the page."""


def make_report(
    results: BenchmarkResults,
    suite: str | None = None,
    *,
    groups: Mapping[str, Evaluation] | None = None,
    command: str | None = None,
) -> str:
    """Return a report on one suite as HTML.

    Parameters
    ----------
    results
        What `run_benchmark(..., metrics=wildcal.report.page.METRICS, diagnostics=True)` returned.
    suite
        Its name in the results. Default: the first.
    groups
        Evaluations with groups of source test samples, by method.
    command
        The command that makes the page again, shown at its end.

    Examples
    --------
    >>> from wildcal import run_benchmark, suites
    >>> suite = suites.load("pacs-resnet18")
    >>> results = run_benchmark([suite], ["identity", "ts"], metrics=METRICS, diagnostics=True)
    >>> make_report(results)[:15]
    '<!DOCTYPE html>'
    """
    if not results.suites or (suite is not None and suite not in results.suites):
        reasons = "; ".join(f"{k}: {v}" for k, v in results.skipped.items()) or "no such suite"
        raise InputError(f"suite must have been measured, got {suite!r} ({reasons}).", "suite")
    name = suite or next(iter(results.suites))
    found = results.suites[name]
    if found.diagnostics is None or "nll" not in results.metrics or not found.methods:
        why = "; ".join(f"{m}: {reason}" for m, reason in found.failed.items())
        raise InputError(
            "results must have fitted methods, the NLL and diagnostics. Try"
            f" run_benchmark(..., metrics=METRICS, diagnostics=True). {why}".rstrip(),
            "results",
        )
    content = Content(results, name, found.diagnostics, groups or {})
    parts = [*_skipped(results, name), *sections(content), _computed(content, command)]
    model, data = (str(d.get("name", "")) for d in (found.suite.model, found.suite.data))
    title = f"Calibration of {model or name}" + (f" on {data}" if model and data else "")
    template = _environment().get_template("report.html.j2")
    page: str = template.render(
        title=title,
        subtitle=_size(content),
        summary=summary(results, name),
        sections=parts,
        css=_asset("page.css"),
        js=_asset("page.js"),
    )
    return page


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError(
            'wildcal.report needs jinja2. Install it with: pip install "wildcal[report]"'
        ) from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("wildcal.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _asset(name: str) -> str:
    return files("wildcal.report").joinpath(name).read_text("utf-8")


def _size(content: Content) -> str:
    """Return what the suite tests on, in words."""
    splits = content.suite.test
    cells = [s for s in splits if s.severity is not None]
    parts = [f"{s.n_samples:,} source samples" for s in splits if s.is_source]
    if cells:
        kinds = {s.corruption for s in cells}
        parts.append(f"{len(cells)} corrupted conditions of {len(kinds)} corruptions")
    others = [s for s in splits if not s.is_source and s.severity is None]
    parts += [f"{s.n_samples:,} samples of {s.domain or s.name}" for s in others]
    return f"Suite {content.name}: tested on {', '.join(parts)}."


def _skipped(results: BenchmarkResults, name: str) -> list[Section]:
    notes = [f"{k}: {v}" for k, v in results.skipped.items() if k.startswith(name)]
    notes += [f"{m} could not be fitted: {v}" for m, v in results.suites[name].failed.items()]
    return [Section("Skipped", notes)] if notes else []


def _computed(content: Content, command: str | None) -> Section:
    """Return what is needed to compute the numbers again."""
    found = content.results.suites[content.name]
    n = sum(s.n_samples for s in found.suite.calibration if s.is_source)
    average = "source and each shifted domain, with the same weight"
    if content.results.has_severities(content.name):
        average = "(source + the means over corruptions at severities 1 to 5) / 6"
    intervals = "none"
    if found.n_bootstrap:
        intervals = (
            f"{100 * found.level:g} %, {found.n_bootstrap} bootstrap replicates over images, the"
            " same images in all conditions and for all methods; seed 0"
        )
    versions = ", ".join(f"{k} {v}" for k, v in found.suite.versions.items())
    facts = {
        "Command": command or "make_report of the Python package",
        "Calibrated on": f"{n:,} source samples, and what the table above says",
        "ECE": f"{found.n_bins} bins of equal width, by the confidence in the predicted class",
        "Average": average,
        "Intervals": intervals,
        "Suite": f"model {found.suite.model.get('name', '-')}, data"
        f" {found.suite.data.get('name', '-')}, seed {found.suite.seed}",
        "Suite made with": versions or "not given",
        "Report made with": f"wildcal {__version__}, NumPy {np.__version__}, SciPy"
        f" {scipy.__version__}, Python {platform.python_version()}",
    }
    return Section("How it was computed", facts=facts)
