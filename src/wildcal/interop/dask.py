"""Dask: predict and evaluate data frames, and run tasks on threads or on a cluster."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from typing import Any, Final

import numpy as np

from wildcal.core.exceptions import InputError, MissingExtraError
from wildcal.evaluation.chunked import evaluate_part, merge, score_samples
from wildcal.evaluation.results import Evaluation
from wildcal.io.chunked import columns_for, result_names, results
from wildcal.io.frames import frame_batches
from wildcal.io.samples import SampleSet, to_samples
from wildcal.io.schema import Columns, resolve

_INSTALL: Final = 'Install Dask with: pip install "wildcal[dask]"'
_FAN_IN: Final = 8
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
    declaration = columns_for(calibrator, Columns(**declared) if columns is None else columns)
    if hasattr(calibrator, "adapt"):
        parts = _per_partition(_statistics, frame, calibrator, declaration)
        calibrator = calibrator.adapt(_tree(_add, parts).compute())
    empty = frame._meta.iloc[:0]
    example = _example(empty, calibrator, declaration, proba)
    return frame.map_partitions(_predicted, calibrator, declaration, proba, example, meta=example)


def run_tasks(
    function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], scheduler: str
) -> Iterator[Any]:
    """Yield the results of `function(*task)`, in the order in which they finish.

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
    if scheduler == "local":
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            waiting = [pool.submit(function, *task) for task in tasks]
            try:
                for done in futures.as_completed(waiting):
                    yield done.result()
            finally:  # after an error or Ctrl-C, files that are being written are completed
                pool.shutdown(cancel_futures=True)
        return
    with connect(scheduler) as client:
        from distributed import as_completed

        submitted = [client.submit(function, *task, pure=False) for task in tasks]
        for future in as_completed(submitted):
            yield future.result()


@contextmanager
def connect(scheduler: str) -> Iterator[Any]:
    """Give a Dask client for the address of a scheduler."""
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError(f"the scheduler needs Dask. {_INSTALL}") from error
    try:
        client = Client(scheduler, timeout=_TIMEOUT)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"scheduler must be 'local' or the address of a Dask scheduler, got {scheduler!r}.",
            "scheduler",
        ) from error
    with client:
        yield client


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


def _example(empty: Any, calibrator: Any, columns: Columns, proba: bool) -> Any:
    """Return the frame without samples that a prediction has."""
    resolved = resolve([str(name) for name in empty.columns], columns, labels=False)
    dtypes = {empty[name].dtype for name in resolved.scores}
    x = np.zeros((1, len(resolved.scores)), np.float32 if dtypes == {np.dtype("f4")} else float)
    if resolved.input == "proba":
        x = np.full((1, calibrator.n_classes_), 1 / calibrator.n_classes_, x.dtype)
    x = x[:, 0] if resolved.input in ("score", "confidence") else x
    knn = np.zeros((1, len(resolved.knn))) if resolved.knn else None
    names = columns.class_names
    sample = SampleSet(X=x, input=resolved.input, class_names=names, knn_distances=knn)
    found = results(calibrator, sample, proba=proba)
    added = result_names([str(name) for name in empty.columns], list(found))
    series = {name: empty._constructor_sliced(values).iloc[:0] for name, values in found.items()}
    return empty.assign(**{added[name]: values for name, values in series.items()})


def _statistics(frame: Any, calibrator: Any, columns: Columns) -> Any:
    if not len(frame):
        return None
    return calibrator.window_statistics(partition_samples(frame, columns, labels=False).X)


def _per_partition(function: Callable[..., Any], frame: Any, *arguments: Any) -> list[Any]:
    import dask

    return [dask.delayed(function)(part, *arguments) for part in frame.to_delayed()]


def _tree(combine: Callable[[list[Any]], Any], parts: list[Any]) -> Any:
    """Return a delayed value: parts combined in groups, and those again."""
    import dask

    while len(parts) > 1:
        groups = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
        parts = [dask.delayed(combine)(group) for group in groups]
    return parts[0]


def _add(parts: list[Any]) -> Any:
    return reduce(lambda a, b: b if a is None else a if b is None else a + b, parts)


def run_tree(
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    combine: Callable[[list[Any]], Any],
    scheduler: str,
) -> Any:
    """Return the results of `function(*task)`, combined in their order: in a tree on a cluster."""
    if scheduler == "local":
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return combine(list(pool.map(lambda task: function(*task), tasks)))
    with connect(scheduler) as client:
        parts = [client.submit(function, *task, pure=False) for task in tasks]
        while len(parts) > 1:
            groups = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
            parts = [client.submit(combine, group, pure=False) for group in groups]
        return client.gather(parts[0])


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
    """Return metrics of the samples of a Dask DataFrame, by tree reduction.

    Parameters
    ----------
    frame
        A Dask DataFrame.
    calibrator
        Fitted; None for the scores as they are.
    columns
        Which column is what. Or the fields of `Columns` as arguments.
    metrics, n_bins, n_bootstrap, level, seed
        As in `wildcal.evaluate`.
    **declared
        Fields of `Columns`, such as ``label_column="species", group_column="country"``.
    """
    declaration = Columns(**declared) if columns is None else columns
    if calibrator is not None:
        declaration = columns_for(calibrator, declaration)
    parts = _per_partition(_partition_scores, frame, calibrator, declaration)
    part = _tree(_merge, parts).compute()
    if part is None:
        raise InputError("frame must have samples, got none.", "frame")
    return evaluate_part(
        part, metrics=metrics, n_bins=n_bins, n_bootstrap=n_bootstrap, level=level, seed=seed
    )


def _partition_scores(frame: Any, calibrator: Any, columns: Columns) -> Any:
    if not len(frame):
        return None
    return score_samples(partition_samples(frame, columns, labels=True), calibrator)


def _merge(parts: list[Any]) -> Any:
    found = [part for part in parts if part is not None]
    return merge(found) if found else None
