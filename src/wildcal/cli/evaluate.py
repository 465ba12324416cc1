"""`wildcal evaluate`: compute metrics of samples with labels, by group, and check gates."""

from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from wildcal.cli import options as common
from wildcal.cli.output import STANDARD, print_result, progress_bar, say, warn
from wildcal.cli.types import NAMES, PATH
from wildcal.core.exceptions import InputError
from wildcal.core.labels import few
from wildcal.io.chunked import window_statistics
from wildcal.io.samples import list_files, open_table
from wildcal.io.schema import Columns, resolve
from wildcal.tables import to_markdown

GATE_FAILED: Final = 3
"""Exit code if a condition of --fail-if holds."""
# Files with more bytes are evaluated batch by batch.
_LARGE: Final = 1 << 30


@click.command(no_args_is_help=True)
@click.argument("source", type=PATH, nargs=-1, required=True)
@click.option("--calibrator", type=PATH, help="A saved calibrator to apply.")
@click.option("--ood", type=PATH, help="Samples of none of the classes, for detection metrics.")
@click.option("--metrics", type=NAMES, help="Metrics.  [all]")
@click.option(
    "--fail-if",
    "gates",
    multiple=True,
    metavar="CONDITION",
    help="Exit with code 3 if it holds, such as 'ece > 0.05'; repeatable.",
)
@click.option("--markdown", is_flag=True, help="Print Markdown, such as for a pull request.")
@common.knn_option
@common.scheduler_option
@common.columns_options
@common.evaluation_options
@common.result_options
def evaluate(
    source: tuple[Path, ...],
    calibrator: Path | None,
    ood: Path | None,
    gates: tuple[str, ...],
    markdown: bool,
    knn_file: Path | None,
    scheduler: str | None,
    columns: Columns,
    as_json: bool,
    csv_output: Path | None,
    **options: Any,
) -> int:
    """Measure the calibration of samples with labels.

    Files of more than 1 GB are read batch by batch, without class-wise ECE. Conditions of --fail-if
    are [worst_group.]METRIC[.low|.high], a comparison and a fraction.

    \b
    Example:
      wildcal evaluate test.csv --calibrator calibrator.json
      wildcal evaluate answers.csv --input confidence --score-columns stated --correct-column right
      wildcal evaluate test.parquet --fail-if "excess_ece > 0.02" --fail-if "nll > 0.5"
      wildcal evaluate test.parquet --group-column country --fail-if "worst_group.ece > 0.1"
    """
    from wildcal.evaluation import check_gates, parse_gate

    conditions = [parse_gate(text) for text in gates]
    if options["metrics"] is not None:
        options["metrics"] += tuple(gate.metric for gate in conditions)
    fitted = None
    if calibrator is not None:
        fitted, columns = common.load_with_columns(calibrator, columns)
    has_other_files = ood is not None or knn_file is not None
    if scheduler is not None and has_other_files:
        raise InputError("scheduler must be left out with an OOD or k-NN file.", "scheduler")
    files = [] if STANDARD in source else list_files(source)
    n_bytes = sum(path.stat().st_size for path in files)
    if scheduler is not None or (not has_other_files and n_bytes > _LARGE):
        result = _on_files(source, fitted, columns, scheduler, options)
    else:
        samples = common.read_labeled(source, columns, knn_file=knn_file, ood=ood)
        result = _in_memory(samples, fitted, options)
    if calibrator is None and files:
        _say_what_was_measured(files[0], columns)
    violations = check_gates(result, conditions)
    shown = [result.table(), *([result.group_table()] if result.groups else [])]
    if markdown:
        failed = [f"**Failed:** {line}" for line in violations]
        shown = ["\n\n".join([*map(to_markdown, shown), *failed])]
    document = {**result.to_dict(), "violations": violations}
    print_result(document, shown, as_json, csv_output, result.records())
    for line in violations:
        warn(f"failed: {line}")
    return GATE_FAILED if violations else 0


def _in_memory(samples: Any, calibrator: Any, options: dict[str, Any]) -> Any:
    """Return metrics of samples with a calibrator, or of their scores as they are."""
    from wildcal.evaluation import evaluate
    from wildcal.evaluation.chunked import probabilities
    from wildcal.metrics.bootstrap import DEFAULT_BOOTSTRAP

    scores: dict[str, Any]
    if calibrator is None:
        proba = probabilities(samples)
        scores = {"proba": proba, "input": samples.input if proba.ndim == 1 else None}
    else:
        knn_distances = samples.knn_distances if calibrator.requires else None
        scores = {"logits": samples.X, "calibrator": calibrator, "knn_distances": knn_distances}
    n_bootstrap = options["n_bootstrap"]
    total = DEFAULT_BOOTSTRAP if n_bootstrap is None else n_bootstrap
    with progress_bar("Evaluating", total=total or 1) as progress:
        return evaluate(
            samples.y,
            **scores,
            groups=samples.group,
            sample_weight=samples.sample_weight,
            progress=progress.advance,
            **options,
        )


def _on_files(
    source: tuple[Path, ...],
    calibrator: Any,
    columns: Columns,
    scheduler: str | None,
    options: dict[str, Any],
) -> Any:
    """Return metrics of files that are read batch by batch, on Dask if there is a scheduler."""
    from wildcal.evaluation.chunked import evaluate_files

    files = list_files(source)
    if hasattr(calibrator, "adapt"):
        with progress_bar("Reading the window"):
            calibrator = calibrator.adapt(window_statistics(files, calibrator, columns))
    if scheduler is not None:
        from wildcal.interop.dask import run_tasks

        options["run"] = partial(run_tasks, scheduler=scheduler)
    with progress_bar("Evaluating"):
        return evaluate_files(files, columns, calibrator, **options)


def _say_what_was_measured(path: Path, columns: Columns) -> None:
    """Name the columns that were measured if there are also those of `wildcal predict`."""
    table, columns = open_table(path, columns)
    scores = resolve(table.names, columns).scores
    results = {"confidence", "calibrated_confidence"} & set(table.names) - set(scores)
    if results:
        say(
            f"Measured {few(list(scores))} and not {' or '.join(sorted(results))}. --calibrator"
            " FILE measures calibrated scores."
        )
