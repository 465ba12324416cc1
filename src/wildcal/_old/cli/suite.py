"""`wildcal suite show`, `pack` and `rows`: what a suite of logits holds, and taking it along."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from numpy.typing import NDArray

from wildcal._old.cli.opening import open_suite
from wildcal._old.cli.options import PATH, json_option, quiet_option, refuse_same
from wildcal._old.cli.output import print_json, print_line, print_table, progress_bar, say
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io import write_result
from wildcal._old.io.suite import Suite
from wildcal._old.io.suite.lock import is_written
from wildcal._old.io.suite.manifest import DTYPES
from wildcal._old.io.suite.summary import SplitSummary, grouped, summarize


@click.command(no_args_is_help=True)
@click.argument("path", type=PATH, metavar="SUITE")
@click.option("--splits", is_flag=True, help="List every split instead of groups of them.")
@click.option("--verify", is_flag=True, help="Compare the content hashes first.")
@json_option
@quiet_option
def show(path: Path, splits: bool, verify: bool, as_json: bool) -> None:
    """Show what a suite holds.

    SUITE is a folder, a .npz, or the name of a suite that comes with wildcal. Corruptions
    are pooled by severity. Accuracy, confidence and energy are those of the raw logits.

    \b
    Example:
      wildcal suite show cifar10-resnet20 --verify
      wildcal suite show resnet20.npz --splits --json
    """
    try:
        opened, summaries = _read(path, verify)
    except FileFormatError as error:
        if not is_written(path):
            raise
        # The arrays of a split are replaced by longer ones before the manifest says so.
        raise FileFormatError(
            f"{path} grew while it was read: its extraction is running. Try again."
        ) from error
    shown = summaries if splits else grouped(summaries)
    if as_json:
        print_json(_document(opened, verify, shown))
        return
    for line in _head(opened, verify):
        print_line(line)
    if shown:
        _print(shown)


def _read(path: Path, verify: bool) -> tuple[Suite, list[SplitSummary]]:
    """Return a suite and the numbers of its splits."""
    opened = open_suite(path)
    rows = sum(split.rows for split in opened.splits)
    with progress_bar("Reading", total=rows * (2 if verify else 1)) as progress:

        def step(done: int) -> None:
            progress.advance(progress.task_ids[0], done)

        if verify:
            opened.verify(step)
        return opened, summarize(opened, progress=step)


def _ranks(context: click.Context, option: click.Parameter, value: str | None) -> list[int] | None:
    if value is None:
        return None
    words = [] if value == "none" else value.split(",")
    if not all(word.isascii() and word.isdigit() for word in words):
        raise click.BadParameter("give whole numbers such as 1,50, or none.")
    return [int(word) for word in words]


@click.command(no_args_is_help=True)
@click.argument("folder", type=PATH, metavar="SUITE")
@click.option("-o", "--output", type=PATH, required=True, help="The .npz to write.")
@click.option("--dtype", type=click.Choice(DTYPES), help="Store logits in another precision.")
@click.option(
    "--ranks",
    callback=_ranks,
    metavar="K[,K...]",
    help="Neighbors whose distances are kept; `none` for none.  [all]",
)
@click.option(
    "--step",
    type=float,
    metavar="S",
    help="Round logits to multiples of S, such as 0.125, a power of two.  [no rounding]",
)
@quiet_option
def pack(
    folder: Path, output: Path, dtype: str | None, ranks: list[int] | None, step: float | None
) -> None:
    """Pack a suite into one .npz.

    It is compressed, and the same suite always gives the same bytes. In float16, distances
    to neighbors are rounded to 7 significant bits. With --step, suites of many classes become
    smaller by almost a half. Predicted classes stay as they are.

    \b
    Example:
      wildcal suite pack resnet20 -o resnet20.npz --dtype float16
      wildcal suite pack resnet20 -o resnet20.npz --dtype float16 --ranks 50
      wildcal suite pack vit -o vit.npz --dtype float16 --step 0.125
    """
    refuse_same(output)
    opened = open_suite(folder)
    if not opened.complete:
        raise ValueError(f"{folder} is not finished; run its extraction again first.")
    with progress_bar("Packing"):
        opened.pack(output, dtype=dtype, ranks=ranks, step=step)
    size = output.stat().st_size
    say(f"Wrote {len(opened.splits)} splits to {output} ({size / 1e6:.1f} MB).")


@click.command("rows", no_args_is_help=True)
@click.argument("path", type=PATH, metavar="SUITE")
@click.argument("split")
@click.option("-o", "--output", type=PATH, required=True, help="The .npz to write.")
@click.option("--rank", type=click.IntRange(min=1), help="Which neighbor's distances.  [the k-th]")
@quiet_option
def write_rows(path: Path, split: str, output: Path, rank: int | None) -> None:
    """Write the rows of one SPLIT to a file that fit, apply and evaluate read.

    It has the arrays `logits`, `y` (unless the split is of other classes) and, where the suite has
    distances to training images, `distances`.

    \b
    Example:
      wildcal suite rows cifar10-resnet20 fog-5 -o fog.npz
      wildcal apply dac.json fog.npz -o proba.npz
    """
    if output.suffix != ".npz":
        raise click.UsageError(f"-o must end in .npz, got {output}.")
    refuse_same(output)
    rows = open_suite(path).split(split)
    rows.verify()
    arrays: dict[str, NDArray[Any]] = {"logits": rows.logits}
    if rows.shift != "semantic":
        arrays["y"] = rows.y
    if rows.has_distances or rank is not None:
        arrays["distances"] = rows.distances(rank)
    write_result(output, arrays)
    say(f"Wrote {', '.join(arrays)} of {rows.rows:,} rows to {output}.")


def _document(opened: Suite, verified: bool, shown: Sequence[SplitSummary]) -> dict[str, Any]:
    return {
        "path": str(opened.path),
        "network": opened.network,
        "data": opened.data,
        "seed": opened.seed,
        "versions": opened.versions,
        "n_classes": opened.n_classes,
        "class_names": opened.class_names,
        "complete": opened.complete,
        "neighbors": opened.neighbors,
        "verified": verified,
        "summary": [summary.to_dict() for summary in shown],
    }


def _head(opened: Suite, verified: bool) -> list[str]:
    rows = sum(split.rows for split in opened.splits)
    dtypes = sorted({split.dtype for split in opened.splits})
    facts = [
        f"{opened.n_classes} classes",
        f"{len(opened.splits)} splits",
        f"{rows:,} rows",
        *dtypes,
        "complete" if opened.complete else _unfinished(opened.path),
        *(["every content hash matches"] if verified else []),
    ]
    return [
        f"{opened.path}: {', '.join(facts)}",
        f"network   {_plain(opened.network)}",
        f"data      {_plain(opened.data)}",
        f"versions  {_plain(opened.versions)}",
        f"seed      {opened.seed}",
        *_distances(opened),
    ]


def _unfinished(path: Path) -> str:
    if is_written(path):
        return "UNFINISHED: its extraction is running"
    return "UNFINISHED: its extraction has stopped, and goes on when it is started again"


def _distances(opened: Suite) -> list[str]:
    """Return a line on the neighbor distances, if there are any."""
    about = opened.neighbors
    if about is None:
        return []
    layers = ", ".join(f"{layer['name']} ({layer['width']})" for layer in about["layers"])
    ranks = " and ".join(map(str, about["ranks"]))
    lacking = sum(not split.has_distances for split in opened.splits)
    rest = f"; {lacking} splits without" if lacking else ""
    keys = ["train_rows", "search", "significant_bits"]
    more = {key: about[key] for key in keys if key in about}
    return [f"distances neighbors {ranks} at {layers}, {_plain(more)}{rest}"]


def _plain(values: dict[str, Any]) -> str:
    """Return a free description on one line."""
    texts = (
        f"{key} {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in values.items()
    )
    return ", ".join(texts) or "-"


def _print(shown: Sequence[SplitSummary]) -> None:
    print_table(
        ("split", "role", "shift", "cells", "rows", "accuracy", "confidence", "energy"),
        [
            (
                summary.name,
                summary.role,
                summary.shift,
                str(summary.cells),
                f"{summary.rows:,}",
                "-" if summary.accuracy is None else f"{100 * summary.accuracy:.2f}",
                f"{100 * summary.mean_confidence:.2f}",
                f"{summary.mean_energy:.3f}",
            )
            for summary in shown
        ],
        caption="Raw logits: accuracy and mean confidence in percent, mean -logsumexp(z).",
        words=3,
        spare=("cells", "shift"),
    )
