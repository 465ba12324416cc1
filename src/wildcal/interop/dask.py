"""Dask: predict and evaluate data frames, and run tasks on threads or on a cluster."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import Any, Final

from wildcal.core.exceptions import InputError, needs_extra
from wildcal.evaluation.chunked import evaluate_part, merge, score_samples
from wildcal.evaluation.results import Evaluation
from wildcal.io.chunked import columns_for, result_names, results
from wildcal.io.frames import frame_batches
from wildcal.io.samples import SampleSet, to_samples
from wildcal.io.schema import Columns, resolve

_TIMEOUT: Final = 10  # seconds until a scheduler must answer


def predict(
    frame: Any,
    calibrator: Any,
    *,
    columns: Columns | None = None,
    proba: bool = False,
    **declared: Any,
) -> Any:
    """Return a Dask DataFrame with the columns confidence, predicted and, if asked for, proba_*.

    Nothing is computed, but for a window calibrator the statistics of all samples, to which it is
    adapted.

    Parameters
    ----------
    frame
        A Dask DataFrame.
    calibrator
        Fitted.
    columns
        Which column is what. Or the fields of `Columns` as arguments.
    proba
        Whether probabilities of all classes are added.
    **declared
        Fields of `Columns`, such as ``score_columns=["cat", "dog"]``.
    """
    calibrator, columns = _prepared(frame, calibrator, columns, declared)
    example = _example(frame, calibrator, columns, proba)
    return frame.map_partitions(_predicted, calibrator, columns, proba, example, meta=example)


def run_tasks(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], scheduler: str
) -> Iterator[Any]:
    """Yield the results of `function(*task)`, in the order of the tasks.

    Tasks of a worker of a cluster that ends are run again by another one.

    Parameters
    ----------
    function
        Called with the elements of each task.
    tasks
        The arguments of each call.
    scheduler
        The address of a Dask scheduler, or "local" for one thread per core of this machine: reading
        and writing Parquet and the formulas of calibrators run outside of Python's global lock, and
        threads need neither start nor import anything.
    """
    with _workers(scheduler) as pool:
        yield from pool.map(function, *zip(*tasks, strict=True))


@contextmanager
def _workers(scheduler: str) -> Iterator[futures.Executor]:
    """Give a thread per core of this machine, or the workers of a cluster."""
    if scheduler == "local":
        pool = futures.ThreadPoolExecutor(os.cpu_count())
        try:
            yield pool
        finally:  # after an error or Ctrl-C, files that are being written are completed
            pool.shutdown(cancel_futures=True)
        return
    with _client(scheduler) as client:
        workers = client.get_executor(pure=False)
        try:
            yield workers
        finally:
            workers.shutdown(wait=False)  # cancels tasks that are left after an error


def _client(scheduler: str) -> Any:
    """Return a Dask client for the address of a scheduler."""
    with needs_extra("the scheduler", "dask"):
        from distributed import Client
    try:
        if ":" not in scheduler:  # Dask would print a traceback after its own error
            raise ValueError("no address")
        client = Client(scheduler, timeout=_TIMEOUT, set_as_default=False)
        client.wait_for_workers(1, timeout=_TIMEOUT)
    except (OSError, ValueError, TimeoutError) as error:
        text = f"'local' or the address of a Dask scheduler with workers, got {scheduler!r}."
        raise InputError(f"scheduler must be {text}", "scheduler") from error
    return client


def partition_samples(frame: Any, columns: Columns, *, labels: bool) -> SampleSet:
    """Return the samples of one partition, a pandas DataFrame."""
    batches = frame_batches(frame)
    assert batches is not None
    batch = next(batches)
    return to_samples(batch, resolve(tuple(batch), columns, labels=labels))


def _predicted(frame: Any, calibrator: Any, columns: Columns, proba: bool, example: Any) -> Any:
    """Return one partition with the columns of predictions added."""
    if not len(frame):
        return example
    found = results(calibrator, partition_samples(frame, columns, labels=False), proba=proba)
    names = result_names([str(name) for name in frame.columns], list(found))
    return frame.assign(**{names[name]: values for name, values in found.items()})


def _example(frame: Any, calibrator: Any, columns: Columns, proba: bool) -> Any:
    """Return the frame without samples that a prediction has."""
    resolved = resolve([str(name) for name in frame.columns], columns, labels=False)
    number = 1 / calibrator.n_classes_ if resolved.input in ("proba", "confidence") else 0.0
    number *= 100 if columns.percent else 1
    one = frame._meta_nonempty.iloc[:1].assign(**dict.fromkeys(resolved.scores, number))
    return _predicted(one.astype(frame._meta.dtypes), calibrator, columns, proba, None).iloc[:0]


def _prepared(
    frame: Any, calibrator: Any, columns: Columns | None, declared: dict[str, Any]
) -> tuple[Any, Columns]:
    """Return the calibrator, adapted to all samples if it adapts, and the meaning of columns."""
    if not hasattr(frame, "to_delayed"):
        raise InputError(f"frame must be a Dask DataFrame, got {type(frame).__name__}.", "frame")
    columns = Columns(**declared) if columns is None else columns
    if calibrator is not None:
        columns = columns_for(calibrator, columns)
    if hasattr(calibrator, "adapt"):
        statistics = _of_partitions(_statistics, frame, calibrator, columns)
        calibrator = calibrator.adapt(reduce(add, statistics))
    return calibrator, columns


def _statistics(frame: Any, calibrator: Any, columns: Columns) -> Any:
    return calibrator.window_statistics(partition_samples(frame, columns, labels=False).X)


def _of_partitions(function: Callable[..., Any], frame: Any, *arguments: Any) -> list[Any]:
    """Return a function of each partition that has samples."""
    import dask

    def of_part(part: Any) -> Any:
        return function(part, *arguments) if len(part) else None

    parts = dask.compute(*(dask.delayed(of_part)(part) for part in frame.to_delayed()))
    found = [part for part in parts if part is not None]
    if not found:
        raise InputError("frame must have samples, got none.", "frame")
    return found


def evaluate(
    frame: Any,
    calibrator: Any = None,
    *,
    columns: Columns | None = None,
    metrics: Sequence[str] | None = None,
    n_bins: int = 15,
    n_bootstrap: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    **declared: Any,
) -> Evaluation:
    """Return metrics of the samples of a Dask DataFrame; about 30 bytes of each sample are kept.

    Parameters
    ----------
    frame
        A Dask DataFrame.
    calibrator
        Fitted; a window calibrator is adapted to all samples. None for the scores as they are.
    columns
        Which column is what. Or the fields of `Columns` as arguments.
    metrics, n_bins, n_bootstrap, level, seed
        As in `wildcal.evaluate`.
    **declared
        Fields of `Columns`, such as ``label_column="species", group_column="country"``.
    """
    calibrator, columns = _prepared(frame, calibrator, columns, declared)
    scores = merge(_of_partitions(_partition_scores, frame, calibrator, columns))
    return evaluate_part(
        scores, metrics=metrics, n_bins=n_bins, n_bootstrap=n_bootstrap, level=level, seed=seed
    )


def _partition_scores(frame: Any, calibrator: Any, columns: Columns) -> Any:
    return score_samples(partition_samples(frame, columns, labels=True), calibrator)
