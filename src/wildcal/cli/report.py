"""`wildcal report`: one suite as a page to open in a browser."""

from pathlib import Path

import click

from wildcal.cli.compare import method_names
from wildcal.cli.options import PATH, replicates
from wildcal.cli.output import progress_bar, say
from wildcal.cli.suite import open_suite
from wildcal.cli.suite_table import compare_on_suites
from wildcal.evaluation.protocol import choose_methods
from wildcal.io.files import check_writable, replacing


@click.command(no_args_is_help=True)
@click.argument("suite", type=PATH)
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("report.html"),
    show_default=True,
    help="The page (.html).",
)
@click.option(
    "--methods",
    default="paper",
    show_default=True,
    help="Names, separated by commas; 'paper' and 'all' stand for several.",
)
@click.option("--csv", "table", type=PATH, help="Also write every number of the run to this file.")
@click.option(
    "--bins", default=15, show_default=True, type=click.IntRange(1, 100), help="ECE bins."
)
@replicates
def report(
    suite: Path, output: Path, methods: str, table: Path | None, bins: int, bootstrap: int
) -> None:
    """Fit methods on SUITE, test them under its shifts, and write a page about it.

    SUITE is a folder, an .npz file, or the name of a suite that comes with wildcal. The page is one
    file that needs no network: which method to ship, a table, reliability diagrams for every
    method and condition, energies, temperatures, and what each method knew.

    \b
    Example:
      wildcal report cifar10-resnet20 -o report.html
      wildcal report my-suite --methods ts,ets,energy --csv numbers.csv
    """
    from wildcal.report.page import make_page

    chosen = choose_methods(method_names(methods))
    if table is not None and table.resolve() == output.resolve():
        raise click.UsageError("give -o and --csv different files.")
    opened = open_suite(suite, partial=True)
    for path in (output, table):
        if path is not None:
            check_writable(path)
    name = suite.stem if suite.exists() else str(suite)
    results = compare_on_suites({name: opened}, chosen, n_boot=bootstrap, n_bins=bins, observe=True)
    with progress_bar("Writing the page"):
        page = make_page(results, name, opened)
    with replacing(output) as temporary:
        temporary.write_text(page, "utf-8", newline="\n")
    if table is not None:
        with replacing(table) as temporary:
            temporary.write_text(results.to_csv(), "utf-8", newline="\n")
    say(f"Wrote {output} ({len(page) / 1e6:.1f} MB); open it in a browser.")
