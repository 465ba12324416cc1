"""Report on one suite as one HTML file, which is read without a network."""

import platform
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import scipy

from wildcal.core.exceptions import InputError, needs_extra
from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.results import Evaluation
from wildcal.report.charts import method_label
from wildcal.report.sections import Content, parts
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
    page: str = load_template().render(
        content=content,
        found=found,
        skipped={k: v for k, v in results.skipped.items() if k.startswith(f"{name}: ")},
        summary=summary(results, name),
        command=command or "make_report of the Python package",
        versions={
            "wildcal": __version__, "NumPy": np.__version__, "SciPy": scipy.__version__,
            "Python": platform.python_version(),
        },
        **parts(content),
    )  # fmt: skip
    return page


def load_template() -> Any:
    """Return the template of the page; raise if jinja2 or matplotlib is not installed."""
    with needs_extra("the report", "report"):
        import jinja2
        import matplotlib  # noqa: F401
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("wildcal.report", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["method_label"] = method_label
    return environment.get_template("report.html.j2")
