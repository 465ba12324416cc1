"""Pictures and batches of pictures, with bytes broken: pixels, or a clear refusal."""

import functools
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError, Target
from numpy.typing import NDArray

_SIDE = 40


@functools.cache
def _pixels() -> NDArray[np.uint8]:
    rng = np.random.default_rng(2)
    slope = np.linspace(0, 200, _SIDE)[:, None, None] + np.zeros((_SIDE, _SIDE, 3))
    return (slope + rng.integers(0, 50, slope.shape)).astype(np.uint8)


def _picture(form: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(_pixels()).save(file, format=form)
    return file.getvalue()


def _batch() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, images=_pixels()[None].repeat(3, axis=0), labels=np.arange(3))
    return file.getvalue()


def _read(name: str, data: bytes) -> None:
    from wildcal.shift.images import read_batch, read_picture
    from wildcal.vision.datasets.decode import read_square

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        if name.endswith(".npz"):
            _check(read_batch(path).images)
            return
        refused = 0
        for read in (read_picture, lambda p: read_square(p, 16, 20)):
            try:
                _check(read(path)[None])
            except ValueError:
                refused += 1
        if refused == 2:
            raise ValueError("neither reader takes it")


def _check(images: NDArray[np.uint8]) -> None:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise FindingError(f"images of type {images.dtype} and shape {images.shape}")


FILES: dict[str, Callable[[], bytes]] = {
    "x.png": lambda: _picture("PNG"),
    "x.jpg": lambda: _picture("JPEG"),
    "x.webp": lambda: _picture("WEBP"),
    "x.bmp": lambda: _picture("BMP"),
    "x.gif": lambda: _picture("GIF"),
    "x.npz": _batch,
}

ATTACKS = [
    Attack.on_bytes(
        f"files/image-{name.partition('.')[2]}",
        Target(whole, functools.partial(_read, name)),
        (ValueError, ImportError),
    )
    for name, whole in FILES.items()
]
