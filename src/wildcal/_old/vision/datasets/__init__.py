"""Readers of published image sets, in the layouts they are published in.

Nothing is downloaded. CIFAR, CIFAR-C and SVHN need NumPy and SciPy only; folders of pictures need
Pillow.
"""

from wildcal._old.vision.datasets.cifar import cifar10, cifar100
from wildcal._old.vision.datasets.corrupted import cifar10_c, cifar100_c
from wildcal._old.vision.datasets.folders import image_folder
from wildcal._old.vision.datasets.imagenet import (
    imagenet,
    imagenet_a,
    imagenet_c,
    imagenet_r,
    imagenet_sketch,
    imagenet_wnids,
)
from wildcal._old.vision.datasets.images import ArrayImages, ImageSet
from wildcal._old.vision.datasets.pictures import PictureFiles
from wildcal._old.vision.datasets.split import Split, make_split
from wildcal._old.vision.datasets.svhn import svhn
from wildcal._old.vision.datasets.textures import textures

__all__ = [
    "ArrayImages",
    "ImageSet",
    "PictureFiles",
    "Split",
    "cifar10",
    "cifar10_c",
    "cifar100",
    "cifar100_c",
    "image_folder",
    "imagenet",
    "imagenet_a",
    "imagenet_c",
    "imagenet_r",
    "imagenet_sketch",
    "imagenet_wnids",
    "make_split",
    "svhn",
    "textures",
]
