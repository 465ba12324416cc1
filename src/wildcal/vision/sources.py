"""From the words of a command to a plan: published data sets by name, folders of the user's own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from wildcal.shift import CORRUPTIONS
from wildcal.vision.datasets import (
    ImageSet,
    cifar10_c,
    cifar100_c,
    image_folder,
    imagenet,
    imagenet_a,
    imagenet_c,
    imagenet_r,
    imagenet_sketch,
    make_split,
    svhn,
    textures,
)
from wildcal.vision.plan import Plan, PlanMaker, Sizes
from wildcal.vision.training_data import CIFAR, rows_to_learn

_CORRUPTED: Final[dict[str, Callable[..., ImageSet]]] = {
    "cifar10": cifar10_c,
    "cifar100": cifar100_c,
    "imagenet": imagenet_c,
}
_EXTRA: Final[dict[str, Callable[..., ImageSet]]] = {
    "imagenet-r": imagenet_r,
    "imagenet-a": imagenet_a,
    "imagenet-sketch": imagenet_sketch,
}


def input_size(dataset: str) -> int:
    """Return the side of the images that networks for a data set usually take."""
    return 32 if dataset in CIFAR else 224


def make_plan(
    dataset: str,
    folder: Path,
    *,
    semantic: Mapping[str, Path],
    extra: Mapping[str, Path],
    corrupted: Path | None,
    sizes: Sizes,
    size: int,
    seed: int,
    transforms: bool = True,
    perturb: bool = False,
) -> Plan:
    """Return the plan for a data set.

    Parameters
    ----------
    dataset
        cifar10 and cifar100: the last tenth of the training images tunes, the test images test.
        imagenet: a random quarter of the validation images tunes, another tests.
        folders: `folder` has subfolders validation and test, these a subfolder for each class.
    semantic
        Names and folders of sets with other classes: svhn, textures, or any name for a folder of
        classes.
    extra
        Names and folders of more sets with the same classes: imagenet-r, imagenet-a,
        imagenet-sketch, or any name for a folder of classes.
    corrupted
        Folder of the published corrupted images, to be taken instead of making them. Types that it
        lacks are left out.
    size
        Side of the images that the network takes; those of CIFAR are always 32.
    transforms
        Whether validation images under `TUNING_TRANSFORMS` are for tuning too.
    perturb
        Whether there are validation images under noise of five strengths. It is added to the
        normalised input of 32 x 32 pixels, to the pixels of ImageNet and of larger images.
    """
    if dataset in CIFAR and size != 32:
        raise ValueError(f"the images of {dataset} have 32 x 32 pixels, not {size} x {size}.")
    _check_sets([*semantic, *extra])
    options = _clean(dataset, folder, size, seed)
    names = options["test"].class_names
    reader = _published(dataset, corrupted, size)
    maker = PlanMaker(
        data={"name": dataset, "size": size, "semantic": sorted(semantic), "extra": sorted(extra)},
        semantic={name: _semantic(name, path, size) for name, path in semantic.items()},
        extra={name: _extra(name, path, size, names, dataset) for name, path in extra.items()},
        corrupted=reader,
        types=CORRUPTIONS if reader is None else _types_there(reader),
        transforms=transforms,
        perturb=_noise_space(dataset, size) if perturb else None,
        sizes=sizes,
        seed=seed,
        **options,
    )
    return maker.make()


def _noise_space(dataset: str, size: int) -> str:
    """Return where published studies add noise: CIFAR's networks get it unclipped."""
    return "input" if size == 32 and dataset != "imagenet" else "pixels"


def _check_sets(names: list[str]) -> None:
    """Raise if the rows of a set would be kept under a name that is taken."""
    taken = ("validation", "test", "images")
    for i, name in enumerate(names):
        if name in taken or name in names[:i]:
            raise ValueError(f"the name {name!r} is taken; give the set another one.")


def _clean(dataset: str, folder: Path, size: int, seed: int) -> dict[str, Any]:
    """Return the images to tune and to test on, and which of their rows."""
    if dataset in CIFAR:
        train = CIFAR[dataset](folder, "train")
        rows = np.arange(rows_to_learn(train), len(train))
        return {
            "validation": train,
            "validation_rows": rows,
            "test": CIFAR[dataset](folder, "test"),
        }
    if dataset == "folders":
        parts = {part: image_folder(folder / part, size) for part in ("validation", "test")}
        if parts["validation"].class_names != parts["test"].class_names:
            raise ValueError(f"{folder}: validation and test must have the same class folders.")
        return dict(parts)
    images = imagenet(folder, size)
    quarter = len(images) // 4
    split = make_split(
        len(images), {"validation": quarter, "test": quarter}, seed, data=images.name
    )
    return {
        "splits": {"images": split},
        "validation": images,
        "validation_rows": split.rows("validation"),
        "test": images,
        "test_rows": split.rows("test"),
    }


def _semantic(name: str, folder: Path, size: int) -> ImageSet:
    if name == "svhn":
        return svhn(folder, size=size)
    if name == "textures":
        return textures(folder, size)
    return image_folder(folder, size)


def _extra(
    name: str, folder: Path, size: int, class_names: tuple[str, ...], dataset: str
) -> ImageSet:
    if dataset == "imagenet" and name in _EXTRA:
        return _EXTRA[name](folder, size)
    return image_folder(folder, size, class_names=class_names)


def _published(dataset: str, folder: Path | None, size: int) -> Callable[..., ImageSet] | None:
    if folder is None:
        return None
    if dataset not in _CORRUPTED:
        raise ValueError(f"there are no published corrupted images for {dataset}; leave them out.")
    reader, options = _CORRUPTED[dataset], {"size": size} if dataset == "imagenet" else {}
    return lambda name, severity: reader(folder, name, severity, **options)


def _types_there(reader: Callable[..., ImageSet]) -> tuple[str, ...]:
    """Return the corruptions that a published folder has: its archives come apart."""
    there, missing = [], None
    for name in CORRUPTIONS:
        try:
            reader(name, 1)
            there.append(name)
        except FileNotFoundError as error:
            missing = missing or error
    if missing is not None and not there:
        raise missing
    return tuple(there)
