"""`wildcal compare`: fit many methods on one set, measure them on another or on whole suites."""

import zipfile
from dataclasses import replace
from pathlib import Path

import click

from wildcal.cli.evaluate import read_test
from wildcal.cli.fit import read_labelled, with_ood
from wildcal.cli.options import PATH, measuring, one_format
from wildcal.cli.output import print_json, progress_bar, say
from wildcal.cli.suite import is_suite, open_suite
from wildcal.cli.suite_table import compare_on_suites, print_suites
from wildcal.core.calibrator import Calibrator
from wildcal.core.errors import FileFormatError
from wildcal.evaluation import compare as compare_methods
from wildcal.evaluation.methods import parse, split_list
from wildcal.evaluation.protocol import choose_methods
from wildcal.io import read_table
from wildcal.tables.terminal import show


@click.command(no_args_is_help=True)
@click.argument("files", type=PATH, nargs=-1, required=True, metavar="VAL TEST | SUITE...")
@click.option("--labels", type=PATH, help="Labels of VAL, if they are in a file of their own.")
@click.option("--test-labels", type=PATH, help="Labels of TEST, likewise.")
@click.option("--ood", type=PATH, help="Out-of-distribution logits to tune with.")
@click.option("--test-ood", type=PATH, help="Out-of-distribution logits to test with.")
@click.option(
    "--methods",
    default="paper",
    show_default=True,
    help="Names, separated by commas; 'paper' and 'all' stand for several.",
)
@measuring
def compare(
    files: tuple[Path, ...],
    labels: Path | None,
    test_labels: Path | None,
    ood: Path | None,
    test_ood: Path | None,
    methods: str,
    bins: int,
    bootstrap: int,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Fit methods on VAL and measure them on TEST; print a table, least ECE first.

    Both files hold logits and labels. Rows of --ood reach the methods that use such rows, and the
    table says which did. The same set should not serve for tuning and for testing. An array
    `environment` in VAL reaches `context`; to the other methods its rows are one set. Rows of TEST
    are read alone.

    With suites (folders, .npz, or names of those that come with wildcal), methods are fitted on the
    tuning splits of each and measured on all its test splits; --csv prints every number. The method
    `energy-no-ood` is the energy method without out-of-distribution rows. Shifted tuning splits
    reach `context`, which also reads each test split as one unlabelled window, and methods whose
    names end in -all, such as `ts-all`: its rivals with the same labels. Names that end in -p are
    tuned on validation rows under noise too; `dac` and `dac+NAME` read distances to training
    images. `wildcal extract --perturb --features` adds both to a suite.

    \b
    Example:
      wildcal compare val.npz test.npz --ood svhn.npz --methods ts,ets,energy
      wildcal compare val.npz test.npz --methods all --csv > methods.csv
      wildcal compare cifar10-resnet20 my-suite --methods ts,ets,energy
      wildcal compare cifar10-resnet20 --methods paper,context,ts-all,energy-all
      wildcal compare cifar10-resnet20 --methods ets,dac+ets,ets-p,energy,dac+energy
    """
    one_format(as_json, as_csv)
    if len(files) == 1 or _are_suites(files):
        if any((labels, test_labels, ood, test_ood)):
            raise click.UsageError("suites bring their labels and out-of-distribution rows.")
        _compare_suites(files, methods, bins, bootstrap, as_json, as_csv)
        return
    if len(files) != 2:
        raise click.UsageError("give VAL and TEST, or suites only.")
    val, test = files
    calibrators = choose(methods)
    tuning = replace(read_labelled(val, labels), densities=None)
    readers = [name for name, c in calibrators.items() if "environment" in c.reads]
    if tuning.environment is not None and not readers:
        say(f"none of the methods reads the environments of {val}; its rows are pooled.")
        tuning = replace(tuning, environment=None)
    if ood is not None:
        tuning = with_ood(tuning, read_table(ood), ood)
    tested = read_test(test, test_labels, test_ood)
    with progress_bar("Comparing", total=len(calibrators)) as progress:
        task = progress.task_ids[0]

        def next_method(name: str) -> None:
            done = list(calibrators).index(name)
            progress.update(task, completed=done, description=f"Comparing: {name}")

        result = compare_methods(
            calibrators,
            (tuning.logits, tuning.y),  # type: ignore[arg-type]  # read_labelled checked it
            (tested.logits, tested.y),  # type: ignore[arg-type]
            environment=tuning.environment,
            n_bins=bins,
            n_boot=bootstrap,
            progress=next_method,
        )
    for name, reason in result.failed.items():
        say(f"warning: {name} failed: {reason}")
    for method in result.methods:
        for note in method.notes:
            say(f"warning: {method.name}: {note}")
        if not method.converged:
            say(f"warning: {method.name} did not converge; use its row with care.")
    if as_json:
        print_json(result.to_dict())
    elif as_csv:
        click.echo(result.to_csv(), nl=False)
    elif result.methods:
        show(result.table())
    if not result.methods:
        raise FileFormatError("no method could be fitted.")


def _compare_suites(
    files: tuple[Path, ...], methods: str, bins: int, bootstrap: int, as_json: bool, as_csv: bool
) -> None:
    names = method_names(methods)
    called = {file.stem if file.exists() else str(file): file for file in files}
    if len(called) < len(files):
        raise click.UsageError("two suites have the same name.")
    suites = {}
    for name, file in called.items():
        try:
            suites[name] = open_suite(file, partial=True)
        except FileFormatError as error:
            if len(files) == 1:
                raise
            say(f"warning: {name} was left out: {error}")
    results = compare_on_suites(suites, choose_methods(names), n_boot=bootstrap, n_bins=bins)
    if as_csv:
        click.echo(results.to_csv(), nl=False)
    elif as_json:
        print_json(results.to_dict()["records"])
    else:
        print_suites(results)
    if not results.suites:
        raise FileFormatError("no suite could be used.")


def _are_suites(files: tuple[Path, ...]) -> bool:
    """Return whether suites were meant: one is there, and the rest are too, or are damaged."""
    suites = [file for file in files if is_suite(file)]
    return bool(suites) and all(
        file in suites or file.is_dir() or (file.suffix == ".npz" and _is_cut(file))
        for file in files
    )


def _is_cut(file: Path) -> bool:
    return file.is_file() and not zipfile.is_zipfile(file)


def choose(methods: str) -> dict[str, Calibrator]:
    """Return unfitted calibrators for a list of names, 'paper' or 'all'."""
    chosen = {name: parse(name) for name in method_names(methods)}
    on_suites = [
        name
        for name, method in chosen.items()
        if str(method) != method.calibrator.name or "distances" in method.calibrator.reads
    ]
    if on_suites:
        raise click.UsageError(
            f"{', '.join(on_suites)}: compared on suites only; give suites instead of VAL and TEST."
        )
    return {name: method.calibrator for name, method in chosen.items()}


def method_names(methods: str) -> list[str]:
    """Return the names in a list, 'paper' and 'all' spelt out, identity always among them."""
    names = list(split_list(methods))
    if not names:
        raise click.UsageError("no method was given; `wildcal methods` lists them.")
    for name in names:
        try:
            parse(name)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
    return list(dict.fromkeys(["identity", *names]))
