"""Which transforms of validation images to tune on: a word on the command line to their names."""

from typing import Final

from wildcal._old.shift import TUNING_TRANSFORMS

COLOR: Final = ("posterize", "solarize", "gamma", "gray", "inverted", "channel_swap")
GEOMETRIC: Final = ("rotation", "shear", "translation", "scaling", "vertical_flip", "cutout")
GROUPS: Final = {
    "color": COLOR,
    "geometric": GEOMETRIC,
    "all": tuple(TUNING_TRANSFORMS),
    "none": (),
}


def chosen_transforms(words: str | None, dataset: str) -> tuple[str, ...]:
    """Return the transforms that a comma-separated list of groups and names stands for.

    By default those that are safe: all for the published photographs, for images that nobody knows
    those of the colors alone. A 6 upside down is a 9.

    Examples
    --------
    >>> from wildcal._old.vision.transforms import chosen_transforms
    >>> chosen_transforms("geometric,gamma", "folders")[-2:]
    ('cutout', 'gamma')
    """
    if words is None:
        words = "color" if dataset == "folders" else "all"
    found: list[str] = []
    for word in (word.strip() for word in words.split(",")):
        if word not in GROUPS and word not in TUNING_TRANSFORMS:
            raise ValueError(
                f"there is no transform {word!r}; choose from {', '.join(GROUPS)} or"
                f" {', '.join(TUNING_TRANSFORMS)}, separated by commas."
            )
        found += GROUPS.get(word, (word,))
    return tuple(name for name in TUNING_TRANSFORMS if name in found)
