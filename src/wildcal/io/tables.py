"""Logits and labels from .npz, .npy, .csv, .safetensors and .pt; results to .npz, .npy and .csv."""

import csv
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.errors import FileFormatError, MissingExtraError
from wildcal.io.files import check_writable, replacing

LOGIT_NAMES = ("logits", "z", "scores")
LABEL_NAMES = ("y", "labels", "label", "targets", "target")
ENVIRONMENT_NAMES = ("environment", "environments")
DENSITY_NAMES = ("densities",)
_DENSITY_COLUMN = "density_"
RESULT_NAMES = ("proba", "confidence", "pred", "temperature")
"""What `wildcal apply` writes: results, which are no logits."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Table:
    """Logits of shape (n, K), with their labels and environments where the file has them."""

    logits: NDArray[Any]
    y: NDArray[Any] | None
    environment: NDArray[Any] | None = None
    """Which rows belong together; 0 for the clean ones."""
    densities: NDArray[Any] | None = None
    """Distances to training rows, a column for each layer."""


def read_table(path: str | Path, *, labels: str | Path | None = None) -> Table:
    """Return the logits, and the labels if there are any, from one file or two.

    A file with named arrays (.npz, .safetensors, .pt with a dict) holds `logits` and usually `y`.
    A .csv has a header with one column named `y` and one column per class, in class order. Both
    may have an `environment` of each row, which `wildcal fit --method context` learns from, and
    `densities` (in a .csv columns density_1, density_2, ...), which the method dac reads.
    A bare array (.npy, .pt with a tensor) holds logits only; give the labels with `labels`.
    """
    path = Path(path)
    arrays = _read(path)
    logits = _pick(arrays, LOGIT_NAMES, path, "logits")
    if labels is not None:
        y: NDArray[Any] | None = read_labels(labels)
    else:
        named = [name for name in LABEL_NAMES if name in arrays]
        y = arrays[named[0]] if named else None
    grouped = [name for name in ENVIRONMENT_NAMES if name in arrays]
    return Table(logits, y, arrays[grouped[0]] if grouped else None, arrays.get(DENSITY_NAMES[0]))


def read_labels(path: str | Path) -> NDArray[Any]:
    """Return the labels in a file of their own: an array, or a .csv with a column `y`."""
    return _read_column(Path(path), LABEL_NAMES, "labels")


def read_environments(path: str | Path) -> NDArray[Any]:
    """Return the environment of each row in a file of its own, as `read_labels` does."""
    return _read_column(Path(path), ENVIRONMENT_NAMES, "environments")


def read_densities(path: str | Path) -> NDArray[Any]:
    """Return distances to training rows in a file of their own, a column for each layer."""
    path = Path(path)
    if path.name.endswith(".densities.npy"):
        raise FileFormatError(
            f"{path} looks like a part of a suite, with the distances of several neighbours side by"
            " side. `wildcal suite rows` writes those of one neighbour, with the logits."
        )
    arrays = _read(path)
    # A bare array was named by _read for want of a better word; in a .npz the name was given.
    bare = set(arrays) == {"logits"} and path.suffix not in (".npz", ".safetensors")
    return _pick(arrays, ("logits",) if bare else DENSITY_NAMES, path, "densities")


def _read_column(path: Path, names: tuple[str, ...], what: str) -> NDArray[Any]:
    arrays = _read(path)
    if set(arrays) == {"logits"}:  # a bare array, named by _read for want of a better word
        found = arrays["logits"].squeeze() if arrays["logits"].ndim == 2 else arrays["logits"]
    else:
        found = _pick(arrays, names, path, what)
    # A file of text has no integers, only numbers that are whole.
    whole = path.suffix == ".csv" and (found == np.round(found)).all()
    return found.astype(np.int64) if whole else found


def write_result(path: str | Path, arrays: Arrays) -> None:
    """Write named arrays with equal numbers of rows to .npz, .csv, or the first of them to .npy."""
    path = Path(path)
    check_result(path)
    with replacing(path) as temporary:
        _WRITERS[path.suffix](temporary, arrays)


def check_result(path: Path) -> None:
    """Raise if `write_result` could not write there."""
    if path.suffix not in _WRITERS:
        raise FileFormatError(
            f"cannot write {path}: its ending must be one of {', '.join(_WRITERS)}."
        )
    check_writable(path)


def _pick(arrays: Arrays, names: tuple[str, ...], path: Path, what: str) -> NDArray[Any]:
    for name in names:
        if name in arrays:
            return arrays[name]
    raise FileFormatError(
        f"{path} has no {what}: expected an array named {' or '.join(names)},"
        f" found {', '.join(sorted(arrays)) or 'nothing'}."
    )


def _read(path: Path) -> Arrays:
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise FileFormatError(
            f"cannot read {path}: its ending must be one of {', '.join(_READERS)}."
        )
    if not path.exists():
        raise FileFormatError(f"{path} does not exist.")
    try:
        return reader(path)
    except (MissingExtraError, FileFormatError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # the readers raise a dozen kinds for a damaged file
        raise FileFormatError(
            f"cannot read {path}: not a whole {path.suffix} file ({_first_line(error)})."
        ) from error


def _first_line(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0][:160].rstrip(".")
    if "allow_pickle" in text:  # NumPy names its own switch, which we never turn
        return "it holds Python objects, which are not read"
    return text


def _read_npz(path: Path) -> Arrays:
    if not zipfile.is_zipfile(path):
        raise ValueError("not a zip archive; was it cut short?")
    known = (*LOGIT_NAMES, *LABEL_NAMES, *ENVIRONMENT_NAMES, *DENSITY_NAMES)
    with np.load(path, allow_pickle=False) as archive:
        # Other arrays are named, not read: they may be large, or objects that only pickle can read.
        return {name: archive[name] if name in known else np.empty(0) for name in archive.files}


def _read_npy(path: Path) -> Arrays:
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":  # np.load would take it for a pickle
            raise ValueError("it does not begin as one")
    return {"logits": np.load(path, allow_pickle=False)}


def _read_csv(path: Path) -> Arrays:
    with path.open(newline="", encoding="utf-8-sig") as lines:
        first = next(csv.reader(lines), [])
    if not first:
        raise ValueError("it is empty")
    counted = [str(k) for k in range(len(first))]  # the columns of a data frame without names
    numbered = len(first) > 1 and first == counted
    has_header = numbered or not all(_is_number(cell) for cell in first)
    values = np.loadtxt(
        path, delimiter=",", skiprows=int(has_header), ndmin=2, encoding="utf-8-sig"
    )
    if not has_header:
        return {"logits": values}
    header = [cell.strip() for cell in first]
    if len(header) != values.shape[1]:
        raise ValueError(f"{len(header)} column names for {values.shape[1]} columns")
    for name in header:
        if not name:
            raise ValueError("a column has no name; write it without the index of the data frame")
        if name in RESULT_NAMES or name.startswith("proba_"):
            raise ValueError(f"column {name} is a result of `wildcal apply`, not a logit")
    found: dict[str, NDArray[Any]] = {}
    taken: list[int] = []
    for what, names, called in (
        ("label", LABEL_NAMES, "y"),
        ("environment", ENVIRONMENT_NAMES, "environment"),
    ):
        at = [i for i, name in enumerate(header) if name.lower() in names]
        if len(at) > 1:
            raise ValueError(f"several {what} columns: {', '.join(header[i] for i in at)}")
        for i in at:
            if not (values[:, i] == np.round(values[:, i])).all():
                raise ValueError(f"column {header[i]} must be integers")
            found[called] = values[:, i].astype(np.int64)
        taken += at
    near = _density_columns(header)
    if near:
        found[DENSITY_NAMES[0]] = values[:, near]
        taken += near
    rest = np.delete(values, taken, axis=1)
    return {**found, "logits": rest} if rest.size else found


def _density_columns(header: list[str]) -> list[int]:
    """Return where density_1, density_2, ... stand, in the order of their numbers."""
    named = {
        name.lower().removeprefix(_DENSITY_COLUMN): i
        for i, name in enumerate(header)
        if name.lower().startswith(_DENSITY_COLUMN)
    }
    count = sum(name.lower().startswith(_DENSITY_COLUMN) for name in header)
    wanted = [str(i + 1) for i in range(count)]
    if sorted(named) != sorted(wanted):
        raise ValueError(f"columns of distances must be density_1 to density_{count}, each once")
    return [named[number] for number in wanted]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_safetensors(path: Path) -> Arrays:
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise MissingExtraError(
            "reading .safetensors needs safetensors. Install it with:"
            ' pip install "wildcal[safetensors]"'
        ) from None
    try:
        arrays: Arrays = load_file(path)
    except TypeError:  # NumPy has no bfloat16
        return _read_safetensors_bfloat16(path)
    # Unless another package has taught it one.
    return {n: a.astype(np.float32) if a.dtype.name == "bfloat16" else a for n, a in arrays.items()}


def _read_safetensors_bfloat16(path: Path) -> Arrays:
    from safetensors import deserialize

    arrays = {}
    tensors = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    for name, tensor in tensors:
        if tensor["dtype"] == "BF16":  # the upper half of a float32
            upper = np.frombuffer(tensor["data"], "<u2").astype(np.uint32)
            arrays[name] = (upper << 16).view(np.float32).reshape(tensor["shape"])
        elif name in (*LOGIT_NAMES, *LABEL_NAMES, *ENVIRONMENT_NAMES, *DENSITY_NAMES):
            dtype = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4"}
            flat = np.frombuffer(tensor["data"], dtype[tensor["dtype"]])
            arrays[name] = flat.reshape(tensor["shape"])
    return arrays


def _read_torch(path: Path) -> Arrays:
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            'reading .pt needs torch. Install it with: pip install "wildcal[torch]"'
        ) from None
    # weights_only: the restricted reader, which builds tensors and containers and runs nothing.
    content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, torch.Tensor):
        content = {"logits": content}
    if not isinstance(content, dict):
        raise ValueError("expected a tensor or a dict of tensors")
    return {
        str(name): _from_torch(tensor)
        for name, tensor in content.items()
        if isinstance(tensor, torch.Tensor)
    }


def _from_torch(tensor: Any) -> NDArray[Any]:
    if str(tensor.dtype) == "torch.bfloat16":  # NumPy has no such type
        tensor = tensor.float()
    array: NDArray[Any] = tensor.detach().numpy()
    return array


def _write_npz(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub confuses **arrays with a flag


def _write_npy(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as file:
        np.save(file, next(iter(arrays.values())), allow_pickle=False)


def _write_csv(path: Path, arrays: Arrays) -> None:
    columns: dict[str, NDArray[Any]] = {}
    for name, values in arrays.items():
        if values.ndim == 1:
            columns[name] = values
        else:
            columns |= {f"{name}_{k}": values[:, k] for k in range(values.shape[1])}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


_READERS: dict[str, Callable[[Path], Arrays]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".csv": _read_csv,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
_WRITERS: dict[str, Callable[[Path, Arrays], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".csv": _write_csv,
}
