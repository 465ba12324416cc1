"""`wildcal evaluate`: metrics of samples with labels, by group, and gates."""

from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from wildcal.cli.options import (
    PATH,
    bootstrap_options,
    columns_options,
    csv_option,
    json_option,
    knn_option,
    load_calibrator,
    names_of,
    read_labeled,
    scheduler_option,
)
from wildcal.cli.output import STANDARD, print_json, print_line, progress_bar, warn, write_text
from wildcal.core.exceptions import InputError
from wildcal.io.schema import Columns

GATE_FAILED: Final = 3
"""Exit code if a condition of --fail-if holds."""
# Files with more bytes are evaluated batch by batch.
_LARGE: Final = 1 << 30


@click.command(no_args_is_help=True)
@click.argument("source", type=PATH, nargs=-1, required=True)
@click.option("--calibrator", type=PATH, help="A saved calibrator to apply.")
@click.option("--ood", type=PATH, help="Samples of none of the classes, for detection metrics.")
@click.option("--metrics", callback=names_of, metavar="NAME,...", help="Metrics.  [all]")
@click.option(
    "--fail-if",
    "gates",
    multiple=True,
    metavar="CONDITION",
    help="Exit with code 3 if it holds, such as 'ece > 0.05'; repeatable.",
)
@knn_option
@scheduler_option
@columns_options
@bootstrap_options
@json_option
@click.option("--markdown", is_flag=True, help="Print Markdown, such as for a pull request.")
@csv_option
def evaluate(
    source: tuple[Path, ...],
    calibrator: Path | None,
    ood: Path | None,
    metrics: tuple[str, ...] | None,
    gates: tuple[str, ...],
    knn_file: Path | None,
    scheduler: str | None,
    columns: Columns,
    as_json: bool,
    markdown: bool,
    csv_output: Path | None,
    **options: Any,
) -> int:
    """Measure the calibration of samples with labels.

    Files of more than 1 GB are read batch by batch, without class-wise ECE. Conditions of --fail-if
    are [worst_group.]METRIC[.low|.high], a comparison and a fraction.

    \b
    Example:
      wildcal evaluate test.csv --calibrator calibrator.json
      wildcal evaluate answers.csv --input confidence --correct-column right --group-column topic
      wildcal evaluate test.parquet --fail-if "excess_ece > 0.02" --fail-if "worst_group.ece > 0.1"
    """
    from wildcal.evaluation import check_gates, parse_gate
    from wildcal.tables import print_table, to_csv, to_markdown

    conditions = [parse_gate(text) for text in gates]
    if metrics is not None:
        metrics = (*metrics, *(gate.metric for gate in conditions))
    options["metrics"] = metrics
    fitted = None
    if calibrator is not None:
        fitted, columns = load_calibrator(calibrator, columns)
    if scheduler is not None or (_are_large(source) and ood is None and knn_file is None):
        if ood is not None or knn_file is not None:
            raise InputError("scheduler must be left out with an OOD or k-NN file.", "scheduler")
        result = _on_files(source, fitted, columns, scheduler, options)
    else:
        result = _in_memory(source, fitted, columns, knn_file, ood, options)
    violations = check_gates(result, conditions)
    tables = [result.table(), *([result.group_table()] if result.groups else [])]
    if csv_output is not None:
        write_text(csv_output, to_csv(result.records()))
    if as_json:
        print_json({**result.to_dict(), "violations": violations})
    elif markdown:
        print_line("\n\n".join(to_markdown(table) for table in tables))
        for line in violations:
            print_line(f"\n**Failed:** {line}")
    elif csv_output is None or str(csv_output) != "-":
        for table in tables:
            print_table(table)
    for line in violations:
        warn(f"failed: {line}")
    return GATE_FAILED if violations else 0


def _in_memory(
    source: tuple[Path, ...],
    calibrator: Any,
    columns: Columns,
    knn_file: Path | None,
    ood: Path | None,
    options: dict[str, Any],
) -> Any:
    from wildcal.cli.fit import with_ood
    from wildcal.evaluation import evaluate as run
    from wildcal.evaluation.chunked import probabilities

    samples = read_labeled(source, columns, knn_file=knn_file)
    if ood is not None:
        samples = with_ood(samples, ood, columns)
    more = {"groups": samples.group, "sample_weight": samples.sample_weight, **options}
    if calibrator is None:
        proba = probabilities(samples)
        more |= {"proba": proba, "input": samples.input if proba.ndim == 1 else None}
    else:
        more |= {"logits": samples.X, "calibrator": calibrator}
        more["knn_distances"] = samples.knn_distances if calibrator.requires else None
    with progress_bar("Evaluating", total=options["n_bootstrap"] or 1) as progress:
        return run(samples.y, progress=progress.advance, **more)


def _on_files(
    source: tuple[Path, ...],
    calibrator: Any,
    columns: Columns,
    scheduler: str | None,
    options: dict[str, Any],
) -> Any:
    """Return metrics of files that are read batch by batch, on Dask if there is a scheduler."""
    from wildcal.evaluation.chunked import evaluate_files
    from wildcal.io.chunked import window_statistics
    from wildcal.io.samples import list_files

    files = list_files(list(source))
    if hasattr(calibrator, "adapt"):
        with progress_bar("Reading the window"):
            calibrator = calibrator.adapt(window_statistics(files, calibrator, columns))
    run: Any = None
    if scheduler is not None:
        from wildcal.interop.dask import run_tree

        run = partial(run_tree, scheduler=scheduler)
    with progress_bar("Evaluating"):
        return evaluate_files(files, columns, calibrator, run=run, **options)


def _are_large(source: tuple[Path, ...]) -> bool:
    """Return whether files are evaluated batch by batch."""
    from wildcal.io.samples import list_files

    if STANDARD in source:
        return False
    return sum(path.stat().st_size for path in list_files(list(source))) > _LARGE
