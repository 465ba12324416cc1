"""How much each corruption changes a picture of 224 x 224 pixels, beside the public package.

python benchmarks/corruption_strength.py FOLDER -o strengths.csv

FOLDER is a folder of ImageNet's validation images. The public package is imagecorruptions 1.1.2,
which wants two lines changed under NumPy 2 (`np.float_`, and `multichannel` of scikit-image).
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from imagecorruptions import corrupt as published

from wildcal.shift import CORRUPTIONS, SEVERITIES, corrupt
from wildcal.vision.datasets import imagenet


def mean_change(changed: np.ndarray, images: np.ndarray) -> float:
    """Return the mean absolute change of a level, 0 to 255."""
    return float(np.abs(changed.astype(float) - images).mean())


def main() -> None:
    """Corrupt the same images both ways and write a row for each type."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--images", type=int, default=20)
    options = parser.parse_args()
    found = imagenet(options.folder)
    images = found.read(np.linspace(0, len(found) - 1, options.images).astype(np.int64))
    with options.output.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["corruption", "severity", "images", "wildcal", "imagecorruptions"])
        for name in CORRUPTIONS:
            for severity in SEVERITIES:
                np.random.seed(0)  # noqa: NPY002  # the published functions draw from it
                theirs = [
                    published(image, severity=severity, corruption_name=name) for image in images
                ]
                ours = corrupt(images, name, severity, seed=0)
                row = [mean_change(ours, images), mean_change(np.stack(theirs), images)]
                writer.writerow([name, severity, len(images), *(f"{value:.2f}" for value in row)])
                file.flush()


if __name__ == "__main__":
    main()
