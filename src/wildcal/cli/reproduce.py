"""`wildcal reproduce`: make the paper's tables, figures and claims from suites."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from wildcal import suites as installed
from wildcal.cli import options as common
from wildcal.cli.output import print_line, progress_bar, warn
from wildcal.cli.types import NAMES, PATH
from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice


@click.command(no_args_is_help=True)
@click.argument("artifacts", nargs=-1, metavar="[ARTIFACT]...")
@click.option(
    "--suites",
    type=NAMES,
    metavar="SUITE,...",
    help="Folders, .npz files or names.  [the installed ones of CIFAR and ImageNet]",
)
@click.option("-o", "--output", type=PATH, required=True, help="Folder to write to.")
@click.option(
    "--format",
    "formats",
    type=NAMES,
    default="md,csv,tex",
    help="Files of tables: md, csv, tex. Of figures: csv (the numbers), md (the caption).",
)
@click.option("--figures", "pictures", type=NAMES, default="pdf,png", help="pdf, svg, png.")
@click.option("--paper", is_flag=True, help="Add the paper's rows.")
@click.option(
    "--variants",
    type=click.Choice(["authors", "wildcal"]),
    default="authors",
    help="IRM, IROvA, IROvATS and SPLINE as in the authors' code, or of this package.",
)
@click.option("--intervals", is_flag=True, help="Show 95 % intervals in tables.")
@click.option("--methods", type=NAMES, help="Methods beside the paper's.")
@common.pairs_option("--label", 'SUITE="NAME"', "Name of a suite's network in tables and figures")
@common.n_bootstrap_option
def reproduce(
    artifacts: tuple[str, ...],
    suites: tuple[str, ...] | None,
    output: Path,
    formats: tuple[str, ...],
    pictures: tuple[str, ...],
    paper: bool,
    variants: str,
    methods: tuple[str, ...] | None,
    label: dict[str, str],
    **options: Any,
) -> None:
    """Make the tables, figures and claims of the paper on energy scaling from suites.

    ARTIFACT is table1 to table9, fig1, fig3 to fig9, claims, or all, the default. If a suite
    lacks something, a message has the command that adds it.

    \b
    Example:
      wildcal reproduce table1 fig4 --suites cifar10-resnet20,my-suite -o paper --paper
      wildcal reproduce table1 --suites my-suite --label my-suite=Ours --methods auto -o paper
    """
    from wildcal.report.paper import artifacts as paper_artifacts
    from wildcal.report.paper.study import Study
    from wildcal.report.paper.tables import Missing

    chosen = paper_artifacts.choose(artifacts)
    _check_each("formats", formats, paper_artifacts.FORMATS)
    _check_each("pictures", pictures, paper_artifacts.PICTURES)
    if output.exists() and not output.is_dir():
        raise InputError(f"output must be a folder, got {output}.", "output")
    usual = [name for name in installed.list() if name.startswith(("cifar", "imagenet"))]
    opened = common.open_suites(suites or usual)
    if not opened:
        raise InputError(
            'suites must be given: none is installed. Try pip install "wildcal[suites]".', "suites"
        )
    _check_each("label", label, opened)
    output.mkdir(parents=True, exist_ok=True)
    written, missing = {}, []
    with progress_bar("Reproducing") as progress:
        study = Study(
            opened,
            label,
            methods=methods or (),
            authors=variants == "authors",
            progress=lambda _, n: progress.advance(n),
            **options,
        )
        for name in chosen:
            made = paper_artifacts.make(name, study, paper=paper)
            if isinstance(made, Missing):
                missing.append(made)
            else:
                written[name] = paper_artifacts.write(
                    made, output, formats=formats, pictures=pictures
                )
    for name, files in written.items():
        print_line(f"{name}: {', '.join(map(str, files))}")
    for each in missing:
        warn(f"not made: {each}")
    for what, reason in study.skipped().items():
        warn(f"skipped: {what}: {reason}")
    if not written:
        raise InputError(f"suites must have what is needed, got {', '.join(opened)}.", "suites")


def _check_each(param: str, values: Iterable[str], choices: Iterable[str]) -> None:
    for value in values:
        check_choice(param, value, choices)
