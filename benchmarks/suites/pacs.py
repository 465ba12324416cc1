"""Logits on PACS: a head on an ImageNet network, trained on photos, asked about drawings.

python benchmarks/suites/pacs.py PACS DATA resnet18.onnx -o pacs-rows

PACS holds photo/, art_painting/, cartoon/ and sketch/ with a folder for each class; DATA holds
SVHN and DTD.
"""

import argparse
import pathlib

import numpy as np
import onnxruntime
from heads import halves_and_quarters, train, write

from wildcal._old.vision.classifiers.onnx_layers import default_tensors, with_outputs
from wildcal._old.vision.datasets import image_folder, svhn, textures
from wildcal._old.vision.preprocess import PRESETS

LOOK = PRESETS["torchvision"]
BLOCK = 8


class Features:
    """What the last linear layer of a network reads, for images that are read block by block."""

    def __init__(self, network: pathlib.Path) -> None:
        whole = onnxruntime.InferenceSession(network)
        logits = whole.get_outputs()[0].name
        layers = default_tensors(network, LOOK.crop, channels_last=False, logits=logits)
        self.input, self.layer = whole.get_inputs()[0].name, layers[-1]
        self.session = onnxruntime.InferenceSession(with_outputs(network, (self.layer,)))

    def __call__(self, images, rows=None):
        rows = np.arange(len(images)) if rows is None else rows
        found = []
        for i in range(0, len(rows), BLOCK):
            pixels = LOOK.normalize(images.read(rows[i : i + BLOCK])).transpose(0, 3, 1, 2)
            found += self.session.run([self.layer], {self.input: np.ascontiguousarray(pixels)})
        return np.concatenate(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pacs", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument(
        "network", type=pathlib.Path, help="an ImageNet network as ONNX, logits out"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--others", type=int, default=500, help="rows of other classes, each set")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    features = Features(options.network)

    photos = image_folder(options.pacs / "photo", **LOOK.pictures)
    seen = features(photos)
    learn, tune, test = halves_and_quarters(photos.labels, options.seed)
    head = train(seen[learn], photos.labels[learn], options.seed)
    parts = {
        "train": (seen[learn], photos.labels[learn]),
        "tune": (seen[tune], photos.labels[tune]),
        "test": (seen[test], photos.labels[test]),
    }
    for name in ("art_painting", "cartoon", "sketch"):
        images = image_folder(options.pacs / name, class_names=photos.class_names, **LOOK.pictures)
        parts[name] = (features(images), images.labels)
    rng = np.random.default_rng(options.seed)
    others = {
        "svhn": svhn(options.data, size=LOOK.crop),
        "textures": textures(options.data, **LOOK.pictures),
    }
    for name, images in others.items():
        rows = np.sort(rng.choice(len(images), options.others, replace=False))
        parts[name] = (features(images, rows), None)
    write(options.output, head, parts)


if __name__ == "__main__":
    main()
