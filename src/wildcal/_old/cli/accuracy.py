"""`wildcal accuracy`: how many of some unlabeled rows a network gets right, as far as told."""

import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from wildcal._old.accuracy import (
    AccuracyEstimate,
    AccuracyEstimator,
    compare_estimators,
    load_with_about,
    make_estimator,
    save,
    summarize,
)
from wildcal._old.accuracy.compare import SETTINGS
from wildcal._old.cli.declared import Declared, input_options, refuse_other_kinds, with_columns
from wildcal._old.cli.groups import SuggestingGroup
from wildcal._old.cli.opening import open_suite
from wildcal._old.cli.options import (
    PATH,
    Output,
    Window,
    output_options,
    quiet_option,
    refuse_same,
)
from wildcal._old.cli.output import number_of_rows, progress_bar, say, warn, warn_of_few_rows
from wildcal._old.cli.sharded import (
    at_work,
    open_source,
    refuse_scheduler,
    scheduler_option,
    verify_option,
)
from wildcal._old.core.span import span
from wildcal._old.io import About
from wildcal._old.io.files import check_writable
from wildcal._old.io.tables.source import few
from wildcal._old.tables import Cell, Column, Table, csv, number
from wildcal._old.tables.terminal import show

_COLUMNS = ("rows", "n", "value", "low", "high", "clean_accuracy", "method")

second_option = click.option(
    "--second", type=PATH, help="The same rows of a second network; for the method gde."
)


@click.group(cls=SuggestingGroup, no_args_is_help=True)
def accuracy() -> None:
    """Estimate the accuracy on rows without labels, with an interval.

    \b
    Example:
      wildcal accuracy fit val.npz -o estimator.json
      wildcal accuracy estimate estimator.json today.npz
    """


def _known(context: click.Context, option: click.Parameter, value: str) -> AccuracyEstimator:
    try:
        return make_estimator(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@accuracy.command(no_args_is_help=True)
@click.argument("rows", type=PATH)
@click.option(
    "--method", default="atc-ne", show_default=True, callback=_known, help="Which estimator."
)
@click.option("--environments", type=PATH, help="Environment of each row, if in a file of its own.")
@second_option
@click.option("-o", "--output", type=PATH, required=True, help="Where to save it (.json).")
@verify_option
@input_options
@quiet_option
def fit(
    rows: Path,
    method: AccuracyEstimator,
    environments: Path | None,
    second: Path | None,
    output: Path,
    verify: bool,
    declared: Declared,
) -> None:
    """Fit an estimator of accuracy on labeled ROWS and save it.

    An array `environment` (0 for clean rows, others for other conditions) makes estimates better
    and their intervals narrower; some estimators need it. A folder or a pattern of shards is held
    in memory, if there is room for it.

    \b
    Example:
      wildcal accuracy fit val.npz -o estimator.json
      wildcal accuracy fit cameras.npz --method context -o estimator.json
    """
    refuse_same(output)
    check_target(output)
    source = open_source(rows, declared, environments, verify=verify)
    if source is not None:
        beside = _read_second(second, declared, verify)
        with progress_bar(f"Fitting {method.title}"):
            method.fit(source, second=beside)
        _save(method, output, About())
        return
    read = with_columns(declared.read_labeled(rows), environments=environments)
    other = None if second is None else declared.read_others(second, like=read).logits
    with progress_bar(f"Fitting {method.title}"):
        method.fit(read.logits, read.y, read.environment, second=other)
    _save(method, output, About(read.classes, read.kind, read.floor))


def _read_second(
    path: Path | None, declared: Declared, verify: bool, about: About | None = None
) -> Any:
    """Return the logits of the other network, from shards or from a file."""
    if path is None:
        return None
    source = declared.open_shards(path, verify=verify)
    return declared.read_unlabeled(path, about=about).logits if source is None else source


def _save(method: AccuracyEstimator, output: Path, about: About) -> None:
    save(method, output, about)
    for line in method.describe():
        say(line)
    say(f"Wrote {output}.")


@accuracy.command(no_args_is_help=True)
@click.argument("estimator", type=PATH)
@click.argument("rows", type=PATH)
@second_option
@click.option(
    "--window",
    type=Window(),
    default="all",
    show_default=True,
    help="Rows of one estimate: so many at a time, or all.",
)
@scheduler_option
@verify_option
@input_options
@output_options
def estimate(
    estimator: Path,
    rows: Path,
    second: Path | None,
    window: int | str,
    scheduler: str | None,
    verify: bool,
    declared: Declared,
    output: Output,
) -> None:
    """Estimate the accuracy on ROWS with a saved ESTIMATOR; labels are not needed, nor read.

    A folder or a pattern of shards is read piece by piece, with --scheduler on the workers of a
    cluster, by the estimators whose sums over rows add: all but cot, cott and context.

    \b
    Example:
      wildcal accuracy estimate estimator.json today.npz
      wildcal accuracy estimate estimator.json month.parquet --window 1000 --csv days.csv
    """
    fitted, about = load_with_about(estimator)
    logits: Any = open_source(rows, declared, verify=verify)
    others = _read_second(second, declared, verify, about)
    if logits is None:
        refuse_scheduler(scheduler)
        logits = declared.read_unlabeled(rows, about=about).logits
    else:
        refuse_other_kinds(rows, about)
    n = len(logits)
    size = n if window == "all" else int(window)
    found, doubts = {}, defaultdict(list)
    with at_work(scheduler, "Estimating"):
        for start in range(0, n, size):
            ends = start, min(n, start + size)
            name = f"{ends[0]}-{ends[1] - 1}"
            with warnings.catch_warnings(record=True) as caught:
                found[name] = fitted.estimate(span(logits, *ends), span(others, *ends))
            for warning in caught:
                doubts[str(warning.message)].append(name)
    for text, names in doubts.items():
        where = f"{len(names)} of {len(found)} windows, rows {few(names)}: "
        warn(f"warning: {where if len(found) > 1 else ''}{text}")
    warn_of_few_rows(fitted.name, fitted.smallest_window, min(e.n for e in found.values()))
    output.write(
        json=lambda: [{"rows": name, **e.to_dict()} for name, e in found.items()],
        csv=lambda: csv.render(
            _COLUMNS, [[{"rows": n, **e.to_dict()}[c] for c in _COLUMNS] for n, e in found.items()]
        ),
        table=lambda: _print(list(found.values()), list(found)),
    )


def _print(found: Sequence[AccuracyEstimate], names: Sequence[str]) -> None:
    if len(found) == 1:
        click.echo(f"{found[0]} ({number_of_rows(found[0].n)}, {found[0].method})")
        return
    heads = (Column("rows", is_number=False), Column("accuracy"), Column("below clean"))
    rows = [
        (Cell(name), number(e.value, (e.low, e.high)), number(e.below_clean))
        for name, e in zip(names, found, strict=True)
    ]
    show(Table("Estimated accuracy", heads, tuple(rows), ("In percent, with 95 % intervals.",)))


@accuracy.command(no_args_is_help=True)
@click.argument("suite", type=PATH)
@click.option("--methods", help="Estimators, separated by commas.  [all that can be fitted]")
@click.option(
    "--setting",
    "settings",
    multiple=True,
    type=click.Choice(list(SETTINGS)),
    default=("whole", "128 rows"),
    show_default=True,
    help="Which windows; repeatable.",
)
@output_options
def compare(suite: Path, methods: str | None, settings: tuple[str, ...], output: Output) -> None:
    """Compare estimators on SUITE: each kind of shift is left out of the fit, and estimated.

    It needs shifted tuning splits, which `wildcal extract` adds to a suite.

    \b
    Example:
      wildcal accuracy compare cifar10-resnet20 --methods ac,atc-ne,cot
    """
    names = None
    if methods is not None:
        names = [word.strip() for word in methods.split(",") if word.strip()]
        for name in names:
            _known(click.get_current_context(), None, name)  # type: ignore[arg-type]
    opened = open_suite(suite)
    with progress_bar("Comparing") as bar:
        cells = compare_estimators(
            opened,
            names,
            settings=settings,
            progress=lambda doing: bar.update(bar.task_ids[0], description=doing),
        )
    records = sorted(summarize(cells), key=lambda r: (settings.index(r["setting"]), r["mae"]))
    output.write(
        json=lambda: [cell.to_dict() for cell in cells],
        csv=lambda: csv.render(
            list(cells[0].to_dict()), [list(cell.to_dict().values()) for cell in cells]
        ),
        table=lambda: show(_summary(records)),
    )


def _summary(records: Sequence[dict[str, Any]]) -> Table:
    heads = ("windows", "estimator", "mean error", "worst", "bias", "interval held", "width")
    columns = tuple(Column(head, is_number=i > 1) for i, head in enumerate(heads))
    keys = ("mae", "worst", "bias", "coverage", "width")
    rows = [
        (Cell(r["setting"]), Cell(r["estimator"]), *(number(r[key]) for key in keys))
        for r in records
    ]
    note = "In percent, over windows of shifted rows whose kind of shift was not fitted on."
    return Table("Estimators of accuracy", columns, tuple(rows), (note,))


def check_target(output: Path) -> None:
    """Raise, before the work, if an estimator could not be saved there."""
    if output.suffix != ".json":
        raise click.UsageError(f"-o must end in .json, got {output}.")
    check_writable(output)
