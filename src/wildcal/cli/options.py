"""Options that several commands share."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import click
import numpy as np

from wildcal import suites
from wildcal.cli.output import QUIET, STANDARD, progress_bar
from wildcal.cli.types import LABEL, NAME, NAMES, PATH, named_files, pairs
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError
from wildcal.io.artifact import load
from wildcal.io.chunked import columns_for
from wildcal.io.formats import naming, open_source
from wildcal.io.samples import SampleSet, read_samples
from wildcal.io.schema import INPUTS, Columns
from wildcal.io.suite import Suite

Command = TypeVar("Command", bound=Callable[..., Any])


def _set_quiet(context: click.Context, option: click.Parameter, value: bool) -> None:
    context.meta[QUIET] = value or context.meta.get(QUIET, False)


def pairs_option(
    name: str, metavar: str, text: str, callback: Any = pairs
) -> Callable[[Command], Command]:
    """Return an option that is repeatable; the command gets a dict."""
    return click.option(
        name, multiple=True, callback=callback, metavar=metavar, help=f"{text}; repeatable."
    )


def combined(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return several options as one decorator."""

    def decorate(command: Command) -> Command:
        return reduce(lambda decorated, option: option(decorated), reversed(options), command)

    return decorate


def table(options: Mapping[str, tuple[Any, str | None]]) -> Callable[[Command], Command]:
    """Return options without defaults as one decorator, from their types and helps by name."""
    return combined(
        *(
            click.option(f"--{name.replace('_', '-')}", type=kind, help=text)
            for name, (kind, text) in options.items()
        )
    )


def _replicates(context: click.Context, option: click.Parameter, value: int | None) -> int | None:
    if value is not None and (value == 1 or value < 0):
        raise click.BadParameter(f"must be 0 for no intervals, or at least 2, got {value}.")
    return value


def _n_bootstrap_option(default: int | None, note: str = "") -> Callable[[Command], Command]:
    text = f"Replicates for 95 % intervals; 0 for none.{note}"
    return click.option("--n-bootstrap", default=default, type=int, callback=_replicates, help=text)


quiet_option = click.Option(
    ["-q", "--quiet"],
    is_flag=True,
    expose_value=False,
    callback=_set_quiet,
    help="Print only results, warnings and errors.",
)
"""Every command has it."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
csv_option = click.option(
    "--csv", "csv_output", type=PATH, metavar="FILE", help="Write a csv file; - for stdout."
)
result_options = combined(json_option, csv_option)
"""The command gets `as_json` and `csv_output`, which `print_result` takes."""
output_option = click.option("-o", "--output", type=PATH, required=True, help="File to write.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace existing files.")
n_bootstrap_option = _n_bootstrap_option(200)
seed_option = click.option("--seed", default=0, type=click.IntRange(min=0))
_n_bins_option = click.option(
    "--n-bins", default=15, type=click.IntRange(1, 1000), help="Bins of the ECE."
)
bootstrap_options = combined(_n_bins_option, n_bootstrap_option, seed_option)
"""The command gets `n_bins`, `n_bootstrap` and `seed`."""
evaluation_options = combined(
    _n_bins_option,
    _n_bootstrap_option(None, "  [200; 0 above 500,000 samples]"),
    seed_option,
)
"""The same, where the default of `n_bootstrap` depends on the number of samples."""
test_files_options = combined(
    pairs_option(
        "--shifted", "NAME[:SEVERITY]=FILE", "Test samples of a shifted domain", named_files
    ),
    pairs_option("--ood", "NAME=FILE", "OOD samples to fit on", named_files),
    pairs_option("--test-ood", "NAME=FILE", "OOD samples to test on", named_files),
)
"""The command gets `shifted`, `ood` and `test_ood`, which `write_suite` takes."""
methods_option = click.option("--methods", type=NAMES, help="Methods to compare.")
metadata_option = pairs_option("--metadata", "NAME=TEXT", "Note to keep in the file")
scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS|local",
    help="`local` for all cores of this machine, or the address of a Dask scheduler.",
)
knn_option = click.option(
    "--knn-file", type=PATH, help="Distances to training samples (.npy, .npz), for dac."
)

_LABEL_COLUMNS: Final = {
    "label_column": (NAME, "Column of the label.  [label, y]"),
    "group_column": (NAME, "Column to evaluate by group."),
    "domain_column": (NAME, "Column of the domain."),
    "weight_column": (NAME, "Column of the sample weight."),
    "positive_class": (LABEL, "With two classes, label of class 1."),
    "correct_column": (NAME, "With --input confidence: whether the prediction was right."),
}
_COLUMNS: Final = {
    "input": (click.Choice(INPUTS), "Kind of the scores.  [logits, or as declared at fit]"),
    "score_columns": (NAMES, "Columns of the classes in order, or a prefix such as 'logit_*'."),
    **_LABEL_COLUMNS,
    "id_column": (NAME, "Column of the sample's id."),
    "class_names": (NAMES, "Classes in order."),
}


def columns_options(command: Command) -> Command:
    """Add the options that declare columns; the command gets them as `columns`."""

    @wraps(command)
    def with_columns(*args: Any, **options: Any) -> Any:
        declared = {name: options.pop(name) for name in (*_COLUMNS, "percent")}
        return command(*args, columns=Columns(**declared), **options)

    percent_option = click.option("--percent", is_flag=True, help="Scores are 0 to 100.")
    return combined(table(_COLUMNS), percent_option)(with_columns)  # type: ignore[return-value]


def hide_label_options(command: click.Command) -> click.Command:
    """Leave the options for labels out of the help of a command that does not read labels."""
    for option in command.params:
        if isinstance(option, click.Option) and option.name in _LABEL_COLUMNS:
            option.hidden = True
    return command


def open_suite(name: str | Path) -> Any:
    """Return the suite at a path or, if nothing is there, the installed one of that name."""
    if Path(name).exists():
        return Suite.open(name)
    if str(name) in suites.list():
        return suites.load(str(name))
    installed = ", ".join(suites.list()) or 'none; pip install "wildcal[suites]"'
    raise InputError(
        f"suite must be a folder, a .npz or the name of an installed suite ({installed}), got"
        f" {name}.",
        "suite",
    )


def open_suites(names: Iterable[str]) -> dict[str, Any]:
    """Return suites by their names."""
    found: dict[str, Any] = {}
    for suite in map(open_suite, names):
        if suite.name in found:
            raise InputError(f"suites must have different names, got {suite.name!r} twice.")
        found[suite.name] = suite
    return found


def load_fitted(path: Path, param: str = "calibrator") -> tuple[Any, Any]:
    """Return the calibrator or accuracy estimator in a file, and the information about it."""
    fitted, info = load(path, return_info=True)
    is_calibrator = isinstance(fitted, Calibrator)
    if is_calibrator != (param == "calibrator"):
        made, other = ("accuracy fit", "a calibrator") if is_calibrator else ("fit", "an estimator")
        raise InputError(f"{param} must be a file of `{made}`, got {path}, {other}.", param)
    return fitted, info


def load_with_columns(
    path: Path, columns: Columns, param: str = "calibrator"
) -> tuple[Any, Columns]:
    """Return what is in a file, and the columns: as given, else as declared at its fit."""
    fitted, info = load_fitted(path, param)
    return fitted, columns_for(fitted, columns.or_else(Columns.from_dict(info.columns)))


def check_test_file(test: Path, calibration: Path) -> None:
    """Raise if the samples of a test are those of the calibration."""
    if test.resolve() == calibration.resolve():
        raise InputError(f"test must be another file than calibration, got {test} twice.", "test")


def read_labeled(
    source: Path | tuple[Path, ...],
    columns: Columns,
    *,
    knn_file: Path | None = None,
    labels_file: Path | None = None,
    ood: Path | None = None,
    **options: Any,
) -> SampleSet:
    """Return the samples of files, which must have labels, then the OOD samples of another."""
    y = None if labels_file is None else read_array(labels_file)
    with standard_input(source) as path, progress_bar("Reading"):
        samples = read_samples(path, y, columns=columns, **options)
    if knn_file is not None:
        samples = replace(samples, knn_distances=read_array(knn_file))
    with naming(source if isinstance(source, Path) else source[0]):
        samples.require_labels()
    return samples if ood is None else with_ood(samples, ood, columns)


def refuse_weights(columns: Columns, what: str) -> None:
    """Raise if a column of weights is declared, which would not be used."""
    if columns.weight_column is not None:
        raise InputError(f"weight_column must be left out: {what} count samples.", "weight_column")


def with_ood(samples: SampleSet, path: Path, columns: Columns) -> SampleSet:
    """Return samples with those of another file appended, with the label -1."""
    declared = replace(columns, input=samples.input, class_names=samples.class_names)
    other = read_samples(path, columns=declared, labels=False)
    n = len(other)
    if samples.knn_distances is not None and other.knn_distances is None:
        raise InputError(f"{path} must have k-NN distances too.", "ood")
    added = {
        "X": other.X,
        "y": np.full(n, -1),
        "sample_weight": np.ones(n),
        "knn_distances": other.knn_distances,
    }
    for name in ("domain", "group"):  # ignored where y is -1
        if getattr(samples, name) is not None:
            added[name] = np.full(n, getattr(samples, name)[0])
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(samples, name), values])
        for name, values in added.items()
        if getattr(samples, name) is not None
    }
    return replace(samples, **arrays)


def read_array(path: Path) -> Any:
    """Return the only array of a file of labels or distances, or its only column."""
    batch: Any = next(open_source(path).read(), {})
    if len(batch) != 1:
        found = ", ".join(batch) or "none"
        raise InputError(f"{path} must have one array or column, got {found}.")
    return next(iter(batch.values()))


@contextmanager
def standard_input(source: Any) -> Iterator[Any]:
    """Give a path for standard input (`-`): a temporary .csv or .jsonl file."""
    if source not in (STANDARD, (STANDARD,)):
        yield source
        return
    if sys.stdin is None:
        raise InputError("standard input is closed; pipe samples into the command.")
    data = sys.stdin.buffer.read()
    ending = ".jsonl" if data.lstrip()[:1] == b"{" else ".csv"
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"stdin{ending}"
        path.write_bytes(data)
        yield path
