"""The options that say what is in a file of rows, the same for every command that reads one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Final, cast

import click

from wildcal._old.cli.options import PATH, Command
from wildcal._old.cli.output import say
from wildcal._old.core.errors import FileFormatError
from wildcal._old.core.kinds import KINDS, Kind
from wildcal._old.core.room import loaded_for
from wildcal._old.core.rows import check_rows, own_column
from wildcal._old.io.artifact import About
from wildcal._old.io.sources.opening import is_sharded, open_rows
from wildcal._old.io.tables import InputRows, read_distances, read_environments, read_rows

OWN_NAMES: Final = (
    "{} is a set of shards, which bring logits, labels and what is beside them under their usual"
    " names; leave out the other options about rows."
)


@dataclass(frozen=True, slots=True)
class Declared:
    """What the numbers and columns of files are, as the command line says."""

    kind: str | None = None
    """None for logits, or for what a calibrator was fitted on."""
    columns: tuple[str, ...] | None = None
    label_column: str | None = None
    id_column: str | None = None
    arrays: Mapping[str, str] | None = None
    labels: Path | None = None
    classes: tuple[str, ...] | None = None
    pos_label: str | None = None

    def read(
        self, path: Path, *, about: About | None = None, labels: Path | None = None
    ) -> InputRows:
        """Return the rows of a file; what is not declared is as `about` a calibrator says."""
        return self._read(path, about or About(), labels or self.labels, True)

    def read_labeled(
        self, path: Path, *, about: About | None = None, labels: Path | None = None
    ) -> InputRows:
        """Return the rows of a file that must have labels."""
        rows = self.read(path, about=about, labels=labels)
        if rows.y is None:
            raise FileFormatError(
                f"{path} has no labels. Name their column with --label-column, or give a file of"
                " labels with --labels."
            )
        return rows

    def read_unlabeled(self, path: Path, *, about: About | None = None) -> InputRows:
        """Return the rows of a file; labels, if there are any, are left aside."""
        return self._read(path, about or About(), None, False)

    def read_others(self, path: Path, *, like: InputRows) -> InputRows:
        """Return rows of other classes; labels, if there are any, are left aside."""
        about = About(like.classes, like.kind, like.floor)
        return self._read(path, about, None, False)

    def open_shards(self, path: Path, *, verify: bool = False) -> Any:
        """Return the source that a path stands for; None for a file of rows.

        Shards hold logits and columns under their usual names: options that say otherwise are
        refused.
        """
        if not is_sharded(path) or (path / "manifest.json").exists():
            return None
        if self != Declared():
            raise click.UsageError(OWN_NAMES.format(path))
        return open_rows(path, verify=verify)

    def _read(self, path: Path, about: About, labels: Path | None, with_labels: bool) -> InputRows:
        source = replace(self, labels=labels).open_shards(path)
        if source is not None:
            return _held(source, path, about, with_labels)
        if path.suffix == ".json" and path.exists():
            raise FileFormatError(
                f"{path} is no file of rows: a calibrator? Give it the other way."
            )
        rows = read_rows(
            path,
            kind=cast(Kind, self.kind or about.kind),
            columns=self.columns,
            label_column=self.label_column,
            id_column=self.id_column,
            arrays=self.arrays,
            labels=labels,
            classes=self.classes or about.classes,
            pos_label=self.pos_label,
            floor=about.floor,
            with_labels=with_labels,
        )
        for note in rows.notes:
            say(f"note: {path}: {note}.")
        return rows


def refuse_other_kinds(path: Path, about: About | None) -> None:
    """Raise where what was fitted reads scores of another kind than shards hold."""
    if about is not None and about.kind != "logits":
        raise click.UsageError(f"{path} is a set of shards, which hold logits, not {about.kind}.")


def _held(source: Any, path: Path, about: About, with_labels: bool) -> InputRows:
    """Return the rows of shards where they are needed at once, if there is room for them."""
    refuse_other_kinds(path, about)
    names = ("weight", "environment", "distances")
    rows = check_rows(
        source,
        y=own_column(source, "y") if with_labels else None,
        **{name: own_column(source, name) for name in names},
        accepts_ood=True,
        who="wildcal",
    )
    held = loaded_for(rows, "This command")
    return InputRows(held.logits[:], held.y, held.weight, held.environment, held.distances)


def _words(context: click.Context, option: click.Parameter, value: str | None) -> Any:
    if value is None:
        return None
    words = tuple(word.strip() for word in value.split(","))
    if not all(words):
        raise click.BadParameter(f"give names separated by commas, got {value!r}.")
    return words


def _pairs(context: click.Context, option: click.Parameter, value: str | None) -> Any:
    if value is None:
        return None
    pairs = [word.partition("=") for word in value.split(",")]
    if not all(role.strip() and name.strip() for role, _, name in pairs):
        raise click.BadParameter(f"give ROLE=NAME such as logits=predictions,y=ids, got {value!r}.")
    return {role.strip(): name.strip() for role, _, name in pairs}


_OPTIONS = (
    click.option(
        "--input",
        "kind",
        type=click.Choice(KINDS),
        help="What the numbers are. [logits, or what the calibrator was fitted on]",
    ),
    click.option(
        "--columns",
        callback=_words,
        metavar="NAME,...",
        help="Columns of the classes in order.",
    ),
    click.option("--label-column", metavar="NAME", help="The column of labels.  [y, label, ...]"),
    click.option("--id-column", metavar="NAME", help="The column of row names.  [id, ...]"),
    click.option(
        "--arrays",
        callback=_pairs,
        metavar="ROLE=NAME,...",
        help="Which array is what, such as logits=predictions,y=label_ids.",
    ),
    click.option("--labels", type=PATH, help="Labels, if they are in a file of their own."),
    click.option("--classes", callback=_words, metavar="NAME,...", help="Class names in order."),
    click.option("--pos-label", metavar="LABEL", help="With two classes, the label of column 1."),
)


def input_options(command: Command) -> Command:
    """Add the options that describe files of rows; the command gets them as `declared`."""
    names = ("kind", "columns", "label_column", "id_column", "arrays", "labels", "classes")

    @wraps(command)
    def with_rows(*args: Any, **options: Any) -> Any:
        told = {name: options.pop(name) for name in (*names, "pos_label")}
        return command(*args, declared=Declared(**told), **options)

    for option in reversed(_OPTIONS):
        with_rows = option(with_rows)
    return with_rows  # type: ignore[return-value]


def with_columns(
    rows: InputRows, *, environments: Path | None = None, distances: Path | None = None
) -> InputRows:
    """Return rows with environments and distances from files of their own."""
    if environments is not None:
        rows = replace(rows, environment=read_environments(environments))
    if distances is not None:
        rows = replace(rows, distances=read_distances(distances))
    return rows
