"""Logits on PACS: a head on an ImageNet network, trained on photos, asked about drawings.

python benchmarks/suites/pacs.py PACS DATA resnet18.onnx -o pacs-samples

PACS holds photo/, art_painting/, cartoon/ and sketch/ with a folder for each class; DATA holds
SVHN and DTD.
"""

import argparse
import pathlib

import numpy as np
from heads import halves_and_quarters, train, write

from wildcal.vision.classifiers import open_classifier
from wildcal.vision.datasets import image_folder, svhn, textures
from wildcal.vision.images import IMAGENET

BLOCK = 8


class Features:
    """What the last linear layer of a network reads, for images that are read block by block."""

    def __init__(self, network: pathlib.Path, layer: str) -> None:
        self.network, self.layer = open_classifier(str(network)), layer

    def __call__(self, images, rows=None):
        rows = np.arange(len(images)) if rows is None else rows
        found = []
        for i in range(0, len(rows), BLOCK):
            pixels = IMAGENET.normalize(images.read(rows[i : i + BLOCK]))
            _, features = self.network.outputs(pixels, [self.layer])
            found.append(features[self.layer])
        return np.concatenate(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pacs", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument(
        "network", type=pathlib.Path, help="an ImageNet network as ONNX, logits out"
    )
    parser.add_argument("layer", help="the tensor that its last linear layer reads")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-ood", type=int, default=500, help="samples of each OOD set")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    features = Features(options.network, options.layer)

    photos = image_folder(options.pacs / "photo", IMAGENET)
    seen = features(photos)
    learn, tune, test = halves_and_quarters(photos.labels, options.seed)
    head = train(seen[learn], photos.labels[learn], options.seed)
    parts = {
        "train": (seen[learn], photos.labels[learn]),
        "tune": (seen[tune], photos.labels[tune]),
        "test": (seen[test], photos.labels[test]),
    }
    for name in ("art_painting", "cartoon", "sketch"):
        images = image_folder(options.pacs / name, IMAGENET, photos.class_names)
        parts[name] = (features(images), images.labels)
    rng = np.random.default_rng(options.seed)
    others = {
        "svhn": svhn(options.data, IMAGENET),
        "textures": textures(options.data, IMAGENET),
    }
    for name, images in others.items():
        rows = np.sort(rng.choice(len(images), options.n_ood, replace=False))
        parts[name] = (features(images, rows), None)
    write(options.output, head, parts)


if __name__ == "__main__":
    main()
