"""The published strengths of the 19 corruptions, for CIFAR (32 x 32) and for ImageNet images.

Source: the scripts that made CIFAR-10-C and ImageNet-C (Hendrycks and Dietterich, 2019,
https://arxiv.org/abs/1903.12261). Each type has one entry per severity, 1 to 5; the docstring
of its function explains the numbers.
"""

from collections.abc import Mapping
from typing import Literal

Scale = Literal["cifar", "imagenet"]
Strength = tuple[float, ...]


def _rows(*columns: float | tuple[float, ...]) -> tuple[Strength, ...]:
    """Make five entries: a tuple lists the severities, a bare number holds for all of them."""
    lists = [c if isinstance(c, tuple) else (c,) * 5 for c in columns]
    return tuple(zip(*lists, strict=True))


_CIFAR: dict[str, tuple[Strength, ...]] = {
    "gaussian_noise": _rows((0.04, 0.06, 0.08, 0.09, 0.10)),
    "shot_noise": _rows((500, 250, 100, 75, 50)),
    "impulse_noise": _rows((0.01, 0.02, 0.03, 0.05, 0.07)),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": _rows((7, 12, 16, 21, 26), 0.01),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": _rows((1, 1, 0.9, 0.85, 0.75), (0.2, 0.3, 0.4, 0.4, 0.45), 0.2),
    "fog": _rows((0.2, 0.5, 0.75, 1, 1.5), (3, 3, 2.5, 2, 1.75), 32),
    "brightness": _rows((0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": _rows((0.75, 0.5, 0.4, 0.3, 0.15)),
    "elastic_transform": _rows(
        (0, 0.05, 0.08, 0.1, 0.1), (0, 0.2, 0.06, 0.04, 0.03), (0.08, 0.07, 0.06, 0.05, 0.03), 32
    ),
    "pixelate": _rows((0.95, 0.9, 0.85, 0.75, 0.65)),
    "jpeg_compression": _rows((80, 65, 58, 50, 40)),
    "speckle_noise": _rows((0.06, 0.1, 0.12, 0.16, 0.2)),
    "gaussian_blur": _rows((0.4, 0.6, 0.7, 0.8, 1)),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "saturate": _rows((0.3, 0.1, 1.5, 2, 2.5), (0, 0, 0, 0.1, 0.2)),
}

_IMAGENET: dict[str, tuple[Strength, ...]] = {
    "gaussian_noise": _rows((0.08, 0.12, 0.18, 0.26, 0.38)),
    "shot_noise": _rows((60, 25, 12, 5, 3)),
    "impulse_noise": _rows((0.03, 0.06, 0.09, 0.17, 0.27)),
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": ((12, 0.01), (16, 0.01), (11, 0.02), (13, 0.02), (11, 0.03)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "frost": _rows((1, 0.8, 0.7, 0.65, 0.6), (0.4, 0.6, 0.7, 0.7, 0.75), 1),
    "fog": _rows((1.5, 2, 2.5, 2.5, 3), (2, 2, 1.7, 1.5, 1.4), 256),
    "brightness": _rows((0.1, 0.2, 0.3, 0.4, 0.5)),
    "contrast": _rows((0.4, 0.3, 0.2, 0.1, 0.05)),
    # 244, not 224, as in the published script.
    "elastic_transform": _rows(
        (2, 2, 0.05, 0.07, 0.12), (0.7, 0.08, 0.01, 0.01, 0.01), (0.1, 0.2, 0.02, 0.02, 0.02), 244
    ),
    "pixelate": _rows((0.6, 0.5, 0.4, 0.3, 0.25)),
    "jpeg_compression": _rows((25, 18, 15, 10, 7)),
    "speckle_noise": _rows((0.15, 0.2, 0.35, 0.45, 0.6)),
    "gaussian_blur": _rows((1, 2, 3, 4, 6)),
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 1.5, 1),
        (0.67, 0.4, 1, 0.65, 1.5, 1),
    ),
    "saturate": _rows((0.3, 0.1, 2, 5, 20), (0, 0, 0, 0.1, 0.2)),
}

STRENGTHS: dict[Scale, dict[str, tuple[Strength, ...]]] = {"cifar": _CIFAR, "imagenet": _IMAGENET}

CORRUPTIONS: tuple[str, ...] = tuple(_CIFAR)
"""The 15 standard types, then the 4 extra ones, in the usual order."""

VALIDATION_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The extra types, for validation: a method fitted on them has not seen the standard 15."""

SEVERITIES = (1, 2, 3, 4, 5)

VALIDATION_TRANSFORMS: Mapping[str, tuple[Strength, ...]] = {
    "rotation": ((15,), (30,), (45,)),
    "shear": ((0.3,), (0.6,)),
    "translation": ((4,), (8,)),
    "scaling": ((0.8,), (0.6,), (1.25,), (1.6,)),
    "vertical_flip": ((),),
    "cutout": ((8,), (12,), (16,)),
    "posterize": ((8,), (4,)),
    "solarize": ((192,), (128,)),
    "gamma": ((0.5,), (2,)),
    "gray": ((),),
    "inverted": ((),),
    "channel_swap": ((),),
}
"""The strengths of each transform, from level 1 on: 24 in all. The docstring of its function
explains the numbers; lengths are pixels of a 32 x 32 image."""
