"""A table before anyone asked what its columns mean: names, and arrays that are read when asked."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError, MissingExtraError

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
# Scores hardly shrink when packed. What grows this many times, beyond the first so many bytes, was
# made to fill a memory.
MOST_EXPANSION = 100
FREE_EXPANSION = 128 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """Named columns and matrices, whatever they came from."""

    title: str
    """What messages call it: a path, "standard input", "the frame"."""
    names: tuple[str, ...]
    load: Callable[[Sequence[str]], Arrays]
    columnar: bool = False
    """Whether a class is a column of its own, as in a .csv or a frame."""
    bare: bool = False
    """Whether it is one array without a name (or a file of columns without names)."""
    notes: tuple[str, ...] = ()

    def need(self, name: str, what: str) -> str:
        """Return the name if it is there; else say what is, and what is nearest."""
        if name in self.names:
            return name
        near = difflib.get_close_matches(name, self.names, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{self.title} has no {what} {name!r}; it has {few(self.names)}.{hint}")


def arrays_source(
    title: str, arrays: Arrays, *, columnar: bool = False, notes: tuple[str, ...] = ()
) -> Source:
    """Return the source of arrays that are there already."""
    return Source(
        title, tuple(arrays), lambda names: {n: arrays[n] for n in names}, columnar, False, notes
    )


def bare_source(title: str, array: NDArray[Any], notes: tuple[str, ...] = ()) -> Source:
    """Return the source of one array that has no name of its own."""
    return Source(title, ("logits",), lambda names: {"logits": array}, False, True, notes)


def few(names: Sequence[Any], shown: int = 8) -> str:
    """Return names for a message, the first few of them."""
    words = ", ".join(str(name) for name in names[:shown]) or "nothing"
    return words if len(names) <= shown else f"{words}, ... ({len(names)} in all)"


def check_names(names: Sequence[str], title: str) -> None:
    """Raise if two columns go by one name."""
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        raise FileFormatError(
            f"cannot read {title}: two columns are called {twice[0]!r}. Give each its own name."
        )


def check_expansion(title: str, what: str, packed: int, unpacked: int) -> None:
    """Raise if what was packed small would fill the memory."""
    if unpacked > FREE_EXPANSION and unpacked > MOST_EXPANSION * max(packed, 1):
        raise FileFormatError(
            f"cannot read {title}: {what} would grow from {packed / 1e6:.1f} MB to"
            f" {unpacked / 1e6:,.0f} MB, {unpacked // max(packed, 1)} times its size, which scores"
            f" never do (at most {MOST_EXPANSION} times). If it is right, save it unpacked."
        )


@contextmanager
def damage(title: str, kind: str, remedy: str = "Write it anew.") -> Iterator[None]:
    """Turn what another library says of a damaged file into our own line."""
    try:
        yield
    except (MissingExtraError, FileFormatError, KeyboardInterrupt):
        raise
    except MemoryError:
        raise FileFormatError(f"cannot read {title}: it does not fit into memory.") from None
    except Exception as error:  # the readers raise a dozen kinds for a damaged file
        raise FileFormatError(f"cannot read {title}: not a whole {kind} file. {remedy}") from error


@contextmanager
def named_after(title: str) -> Iterator[None]:
    """Put the title of a file before a complaint about what it holds."""
    try:
        yield
    except FileFormatError:
        raise
    except ValueError as error:
        text = str(error)
        raise FileFormatError(text if title in text else f"{title}: {text}") from error
