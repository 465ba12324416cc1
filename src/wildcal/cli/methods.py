"""`wildcal methods`: every method, what it needs, what it promises, where it comes from."""

import click

from wildcal.calibrators import CALIBRATORS, PAPER_METHODS, WINDOW_METHODS, make_calibrator
from wildcal.calibrators.own import add_installed
from wildcal.cli.options import json_option, quiet_option
from wildcal.cli.output import print_json, print_table
from wildcal.core.calibrator import Calibrator

HOLDS = {
    "flat": "sums",
    "scores": "distinct confidences",
    "thin": "some numbers a row, in turns",
    "rows": "all rows",
}
"""What a fit holds of rows that are read from shards, by `Calibrator.state`."""
FROM_SHARDS = {
    "flat": "exact, on a cluster too",
    "scores": "exact, on a cluster too",
    "thin": "exact, on one machine",
    "rows": "exact, if they fit",
}
"""How it reads them; what does not fit is refused before it is read."""
_COLUMNS = {
    "method": "title",
    "needs": "needs",
    "keeps class": "preserves_accuracy",
    "stores": "stores",
    "a fit holds": "holds",
    "from shards": "from_shards",
    "reference": "reference",
}


@click.command()
@json_option
@quiet_option
def methods(as_json: bool) -> None:
    """List every method: what it needs, whether it keeps the predicted class, what it stores.

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
        caption="All fits are exact on shards; what one holds of them is what memory must hold, in"
        " turns where it does not fit at once. All are evaluated and applied from shards, and on a"
        " cluster.\n"
        "Behind dac+ any of those before match+ac may stand. On suites, NAME-all is fitted"
        " on shifted tuning rows too.",
    )


def _described(name: str) -> dict[str, object]:
    kind = make_calibrator(name)
    return {
        "title": kind.title,
        "class": type(kind).__name__,
        "needs": _needs(kind),
        "preserves_accuracy": kind.preserves_accuracy,
        "shift_invariant": kind.shift_invariant,
        "stores": kind.stores,
        "holds": HOLDS[kind.state],
        "from_shards": FROM_SHARDS[kind.state],
        "in_the_paper": name in PAPER_METHODS,
        "reference": kind.reference,
    }


def _needs(method: Calibrator) -> str:
    if method.name == "identity":
        return "nothing"
    if "distances" in method.reads:
        return "labels, distances to training rows"
    if method.name == "auto":
        return "labels; OOD rows, environments if any"
    if "environment" in method.reads:
        window = ", a test window" * ("window" in method.reads)
        # `context` accepts OOD rows and leaves them out.
        ood = ", OOD rows" * (method.accepts_ood and method.name != "context")
        return "environments" + ood + window
    if "window" in method.reads:
        return "labels, a test window"
    return "labels, OOD rows if any" if method.accepts_ood else "labels"
