"""`wildcal fit`: learn a calibrator from held-out rows and labels."""

import ast
import copy
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from wildcal._old.cli.declared import Declared, input_options, with_columns
from wildcal._old.cli.options import PATH, distances_option, quiet_option, refuse_same
from wildcal._old.cli.output import progress_bar, say, warn
from wildcal._old.cli.sharded import (
    at_work,
    open_source,
    refuse_scheduler,
    scheduler_option,
    verify_option,
)
from wildcal._old.cli.words import as_flags
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.evaluation.methods import Method, choose_methods
from wildcal._old.io import About, InputRows, save
from wildcal._old.io.files import check_writable
from wildcal._old.io.tables import with_others


def _known_method(context: click.Context, option: click.Parameter, value: str) -> Method:
    try:
        return choose_methods([value])[0]
    except ValueError as error:
        raise click.BadParameter(as_flags(str(error))) from error


def read_notes(context: click.Context, option: click.Parameter, values: Iterable[str]) -> Any:
    """Read NAME=WORDS."""
    notes = {}
    for value in values:
        name, equals, words = value.partition("=")
        if not (name.strip() and equals):
            raise click.BadParameter(f"give NAME=WORDS such as network=resnet20, got {value!r}.")
        notes[name.strip()] = words
    return notes


def fit_options(command: Any) -> Any:
    """Add the options of a fit, on files or on a suite."""
    for option in (
        click.option("-o", "--output", type=PATH, required=True, help="Where to save it (.json)."),
        quiet_option,
        click.option(
            "--note",
            "notes",
            multiple=True,
            callback=read_notes,
            metavar="NAME=WORDS",
            help="Words to keep in the file, such as network=resnet20; repeatable.",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Option of the method.",
        ),
        click.option(
            "--method",
            callback=_known_method,
            default="auto",
            show_default=True,
            help="A name that `wildcal methods` lists, dac+NAME, or MODULE:CLASS.",
        ),
    ):
        command = option(command)
    return command


@click.command(no_args_is_help=True)
@click.argument("rows", type=PATH, required=False)
@click.option("--logits", "old", type=PATH, hidden=True, help="The same as ROWS.")
@click.option("--ood", type=PATH, help="Rows of other classes, for methods that use them.")
@click.option(
    "--environments",
    type=PATH,
    help="Environment of each row, 0 for clean ones, if in a file of its own; for window.",
)
@distances_option
@click.option("--suite", type=PATH, hidden=True, help="The same as `wildcal suite fit SUITE`.")
@scheduler_option
@verify_option
@input_options
@fit_options
def fit(
    rows: Path | None,
    old: Path | None,
    ood: Path | None,
    environments: Path | None,
    distances: Path | None,
    suite: Path | None,
    scheduler: str | None,
    verify: bool,
    declared: Declared,
    method: Method,
    settings: tuple[str, ...],
    notes: dict[str, str],
    output: Path,
) -> None:
    """Fit a calibrator on held-out ROWS and save it.

    ROWS is a file of scores and labels (.npz .npy .csv .tsv .jsonl .parquet .feather .safetensors
    .pt, or - for standard input) from data that the network was not trained on. Scores are raw
    logits unless --input says otherwise. The default, `auto`, mixes simple methods and says how.

    The method `window` also learns from an array `environment`: an integer for each row, 0 for
    clean ones, others for rows that were taken under other conditions, such as another camera. The
    methods `dac` and `dac+NAME` also read an array `distances`: those of each row to training
    rows, a column for each layer. `wildcal suite fit` fits on the splits of a suite.

    A folder or a pattern of shards, 'val/*.npz', is read piece by piece, and with --scheduler on
    the workers of a cluster.

    \b
    Example:
      wildcal fit val.npz -o auto.json
      wildcal fit val.csv --input proba --label-column species -o auto.json
      wildcal fit val.npz --method energy --ood ood.npz -o energy.json
      wildcal fit val.npz --method energy --set theta_bounds=paper --note net=resnet20 -o e.json
      wildcal fit cameras.npz --method window -o window.json
      wildcal fit shards/ --method ts --scheduler local -o ts.json
    """
    if suite is not None:
        if any((rows, old, ood, environments, distances, declared.labels)):
            raise click.UsageError("--suite brings all rows; leave out the other files.")
        return save_suite_fit(suite, method, settings, notes, output)
    if (rows is None) is (old is None):
        raise click.UsageError(
            "give ROWS, a file of scores and labels." if rows is None else "give ROWS once."
        )
    rows = rows or old
    assert rows is not None
    refuse_same(output)
    check_target(output)
    if distances is not None and method.name == "auto":
        (method,) = choose_methods(["dac+auto"])
        say("With --distances, auto becomes dac+auto: they scale the logits that it reads.")
    calibrator = with_options(method.calibrator, settings)
    if str(method) != _plain(method):
        raise click.UsageError(
            f"{method.name} is fitted on the splits of a suite; see `wildcal suite fit --help`."
        )
    _refuse_unread(calibrator, ood, environments, distances)
    source = open_source(rows, declared, ood, environments, distances, verify=verify)
    if source is not None:
        with at_work(scheduler, f"Fitting {calibrator.title}"):
            calibrator.fit(source)
        save(calibrator, output, About(notes=notes))
        return _tell(calibrator, "", output)
    refuse_scheduler(scheduler)
    tuning = with_columns(
        declared.read_labeled(rows), environments=environments, distances=distances
    )
    tuning = _only_read(tuning, calibrator, rows)
    if ood is not None:
        tuning = with_others(tuning, declared.read_others(ood, like=tuning), ood)
    _save_fit(calibrator, tuning, notes, output)


def _save_fit(
    calibrator: Calibrator, tuning: InputRows, notes: dict[str, str], output: Path
) -> None:
    with progress_bar(f"Fitting {calibrator.title}"):
        calibrator.fit(
            tuning.logits,
            tuning.y,
            sample_weight=tuning.weight,
            environment=tuning.environment,
            distances=tuning.distances,
        )
    save(calibrator, output, About(tuning.classes, tuning.kind, tuning.floor, notes))
    used = tuning.environment
    _tell(calibrator, "" if used is None else f"{len(np.unique(used))} environments", output)


def save_suite_fit(
    path: Path,
    method: Method,
    settings: tuple[str, ...],
    notes: dict[str, str],
    output: Path,
) -> None:
    """Fit a method on the tuning splits of a suite, save it, and say what it used."""
    from wildcal._old.cli.opening import open_suite  # here: a fit on a file starts without suites
    from wildcal._old.evaluation.protocol.fitted import fit_method
    from wildcal._old.evaluation.protocol.tuning import read_tuning as suite_tuning

    check_target(output)
    refuse_same(output)
    method = replace(method, calibrator=with_options(method.calibrator, settings))
    suite = open_suite(path)
    with progress_bar(f"Fitting {method.calibrator.title}"), suite.opened():
        tuning = suite_tuning(suite, None, None)
        fitted = fit_method(method, tuning)
    names = {f"environment {i}": s.name for i, s in enumerate(tuning.shifted, start=1)}
    for note in fitted.calibrator.fit_.notes:
        first, colon, rest = note.partition(":")
        warn(f"warning: {names.get(first, first)}{colon}{rest}")
    save(fitted.calibrator, output, About(notes=notes))
    _tell(fitted.calibrator, fitted.knew.words(), output)


def check_target(output: Path) -> None:
    """Raise, before the work, if a calibrator could not be saved there."""
    if output.suffix != ".json":
        raise click.UsageError(f"-o must end in .json, got {output}.")
    check_writable(output)


def _tell(calibrator: Calibrator, used: str, output: Path) -> None:
    say(summary_line(calibrator))
    if calibrator.name == "auto":
        say(calibrator.describe()[0])
        if calibrator.fit_.reason:
            say(calibrator.fit_.reason)
        if not calibrator.preserves_accuracy:
            say("It may change which class is most probable.")
    if used:
        say(f"It used {used}.")
    if calibrator.caution():
        say(calibrator.caution())
    say(f"Wrote {output}.")


def _plain(method: Method) -> str:
    """Return the short form of a method that sees the rows it sees unless told otherwise."""
    return str(Method(method.name, method.calibrator))


def with_options(calibrator: Calibrator, settings: tuple[str, ...]) -> Calibrator:
    """Return an unfitted calibrator with options given as NAME=VALUE."""
    known = [name for name in calibrator.get_params(deep=False) if name != "base"]
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in known:
            raise click.UsageError(
                f"--set takes NAME=VALUE with a NAME of {', '.join(known) or 'none'} for"
                f" {calibrator.name}, got {setting!r}."
            )
        options[name] = _parse(value)
    return copy.deepcopy(calibrator).set_params(**options)


def _parse(value: str) -> Any:
    """Return a value written as JSON, or as `wildcal inspect` prints it; else the text itself."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            parsed = read(value)
            return tuple(parsed) if isinstance(parsed, list) else parsed
    return value


def _only_read(rows: InputRows, calibrator: Calibrator, path: Path) -> InputRows:
    """Return rows without the columns that a method does not read."""
    if rows.environment is not None and "environment" not in calibrator.reads:
        say(f"{calibrator.name} does not read the environments of {path}; its rows are pooled.")
        rows = replace(rows, environment=None)
    if rows.distances is not None and calibrator.name == "auto":
        say(f"auto does not read the distances of {path}; --method dac+auto does.")
    return rows if "distances" in calibrator.reads else replace(rows, distances=None)


def _refuse_unread(
    calibrator: Calibrator, ood: Path | None, environments: Path | None, distances: Path | None
) -> None:
    for given, used, option, verb, able in (
        (ood, calibrator.takes_ood, "--ood", "use out-of-distribution rows",
         "energy, energy-linear"),
        (environments, "environment" in calibrator.reads, "--environments", "read environments",
         "window"),
        (distances, "distances" in calibrator.reads, "--distances", "read distances", "dac"),
    ):  # fmt: skip
        if given is not None and not used:
            raise click.UsageError(
                f"{calibrator.name} does not {verb}. Leave out {option}, or use one of: {able}."
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
        line += f" in {done.iterations} iterations" if done.iterations else ""
        line += "" if done.converged else ", NOT CONVERGED"
    return line + "."
