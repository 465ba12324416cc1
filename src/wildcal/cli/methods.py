"""`wildcal methods`: list the methods."""

from textwrap import fill
from typing import Any

import click

from wildcal.cli import options as common
from wildcal.cli.output import print_result, text_table


@click.command()
@common.json_option
def methods(as_json: bool) -> None:
    """List the methods: what they use, whether they preserve the predicted class, the reference.

    Density-aware calibration combines with any of them: dac+ets.

    \b
    Example:
      wildcal methods
    """
    from wildcal.core.registry import CALIBRATORS, get_calibrator, load_installed

    load_installed()
    described: dict[str, dict[str, Any]] = {}
    for name in CALIBRATORS:
        method = get_calibrator(name)
        described[name] = {
            "title": method.title,
            "class": type(method).__name__,
            "uses": _uses(method),
            "preserves_accuracy": method.preserves_accuracy,
            "reference": method.reference,
        }
    rows = [
        (
            name,
            fill(each["title"], 26),
            fill(each["uses"], 14),
            "yes" if each["preserves_accuracy"] else "no",
            fill(each["reference"], 22),
        )
        for name, each in described.items()
    ]
    header = ("name", "method", "uses", "accuracy\npreserved", "reference")
    print_result(described, [text_table(header, rows, n_left=len(header))], as_json)


def _uses(method: object) -> str:
    """Return what a method uses besides labels."""
    found = {
        "OOD samples": getattr(method, "uses_ood", False),
        "raw logits": getattr(method, "requires_raw_logits", False),
        "k-NN distances": bool(getattr(method, "requires", ())),
        "a window": hasattr(method, "adapt"),
    }
    return ", ".join(name for name, used in found.items() if used)
