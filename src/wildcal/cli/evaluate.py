"""`wildcal evaluate`: every metric of the raw softmax and of saved calibrators, side by side."""

from dataclasses import replace
from pathlib import Path

import click

from wildcal.calibrators import Identity
from wildcal.cli.fit import read_labelled, with_ood
from wildcal.cli.options import PATH, densities_option, measuring, one_format, window_option
from wildcal.cli.output import print_csv, print_json, progress_bar
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import check_labels, check_logits, check_some_known
from wildcal.evaluation import METRICS, Evaluation, evaluate_calibrator
from wildcal.io import load, read_table
from wildcal.io.tables import Table as Rows
from wildcal.io.tables import read_densities
from wildcal.tables import Cell, Column, Table, number, ranked
from wildcal.tables.terminal import show


@click.command(no_args_is_help=True)
@click.argument("logits", type=PATH)
@click.option("--labels", type=PATH, help="Labels, if they are in a file of their own.")
@click.option("--ood", type=PATH, help="Logits of out-of-distribution rows to tell apart.")
@click.option("--with", "paths", type=PATH, multiple=True, help="A saved calibrator; repeatable.")
@densities_option
@window_option
@measuring
def evaluate(
    logits: Path,
    labels: Path | None,
    ood: Path | None,
    paths: tuple[Path, ...],
    densities: Path | None,
    window: bool,
    bins: int,
    bootstrap: int,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Evaluate LOGITS with labels: uncalibrated, and with each saved calibrator.

    The ECE is printed with its 95 % bootstrap interval and its noise floor, the ECE that a
    perfectly calibrated model would show on as many rows. Compare the excess over it.

    With --window, the rows of LOGITS are one window and those of --ood another. AUROC and the other
    metrics that tell the two apart read all rows as one window. A dac calibrator needs an array
    `densities` in both files, or for LOGITS in a file of its own.

    \b
    Example:
      wildcal evaluate test.npz --with ts.json --with energy.json
      wildcal evaluate test.npz --ood svhn.npz --with energy.json --csv > result.csv
      wildcal evaluate test.npz --with ts.json --with context.json --window
    """
    one_format(as_json, as_csv)
    loaded = _load_all(paths)
    near = any("distances" in calibrator.reads for calibrator in loaded.values())
    if densities is not None and not near:
        raise click.UsageError("--densities is for dac, and none of the calibrators is that.")
    table = read_test(logits, labels, ood, distances=densities if near else False)
    calibrators = {"uncalibrated": uncalibrated(table)} | loaded
    in_window = {name: "window" in c.reads and window for name, c in calibrators.items()}
    if window and not any(in_window.values()):
        raise click.UsageError("--window is for context, and none of the calibrators is that.")
    results: dict[str, Evaluation] = {}
    with progress_bar("Evaluating", total=len(calibrators) * len(table.logits)) as progress:
        for name, calibrator in calibrators.items():
            results[name] = evaluate_calibrator(
                calibrator,
                table.logits,
                table.y,  # type: ignore[arg-type]  # read_test checked it
                n_bins=bins,
                n_boot=bootstrap,
                window=in_window[name],
                distances=table.densities if "distances" in calibrator.reads else None,
                progress=lambda rows: progress.advance(progress.task_ids[0], rows),
            )
    kept = {name: calibrator.preserves_accuracy for name, calibrator in calibrators.items()}
    if as_json:
        print_json(
            {name: {"preserves_accuracy": kept[name], **r.to_dict()} for name, r in results.items()}
        )
    elif as_csv:
        print_csv(
            ("method", "preserves_accuracy", "metric", "value", "low", "high"),
            (
                (name, kept[name], metric, m.value, m.low, m.high)
                for name, result in results.items()
                for metric, m in result.estimates.items()
            ),
        )
    else:
        show(_table(results, kept))


def read_test(
    logits: Path, labels: Path | None, ood: Path | None, *, distances: Path | bool | None = False
) -> Rows:
    """Return test rows, followed by out-of-distribution rows with label -1.

    `distances` is a file of them, None for those in the file of the logits, False for none.
    """
    # Test rows have no use for environments, so nothing is asked of them; distances are for dac.
    table = replace(read_labelled(logits, labels), environment=None)
    if distances is False:
        table = replace(table, densities=None)
    elif isinstance(distances, Path):
        table = replace(table, densities=read_densities(distances))
    return table if ood is None else with_ood(table, read_table(ood), ood)


def uncalibrated(table: Rows) -> Calibrator:
    """Return the softmax as a fitted calibrator, its input checked."""
    z = check_logits(table.logits)
    y = check_labels(table.y, *z.shape, accepts_ood=True)  # type: ignore[arg-type]
    check_some_known(y)
    first = int((y >= 0).argmax())
    return Identity().fit(z[first : first + 1], y[first : first + 1])


def _load_all(paths: tuple[Path, ...]) -> dict[str, Calibrator]:
    calibrators: dict[str, Calibrator] = {}
    for path in paths:
        taken = path.stem in calibrators or path.stem == "uncalibrated"
        name = str(path) if taken else path.stem
        calibrators[name] = load(path)
    return calibrators


def _table(results: dict[str, Evaluation], kept: dict[str, bool]) -> Table:
    """Return the metrics of all calibrators side by side, the best of each marked."""
    first = next(iter(results.values()))
    rows = []
    if not all(kept.values()):
        said = (Cell("yes" if kept[name] else "no") for name in results)
        rows.append((Cell("class always kept"), *said))
    for name, metric in METRICS.items():
        found = [r.estimates.get(name) for r in results.values()]
        if not any(found):
            continue
        cells = [
            number(e.value if e else None, e.interval if e else None, percent=metric.percent)
            for e in found
        ]
        better = metric.better if len(cells) > 1 else None
        rows.append((Cell(metric.title), *ranked(cells, better)))
    columns = (Column("metric", is_number=False), *map(Column, results))
    return Table(first.title, columns, tuple(rows), tuple(first.notes()))
