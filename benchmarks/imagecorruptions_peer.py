"""The `imagecorruptions` package behind a pipe: a line asks for a type, a line answers.

Run by the scripts beside it, in a Python that has the package; see `corruptions.py`. The package is
from 2020. What newer libraries renamed since is put back here from outside, its own code is used
as it is.
"""

import importlib.metadata
import importlib.util
import json
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import scipy.ndimage
import skimage.filters

warnings.filterwarnings("ignore")
cv2.setNumThreads(1)


def mend() -> None:
    """Bring back the names of NumPy 1, SciPy 1.0, scikit-image 0.18 and setuptools 80."""
    vars(np)["float_"] = np.float64
    old = types.ModuleType("scipy.ndimage.interpolation")
    old.map_coordinates = scipy.ndimage.map_coordinates  # type: ignore[attr-defined]
    sys.modules[old.__name__] = old
    resources = types.ModuleType("pkg_resources")
    resources.resource_filename = _beside  # type: ignore[attr-defined]
    sys.modules.setdefault(resources.__name__, resources)
    new = skimage.filters.gaussian

    def gaussian(image: Any, *args: Any, multichannel: bool = False, **options: Any) -> Any:
        return new(image, *args, channel_axis=-1 if multichannel else None, **options)

    skimage.filters.gaussian = gaussian


def _beside(module: str, name: str) -> str:
    found = sys.modules[module].__file__
    return str(Path(found or "").parent / name)


def main() -> None:
    """Answer [name, severity, images] with {"seconds": ..., "change": ...} until the pipe ends."""
    images = np.load(sys.argv[1])
    mend()
    from imagecorruptions import corrupt

    print(json.dumps(importlib.metadata.version("imagecorruptions")), flush=True)
    for line in sys.stdin:
        name, severity, count = json.loads(line)
        np.random.seed(0)  # noqa: NPY002 (its own generator)
        try:
            start = time.process_time()
            got = [corrupt(image, severity, name) for image in images[:count]]
            seconds = (time.process_time() - start) / count
            change = float(np.abs(np.array(got, np.int16) - images[:count]).mean())
            answer = {"seconds": seconds, "change": change}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
