"""Images on disk: folders of pictures, .npz batches and CIFAR binary batches.

A file that cannot be read raises a ValueError with its name. Writers write where they are told;
who calls them renames the finished file.
"""

import io
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from wildcal._old.shift.checks import check_images
from wildcal._old.shift.levels import Images

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
BATCHES = (".npz", ".bin")
_PIXELS = 3 * 32 * 32
_CIFAR_FOLDER = "test_batch.bin"
# By content, whatever the name says. Pillow knows dozens more, and some of those start other
# programs.
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
_MOST_PIXELS = 60_000_000
_MOST_BYTES = 1 << 30
# Images hardly shrink when packed. What grows this many times, beyond the first so many bytes, was
# made to fill a memory.
_MOST_EXPANSION = 100
_FREE_EXPANSION = 128 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """Images of one size, and what else their file holds: the labels, usually."""

    images: Images
    others: dict[str, NDArray[Any]] = field(default_factory=dict)

    def with_images(self, images: Images) -> "Batch":
        """Return the same labels with other images."""
        return replace(self, images=images)


def batch_file(path: Path) -> Path | None:
    """Return the file of a batch: the path itself, or the test batch in a folder of CIFAR-10.

    None stands for a folder of pictures.
    """
    if path.is_dir():
        inside = path / _CIFAR_FOLDER
        return inside if inside.is_file() else None
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.suffix not in BATCHES:
        raise ValueError(
            f"cannot read {path}: give a folder of pictures, an .npz with `images`"
            " or a CIFAR batch (.bin)."
        )
    return path


def read_batch(path: Path) -> Batch:
    """Return the images of an .npz (array `images`) or of a CIFAR-10 or -100 .bin."""
    try:
        batch = _read_npz(path) if path.suffix == ".npz" else _read_cifar(path)
        check_images(batch.images)
    except FileNotFoundError:
        raise
    except MemoryError as error:
        raise ValueError(f"cannot read {path}: it does not fit into memory.") from error
    # A damaged archive or header raises a dozen kinds.
    except Exception as error:
        known = isinstance(error, ValueError | KeyError | EOFError | zipfile.BadZipFile)
        reason = " ".join(str(error).split()) if known else "a part of it is damaged."
        raise ValueError(f"cannot read {path}: {reason[:300]}") from error
    return batch


def _read_npz(path: Path) -> Batch:
    if not zipfile.is_zipfile(path):  # np.load would take it for a pickle, and advise to trust it
        raise ValueError("it is not an .npz archive; was it cut short?")
    # Opened here, because np.load leaves a damaged file open.
    with path.open("rb") as handle:
        _check_expansion(handle)
        handle.seek(0)
        return _arrays(handle)


def _check_expansion(handle: IO[bytes]) -> None:
    """Raise if an archive says that it grows out of all proportion."""
    members = zipfile.ZipFile(handle).infolist()
    packed = sum(member.compress_size for member in members)
    plain = sum(member.file_size for member in members)
    if plain > _FREE_EXPANSION + _MOST_EXPANSION * packed:
        raise ValueError(
            f"its {packed:,} bytes would grow to {plain:,}. Save it with np.savez, which packs"
            " nothing."
        )


def _arrays(handle: IO[bytes]) -> Batch:
    with np.load(handle, allow_pickle=False) as file:
        if "images" not in file:
            raise ValueError(f"it has no array `images`, only {', '.join(file) or 'nothing'}.")
        arrays = dict(file)
    return Batch(arrays.pop("images"), arrays)


def _read_cifar(path: Path) -> Batch:
    """Read records of 1 (CIFAR-10) or 2 (CIFAR-100) label bytes and 3072 bytes, plane by plane."""
    data = np.fromfile(path, np.uint8)
    for labels in (1, 2):
        if data.size and data.size % (labels + _PIXELS) == 0:
            records = data.reshape(-1, labels + _PIXELS)
            planes = records[:, labels:].reshape(-1, 3, 32, 32)
            return Batch(
                np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), {"labels": records[:, :labels]}
            )
    raise ValueError(
        f"its {data.size:,} bytes are not whole CIFAR records of {1 + _PIXELS} or {2 + _PIXELS}."
    )


def write_batch(path: Path, batch: Batch) -> None:
    """Write an .npz or, for 32 x 32 images with their label bytes, a CIFAR .bin."""
    if path.suffix == ".npz":
        others = {
            name: a[:, 0] if a.ndim == 2 and a.shape[1] == 1 and name == "labels" else a
            for name, a in batch.others.items()
        }
        arrays: dict[str, Any] = {"images": batch.images, **others}
        np.savez(path, **arrays)
        return
    n = len(batch.images)
    labels = batch.others["labels"].reshape(n, -1)
    planes = batch.images.transpose(0, 3, 1, 2).reshape(n, _PIXELS)
    np.concatenate([labels, planes], axis=1, dtype=np.uint8).tofile(path)


def find_pictures(folder: Path) -> list[Path]:
    """Return the pictures below a folder, relative to it and in the order of their names.

    The place in this list is the picture's number, from which its noise is drawn.
    """
    found = (p for p in folder.rglob("*") if p.suffix.lower() in PICTURES and p.is_file())
    paths = sorted((p.relative_to(folder) for p in found), key=lambda p: p.as_posix())
    paths = [p for p in paths if not p.name.startswith(".")]
    if not paths:
        raise ValueError(f"{folder} holds no pictures ({', '.join(PICTURES)}).")
    names: dict[Path, Path] = {}
    for path in paths:
        other = names.setdefault(path.with_suffix(".png"), path)
        if other is not path:
            raise ValueError(
                f"{folder} holds {other} and {path}, which would both be written as .png."
            )
    return paths


def read_picture(path: Path) -> Images:
    """Return one picture as RGB, shape (H, W, 3)."""
    file = io.BytesIO()
    try:
        if (size := path.stat().st_size) > _MOST_BYTES:
            raise ValueError(f"it has {size:,} bytes, too many.")
        # Pillow asks for what a damaged file claims; of bytes in memory it gets what there is.
        file = io.BytesIO(path.read_bytes())
        with Image.open(file, formats=_FORMATS) as picture:
            if picture.width * picture.height > _MOST_PIXELS:
                raise ValueError(f"it has {picture.width} x {picture.height} pixels, too many.")
            image: Images = np.asarray(picture.convert("RGB"))
        check_images(image[None])
    except FileNotFoundError:
        raise
    # Pillow raises these for files that are cut short, hostile or no pictures at all.
    except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError) as error:
        reason = str(error).replace(f" {str(path)!r}", "").replace(f" {file!r}", "").strip()
        raise ValueError(f"cannot read {path}: {reason}") from error
    return image


def write_picture(path: Path, image: Images) -> None:
    """Write a PNG, which adds no compression artifacts of its own."""
    Image.fromarray(image).save(path, format="PNG", compress_level=4)
