"""`wildcal compare`: fit many methods on one file of rows, measure them on another."""

from dataclasses import replace
from pathlib import Path

import click

from wildcal._old.cli.choice import choose_on_files
from wildcal._old.cli.declared import Declared, input_options
from wildcal._old.cli.evaluate import read_test
from wildcal._old.cli.opening import refuse_suites
from wildcal._old.cli.options import PATH, Measured, Output, measuring, methods_option
from wildcal._old.cli.output import progress_bar, say, warn
from wildcal._old.cli.sharded import (
    at_work,
    open_source,
    refuse_scheduler,
    scheduler_option,
    verify_option,
)
from wildcal._old.cli.suite_compare import compare_suites
from wildcal._old.cli.words import as_flags
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.errors import FileFormatError
from wildcal._old.evaluation import compare as compare_methods
from wildcal._old.evaluation.views import Comparison
from wildcal._old.io import About, InputRows
from wildcal._old.io.tables import with_others
from wildcal._old.tables.terminal import show


@click.command(no_args_is_help=True)
@click.argument("tune", type=PATH)
@click.argument("test", type=PATH, required=False)
@click.option("--test-labels", type=PATH, help="Labels of TEST, if in a file of their own.")
@click.option("--ood", type=PATH, help="Rows of other classes to tune with.")
@click.option("--test-ood", type=PATH, help="Rows of other classes to test with.")
@methods_option
@scheduler_option
@verify_option
@input_options
@measuring
def compare(
    tune: Path,
    test: Path | None,
    test_labels: Path | None,
    ood: Path | None,
    test_ood: Path | None,
    methods: str,
    scheduler: str | None,
    verify: bool,
    declared: Declared,
    measured: Measured,
) -> None:
    """Fit methods on TUNE and measure them on TEST; print a table, least ECE first.

    Both are files of scores and labels. Rows of --ood reach the methods that use such rows, and the
    table says which did. The same rows should not serve for tuning and for testing. An array
    `environment` in TUNE reaches `window`; to the other methods its rows are one set. Rows of TEST
    are read alone. With --input proba, `identity` is what the file says, zeros included.

    Both may be folders or patterns of shards, which are read piece by piece, with --scheduler on
    the workers of a cluster; there are no intervals then.

    `wildcal suite compare` does the same on all splits of suites; with one argument, this command
    is that one.

    \b
    Example:
      wildcal compare val.npz test.npz --ood svhn.npz --methods ts,ets,energy
      wildcal compare val.csv test.csv --input proba --label-column species --methods auto,ts
      wildcal compare val.npz test.npz --methods all --csv methods.csv
    """
    if test is None:
        if declared != Declared() or any((test_labels, ood, test_ood)):
            raise click.UsageError(
                "with one argument, that is a suite, which brings its labels and"
                " out-of-distribution rows; give TUNE and TEST for files."
            )
        return compare_suites((tune,), methods, measured)
    beside = test_labels, ood, test_ood
    sources = [open_source(p, declared, *beside, verify=verify) for p in (tune, test)]
    if None not in sources:
        with at_work(scheduler, "Comparing"):
            result = compare_methods(choose_on_files(methods), *sources, n_bins=measured.bins)
        return _show(result, measured.output)
    refuse_scheduler(scheduler)
    refuse_suites(tune, test)
    calibrators = choose_on_files(methods)
    tuning = _read_tuning(declared, tune, ood, calibrators)
    about = About(tuning.classes, tuning.kind, tuning.floor)
    tested = read_test(
        replace(declared, labels=None), test, test_ood, about=about, labels=test_labels
    )
    _show(_compared(calibrators, tuning, tested, measured), measured.output)


def _compared(
    calibrators: dict[str, Calibrator], tuning: InputRows, tested: InputRows, measured: Measured
) -> Comparison:
    with progress_bar("Comparing", total=len(calibrators)) as progress:
        task = progress.task_ids[0]

        def next_method(name: str) -> None:
            done = list(calibrators).index(name)
            progress.update(task, completed=done, description=f"Comparing: {name}")

        return compare_methods(
            calibrators,
            (tuning.logits, tuning.y),
            (tested.logits, tested.y),
            environment=tuning.environment,
            proba=tested.proba,
            pred=tested.pred,
            n_bins=measured.bins,
            n_boot=measured.bootstrap,
            progress=next_method,
        )


def _show(result: Comparison, output: Output) -> None:
    _warn_of(result)
    if not result.methods:
        raise FileFormatError("no method could be fitted.")
    output.write(json=result.to_dict, csv=result.to_csv, table=lambda: show(result.table()))


def _read_tuning(
    declared: Declared, path: Path, ood: Path | None, calibrators: dict[str, Calibrator]
) -> InputRows:
    rows = replace(declared.read_labeled(path), distances=None)
    if rows.environment is not None and not any(
        "environment" in c.reads for c in calibrators.values()
    ):
        say(f"none of the methods reads the environments of {path}; its rows are pooled.")
        rows = replace(rows, environment=None)
    return rows if ood is None else with_others(rows, declared.read_others(ood, like=rows), ood)


def _warn_of(result: Comparison) -> None:
    for name, reason in result.failed.items():
        warn(f"warning: {name} failed: {as_flags(reason)}")
    for method in result.methods:
        for note in method.notes:
            warn(f"warning: {method.name}: {note}")
        if not method.converged:
            warn(f"warning: {method.name} did not converge; use its row with care.")
