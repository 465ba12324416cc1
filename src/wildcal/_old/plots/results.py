"""What is to be seen of the results of the protocol: errors by severity, corruption and set."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wildcal._old.evaluation.protocol import Results
from wildcal._old.evaluation.results import LEVELS
from wildcal._old.plots.canvas import draw
from wildcal._old.report.confidence_figures import confidence_panel
from wildcal._old.report.error_figures import severity_panel, type_panel
from wildcal._old.report.model import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def severity_curves(
    results: Results,
    suite: str | None = None,
    methods: Sequence[str] | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the ECE of each method at severity 0 to 5 (figure 4).

    Parameters
    ----------
    results
        What `wildcal._old.evaluation.protocol.run_protocol` returned.
    suite
        Its name; may be left out where there is one only.
    methods
        Their names, by default all that were fitted.
    ax
        Where to draw; a new axis if left out.
    """
    name = one_suite(results, suite)
    panel = severity_panel(results, name, name, _methods(results, name, methods))
    lacks = "clean test rows, or the same corruptions at each severity from 1 to 5, with their ECE"
    return draw("severity_curves", ax, _filled(panel, name, lacks))


def corruption_bars(
    results: Results,
    suite: str | None = None,
    severity: int = 5,
    methods: Sequence[str] | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the ECE of each method on each corruption at one severity (figure 5).

    Other parameters as in `severity_curves`.
    """
    if severity not in LEVELS:
        raise ValueError(f"severity must be a whole number from 1 to 5, got {severity!r}.")
    name = one_suite(results, suite)
    panel = type_panel(results, name, name, _methods(results, name, methods), severity)
    lacks = f"corruptions of severity {severity} with their ECE"
    return draw("corruption_bars", ax, _filled(panel, name, lacks))


def ood_confidence_bars(
    results: Results,
    suite: str | None = None,
    split: str | None = None,
    methods: Sequence[str] | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the mean confidence of each method on rows of no class; lower is better (figure 6).

    `split` is the name of a semantic test split and may be left out where there is one only; other
    parameters as in `severity_curves`.
    """
    name = one_suite(results, suite)
    measured = results.select(suite=name, shift="semantic", metric="mean_confidence")
    chosen = one_of(f"split of {name}", split, list(dict.fromkeys(r.split for r in measured)))
    shown = _methods(results, name, methods)
    panel = confidence_panel(results, name, f"{name}: {chosen}", chosen, shown)
    return draw("ood_confidence_bars", ax, _filled(panel, name, f"the confidence on {chosen}"))


def _filled(panel: Panel, suite: str, lacks: str) -> Panel:
    if not panel.series:
        raise ValueError(f"there is nothing to draw: the results of {suite} lack {lacks}.")
    return panel


def one_suite(results: Results, suite: str | None) -> str:
    """Return the name of the suite that was asked for, or of the only one."""
    return one_of("suite", suite, list(results.suites))


def one_of(what: str, name: str | None, known: Sequence[str]) -> str:
    """Return the name that was asked for, or the only one there is."""
    listed = ", ".join(known) or "none"
    if name is None:
        if len(known) != 1:
            raise ValueError(f"name one {what}; the results have {listed}.")
        return known[0]
    if name not in known:
        raise ValueError(f"the results have no {what} named {name!r}; they have {listed}.")
    return name


def _methods(results: Results, suite: str, methods: Sequence[str] | None) -> Sequence[str]:
    fitted = [method.name for method in results.suites[suite].methods]
    for name in methods or ():
        if name not in fitted:
            known = f"fitted were {', '.join(fitted) or 'none'}."
            reason = results.suites[suite].failed.get(name, known)
            raise ValueError(f"{suite} has no results of {name!r}: {reason}")
    return fitted if methods is None else methods
