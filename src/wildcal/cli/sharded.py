"""Rows past memory on the command line: a folder or a pattern of shards, and a cluster to use."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from wildcal.cli.declared import Declared
from wildcal.cli.output import say
from wildcal.io.sources.opening import is_sharded, open_rows

scheduler_option = click.option(
    "--scheduler",
    metavar="tcp://HOST:8786|local",
    help="Do the work on a Dask cluster; for shards that its workers can read.",
)


def open_source(path: Path, declared: Declared, *refused: Any) -> Any:
    """Return the source that a path stands for; None for a file of rows.

    Shards hold logits and columns under their usual names: options that say otherwise, and other
    files beside them, are refused.
    """
    if not is_sharded(path) or (path / "manifest.json").exists():
        return None
    if declared != Declared() or any(option is not None for option in refused):
        raise click.UsageError(
            f"{path} is a set of shards, which bring logits, labels and what is beside them under"
            " their usual names; leave out the other options about rows."
        )
    return open_rows(path)


def refuse_scheduler(scheduler: str | None) -> None:
    """Raise where a cluster was given for rows that are here."""
    if scheduler is not None:
        raise click.UsageError("--scheduler is for a folder or a pattern of shards.")


@contextmanager
def at_work(scheduler: str | None) -> Iterator[None]:
    """Do walks on a cluster, where one was given, and say at the end what it moved."""
    if scheduler is None:
        yield
        return
    from wildcal.engine import use

    with use(scheduler) as cluster:
        yield
        workers = len(cluster.client.nthreads())
    say(
        f"Did {cluster.tasks:,} tasks on {workers} workers; {cluster.bytes_moved / 1e6:.2f} MB were"
        " moved, and no logits."
    )
