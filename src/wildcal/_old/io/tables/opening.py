"""From a path, a stream or `-` to a source: by the ending, or by the first bytes."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.files import standard_input
from wildcal._old.io.tables.arrow import read_feather, read_parquet
from wildcal._old.io.tables.jsonlines import read_json_lines
from wildcal._old.io.tables.packed import read_npy, read_npz
from wildcal._old.io.tables.source import FREE_EXPANSION, Source, check_expansion
from wildcal._old.io.tables.tensors import read_safetensors, read_torch
from wildcal._old.io.tables.text import read_text

Reader: TypeAlias = Callable[[IO[bytes], str], Source]


def _text(ending: str) -> Reader:
    return lambda file, title: read_text(file.read(), title, ending)


READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".csv": _text(".csv"),
    ".tsv": _text(".tsv"),
    ".jsonl": lambda file, title: read_json_lines(file.read(), title),
    ".parquet": read_parquet,
    ".arrow": read_feather,
    ".feather": read_feather,
    ".safetensors": read_safetensors,
    ".pt": read_torch,
}
_ALIASES = {".pth": ".pt", ".ndjson": ".jsonl", ".pq": ".parquet", ".txt": ".csv", ".tab": ".tsv"}
_PACKED_TEXT = (".csv", ".tsv", ".jsonl")
_MAGIC = (
    (b"PK\x03\x04", ".npz"),
    (b"\x93NUMPY", ".npy"),
    (b"PAR1", ".parquet"),
    (b"ARROW1", ".arrow"),
    (b"\xff\xff\xff\xff", ".arrow"),
    (b"{", ".jsonl"),
)


@contextmanager
def open_source(path: str | Path | IO[bytes], file_format: str | None = None) -> Iterator[Source]:
    """Yield the source that a path, a binary stream or "-" (standard input) leads to.

    Parameters
    ----------
    file_format
        An ending such as "csv" or "csv.gz", where the name has none or another. A stream without
        one is known by its first bytes, and is a .csv where those say nothing.
    """
    if isinstance(path, str | Path) and str(path) != "-":
        path = Path(path)
        title = str(path)
        ending = _ending(f"x.{file_format.lstrip('.')}" if file_format else path.name, title)
        with _open(path) as file:
            yield _read(file, ending, title)
        return
    stream, title = (standard_input(), "standard input") if str(path) == "-" else (path, "")
    title = title or str(getattr(stream, "name", "the stream"))
    content = stream.read()  # type: ignore[union-attr]
    if not isinstance(content, bytes):
        raise FileFormatError(f"{title} must be opened for bytes: open(path, 'rb').")
    if not content:
        raise FileFormatError(f"cannot read {title}: it is empty.")
    ending = _ending(f"x.{file_format.lstrip('.')}", title) if file_format else _guess(content)
    yield _read(io.BytesIO(content), ending, title)


def _open(path: Path) -> IO[bytes]:
    if path.is_dir():
        raise FileFormatError(f"cannot read {path}: it is a folder, not a file.")
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise FileFormatError(f"{path} does not exist.") from None
    except OSError as error:
        reason = (error.strerror or "it cannot be opened").lower()
        raise FileFormatError(f"cannot read {path}: {reason}.") from None
    if file.seekable():
        return file
    with file:  # a pipe, such as the shell makes of <(command)
        return io.BytesIO(file.read())


def _ending(name: str, title: str) -> str:
    """Return the ending a reader goes by, with .gz after it where the text is packed."""
    path = Path(name.lower())
    packed = path.suffix == ".gz"
    suffix = Path(path.stem).suffix if packed else path.suffix
    suffix = _ALIASES.get(suffix, suffix)
    if suffix not in READERS or (packed and suffix not in _PACKED_TEXT):
        what = "pickles are not read; " if suffix in (".pkl", ".pickle", ".joblib") else ""
        raise FileFormatError(
            f"cannot read {title}: {what}its ending must be one of {', '.join(READERS)} (text also"
            " with .gz). Save it as one of them."
        )
    return f"{suffix}.gz" if packed else suffix


def _guess(content: bytes) -> str:
    packed = content.startswith(b"\x1f\x8b")
    start = content[:64]
    if packed:
        start = zlib.decompressobj(31).decompress(content[:4096], 64)
    ending = next((e for magic, e in _MAGIC if start.lstrip().startswith(magic)), ".csv")
    return f"{ending}.gz" if packed and ending in _PACKED_TEXT else ending


def _read(file: IO[bytes], ending: str, title: str) -> Source:
    if ending.endswith(".gz"):
        ending = ending.removesuffix(".gz")
        file = io.BytesIO(_gunzip(file, title))
    return READERS[ending](file, title)


def _gunzip(file: IO[bytes], title: str) -> bytes:
    packed = file.seek(0, io.SEEK_END)
    file.seek(0)
    pieces, size = [], 0
    try:
        with gzip.GzipFile(fileobj=file) as text:
            while piece := text.read(FREE_EXPANSION // 8):
                size += len(piece)
                check_expansion(title, "it", packed, size)
                pieces.append(piece)
    except (OSError, EOFError, zlib.error):
        raise FileFormatError(
            f"cannot read {title}: not a whole .gz file. Was it cut short?"
        ) from None
    return b"".join(pieces)
