"""`wildcal fit`: learn a calibrator from held-out logits and labels."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from wildcal.calibrators import CALIBRATORS
from wildcal.cli.options import PATH
from wildcal.cli.output import progress_bar, say
from wildcal.cli.suite import open_suite
from wildcal.core.arrays import OOD_LABEL
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import check_environment, check_labels, check_logits
from wildcal.core.errors import FileFormatError
from wildcal.evaluation.protocol.tuning import read_tuning as suite_tuning
from wildcal.io import read_table, save
from wildcal.io.files import check_writable
from wildcal.io.tables import Table, read_environments


@click.command(no_args_is_help=True)
@click.option(
    "--method",
    type=click.Choice(list(CALIBRATORS)),
    default="energy",
    show_default=True,
    help="Which calibrator.",
)
@click.option("--logits", "logits_path", type=PATH, help="Held-out logits (and y).")
@click.option("--labels", type=PATH, help="Labels, if they are in a file of their own.")
@click.option(
    "--ood", type=PATH, help="Logits of out-of-distribution rows, for methods that use them."
)
@click.option(
    "--environments",
    type=PATH,
    help="Environment of each row, 0 for clean ones, if in a file of its own; for context.",
)
@click.option("--suite", type=PATH, help="Instead of files: fit on the tuning splits of a suite.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="An option of the method."
)
@click.option(
    "-o", "--output", type=PATH, required=True, help="Where to save the calibrator (.json)."
)
def fit(
    method: str,
    logits_path: Path | None,
    labels: Path | None,
    ood: Path | None,
    environments: Path | None,
    suite: Path | None,
    settings: tuple[str, ...],
    output: Path,
) -> None:
    """Fit a calibrator on held-out logits and save it.

    Logits come from .npz (arrays `logits` and `y`), .npy, .csv, .safetensors or .pt. They must be
    raw scores, from data the network was not trained on. The method `context` also learns from an
    array `environment`: an integer for each row, 0 for clean ones, others for rows that were taken
    under other conditions, such as another camera.

    With --suite the rows are the clean tuning rows of a suite, for methods that use them some
    out-of-distribution rows, and for `context` the shifted tuning splits.

    \b
    Example:
      wildcal fit --method energy --logits val.npz --ood ood.npz -o energy.json
      wildcal fit --method energy --set box=paper --logits val.npz -o paper.json
      wildcal fit --method context --logits cameras.npz -o context.json
      wildcal fit --method context --suite cifar10-resnet20 -o context.json
    """
    if output.suffix != ".json":
        raise click.UsageError(f"-o must end in .json, got {output}.")
    check_writable(output)  # before the work, not after it
    calibrator = make(method, settings)
    if suite is not None:
        if any((logits_path, labels, ood, environments)):
            raise click.UsageError("--suite brings all rows; leave out the other files.")
        table = read_suite(suite, calibrator)
    elif logits_path is not None:
        table = read_tuning(logits_path, labels, ood, environments, calibrator)
    else:
        raise click.UsageError("give --logits, or --suite.")
    with progress_bar(f"Fitting {calibrator.title}"):
        calibrator.fit(table.logits, table.y, environment=table.environment)  # type: ignore[arg-type]  # labels were checked
    save(calibrator, output)
    say(summary_line(calibrator, table.environment))
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
    logits: Path,
    labels: Path | None,
    ood: Path | None,
    environments: Path | None,
    calibrator: Calibrator,
) -> Table:
    """Return labelled rows, followed by out-of-distribution rows with label -1."""
    table = read_labelled(logits, labels)
    if environments is not None:
        _refuse_unless(calibrator.accepts_environments, calibrator, "--environments")
        table = replace(table, environment=read_environments(environments))
    elif table.environment is not None and not calibrator.accepts_environments:
        say(f"{calibrator.name} does not read the environments of {logits}; its rows are pooled.")
        table = replace(table, environment=None)
    if ood is None:
        return table
    _refuse_unless(calibrator.accepts_ood, calibrator, "--ood")
    return with_ood(table, read_table(ood).logits, ood)


def _refuse_unless(accepts: bool, calibrator: Calibrator, option: str) -> None:
    if accepts:
        return
    rows, promise = {
        "--ood": ("use out-of-distribution rows", "accepts_ood"),
        "--environments": ("read environments", "accepts_environments"),
    }[option]
    able = [name for name, kind in CALIBRATORS.items() if getattr(kind, promise)]
    raise click.UsageError(
        f"{calibrator.name} does not {rows}. Leave out {option}, or use one of: {', '.join(able)}."
    )


def read_suite(path: Path, calibrator: Calibrator) -> Table:
    """Return the tuning rows of a suite that a method can use."""
    suite = open_suite(path)
    wide = calibrator.accepts_environments
    with suite.opened():
        rows = suite_tuning(suite, None, None).rows(ood=calibrator.accepts_ood, shifted=wide)
    return Table(rows.logits, rows.y, rows.environment if wide else None)


def read_labelled(logits: Path, labels: Path | None = None) -> Table:
    """Return the rows of a file that must have labels."""
    table = read_table(logits, labels=labels)
    if table.y is None:
        raise FileFormatError(f"{logits} has no labels; add an array `y` (or see --labels).")
    return table


def with_ood(table: Table, strangers: Any, path: Path) -> Table:
    """Return a table with out-of-distribution rows appended, as one more environment."""
    z = check_logits(table.logits, fitting=True)
    # Also makes integers of labels that could not hold -1, such as uint8.
    y = check_labels(table.y, *z.shape, accepts_ood=True)  # type: ignore[arg-type]
    if strangers.ndim != 2 or strangers.shape[1:] != table.logits.shape[1:]:
        raise FileFormatError(
            f"{path} must have logits of {table.logits.shape[-1]} classes, as the other file,"
            f" got shape {strangers.shape}."
        )
    environment = None
    if table.environment is not None:
        numbers = check_environment(table.environment, y, None)
        environment = np.concatenate([numbers, np.full(len(strangers), numbers.max() + 1)])
    return Table(
        np.concatenate([z, strangers]),
        np.concatenate([y, np.full(len(strangers), OOD_LABEL)]),
        environment,
    )


def summary_line(calibrator: Calibrator, environment: Any = None) -> str:
    """Return one sentence about a fit."""
    done = calibrator.fit_
    rows = f"{done.n_rows - done.n_ood:,} rows"
    if done.n_ood:
        rows += f" and {done.n_ood:,} out-of-distribution rows"
    if environment is not None:
        rows += f", in {len(np.unique(environment))} environments,"
    line = f"Fitted {calibrator.title} on {rows} of {calibrator.n_classes_} classes"
    if done.loss_before is not None and done.loss_after is not None:
        line += f": {done.loss} {done.loss_before:.5g} -> {done.loss_after:.5g}"
        line += f" in {done.iterations} iterations"
        line += "" if done.converged else ", NOT CONVERGED"
    return line + "."
