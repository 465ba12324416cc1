"""One picture file as the square that a network sees; needs Pillow."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError, MissingExtraError

try:
    from PIL import Image
except ImportError:
    raise MissingExtraError(
        'reading pictures needs Pillow. Install it with: pip install "wildcal[shift]"'
    ) from None

# By content, for some published .JPEG are others. Pillow knows dozens more, and some of those
# start other programs.
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
# Photographs of the published sets stay below 20 million.
_MOST_PIXELS = 60_000_000
_MOST_BYTES = 1 << 30
# A stripe longer than this would grow out of all proportion when its short side is enlarged.
_LONGEST = 50


def read_square(
    path: Path, size: int, resize: int, interpolation: str = "bilinear"
) -> NDArray[np.uint8]:
    """Return the center of a picture as RGB, shape (size, size, 3).

    The short side is resized to `resize` (antialiased), the long side in proportion and rounded
    down; then the middle is cut out. So do the usual evaluation scripts for ImageNet.
    """
    file = io.BytesIO()
    try:
        if (n_bytes := path.stat().st_size) > _MOST_BYTES:
            raise ValueError(f"it has {n_bytes:,} bytes")
        # Pillow asks for what a damaged file claims; of bytes in memory it gets what there is.
        file = io.BytesIO(path.read_bytes())
        with Image.open(file, formats=_FORMATS) as picture:
            _check_shape(*picture.size)
            # A palette with transparency cannot be turned into RGB in one step without a warning.
            whole = picture.convert("RGBA") if picture.mode == "P" else picture
            square = _center(whole.convert("RGB"), size, resize, interpolation)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist any more.") from None
    # Pillow raises these for files that are cut short, hostile or no pictures at all, and warnings
    # where warnings are errors.
    except (OSError, ValueError, SyntaxError, Warning, Image.DecompressionBombError) as error:
        reason = str(error).replace(f" {str(path)!r}", "").replace(f" {file!r}", "")
        reason = reason.strip().rstrip(".")
        raise FileFormatError(
            f"cannot read {path}: {reason}. Unpack the published archive again."
        ) from error
    return np.asarray(square)


def resized(
    image: NDArray[np.uint8], size: int, interpolation: str = "bilinear"
) -> NDArray[np.uint8]:
    """Return a square image in another size, antialiased."""
    picture = Image.fromarray(image).resize((size, size), _filter(interpolation))
    return np.asarray(picture)


def _filter(interpolation: str) -> Image.Resampling:
    return Image.Resampling[interpolation.upper()]


def _check_shape(width: int, height: int) -> None:
    if width * height > _MOST_PIXELS:
        raise ValueError(
            f"it has {width} x {height} pixels, more than {_MOST_PIXELS // 1_000_000} million"
        )
    if max(width, height) > _LONGEST * min(width, height):
        raise ValueError(f"it is a stripe of {width} x {height} pixels")


def _center(picture: Image.Image, size: int, resize: int, interpolation: str) -> Image.Image:
    width, height = picture.size
    short = min(width, height)
    if short != resize:
        width, height = resize * width // short, resize * height // short
        picture = picture.resize((width, height), _filter(interpolation))
    left, top = round((width - size) / 2), round((height - size) / 2)
    return picture.crop((left, top, left + size, top + size))
