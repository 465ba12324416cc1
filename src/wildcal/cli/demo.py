"""`wildcal demo`: the paper's methods on the installed suites, then the commands on files."""

from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from wildcal.cli.options import PATH, n_bootstrap_option
from wildcal.cli.output import progress_bar, say, write_text
from wildcal.core.exceptions import InputError
from wildcal.io.atomic import atomic_write

FIRST: Final = "cifar10-resnet20"
"""The network of the report, and of the commands on files."""


@click.command()
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("demo-output"),
    show_default=True,
    help="Folder to write to.",
)
@n_bootstrap_option
@click.pass_context
def demo(context: click.Context, output: Path, n_bootstrap: int) -> None:
    """Benchmark the methods of the paper on the installed CIFAR-10 suites, and write a report.

    Then run the commands for logits in files, step by step.

    \b
    Example:
      wildcal demo -o demo-output
    """
    from wildcal.cli.main import cli
    from wildcal.evaluation import run_benchmark
    from wildcal.report.page import METRICS, make_report
    from wildcal.suites import list as list_suites
    from wildcal.suites import load
    from wildcal.tables import print_table, to_csv

    if FIRST not in list_suites():
        raise InputError(f'{FIRST} must be installed. Try pip install "wildcal[suites]".', "suite")
    output.mkdir(parents=True, exist_ok=True)
    shipped = {name: load(name) for name in list_suites("cifar10")}
    total = sum(split.n_samples for suite in shipped.values() for split in suite.test)
    with progress_bar("Testing", total=total) as progress:
        results = run_benchmark(
            shipped,
            metrics=METRICS,
            diagnostics=True,
            n_bootstrap=n_bootstrap,
            progress=lambda _, n: progress.advance(n),
        )
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

    def at(name: str) -> str:
        return str(output / name)

    saved = ["--calibrator", at("energy.json")]
    for words in (
        ["fit", at("calibration.npz"), "--method", "energy", "--ood", at("svhn.npz"),
         "-o", at("energy.json")],
        ["show", at("energy.json")],
        ["predict", at("energy.json"), at("shifted.npz"), "--proba", "--overwrite",
         "-o", at("proba.npz")],
        ["evaluate", at("test.npz"), *saved],
        ["evaluate", at("shifted.npz"), "--ood", at("textures.npz"), *saved],
    ):  # fmt: skip
        say(f"\n$ wildcal {' '.join(words)}")
        cli.main(words, standalone_mode=False, parent=context.parent)


def demo_files(suite: Any) -> dict[str, dict[str, Any]]:
    """Return samples of a suite as a user has them, by the name of the file.

    The shifted samples are the corruptions at severity 3, each of other images, so that samples
    are independent. Of SVHN 100 samples are for the fit, as in the paper.
    """
    names = {
        "calibration": "validation",
        "svhn": "svhn-calibration",
        "test": "test",
        "textures": "textures-test",
    }
    found = {}
    for name, split in names.items():
        n = 100 if name == "svhn" else None
        found[name] = {"logits": suite.split(split).logits[:n], "y": suite.split(split).y[:n]}
    shifted = [split for split in suite.test if split.severity == 3]
    found["shifted"] = {
        column: np.concatenate(
            [getattr(s, column)[i :: len(shifted)] for i, s in enumerate(shifted)]
        )
        for column in ("logits", "y")
    }
    return found
