"""`wildcal demo`: benchmark the installed suites, then run the commands on files."""

from pathlib import Path
from typing import Final

import click

from wildcal import suites
from wildcal.cli import options as common
from wildcal.cli.benchmark import run_with_progress
from wildcal.cli.output import say, write_text
from wildcal.cli.types import PATH
from wildcal.core.exceptions import InputError
from wildcal.tables import print_table, to_csv

FIRST: Final = "cifar10-resnet20"
"""The network of the report, and of the commands on files."""
_COMMANDS: Final = (
    "suite export {0} validation --overwrite -o {1}/calibration.npz",
    "suite export {0} svhn-calibration --overwrite -o {1}/svhn.npz",
    "suite export {0} fog-3 --overwrite -o {1}/fog.npz",
    "fit {1}/calibration.npz --method energy --ood {1}/svhn.npz -o {1}/energy.json",
    "show {1}/energy.json",
    "predict {1}/energy.json {1}/fog.npz --proba --overwrite -o {1}/proba.npz",
    "evaluate {1}/fog.npz --calibrator {1}/energy.json",
)


@click.command()
@click.option("-o", "--output", type=PATH, default=Path("demo-output"), help="Folder to write to.")
@common.n_bootstrap_option
@click.pass_context
def demo(context: click.Context, output: Path, n_bootstrap: int) -> None:
    """Benchmark the methods of the paper and auto on installed suites, and write a report.

    Then export logits as files and run the commands for files, step by step.

    \b
    Example:
      wildcal demo -o demo-output
    """
    from wildcal.cli.main import cli
    from wildcal.report.page import METRICS, load_template, make_report

    if FIRST not in suites.list():
        install = 'pip install "wildcal[suites,report]"'
        raise InputError(f"{FIRST} must be installed. Try {install}.", "suite")
    load_template()  # raises if a package is missing
    output.mkdir(parents=True, exist_ok=True)
    shipped = {name: suites.load(name) for name in suites.list("cifar10")}
    results = run_with_progress(shipped, metrics=METRICS, diagnostics=True, n_bootstrap=n_bootstrap)
    for table in results.tables("ece"):
        print_table(table)
    page, numbers = output / "report.html", output / "results.csv"
    write_text(page, make_report(results, FIRST, command=f"wildcal report {FIRST}"))
    write_text(numbers, to_csv(results.records()))
    say(f"Wrote {numbers} and {page}, the report on {FIRST}. Open it in a browser.")
    for line in _COMMANDS:
        words = [word.format(FIRST, output) for word in line.split()]
        say(f"\n$ wildcal {' '.join(words)}")
        cli.main(words, standalone_mode=False, parent=context.parent)
