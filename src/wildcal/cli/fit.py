"""`wildcal fit`: learn a calibrator from held-out logits and labels."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from wildcal.calibrators import CALIBRATORS
from wildcal.cli.options import PATH, densities_option
from wildcal.cli.output import progress_bar, say
from wildcal.cli.suite import open_suite
from wildcal.core.arrays import OOD_LABEL
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import check_environment, check_labels, check_logits
from wildcal.core.errors import FileFormatError
from wildcal.evaluation.protocol import Method, choose_methods
from wildcal.evaluation.protocol.fitted import fit_method
from wildcal.evaluation.protocol.tuning import read_tuning as suite_tuning
from wildcal.io import read_table, save
from wildcal.io.files import check_writable
from wildcal.io.tables import Table, read_densities, read_environments


def _known_method(context: click.Context, option: click.Parameter, value: str) -> str:
    try:
        choose_methods([value])
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return value


@click.command(no_args_is_help=True)
@click.option(
    "--method",
    callback=_known_method,
    default="energy",
    show_default=True,
    help="Which calibrator: a name that `wildcal methods` lists, or dac+NAME.",
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
@densities_option
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
    densities: Path | None,
    suite: Path | None,
    settings: tuple[str, ...],
    output: Path,
) -> None:
    """Fit a calibrator on held-out logits and save it.

    Logits come from .npz (arrays `logits` and `y`), .npy, .csv, .safetensors or .pt. They must be
    raw scores, from data the network was not trained on. The method `context` also learns from an
    array `environment`: an integer for each row, 0 for clean ones, others for rows that were taken
    under other conditions, such as another camera. The methods `dac` and `dac+NAME` also read an
    array `densities`: the distances of each row to training rows, a column for each layer.

    With --suite the rows are the clean tuning rows of a suite, for methods that use them some
    out-of-distribution rows, for `context` the shifted tuning splits, and for `dac` the distances
    that `wildcal extract --features` stored. Methods of `wildcal compare SUITE` such as ts-all and
    energy-p can be fitted so, too.

    \b
    Example:
      wildcal fit --method energy --logits val.npz --ood ood.npz -o energy.json
      wildcal fit --method energy --set box=paper --logits val.npz -o paper.json
      wildcal fit --method context --logits cameras.npz -o context.json
      wildcal fit --method context --suite cifar10-resnet20 -o context.json
      wildcal fit --method dac+ets --suite cifar10-resnet20 -o dac.json
    """
    if output.suffix != ".json":
        raise click.UsageError(f"-o must end in .json, got {output}.")
    check_writable(output)  # before the work, not after it
    chosen = choose_methods([method])[0]
    chosen = replace(chosen, calibrator=with_options(chosen.calibrator, settings))
    if suite is not None:
        if any((logits_path, labels, ood, environments, densities)):
            raise click.UsageError("--suite brings all rows; leave out the other files.")
        calibrator, used = _fit_on_suite(chosen, suite)
    elif logits_path is None:
        raise click.UsageError("give --logits, or --suite.")
    elif method != chosen.calibrator.name and "distances" not in chosen.calibrator.reads:
        raise click.UsageError(f"{method} is fitted on the splits of a suite; give --suite.")
    else:
        calibrator = chosen.calibrator
        table = read_tuning(logits_path, labels, ood, environments, densities, calibrator)
        more = {} if table.densities is None else {"distances": table.densities}
        with progress_bar(f"Fitting {calibrator.title}"):
            calibrator.fit(table.logits, table.y, environment=table.environment, **more)  # type: ignore[arg-type]  # labels were checked
        used = "" if table.environment is None else _environment_words(table.environment)
    save(calibrator, output)
    say(summary_line(calibrator))
    if used:
        say(f"It used {used}.")
    say(f"Wrote {output}.")


def _environment_words(environment: Any) -> str:
    return f"{len(np.unique(environment))} environments"


def _fit_on_suite(method: Method, path: Path) -> tuple[Calibrator, str]:
    """Return a method fitted on the tuning splits of a suite, and what it used."""
    suite = open_suite(path)
    with progress_bar(f"Fitting {method.calibrator.title}"), suite.opened():
        fitted = fit_method(method, suite_tuning(suite, None, None))
    for note in fitted.calibrator.fit_.notes:
        say(f"warning: {note}")
    return fitted.calibrator, fitted.knew.words()


def with_options(calibrator: Calibrator, settings: tuple[str, ...]) -> Calibrator:
    """Return an unfitted calibrator with options given as NAME=VALUE."""
    known = [
        f.name
        for f in fields(calibrator)  # type: ignore[arg-type]  # every calibrator is a dataclass
        if f.init and not isinstance(getattr(calibrator, f.name), Calibrator)
    ]
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in known:
            raise click.UsageError(
                f"--set takes NAME=VALUE with a NAME of {', '.join(known) or 'none'} for"
                f" {calibrator.name}, got {setting!r}."
            )
        options[name] = _parse(value)
    return replace(calibrator, **options)  # type: ignore[type-var]


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
    densities: Path | None,
    calibrator: Calibrator,
) -> Table:
    """Return labelled rows, followed by out-of-distribution rows with label -1."""
    table = with_densities(read_labelled(logits, labels), densities, calibrator)
    if environments is not None:
        _refuse_unless("environment" in calibrator.reads, calibrator, "--environments")
        table = replace(table, environment=read_environments(environments))
    elif table.environment is not None and "environment" not in calibrator.reads:
        say(f"{calibrator.name} does not read the environments of {logits}; its rows are pooled.")
        table = replace(table, environment=None)
    if ood is None:
        return table
    _refuse_unless(calibrator.accepts_ood, calibrator, "--ood")
    return with_ood(table, read_table(ood), ood)


def with_densities(table: Table, path: Path | None, calibrator: Calibrator) -> Table:
    """Return a table with the distances that a method needs, without them where it needs none."""
    if path is not None:
        if "distances" not in calibrator.reads:
            raise click.UsageError(
                f"{calibrator.name} does not read distances. Leave out --densities, or use dac."
            )
        return replace(table, densities=read_densities(path))
    return table if "distances" in calibrator.reads else replace(table, densities=None)


def _refuse_unless(accepts: bool, calibrator: Calibrator, option: str) -> None:
    if accepts:
        return
    kinds = CALIBRATORS.items()
    rows, able = {
        "--ood": (
            "use out-of-distribution rows",
            [name for name, kind in kinds if kind.accepts_ood],
        ),
        "--environments": (
            "read environments",
            [name for name, kind in kinds if "environment" in kind.reads],
        ),
    }[option]
    raise click.UsageError(
        f"{calibrator.name} does not {rows}. Leave out {option}, or use one of: {', '.join(able)}."
    )


def read_labelled(logits: Path, labels: Path | None = None) -> Table:
    """Return the rows of a file that must have labels."""
    table = read_table(logits, labels=labels)
    if table.y is None:
        raise FileFormatError(f"{logits} has no labels; add an array `y` (or see --labels).")
    return table


def with_ood(table: Table, strangers: Table, path: Path) -> Table:
    """Return a table with out-of-distribution rows appended, as one more environment."""
    z = check_logits(table.logits, fitting=True)
    # Also makes integers of labels that could not hold -1, such as uint8.
    y = check_labels(table.y, *z.shape, accepts_ood=True)  # type: ignore[arg-type]
    more = strangers.logits
    if more.ndim != 2 or more.shape[1:] != table.logits.shape[1:]:
        raise FileFormatError(
            f"{path} must have logits of {table.logits.shape[-1]} classes, as the other file,"
            f" got shape {more.shape}."
        )
    environment = None
    if table.environment is not None:
        numbers = check_environment(table.environment, y, None)
        environment = np.concatenate([numbers, np.full(len(more), numbers.max() + 1)])
    return Table(
        np.concatenate([z, more]),
        np.concatenate([y, np.full(len(more), OOD_LABEL)]),
        environment,
        _joined_densities(table, strangers, path),
    )


def _joined_densities(table: Table, strangers: Table, path: Path) -> Any:
    if table.densities is None:
        return None
    if strangers.densities is None:
        raise FileFormatError(
            f"{path} has no distances to training rows; give a .npz with `logits` and `densities`."
        )
    if table.densities.shape[1:] != strangers.densities.shape[1:]:
        raise FileFormatError(
            f"{path} must have distances of as many layers as the other file, got shapes"
            f" {strangers.densities.shape} and {table.densities.shape}."
        )
    return np.concatenate([table.densities, strangers.densities])


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
