"""`wildcal demo`: benchmark the installed suites, then run the commands on files."""

from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from wildcal import suites
from wildcal.cli import options as common
from wildcal.cli.benchmark import run_with_progress
from wildcal.cli.output import say, write_text
from wildcal.cli.types import PATH
from wildcal.core.exceptions import InputError
from wildcal.io.atomic import atomic_write
from wildcal.tables import print_table, to_csv

FIRST: Final = "cifar10-resnet20"
"""The network of the report, and of the commands on files."""
_COMMANDS: Final = (
    "fit {0}/calibration.npz --method energy --ood {0}/svhn.npz -o {0}/energy.json",
    "show {0}/energy.json",
    "predict {0}/energy.json {0}/shifted.npz --proba --overwrite -o {0}/proba.npz",
    "evaluate {0}/test.npz --calibrator {0}/energy.json",
    "evaluate {0}/shifted.npz --ood {0}/textures.npz --calibrator {0}/energy.json",
)


@click.command()
@click.option("-o", "--output", type=PATH, default=Path("demo-output"), help="Folder to write to.")
@common.n_bootstrap_option
@click.pass_context
def demo(context: click.Context, output: Path, n_bootstrap: int) -> None:
    """Benchmark the methods of the paper and auto on installed suites, and write a report.

    Then run the commands for logits in files, step by step.

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
    files = demo_files(shipped[FIRST])
    for name, arrays in files.items():
        with atomic_write(output / f"{name}.npz", "wb") as file:
            np.savez(file, **arrays)
    say(f"\nThe commands for logits in files: {', '.join(files)}.")
    for line in _COMMANDS:
        words = [word.format(output) for word in line.split()]
        say(f"\n$ wildcal {' '.join(words)}")
        cli.main(words, standalone_mode=False, parent=context.parent)


def demo_files(suite: Any) -> dict[str, dict[str, Any]]:
    """Return arrays of a suite for files of samples, by the name of the file.

    The shifted samples are the corruptions at severity 3, each of other images, so that samples
    are independent. Of SVHN 100 samples are for the fit, as in the paper.
    """
    shifted = [split for split in suite.test if split.severity == 3]
    parts = {
        "calibration": [(suite.split("validation"), slice(None))],
        "svhn": [(suite.split("svhn-calibration"), slice(100))],
        "test": [(suite.split("test"), slice(None))],
        "textures": [(suite.split("textures-test"), slice(None))],
        "shifted": [(split, slice(i, None, len(shifted))) for i, split in enumerate(shifted)],
    }
    return {
        name: {
            column: np.concatenate([getattr(split, column)[kept] for split, kept in part])
            for column in ("logits", "y")
        }
        for name, part in parts.items()
    }
