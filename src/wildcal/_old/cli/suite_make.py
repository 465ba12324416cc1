"""`wildcal suite make`: a suite from files of one's own, each shift under its own name."""

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from wildcal._old.cli.declared import Declared, input_options
from wildcal._old.cli.options import PATH, Command, quiet_option, refuse_same
from wildcal._old.cli.output import progress_bar, say
from wildcal._old.io import About
from wildcal._old.io.files import check_writable
from wildcal._old.io.suite import Suite
from wildcal._old.io.suite.compose import ZEROS, Shifted, write_suite


def read_notes(context: click.Context, option: click.Parameter, values: Iterable[str]) -> Any:
    """Read NAME=WORDS."""
    pairs = [value.partition("=") for value in values]
    if not all(name and equals for name, equals, _ in pairs):
        raise click.BadParameter("give NAME=WORDS such as network=resnet20.")
    return {name: words for name, _, words in pairs}


@dataclass(frozen=True, slots=True)
class Parts:
    """The files that a suite is made of besides those to tune and to test on."""

    shifted: Mapping[str, Path]
    ood: Mapping[str, Path]
    test_ood: Mapping[str, Path]

    @property
    def paths(self) -> list[Path]:
        """All of them."""
        return [*self.shifted.values(), *self.ood.values(), *self.test_ood.values()]


def _named(context: click.Context, option: click.Parameter, values: Iterable[str]) -> Any:
    """Read [NAME=]FILE; without a name, a file is called by its own."""
    found: dict[str, Path] = {}
    for value in values:
        name, equals, file = value.partition("=")
        path = Path(file if equals else value)
        name = name if equals else path.name.partition(".")[0]
        if name in found:
            raise click.BadParameter(f"{name} is there twice; name them NAME=FILE.")
        found[name] = path
    return found


def part_options(command: Command) -> Command:
    """Add --shifted, --ood and --test-ood; the command gets them as `parts`."""

    @wraps(command)
    def with_parts(*args: Any, **options: Any) -> Any:
        parts = Parts(*(options.pop(name) for name in ("shifted", "ood", "test_ood")))
        return command(*args, parts=parts, **options)

    for flag, metavar, words in (
        ("--test-ood", "[NAME=]FILE", "Rows of other classes to test with; repeatable."),
        ("--ood", "[NAME=]FILE", "Rows of other classes to tune with; repeatable."),
        (
            "--shifted",
            "NAME[:SEVERITY]=FILE",
            "Labeled test rows under a shift, such as night=night.npz; repeatable.",
        ),
    ):
        option = click.option(flag, multiple=True, callback=_named, metavar=metavar, help=words)
        with_parts = option(with_parts)
    return with_parts  # type: ignore[return-value]


@click.command(no_args_is_help=True)
@click.option("--tune", type=PATH, required=True, help="Labeled rows to fit methods on.")
@click.option("--test", type=PATH, required=True, help="Labeled rows of the same kind to test on.")
@click.option("--test-labels", type=PATH, help="Labels of TEST, if in a file of their own.")
@part_options
@click.option(
    "--note",
    "notes",
    multiple=True,
    callback=read_notes,
    metavar="NAME=WORDS",
    help="Words about the network to keep, such as name=resnet20; repeatable.",
)
@click.option("--name", help="What tables call the data.")
@click.option("-o", "--output", type=PATH, required=True, help="The folder, or the .npz, to write.")
@input_options
@quiet_option
def make(
    tune: Path,
    test: Path,
    test_labels: Path | None,
    parts: Parts,
    notes: dict[str, str],
    name: str | None,
    output: Path,
    declared: Declared,
) -> None:
    """Make a suite of files of rows, for `wildcal suite compare` and `wildcal report`.

    Each shift has a name of its own (a hospital, a camera, a month) and, if shifts come in
    strengths, a severity from 1 to 5, as in fog:3=fog3.npz. All files are described by the same
    options; the rows of --ood and --test-ood need no labels. A folder or a pattern of shards may
    stand for a file, if there is room for its rows.

    \b
    Example:
      wildcal suite make --tune val.npz --test test.npz --shifted fog=fog.npz -o mine
      wildcal suite make --tune val.csv --test test.csv --input proba --label-column species \\
        --shifted island=island.csv --test-ood flowers=others.csv -o iris.npz
    """
    refuse_same(output)
    if output.exists() and not output.suffix == ".npz" and any(output.iterdir()):
        raise click.UsageError(f"{output} is there and not empty. Give another -o.")
    if output.suffix == ".npz":
        check_writable(output)
    with progress_bar("Reading"):
        suite = make_suite(
            declared, tune, test, parts, output, labels=test_labels, network=notes, name=name
        )
    say(f"Wrote {len(suite.splits)} splits of {suite.n_classes} classes to {output}.")


def make_suite(
    declared: Declared,
    tune: Path,
    test: Path,
    parts: Parts,
    output: Path,
    *,
    labels: Path | None = None,
    network: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Suite:
    """Read files and write a suite of them, whole or not at all."""
    tuning = declared.read_labeled(tune)
    about = About(tuning.classes, tuning.kind, tuning.floor)
    rest = replace(declared, labels=None)
    shifted = {}
    for key, path in parts.shifted.items():
        shift, colon, level = key.partition(":")
        if colon and level not in {"1", "2", "3", "4", "5"}:
            raise click.UsageError(f"a severity is 1 to 5, got {key!r}.")
        rows = rest.read_labeled(path, about=about)
        shifted[key] = (shift, Shifted(rows, int(level) if colon else None))
    others = {path: rest.read_others(path, like=tuning) for path in parts.paths[len(shifted) :]}
    tested = rest.read_labeled(test, about=about, labels=labels)
    packed = output.suffix == ".npz"
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        suite = write_suite(
            folder,
            tuning,
            tested,
            shifted=list(shifted.values()),
            ood={called: others[path] for called, path in parts.ood.items()},
            test_ood={called: others[path] for called, path in parts.test_ood.items()},
            network=network,
            data=None if name is None else {"name": name},
        )
        if packed:
            suite.pack(output)
        else:
            if output.exists():
                output.rmdir()
            folder.chmod(0o755)
            folder.rename(output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    made = Suite.open(output)
    if ZEROS in made.data:
        say(f"note: probabilities of zero were {made.data[ZEROS]}.")
    return made
