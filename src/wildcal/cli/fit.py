"""`wildcal fit`: learn a calibrator from held-out logits and labels."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import numpy as np

from wildcal.calibrators import CALIBRATORS
from wildcal.cli.options import PATH
from wildcal.cli.output import progress_bar, say
from wildcal.core.arrays import OOD_LABEL
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import check_labels, check_logits
from wildcal.core.errors import FileFormatError
from wildcal.io import read_table, save
from wildcal.io.files import check_writable
from wildcal.io.tables import Table


@click.command(no_args_is_help=True)
@click.option(
    "--method",
    type=click.Choice(list(CALIBRATORS)),
    default="energy",
    show_default=True,
    help="Which calibrator.",
)
@click.option("--logits", "logits_path", type=PATH, required=True, help="Held-out logits (and y).")
@click.option("--labels", type=PATH, help="Labels, if they are in a file of their own.")
@click.option(
    "--ood", type=PATH, help="Logits of out-of-distribution rows, for methods that use them."
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="An option of the method."
)
@click.option(
    "-o", "--output", type=PATH, required=True, help="Where to save the calibrator (.json)."
)
def fit(
    method: str,
    logits_path: Path,
    labels: Path | None,
    ood: Path | None,
    settings: tuple[str, ...],
    output: Path,
) -> None:
    """Fit a calibrator on held-out logits and save it.

    Logits come from .npz (arrays `logits` and `y`), .npy, .csv, .safetensors or .pt. They must be
    raw scores, from data the network was not trained on.

    \b
    Example:
      wildcal fit --method energy --logits val.npz --ood ood.npz -o energy.json
      wildcal fit --method energy --set box=paper --logits val.npz -o paper.json
    """
    if output.suffix != ".json":
        raise click.UsageError(f"-o must end in .json, got {output}.")
    check_writable(output)  # before the work, not after it
    calibrator = make(method, settings)
    table = read_tuning(logits_path, labels, ood, calibrator)
    with progress_bar(f"Fitting {calibrator.title}"):
        calibrator.fit(table.logits, table.y)  # type: ignore[arg-type]  # read_tuning checked it
    save(calibrator, output)
    say(summary_line(calibrator))
    say(f"Wrote {output}.")


def make(method: str, settings: tuple[str, ...] = ()) -> Calibrator:
    """Return an unfitted calibrator with options given as NAME=VALUE."""
    kind = CALIBRATORS[method]
    known = [f.name for f in fields(kind) if f.init]  # type: ignore[arg-type]
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in known:
            raise click.UsageError(
                f"--set takes NAME=VALUE with a NAME of {', '.join(known) or 'none'} for {method},"
                f" got {setting!r}."
            )
        options[name] = _parse(value)
    return kind(**options)


def _parse(value: str) -> Any:
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError:
        return value
    return tuple(parsed) if isinstance(parsed, list) else parsed


def read_tuning(
    logits: Path, labels: Path | None, ood: Path | None, calibrator: Calibrator
) -> Table:
    """Return labelled rows, followed by out-of-distribution rows with label -1."""
    table = read_labelled(logits, labels)
    if ood is None:
        return table
    if not calibrator.accepts_ood:
        able = [name for name, kind in CALIBRATORS.items() if kind.accepts_ood]
        raise click.UsageError(
            f"{calibrator.name} does not use out-of-distribution rows. Leave out --ood, or use one"
            f" of: {', '.join(able)}."
        )
    return with_ood(table, read_table(ood).logits, ood)


def read_labelled(logits: Path, labels: Path | None = None) -> Table:
    """Return the rows of a file that must have labels."""
    table = read_table(logits, labels=labels)
    if table.y is None:
        raise FileFormatError(f"{logits} has no labels; add an array `y` (or see --labels).")
    return table


def with_ood(table: Table, strangers: Any, path: Path) -> Table:
    """Return a table with out-of-distribution rows appended."""
    z = check_logits(table.logits, fitting=True)
    # Also makes integers of labels that could not hold -1, such as uint8.
    y = check_labels(table.y, *z.shape, accepts_ood=True)  # type: ignore[arg-type]
    if strangers.ndim != 2 or strangers.shape[1:] != table.logits.shape[1:]:
        raise FileFormatError(
            f"{path} must have logits of {table.logits.shape[-1]} classes, as the other file,"
            f" got shape {strangers.shape}."
        )
    return Table(
        np.concatenate([z, strangers]),
        np.concatenate([y, np.full(len(strangers), OOD_LABEL)]),
    )


def summary_line(calibrator: Calibrator) -> str:
    """Return one sentence about a fit."""
    done = calibrator.fit_
    rows = f"{done.n_rows - done.n_ood:,} rows"
    if done.n_ood:
        rows += f" and {done.n_ood:,} out-of-distribution rows"
    line = f"Fitted {calibrator.title} on {rows} of {calibrator.n_classes_} classes"
    if done.loss_before is not None and done.loss_after is not None:
        line += f": {done.loss} {done.loss_before:.5g} -> {done.loss_after:.5g}"
        line += f" in {done.iterations} iterations"
        line += "" if done.converged else ", NOT CONVERGED"
    return line + "."
