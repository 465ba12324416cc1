"""The transforms to tune on: cheap changes that keep what an image shows.

None of them is a corruption, so a method tuned on them has seen none of the types it is tested on.
"""

from collections.abc import Mapping

from wildcal._old.shift.parameters import Strength

TUNING_TRANSFORMS: Mapping[str, tuple[Strength, ...]] = {
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
"""The strengths of each, from level 1 on: 24 in all. What the numbers mean stands in the docstring
of the transform's function; lengths are pixels of a 32 x 32 image."""
