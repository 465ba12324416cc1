"""Random disjoint parts of a data set, drawn once and kept in a file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.checks import check_choice, check_count
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.files import replacing
from wildcal._old.io.sealed import Json, Kind

# Ten million row numbers, ten characters each.
_KIND = Kind("wildcal split", "split", "make_split", version=1, largest=100_000_000)


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Disjoint parts of the rows 0..n-1.

    The code of the paper takes contiguous slices, such as the last 5000 of the training images.
    That is fair only if the rows come in random order. Folders of pictures are sorted by class, so
    a slice of them holds some classes and lacks others, and a calibrator fitted on it has not seen
    the rest. A seeded draw is fair in any order. NumPy does not promise that a later version draws
    the same numbers from a seed, so a study saves the split itself beside its results.

    Parameters
    ----------
    n
        The number of rows in the data set.
    seed
        What the parts were drawn with.
    parts
        The row numbers of each part, by its name, in the order in which they are used.
    data
        The name of the data set, if it matters.
    """

    n: int
    seed: int
    parts: Mapping[str, NDArray[np.int64]]
    data: str = ""

    def __post_init__(self) -> None:
        check_count("n", self.n)
        check_count("seed", self.seed, least=0)
        if not isinstance(self.data, str):
            raise ValueError(
                f"data must be the name of a data set, got {type(self.data).__name__}."
            )
        parts = {name: _check_part(name, rows, self.n) for name, rows in self.parts.items()}
        together = np.concatenate([np.empty(0, np.int64), *parts.values()])
        if len(np.unique(together)) != len(together):
            raise ValueError("parts must be disjoint, but some rows occur twice.")
        object.__setattr__(self, "parts", MappingProxyType(parts))

    def rows(self, name: str) -> NDArray[np.int64]:
        """Return the row numbers of one part, in their order."""
        check_choice("name", name, tuple(self.parts))
        return self.parts[name].copy()

    def same(self, other: Self) -> bool:
        """Return whether another split has the same parts of the same data."""
        about = (self.n, self.seed, self.data) == (other.n, other.seed, other.data)
        return (
            about
            and list(self.parts) == list(other.parts)
            and all(np.array_equal(self.parts[name], rows) for name, rows in other.parts.items())
        )

    def save(self, path: str | Path) -> None:
        """Write the split to one JSON file that a person can read."""
        text = _to_text(self._describe())
        if len(text) > _KIND.largest:
            raise ValueError(f"the split must fit {_KIND.largest:,} bytes, got {len(text):,}.")
        with replacing(path) as temporary:
            temporary.write_text(text, "utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the split saved in a file; any damage gives a FileFormatError."""
        path = Path(path)
        document = _KIND.read(path)
        try:
            parts = {name: _from_list(name, rows) for name, rows in document["parts"].items()}
            n, seed = document["n"], document["seed"]
            return cls(n=n, seed=seed, parts=parts, data=document["data"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise FileFormatError(f"{path} is not a valid split: {error}") from error

    def _describe(self) -> dict[str, Json]:
        return _KIND.seal(
            {
                "data": self.data,
                "n": int(self.n),
                "seed": int(self.seed),
                "parts": {name: rows.tolist() for name, rows in self.parts.items()},
            }
        )


def make_split(n: int, sizes: Mapping[str, int], seed: int, *, data: str = "") -> Split:
    """Return random disjoint parts of n rows, each part sorted.

    Parameters
    ----------
    n
        The number of rows in the data set.
    sizes
        The number of rows of each part, by its name; -1 for the rest, in one part at most.
    seed
        An integer >= 0; the same seed gives the same parts.
    data
        The name of the data set, kept in the file.

    Examples
    --------
    >>> from wildcal._old.vision.datasets import make_split
    >>> split = make_split(10, {"tune": 3, "test": -1}, seed=0)
    >>> split.rows("tune")
    array([2, 4, 6])
    >>> len(split.rows("test"))
    7
    """
    n, seed = check_count("n", n), check_count("seed", seed, least=0)
    counts = {name: check_count(f"sizes[{name!r}]", s, least=-1) for name, s in sizes.items()}
    rest = [name for name, size in counts.items() if size == -1]
    if len(rest) > 1:
        raise ValueError(f"sizes must give the rest (-1) to one part, got {', '.join(rest)}.")
    taken = sum(size for size in counts.values() if size >= 0)
    if taken > n:
        raise ValueError(f"sizes must sum to at most n = {n}, got {taken}.")
    counts |= {name: n - taken for name in rest}
    order = np.random.default_rng(seed).permutation(n)
    pieces = np.split(order, np.cumsum(list(counts.values()), dtype=np.int64))
    parts = {name: np.sort(piece) for name, piece in zip(counts, pieces, strict=False)}
    return Split(n, seed, parts, data)


def _check_part(name: str, rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    array = np.array(rows)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(
            f"part {name!r:.40} must be a 1-D array of row numbers,"
            f" got {array.dtype} of shape {array.shape}."
        )
    array = array.astype(np.int64)
    if array.size and (array.min() < 0 or array.max() >= n):
        raise ValueError(f"part {name!r:.40} must be row numbers in [0, {n - 1}].")
    return array


def _from_list(name: str, rows: Json) -> NDArray[np.int64]:
    if not isinstance(rows, list) or not all(type(row) is int for row in rows):
        raise ValueError(f"part {name!r:.40} must be a list of integers.")
    return np.array(rows, np.int64)


def _to_text(document: dict[str, Json], indent: str = "") -> str:
    """Return JSON with one line for each entry: a list of rows would take a line per number."""
    lines = [
        f"{indent}  {json.dumps(key)}: "
        + (_to_text(value, indent + "  ") if isinstance(value, dict) else json.dumps(value))
        for key, value in document.items()
    ]
    end = "" if indent else "\n"
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}{end}"
