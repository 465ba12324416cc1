"""One thread of linear algebra, so that sums over rows have one order on every machine.

A matrix product or a dot product that is split among threads adds in another order, and its last
bits depend on how many there are; a fit then ends elsewhere. Our own threads keep the order
(`core.blocks`), and blocks are too small for more than one thread to pay: beside other work,
waiting for each other cost a fit of `matrix` many times its own time. So what adds over rows is
done in `one_thread`, which asks OpenBLAS, as NumPy and SciPy bring it, for one thread, and gives
back what there was. Other libraries (MKL, Accelerate) are left as they are.
"""

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

# Modules that are linked to linear algebra; SciPy's comes with the first solver that is imported.
_LINKED: Final = (
    ("numpy", ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")),
    ("scipy", ("scipy.optimize._lbfgsb", "scipy.linalg._fblas")),
)
# As built for the packages of NumPy and SciPy, today and before, and as anywhere else.
_SPELLINGS: Final = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")


@dataclass(frozen=True, slots=True)
class _Library:
    """The threads of one library of linear algebra, read and set."""

    count: Callable[[], int]
    use: Callable[[int], None]


_lock = Lock()
_inside = 0
_before: dict[str, tuple[_Library, int]] = {}


@contextmanager
def one_thread() -> Iterator[None]:
    """Do what is inside, or a function, with one thread of linear algebra in this process.

    It may be nested, and entered by several threads: the last to leave gives back what there was.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside
    with _lock:
        _inside += 1
        for package, modules in _LINKED:
            if package not in _before and (library := _library(package, _loaded(modules))):
                _before[package] = library, library.count()
                library.use(1)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        while not _inside and _before:
            library, count = _before.popitem()[1]
            library.use(count)


def _loaded(modules: tuple[str, ...]) -> str | None:
    """Return the file of the first of these modules that was imported."""
    found = (getattr(sys.modules.get(name), "__file__", None) for name in modules)
    return next((file for file in found if file), None)


@cache
def _library(package: str, file: str | None) -> _Library | None:
    """Return the library that a module is linked to, if it is an OpenBLAS."""
    if file is None:
        return None
    # Asked for a name, Linux and macOS look in all that a module is linked to, Windows does not.
    beside = Path(sys.modules[package].__file__ or "").parent.with_name(f"{package}.libs")
    for path in (file, *map(str, beside.glob("*openblas*"))):
        try:
            linked = ctypes.PyDLL(path)  # quick calls, which need not hand the lock on
        except OSError:
            continue
        for spelling in _SPELLINGS:
            if hasattr(linked, spelling.format("set_num_threads")):
                use = getattr(linked, spelling.format("set_num_threads"))
                count = getattr(linked, spelling.format("get_num_threads"))
                use.argtypes, use.restype, count.restype = [ctypes.c_int], None, ctypes.c_int
                return _Library(count, use)
    return None
