"""Rows past memory on the command line: a folder or a pattern of shards, and a cluster to use."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from wildcal._old.cli.declared import OWN_NAMES, Declared
from wildcal._old.cli.output import progress_bar, say
from wildcal._old.core.engine import watched_by

# Seconds of a walk before the bar tells how far it is.
_LONG: Final = 2.0

scheduler_option = click.option(
    "--scheduler",
    metavar="tcp://HOST:8786|local",
    help="Do the work on a Dask cluster; for shards that its workers can read.",
)


verify_option = click.option(
    "--verify", is_flag=True, help="Compare the SHA-256 of every shard in every pass over it."
)


def open_source(path: Path, declared: Declared, *refused: Any, verify: bool = False) -> Any:
    """Return the source that a path stands for; None for a file of rows.

    Other files beside shards are refused.
    """
    source = declared.open_shards(path, verify=verify)
    if source is None and verify:
        raise click.UsageError("--verify is for a folder or a pattern of shards.")
    if source is not None and any(option is not None for option in refused):
        raise click.UsageError(OWN_NAMES.format(path))
    return source


def refuse_scheduler(scheduler: str | None) -> None:
    """Raise where a cluster was given for rows that are here."""
    if scheduler is not None:
        raise click.UsageError("--scheduler is for a folder or a pattern of shards.")


@contextmanager
def at_work(scheduler: str | None, doing: str) -> Iterator[None]:
    """Show how far long walks are; do them on a cluster if one was given, and say what moved."""
    with _on_cluster(scheduler), progress_bar(doing) as bar, watched_by(_Walks(bar, doing)):
        yield


@contextmanager
def _on_cluster(scheduler: str | None) -> Iterator[None]:
    """Do walks on a cluster if one was given, and say how much was moved."""
    if scheduler is None:
        yield
        return
    from wildcal._old.engine import use

    with use(scheduler) as cluster:
        # What it has to say of a lost scheduler is a traceback; the command says it in a line.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        yield
        workers = len(cluster.client.nthreads())
    megabytes = cluster.bytes_moved / 1e6
    did = f"Did {cluster.tasks:,} tasks on {workers} workers"
    say(f"{did}; {megabytes:.2f} MB were moved, and no logits.")


class _Walks:
    """Shows on a bar how far a walk is, once it has taken long enough to wonder."""

    def __init__(self, bar: Any, doing: str) -> None:
        self._bar, self._doing, self._walk = bar, doing, 0
        self._since = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if done == 1:
            self._walk, self._since = self._walk + 1, time.monotonic()
        if time.monotonic() - self._since > _LONG or done == total:
            words = f"{self._doing}, walk {self._walk}"
            self._bar.update(self._bar.task_ids[0], description=words, completed=done, total=total)
