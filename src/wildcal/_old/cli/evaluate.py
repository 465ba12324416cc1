"""`wildcal evaluate`: every metric of rows as they are and of saved calibrators, side by side."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from wildcal._old.calibrators.identity import Identity
from wildcal._old.cli.declared import Declared, input_options, refuse_other_kinds, with_columns
from wildcal._old.cli.options import (
    PATH,
    Measured,
    Output,
    distances_option,
    measuring,
    window_option,
)
from wildcal._old.cli.output import progress_bar
from wildcal._old.cli.sharded import (
    at_work,
    open_source,
    refuse_scheduler,
    scheduler_option,
    verify_option,
)
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.checks import check_labels, check_logits, check_some_known
from wildcal._old.evaluation import Evaluation, evaluate_calibrator
from wildcal._old.evaluation import evaluate as evaluate_proba
from wildcal._old.evaluation.evaluate import evaluate_source
from wildcal._old.evaluation.side_by_side import side_by_side, side_by_side_csv
from wildcal._old.io import About, InputRows, load_with_about
from wildcal._old.io.tables import with_others
from wildcal._old.tables.terminal import show

AS_GIVEN = "as given"
UNCALIBRATED = "uncalibrated"


@click.command(no_args_is_help=True)
@click.argument("rows", type=PATH)
@click.option("--ood", type=PATH, help="Rows of other classes to tell apart.")
@click.option("--with", "paths", type=PATH, multiple=True, help="A saved calibrator; repeatable.")
@distances_option
@window_option
@scheduler_option
@verify_option
@input_options
@measuring
def evaluate(
    rows: Path,
    ood: Path | None,
    paths: tuple[Path, ...],
    distances: Path | None,
    window: int | str | None,
    scheduler: str | None,
    verify: bool,
    declared: Declared,
    measured: Measured,
) -> None:
    """Evaluate ROWS with labels: as they are, and with each saved calibrator.

    With --input proba, ROWS are probabilities of any tool, such as what `wildcal apply` wrote. The
    ECE is printed with its 95 % bootstrap interval and its noise floor, the ECE that a perfectly
    calibrated model would show on as many rows. Compare the excess over it. With two classes the
    errors of the probability of class 1 are added: slope and intercept are 1 and 0 where it is
    calibrated, and Spiegelhalter's z is beyond 1.96 where chance is no excuse.

    With --window all, ROWS are one window and those of --ood another. AUROC and the other metrics
    that tell the two apart read all rows as one window. A dac calibrator needs an array
    `distances` in both files, or for ROWS in a file of its own.

    A folder or a pattern of shards is read piece by piece, with --scheduler on the workers of a
    cluster; nothing is kept of each row, so there are no intervals.

    \b
    Example:
      wildcal evaluate test.npz --with auto.json --with energy.json
      wildcal evaluate proba.csv --input proba --label-column species
      wildcal evaluate test.npz --ood svhn.npz --with energy.json --csv result.csv
      wildcal evaluate test.npz --with ts.json --with window.json --window all
    """
    loaded = _load_all(paths)
    about = _agreed(loaded, declared)
    calibrators = {name: calibrator for name, (calibrator, _) in loaded.items()}
    read = {column for calibrator in calibrators.values() for column in calibrator.reads}
    _refuse_unread(read, distances, window)
    source = open_source(rows, declared, ood, distances, verify=verify)
    if source is not None:
        refuse_other_kinds(rows, about)
        raw_only = Identity().fit(np.zeros((1, source.shape[1])), np.zeros(1, np.int64))
        calibrators = {UNCALIBRATED: raw_only, **calibrators}
        with at_work(scheduler, "Evaluating"):
            found = evaluate_source(
                calibrators, source, n_bins=measured.bins, window=window is not None
            )
        return _write(found, calibrators, measured.output)
    refuse_scheduler(scheduler)
    table = read_test(
        declared, rows, ood, about=about, distances=distances, near="distances" in read
    )
    results: dict[str, Evaluation] = {}
    sizes: Any = {"n_bins": measured.bins, "n_boot": measured.bootstrap}
    if table.proba is not None and table.y is not None:
        results[AS_GIVEN] = evaluate_proba(table.y, table.proba, pred=table.pred, **sizes)
    else:
        raw = UNCALIBRATED if table.kind == "logits" else AS_GIVEN
        calibrators = {raw: uncalibrated(table), **calibrators}
    with progress_bar("Evaluating", total=len(calibrators) * len(table.logits)) as progress:
        for name, calibrator in calibrators.items():
            results[name] = evaluate_calibrator(
                calibrator,
                table.logits,
                table.y,
                **sizes,
                window=window is not None and "window" in calibrator.reads,
                distances=table.distances if "distances" in calibrator.reads else None,
                progress=lambda rows: progress.advance(progress.task_ids[0], rows),
            )
    _write(results, calibrators, measured.output)


def _refuse_unread(read: set[str], distances: Path | None, window: int | str | None) -> None:
    if distances is not None and "distances" not in read:
        raise click.UsageError("--distances is for dac, and none of the calibrators is that.")
    if window not in (None, "all"):
        raise click.UsageError("an evaluation reads a window of all rows: --window all.")
    if window is not None and "window" not in read:
        raise click.UsageError("--window is for window, and none of the calibrators is that.")


def _write(
    results: dict[str, Evaluation], calibrators: dict[str, Calibrator], output: Output
) -> None:
    kept = dict.fromkeys(results, True)
    kept |= {name: calibrator.preserves_accuracy for name, calibrator in calibrators.items()}
    output.write(
        json=lambda: {
            name: {"preserves_accuracy": kept[name], **r.to_dict()} for name, r in results.items()
        },
        csv=lambda: side_by_side_csv(results, kept),
        table=lambda: show(side_by_side(results, kept)),
    )


def read_test(
    declared: Declared,
    path: Path,
    ood: Path | None,
    *,
    about: About | None = None,
    labels: Path | None = None,
    distances: Path | None = None,
    near: bool = False,
) -> InputRows:
    """Return test rows, followed by rows of other classes with label -1.

    Distances are read where a method is `near`: needs them.
    """
    # Test rows have no use for environments, so nothing is asked of them; distances are for dac.
    rows = declared.read_labeled(path, about=about, labels=labels)
    rows = with_columns(replace(rows, environment=None), distances=distances)
    rows = rows if near else replace(rows, distances=None)
    return rows if ood is None else with_others(rows, declared.read_others(ood, like=rows), ood)


def uncalibrated(rows: InputRows) -> Calibrator:
    """Return the softmax as a fitted calibrator, its input checked."""
    z = check_logits(rows.logits)
    y = check_labels(rows.y, *z.shape, accepts_ood=True)  # type: ignore[arg-type]
    check_some_known(y)
    first = int((y >= 0).argmax())
    return Identity().fit(z[first : first + 1], y[first : first + 1])


def _load_all(paths: tuple[Path, ...]) -> dict[str, tuple[Calibrator, About]]:
    loaded: dict[str, tuple[Calibrator, About]] = {}
    for path in paths:
        taken = path.stem in loaded or path.stem in (UNCALIBRATED, AS_GIVEN)
        loaded[str(path) if taken else path.stem] = load_with_about(path)
    return loaded


def _agreed(loaded: dict[str, tuple[Calibrator, About]], declared: Declared) -> About | None:
    """Return how the calibrators say that rows are to be read."""
    kinds = {name: about.kind for name, (_, about) in loaded.items()}
    if declared.kind is None and len(set(kinds.values())) > 1:
        words = ", ".join(f"{name} on {kind}" for name, kind in kinds.items())
        raise click.UsageError(f"the calibrators were fitted on other things: {words}.")
    return next((about for _, about in loaded.values()), None)
