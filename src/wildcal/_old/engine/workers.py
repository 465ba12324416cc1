"""Which workers there are, and whether each has this very version of wildcal."""

from typing import Any

from wildcal._old.core.errors import EngineError
from wildcal.version import __version__


def check_workers(client: Any, checked: frozenset[str]) -> tuple[frozenset[str], int]:
    """Return the workers that will do, and their threads in all; raise for one that will not.

    Those that were `checked` before are not asked again.
    """
    threads = client.nthreads()
    if not threads:
        raise EngineError(
            f"the scheduler has no workers. Start some with: dask worker {client.scheduler.address}"
        )
    new = sorted(set(threads) - checked)
    if new:

        def version() -> str | None:  # a local function is sent whole: a worker may lack wildcal
            try:
                from wildcal.version import __version__ as found
            except ImportError:
                return None
            return str(found)

        for address, found in client.run(version, workers=new).items():
            if found != __version__:
                what = "no wildcal" if found is None else f"wildcal {found}"
                raise EngineError(
                    f"the worker {address} has {what}, and here is {__version__}: their sums could"
                    f' differ. Install it there with: pip install "wildcal[dask]=={__version__}"'
                )
    return frozenset(threads), sum(threads.values())
