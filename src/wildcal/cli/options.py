"""Options that several commands share."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import reduce, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeVar

import click

from wildcal.cli.output import QUIET, STANDARD, progress_bar
from wildcal.core.exceptions import InputError
from wildcal.io.schema import INPUTS, Columns

PATH = click.Path(path_type=Path)
Command = TypeVar("Command", bound=Callable[..., Any])


def _set_quiet(context: click.Context, option: click.Parameter, value: bool) -> None:
    context.meta[QUIET] = value or context.meta.get(QUIET, False)


def names_of(context: click.Context, option: click.Parameter, value: str | None) -> Any:
    """Return names separated by commas as a tuple."""
    if value is None:
        return None
    names = tuple(word.strip() for word in value.split(","))
    if not all(names):
        raise click.BadParameter(f"must be names separated by commas, got {value!r}.")
    return names


def pairs(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Any:
    """Return NAME=VALUE words as a dict."""
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not (name.strip() and equals):
            raise click.BadParameter(f"must be NAME=VALUE, got {value!r}.")
        if name.strip() in found:
            raise click.BadParameter(f"must be different names, got {name.strip()!r} twice.")
        found[name.strip()] = text
    return found


def named_files(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Any:
    """Return NAME=FILE words as pairs."""
    return [(name, Path(path)) for name, path in pairs(context, option, values).items()]


def _files_option(name: str, metavar: str, text: str) -> Any:
    return click.option(
        name, multiple=True, callback=named_files, metavar=metavar, help=f"{text}; repeatable."
    )


def combined(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return several options as one decorator."""

    def decorate(command: Command) -> Command:
        return reduce(lambda decorated, option: option(decorated), reversed(options), command)

    return decorate


def _replicates(context: click.Context, option: click.Parameter, value: int) -> int:
    if value == 1 or value < 0:
        raise click.BadParameter(f"must be 0 for no intervals, or at least 2, got {value}.")
    return value


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
calibrators_option = click.option(
    "--calibrator", "calibrators", type=PATH, multiple=True, help="A saved calibrator; repeatable."
)
n_bins_option = click.option(
    "--n-bins", default=15, show_default=True, type=click.IntRange(1, 1000), help="Bins of the ECE."
)
n_bootstrap_option = click.option(
    "--n-bootstrap",
    default=200,
    show_default=True,
    type=int,
    callback=_replicates,
    help="Replicates for 95 % intervals; 0 for none.",
)
seed_option = click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
bootstrap_options = combined(n_bins_option, n_bootstrap_option, seed_option)
"""The command gets `n_bins`, `n_bootstrap` and `seed`."""
test_files_options = combined(
    _files_option("--shifted", "NAME[:SEVERITY]=FILE", "Test samples of a shifted domain"),
    _files_option("--ood", "NAME=FILE", "OOD samples to fit on"),
    _files_option("--test-ood", "NAME=FILE", "OOD samples to test on"),
)
"""The command gets `shifted`, `ood` and `test_ood`, which `write_suite` takes."""
methods_option = click.option(
    "--methods", callback=names_of, metavar="NAME,...", help="Methods to compare."
)
params_option = click.option(
    "--param",
    "params",
    multiple=True,
    callback=pairs,
    metavar="NAME=VALUE",
    help="Option of the method; repeatable.",
)
metadata_option = click.option(
    "--metadata",
    multiple=True,
    callback=pairs,
    metavar="NAME=TEXT",
    help="Note to keep in the file; repeatable.",
)
scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS|local",
    help="`local` for all cores of this machine, or the address of a Dask scheduler.",
)
knn_option = click.option(
    "--knn-file", type=PATH, help="Distances to training samples (.npy, .npz), for dac."
)

_column_options = combined(
    click.option(
        "--input",
        "input",
        type=click.Choice(INPUTS),
        help="What the scores are.  [logits, or as declared at fit]",
    ),
    click.option(
        "--score-columns",
        callback=names_of,
        metavar="NAME,...",
        help="Columns of the classes in order, or a prefix such as 'logit_*'.",
    ),
    click.option("--label-column", metavar="NAME", help="Column of the label.  [label, y]"),
    click.option("--group-column", metavar="NAME", help="Column to evaluate by group."),
    click.option("--domain-column", metavar="NAME", help="Column of the domain."),
    click.option("--weight-column", metavar="NAME", help="Column of the sample weight."),
    click.option("--id-column", metavar="NAME", help="Column of the sample's id."),
    click.option("--positive-class", metavar="LABEL", help="With two classes, label of class 1."),
    click.option(
        "--correct-column",
        metavar="NAME",
        help="With --input confidence: whether the prediction was right.",
    ),
    click.option("--percent", is_flag=True, help="Scores are 0 to 100."),
    click.option("--class-names", callback=names_of, metavar="NAME,...", help="Classes in order."),
)


def columns_options(command: Command) -> Command:
    """Add the options that declare columns; the command gets them as `columns`."""

    @wraps(command)
    def with_columns(*args: Any, **options: Any) -> Any:
        names = [field.name for field in fields(Columns) if field.name in options]
        declared = {name: options.pop(name) for name in names}
        return command(*args, columns=Columns(**declared), **options)

    return _column_options(with_columns)  # type: ignore[return-value]


def open_suite(name: str | Path) -> Any:
    """Return the suite at a path or, if nothing is there, the installed one of that name."""
    from wildcal.io.suite import Suite
    from wildcal.suites import list as list_suites
    from wildcal.suites import load

    if Path(name).exists():
        return Suite.open(name)
    if str(name) in list_suites():
        return load(str(name))
    installed = ", ".join(list_suites()) or 'none; pip install "wildcal[suites]"'
    raise InputError(
        f"suite must be a folder, a .npz or the name of an installed suite ({installed}), got"
        f" {name}.",
        "suite",
    )


def load_calibrator(path: Path, columns: Columns) -> tuple[Any, Columns]:
    """Return a saved calibrator, and the columns: as given, else as declared at its fit."""
    from wildcal.io.artifact import load
    from wildcal.io.chunked import columns_for

    calibrator, info = load(path, return_info=True)
    return calibrator, columns_for(calibrator, columns.or_else(Columns.from_dict(info.columns)))


def read_labeled(
    source: Path | tuple[Path, ...],
    columns: Columns,
    *,
    knn_file: Path | None = None,
    labels_file: Path | None = None,
    max_samples: int | Literal["fit"] | None = None,
) -> Any:
    """Return the samples of files, which must have labels."""
    from wildcal.io.samples import read_samples

    y = None if labels_file is None else read_array(labels_file)
    with standard_input(source) as path, progress_bar("Reading"):
        samples = read_samples(path, y, columns=columns, max_samples=max_samples)
    if knn_file is not None:
        samples = replace(samples, knn_distances=read_array(knn_file))
    samples.require_labels()
    return samples


def read_array(path: Path) -> Any:
    """Return the only array of a file of labels or distances, or its only column."""
    from wildcal.io.formats import open_source

    for batch in open_source(path).read():
        if len(batch) != 1:
            raise InputError(f"{path} must have one array or column, got {', '.join(batch)}.")
        return next(iter(batch.values()))
    raise InputError(f"{path} must have one array or column, got none.")


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
