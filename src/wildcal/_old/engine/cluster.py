"""A cluster of Dask as the engine of walks."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

from wildcal._old.core.blocks import GROUP_BLOCKS, Walk
from wildcal._old.core.engine import use_engine
from wildcal._old.core.errors import EngineError, MissingExtraError
from wildcal._old.engine.task import do_groups, do_item, keep
from wildcal._old.engine.workers import check_workers
from wildcal._old.io.sources.collections import collecting

# Tasks of a walk for each thread of the cluster: enough that none waits long for the last one.
_TASKS_A_THREAD: Final = 8
_CONNECT_SECONDS: Final = 10


class Cluster:
    """Does the groups of a walk on the workers of a `distributed.Client`."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.bytes_moved = 0
        """What came back, and what was sent for it, in all walks so far. Logits are not in it."""
        self.tasks = 0
        self._checked: frozenset[str] = frozenset()

    def run(self, walk: Walk, source: Any) -> Iterator[Any]:
        """Yield walk.group(number) of every group, in their order; none is kept."""
        import cloudpickle

        self._checked, threads = check_workers(self.client, self._checked)
        with collecting() as arrays:
            payload = cloudpickle.dumps(walk)
        each = -(-walk.groups // (_TASKS_A_THREAD * threads))
        runs = [
            range(first, min(first + each, walk.groups)) for first in range(0, walk.groups, each)
        ]
        with self._answering():
            self.tasks += len(runs)
            self.bytes_moved += len(payload)
            waiting = deque(self._submit(walk, payload, runs, arrays))
            while waiting:
                yield from self._taken(waiting.popleft())

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield function(item) of every item, in their order; each of them is a task.

        Some are done ahead of the one that is waited for.
        """
        import cloudpickle

        self._checked, threads = check_workers(self.client, self._checked)
        payload = cloudpickle.dumps(function)
        waiting: deque[Any] = deque()
        with self._answering():
            self.bytes_moved += len(payload)
            blob = self.client.submit(keep, payload, pure=False)
            for item in items:
                self.tasks += 1
                waiting.append(self.client.submit(do_item, blob, item, pure=False))
                if len(waiting) > _TASKS_A_THREAD * threads:
                    yield self._taken(waiting.popleft())
            while waiting:
                yield self._taken(waiting.popleft())

    def _taken(self, future: Any) -> Any:
        result, size = future.result()
        self.bytes_moved += size
        return result

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Turn what Dask says of a lost scheduler, or of lost workers, into one line."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        try:
            yield
        except KilledWorker as error:
            raise EngineError(
                f"a task ended every worker that tried it, the last at {error.last_worker.address}."
                " Have they enough memory? See what they wrote before they ended."
            ) from error
        except Exception as error:
            if not (isinstance(error, CommClosedError) or self._is_gone(error)):
                raise
            raise EngineError(
                f"the scheduler {self.address} is gone. Nothing is left half written; start it,"
                " and run the command again."
            ) from error

    def _submit(
        self, walk: Walk, payload: bytes, runs: Sequence[range], arrays: dict[str, Any]
    ) -> list[Any]:
        blob = self.client.submit(keep, payload, pure=False)
        if not arrays:
            return list(self.client.map(do_groups, [blob] * len(runs), runs, pure=False))
        rows = GROUP_BLOCKS * walk.rows
        futures = []
        for run in runs:
            stop = walk.offset + min((run[-1] + 1) * rows, walk.n_rows)
            start = walk.offset + run[0] * rows
            pieces = {
                token: self.client.compute(array[start:stop]) for token, array in arrays.items()
            }
            futures.append(self.client.submit(do_groups, blob, run, start, pieces, pure=False))
        return futures

    def _is_gone(self, error: Exception) -> bool:
        # A future is cancelled when its client has lost the scheduler for good.
        cancelled = "Cancelled" in type(error).__name__ or "cancelled" in str(error)
        return (cancelled or isinstance(error, OSError)) and self.client.status != "running"

    @property
    def address(self) -> str:
        """Of the scheduler."""
        scheduler = self.client.scheduler
        return str(scheduler.address) if scheduler is not None else "that was there"


_known: "WeakKeyDictionary[Any, Cluster]" = WeakKeyDictionary()


def active() -> Cluster | None:
    """Return the cluster of the `distributed.Client` that is active; None if there is none."""
    from distributed import default_client, get_worker

    try:
        get_worker()
    except ValueError:
        pass
    else:
        return None  # a task does its own work
    try:
        client = default_client()
    except ValueError:
        return None
    return _of(client)


def _of(client: Any) -> Cluster:
    if client not in _known:
        _known[client] = Cluster(client)
    return _known[client]


def connect(where: Any) -> Cluster:
    """Return the cluster at an address such as "tcp://host:8786", a "local" one, or of a client.

    A local one has a worker for each core, and ends with this process.
    """
    try:
        import distributed
    except ImportError:
        raise MissingExtraError(
            'a cluster needs dask and distributed. Install them with: pip install "wildcal[dask]"'
        ) from None
    if not isinstance(where, str):
        return _of(where)
    if where == "local":
        return _of(distributed.Client(distributed.LocalCluster(threads_per_worker=1,
                                      dashboard_address=None), set_as_default=False))  # fmt: skip
    try:
        client = distributed.Client(where, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise EngineError(
            f"no scheduler answers at {where}. Start one with: dask scheduler"
        ) from error
    return _of(client)


@contextmanager
def use(where: Any) -> Iterator[Cluster]:
    """Do walks over sources on a cluster inside a `with` block; `where` as in `connect`."""
    cluster = connect(where)
    try:
        with use_engine(cluster):
            yield cluster
    finally:
        if isinstance(where, str):
            inner = cluster.client.cluster
            cluster.client.close()
            if inner is not None:
                inner.close()
