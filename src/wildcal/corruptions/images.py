"""Files of images: pictures, .npz arrays and CIFAR binary batches."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Image  # re-exported

from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.corruptions.corrupt import check_images
from wildcal.corruptions.pixels import Images

PICTURES: Final = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
BATCHES: Final = (".npz", ".bin")
# By content. Some of the other decoders of Pillow start external programs.
_FORMATS: Final = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
_MAX_PIXELS: Final = 60_000_000
_CIFAR_VALUES: Final = 3 * 32 * 32


@dataclass(frozen=True)
class Batch:
    """Images of one size, and the other arrays of their file, such as labels."""

    images: Images
    others: dict[str, NDArray[Any]] = field(default_factory=dict)


def find_batch(path: Path) -> Path | None:
    """Return the file of a batch: an .npz, a .bin or the test batch in a folder of CIFAR-10.

    None for a folder of pictures.
    """
    if path.is_dir():
        test = path / "test_batch.bin"
        return test if test.is_file() else None
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if path.suffix not in BATCHES:
        raise InputError(
            f"images must be a folder of pictures, an .npz with `images` or a CIFAR batch (.bin),"
            f" got {path}.",
            "images",
        )
    return path


def read_batch(path: Path) -> Batch:
    """Return the images of an .npz (array `images`) or of a CIFAR-10 or CIFAR-100 .bin."""
    try:
        batch = _read_npz(path) if path.suffix == ".npz" else _read_cifar(path)
        check_images(batch.images)
    except Exception as error:  # a damaged archive raises a dozen kinds
        raise FileFormatError(f"cannot read {path}: {error}") from error
    return batch


def _read_npz(path: Path) -> Batch:
    with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
        if not isinstance(file, np.lib.npyio.NpzFile) or "images" not in file:
            raise ValueError("it has no array `images`.")
        arrays = dict(file)
    return Batch(arrays.pop("images"), arrays)


def _read_cifar(path: Path) -> Batch:
    """Read records of 1 (CIFAR-10) or 2 (CIFAR-100) label bytes and 3072 bytes, plane by plane."""
    data = np.fromfile(path, np.uint8)
    for n_labels in (1, 2):
        if data.size and data.size % (n_labels + _CIFAR_VALUES) == 0:
            records = data.reshape(-1, n_labels + _CIFAR_VALUES)
            planes = records[:, n_labels:].reshape(-1, 3, 32, 32)
            images = np.ascontiguousarray(planes.transpose(0, 2, 3, 1))
            labels = records[:, 0] if n_labels == 1 else records[:, :2]
            return Batch(images, {"labels": labels})
    raise ValueError(f"its {data.size:,} bytes are not whole CIFAR records.")


def write_batch(file: IO[bytes], batch: Batch, suffix: str) -> None:
    """Write an .npz or, for 32 x 32 images with their label bytes, a CIFAR .bin."""
    if suffix == ".npz":
        np.savez(file, images=batch.images, **batch.others)  # type: ignore[arg-type]
        return
    n = len(batch.images)
    planes = batch.images.transpose(0, 3, 1, 2).reshape(n, _CIFAR_VALUES)
    labels = batch.others["labels"].reshape(n, -1)
    np.concatenate([labels, planes], axis=1, dtype=np.uint8).tofile(file)


def find_pictures(folder: Path) -> list[Path]:
    """Return the pictures below a folder, relative to it and sorted by name.

    The position in this list is the index of the picture, on which its noise depends.
    """
    found = (p for p in folder.rglob("*") if p.suffix.lower() in PICTURES and p.is_file())
    paths = sorted(
        (p.relative_to(folder) for p in found if not p.name.startswith(".")),
        key=lambda p: p.as_posix(),
    )
    if not paths:
        raise InputError(f"images must hold pictures ({', '.join(PICTURES)}), got {folder}.")
    targets: dict[Path, Path] = {}
    for path in paths:
        other = targets.setdefault(path.with_suffix(".png"), path)
        if other is not path:
            raise InputError(
                f"images must have different names without their endings, got {other} and {path}.",
                "images",
            )
    return paths


def open_picture(path: Path) -> Image.Image:
    """Return one picture in RGB."""
    try:
        with Image.open(path, formats=_FORMATS) as picture:
            if picture.width * picture.height > _MAX_PIXELS:
                raise ValueError(f"it has {picture.width} x {picture.height} pixels.")
            if picture.mode.startswith("I"):  # 16-bit gray, whose levels `convert` would clip
                return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8)).convert("RGB")
            # A palette with transparency cannot be converted to RGB in one step.
            whole = picture.convert("RGBA") if picture.mode == "P" else picture
            return whole.convert("RGB")
    # Pillow raises these for damaged files, and warnings where warnings are errors.
    except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError) as error:
        raise FileFormatError(f"cannot read {path}: {error}") from error


def read_picture(path: Path) -> Images:
    """Return one picture as an array, shape (height, width, 3)."""
    image: Images = np.asarray(open_picture(path))
    return image


def write_picture(file: IO[bytes], image: Images) -> None:
    """Write a PNG, which adds no compression artifacts."""
    Image.fromarray(image).save(file, format="PNG", compress_level=4)
