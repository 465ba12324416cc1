"""`wildcal report`: one suite, or files of one's own, as a page to open in a browser."""

import tempfile
from pathlib import Path

import click

from wildcal.cli.choice import choose
from wildcal.cli.declared import Declared, input_options
from wildcal.cli.opening import open_suite, suite_name
from wildcal.cli.options import (
    PATH,
    STANDARD,
    Command,
    bins_option,
    csv_option,
    methods_option,
    quiet_option,
    refuse_same,
    replicates,
    write_text,
)
from wildcal.cli.output import progress_bar, say
from wildcal.cli.suite_compare import compare_on_suites
from wildcal.cli.suite_make import Parts, make_suite, part_options
from wildcal.io.files import check_writable


def page_options(command: Command) -> Command:
    """Add the options of a command that writes a page."""
    for option in (
        quiet_option,
        replicates,
        bins_option,
        csv_option,
        methods_option,
        click.option(
            "-o",
            "--output",
            type=PATH,
            default=Path("report.html"),
            show_default=True,
            help="The page (.html).",
        ),
    ):
        command = option(command)
    return command


@click.command(no_args_is_help=True)
@click.argument("tune", type=PATH, metavar="SUITE | TUNE TEST")
@click.argument("test", type=PATH, required=False, metavar="")
@part_options
@page_options
@input_options
def report(
    tune: Path,
    test: Path | None,
    parts: Parts,
    output: Path,
    methods: str,
    csv_path: Path | None,
    bins: int,
    bootstrap: int,
    declared: Declared,
) -> None:
    """Fit methods, test them under shift, and write a page about it.

    With one argument that is a SUITE: a folder, an .npz file, or the name of a suite that comes
    with wildcal. With two they are files of rows: methods are fitted on TUNE and tested on TEST and
    on the files of --shifted. The page is one file that needs no network: which method to ship, a
    table, reliability diagrams for every method and condition, energies, temperatures, and what
    each method knew.

    \b
    Example:
      wildcal report val.npz test.npz --shifted night=night.npz -o report.html
      wildcal report cifar10-resnet20 -o report.html
      wildcal report my-suite --methods ts,ets,energy --csv numbers.csv
    """
    if test is None:
        if declared != Declared() or parts.paths:
            raise click.UsageError("one argument is a suite, which brings all rows.")
        write_report(tune, suite_name(tune), methods, output, csv_path, bins, bootstrap)
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "suite"
        make_suite(declared, tune, test, parts, made)
        write_report(made, test.name.partition(".")[0], methods, output, csv_path, bins, bootstrap)


@click.command("report", no_args_is_help=True)
@click.argument("suite", type=PATH)
@page_options
def suite_report(
    suite: Path, output: Path, methods: str, csv_path: Path | None, bins: int, bootstrap: int
) -> None:
    """Fit methods on SUITE, test them under its shifts, and write a page about it.

    \b
    Example:
      wildcal suite report cifar10-resnet20 -o report.html
    """
    write_report(suite, suite_name(suite), methods, output, csv_path, bins, bootstrap)


def write_report(
    suite: Path, name: str, methods: str, output: Path, table: Path | None, bins: int, n_boot: int
) -> None:
    """Run the protocol on a suite and write the page, and the numbers if they are wanted."""
    from wildcal.report.page import make_page

    chosen = choose(methods)
    if table is not None and table.resolve() == output.resolve():
        raise click.UsageError("give -o and --csv different files.")
    refuse_same(output, suite)
    opened = open_suite(suite, partial=True)
    for path in (output, table):
        if path not in (None, STANDARD):
            check_writable(path)
    results = compare_on_suites({name: opened}, chosen, n_boot=n_boot, n_bins=bins, observe=True)
    with progress_bar("Writing the page"):
        page = make_page(results, name, opened)
    write_text(output, page)
    if table is not None:
        write_text(table, results.to_csv())
    say(f"Wrote {output} ({len(page) / 1e3:,.0f} kB); open it in a browser.")
