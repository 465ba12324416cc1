"""`wildcal report`: fit methods, test them under shift, and write a page."""

import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from wildcal.cli import options as common
from wildcal.cli.benchmark import run_with_progress
from wildcal.cli.output import check_output, say, write_text
from wildcal.cli.suite import write_suite
from wildcal.cli.types import PATH
from wildcal.evaluation import evaluate
from wildcal.io.samples import read_samples
from wildcal.io.schema import Columns
from wildcal.tables import to_csv


@click.command(no_args_is_help=True)
@click.argument("calibration", type=PATH, metavar="SUITE | CALIBRATION TEST")
@click.argument("test", type=PATH, required=False, metavar="")
@common.test_files_options
@click.option("-o", "--output", type=PATH, default=Path("report.html"), help="The page to write.")
@common.methods_option
@common.bootstrap_options
@common.csv_option
@common.columns_options
def report(
    calibration: Path,
    test: Path | None,
    output: Path,
    csv_output: Path | None,
    columns: Columns,
    **options: Any,
) -> None:
    """Fit methods, test them under shift, and write one HTML page that needs no network.

    With one argument, a suite: a folder, a .npz, or the name of an installed suite. With two,
    files of samples: methods are fitted on CALIBRATION and tested on TEST and on the files of
    --shifted. With --group-column the page has the groups of TEST.

    \b
    Example:
      wildcal report cifar10-resnet20 --methods identity,ts,energy
      wildcal report val.csv test.csv --shifted night=night.csv --group-column country
    """
    from wildcal.report.page import METRICS, load_template, make_report

    load_template()  # raises if a package is missing
    check_output(output, suffixes=(".html", ".htm"))
    files = {name: options.pop(name) for name in ("shifted", "ood", "test_ood")}
    methods = options.pop("methods")
    with TemporaryDirectory() as folder:
        if test is None:
            if columns != Columns() or any(files.values()):
                raise click.UsageError(
                    "a suite has all its samples: give no other files and no columns."
                )
            path = calibration
        else:
            path = Path(folder) / test.stem
            write_suite(path, calibration, test, columns=columns, **files)
        suite = common.open_suite(path)
        name = suite.name
        results = run_with_progress(
            {name: suite}, methods, metrics=METRICS, diagnostics=True, **options
        )
        groups = {}
        if test is not None and columns.group_column is not None:
            domains = read_samples(test, columns=columns).group
            groups = _groups(results, name, groups=domains, **options)
        page = make_report(results, groups=groups, command=_command())
    write_text(output, page)
    if csv_output is not None:
        write_text(csv_output, to_csv(results.records()))
    say(f"Wrote {output} ({len(page) / 1e3:,.0f} kB). Open it in a browser.")


def _groups(results: Any, name: str, **options: Any) -> dict[str, Any]:
    """Return the groups of the test samples, uncalibrated and of the lowest average ECE."""
    tested = results.suites[name]
    split = tested.suite.split("test")
    shown = ("identity", results.ranked(name, "ece")[0].name)
    return {
        method.name: evaluate(split.y, logits=split.logits, calibrator=method.calibrator, **options)
        for method in tested.methods
        if method.name in shown
    }


def _command() -> str:
    """Return the command line without folders, so that the page can be shared."""
    words = []
    for word in sys.argv[1:]:
        head, equals, path = word.rpartition("=")
        words.append(head + equals + (Path(path).name if "/" in path else path))
    return " ".join(["wildcal", *map(shlex.quote, words)])
