"""`wildcal methods`: every method, what it needs, what it promises, where it comes from."""

import click

from wildcal._old.bridge import unwrap
from wildcal._old.calibrators import CALIBRATORS, PAPER_METHODS, WINDOW_METHODS, make_calibrator
from wildcal._old.calibrators.own import add_installed
from wildcal._old.cli.options import json_option, quiet_option
from wildcal._old.cli.output import print_json, print_table
from wildcal._old.core.calibrator import Calibrator

_COLUMNS = {
    "method": "title",
    "needs": "needs",
    "keeps class": "preserves_accuracy",
    "reference": "reference",
}


@click.command()
@json_option
@quiet_option
def methods(as_json: bool) -> None:
    """List every method: what it needs, whether it keeps the predicted class, its reference.

    A method can stand behind `dac+`, such as dac+ets; `match+` takes any estimator of `wildcal
    accuracy`. On suites, NAME-all is fitted on shifted tuning rows too.

    \b
    Example:
      wildcal methods
    """
    add_installed(CALIBRATORS)
    described = {name: _described(name) for name in (*CALIBRATORS, *WINDOW_METHODS, "dac")}
    if as_json:
        print_json(described)
        return
    rows = []
    for name, entry in described.items():
        shown = {**entry, "preserves_accuracy": "yes" if entry["preserves_accuracy"] else "no"}
        rows.append((f"[bold]{name}[/bold]", *(str(shown[field]) for field in _COLUMNS.values())))
    print_table(
        ("name", *_COLUMNS),
        rows,
        words=8,
        caption="Behind dac+ any of those before window may stand. On suites, NAME-all is fitted on"
        " shifted tuning rows too.",
    )


def _described(name: str) -> dict[str, object]:
    kind = make_calibrator(name)
    return {
        "title": kind.title,
        "class": type(unwrap(kind)).__name__,
        "needs": _needs(kind),
        "preserves_accuracy": kind.preserves_accuracy,
        "in_the_paper": name in PAPER_METHODS,
        "reference": kind.reference,
    }


def _needs(method: Calibrator) -> str:
    if method.name == "identity":
        return "nothing"
    if "distances" in method.reads:
        return "labels, distances to training rows"
    if "environment" in method.reads:
        window = ", a test window" * ("window" in method.reads)
        return "labels of environments" + window
    if "window" in method.reads:
        return "labels, a test window"
    return "labels, OOD rows if any" if method.accepts_ood else "labels"
