"""`wildcal methods`: every method, what it needs, what it promises, where it comes from."""

import click

from wildcal.calibrators import CALIBRATORS, PAPER_METHODS
from wildcal.cli.output import print_json, print_table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def methods(as_json: bool) -> None:
    """List every method: what it needs, whether it keeps the predicted class, what it stores.

    \b
    Example:
      wildcal methods
    """
    described = {
        name: {
            "title": kind.title,
            "class": kind.__name__,
            "needs": _needs(name),
            "preserves_accuracy": kind.preserves_accuracy,
            "shift_invariant": kind.shift_invariant,
            "stores": kind.cost,
            "in_the_paper": name in PAPER_METHODS,
            "reference": kind.reference,
        }
        for name, kind in CALIBRATORS.items()
    }
    if as_json:
        print_json(described)
        return
    print_table(
        ("name", "method", "needs", "keeps class", "stores", "reference"),
        [
            (
                f"[bold]{name}[/bold]",
                str(entry["title"]),
                str(entry["needs"]),
                "yes" if entry["preserves_accuracy"] else "no",
                str(entry["stores"]),
                str(entry["reference"]),
            )
            for name, entry in described.items()
        ],
        words=6,
    )


def _needs(name: str) -> str:
    if name == "identity":
        return "nothing"
    if CALIBRATORS[name].accepts_environments:
        return "environments, OOD rows"
    return "labels, OOD rows if any" if CALIBRATORS[name].accepts_ood else "labels"
