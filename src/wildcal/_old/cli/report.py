"""`wildcal report`: one suite, or files of one's own, as a page to open in a browser."""

import tempfile
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from wildcal._old.cli.choice import choose
from wildcal._old.cli.declared import Declared, input_options
from wildcal._old.cli.opening import open_suite, suite_name
from wildcal._old.cli.options import (
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
from wildcal._old.cli.output import progress_bar, say
from wildcal._old.cli.suite_compare import compare_on_suites
from wildcal._old.cli.suite_make import Parts, make_suite, part_options
from wildcal._old.io.files import check_writable


@dataclass(frozen=True, slots=True)
class Page:
    """What a page is made of, and where it goes."""

    output: Path
    methods: str
    table: Path | None
    bins: int
    bootstrap: int


def page_options(command: Command) -> Command:
    """Add the options of a command that writes a page; it gets them as `page`."""

    @wraps(command)
    def with_page(
        *args: Any,
        output: Path,
        methods: str,
        csv_path: Path | None,
        bins: int,
        bootstrap: int,
        **options: Any,
    ) -> Any:
        refuse_same(output)
        refuse_same(csv_path, "--csv")
        page = Page(output, methods, csv_path, bins, bootstrap)
        return command(*args, page=page, **options)

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
        with_page = option(with_page)
    return with_page  # type: ignore[return-value]


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
    page: Page,
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
        return write_report(tune, suite_name(tune), page)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "suite"
        make_suite(declared, tune, test, parts, made)
        write_report(made, test.name.partition(".")[0], page)


@click.command("report", no_args_is_help=True)
@click.argument("suite", type=PATH)
@page_options
def suite_report(suite: Path, page: Page) -> None:
    """Fit methods on SUITE, test them under its shifts, and write a page about it.

    \b
    Example:
      wildcal suite report cifar10-resnet20 -o report.html
    """
    write_report(suite, suite_name(suite), page)


def write_report(suite: Path, name: str, page: Page) -> None:
    """Run the protocol on a suite and write the page, and the numbers if they are wanted."""
    from wildcal._old.report.page import make_page

    chosen, output, table = choose(page.methods), page.output, page.table
    if table is not None and table.resolve() == output.resolve():
        raise click.UsageError("give -o and --csv different files.")
    opened = open_suite(suite, partial=True)
    for path in (output, table):
        if path not in (None, STANDARD):
            check_writable(path)
    results = compare_on_suites(
        {name: opened}, chosen, n_boot=page.bootstrap, n_bins=page.bins, observe=True
    )
    with progress_bar("Writing the page"):
        text = make_page(results, name, opened)
    write_text(output, text)
    if table is not None:
        write_text(table, results.to_csv())
    say(f"Wrote {output} ({len(text) / 1e3:,.0f} kB); open it in a browser.")
