"""From the words of a command to a plan: published data sets by name, folders of the user's own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from wildcal._old.shift import CORRUPTIONS, TUNING_TRANSFORMS
from wildcal._old.vision.cells import Plan
from wildcal._old.vision.datasets import (
    ImageSet,
    Split,
    cifar10_c,
    cifar100_c,
    image_folder,
    imagenet,
    imagenet_a,
    imagenet_c,
    imagenet_r,
    imagenet_sketch,
    svhn,
    textures,
)
from wildcal._old.vision.datasets.order import stratified_order
from wildcal._old.vision.datasets.svhn import svhn_file
from wildcal._old.vision.plan import PlanMaker
from wildcal._old.vision.preprocess import Preprocess, make_preprocess
from wildcal._old.vision.sizes import Sizes
from wildcal._old.vision.training_data import CIFAR, rows_to_learn

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

_PARTS: Final = ("validation", "test")


def make_plan(
    dataset: str,
    folder: Path,
    *,
    ood: Mapping[str, Path],
    extra: Mapping[str, Path],
    corrupted: Path | None,
    sizes: Sizes,
    seed: int,
    preprocess: Preprocess | None = None,
    name: str | None = None,
    paired: bool = True,
    transforms: Sequence[str] = tuple(TUNING_TRANSFORMS),
) -> Plan:
    """Return the plan for a data set.

    Parameters
    ----------
    dataset
        cifar10 and cifar100: the last tenth of the training images tunes, the test images test.
        imagenet: a random quarter of the validation images tunes, another tests, every class in
        both. folders: `folder` has subfolders validation and test, these a subfolder for each
        class.
    ood
        Names and folders of sets with other classes: svhn, textures, or any name for a folder of
        classes.
    extra
        Names and folders of more sets with the same classes: imagenet-r, imagenet-a,
        imagenet-sketch, or any name for a folder of classes.
    corrupted
        Folder of the published corrupted images, to be taken instead of making them. Types that it
        lacks are left out.
    preprocess
        How pictures are cut out; by default as is usual. Images of CIFAR always have 32 pixels.
    name
        What the suite calls the data; by default `dataset`, or the name of the folder.
    paired, transforms
        As for `PlanMaker`.
    """
    look = preprocess or make_preprocess(dataset)
    size = look.crop
    if dataset in CIFAR and size != 32:
        raise ValueError(f"the images of {dataset} have 32 x 32 pixels, not {size} x {size}.")
    _check_sets([*ood, *extra])
    options = _clean(dataset, folder, look, sizes, seed)
    names = options["test"].class_names
    reader = _published(dataset, corrupted, size)
    if name is None:
        name = folder.resolve().name if dataset == "folders" else dataset
    maker = PlanMaker(
        data={
            "name": name,
            "layout": dataset,
            "ood": sorted(ood),
            "extra": sorted(extra),
            **look.pictures,
        },
        ood={word: _ood(word, path, look) for word, path in ood.items()},
        extra={word: _extra(word, path, look, names, dataset) for word, path in extra.items()},
        corrupted=reader,
        types=CORRUPTIONS if reader is None else _types_there(reader),
        paired=paired,
        transforms=transforms,
        sizes=sizes,
        seed=seed,
        **options,
    )
    return maker.make()


def ood_there(folder: Path) -> dict[str, Path]:
    """Return those of the usual sets of other classes, svhn and textures, that a folder has."""
    found = {}
    for name, look_for in (("svhn", svhn_file), ("textures", textures)):
        try:
            look_for(folder)
        except FileNotFoundError:
            continue
        found[name] = folder
    return found


def _check_sets(names: list[str]) -> None:
    """Raise if the rows of a set would be kept under a name that is taken."""
    taken = ("validation", "test", "images")
    for i, name in enumerate(names):
        if name in taken or name in names[:i]:
            raise ValueError(f"the name {name!r} is taken; give the set another one.")


def _clean(dataset: str, folder: Path, look: Preprocess, sizes: Sizes, seed: int) -> dict[str, Any]:
    """Return the images to tune and to test on, and which of their rows."""
    if dataset == "imagenet":
        return _parts_of_imagenet(imagenet(folder, **look.pictures), sizes, seed)
    found: dict[str, Any]
    if dataset in CIFAR:
        train = CIFAR[dataset](folder, "train")
        rows = np.arange(rows_to_learn(train), len(train))
        test = CIFAR[dataset](folder, "test")
        found = {"validation": train, "validation_rows": rows, "test": test}
    else:
        parts = {part: image_folder(folder / part, **look.pictures) for part in _PARTS}
        if parts["validation"].class_names != parts["test"].class_names:
            raise ValueError(f"{folder}: validation and test must have the same class folders.")
        found = dict(parts)
    for part in _PARTS:
        wanted = getattr(sizes, part)
        if wanted is not None:
            images = found[part]
            rows = found.get(f"{part}_rows", np.arange(len(images)))
            _check_enough(part, wanted, len(rows))
            order = stratified_order(images.labels[rows], seed)
            found[f"{part}_rows"] = rows[order[:wanted]]
    return found


def _parts_of_imagenet(images: ImageSet, sizes: Sizes, seed: int) -> dict[str, Any]:
    """Return parts of one set of images, from both ends of an order."""
    quarter = len(images) // 4
    tune = quarter if sizes.validation is None else sizes.validation
    test = quarter if sizes.test is None else sizes.test
    _check_enough("validation and test together", tune + test, len(images))
    order = stratified_order(images.labels, seed)
    parts = {"validation": order[:tune], "test": order[::-1][:test]}
    return {
        "splits": {"images": Split(len(images), seed, parts, images.name)},
        "validation": images,
        "validation_rows": parts["validation"],
        "test": images,
        "test_rows": parts["test"],
        "drawn": True,
    }


def _check_enough(what: str, wanted: int, there: int) -> None:
    if wanted > there:
        raise ValueError(f"there are {there:,} images for {what}, fewer than {wanted:,}.")


def _ood(name: str, folder: Path, look: Preprocess) -> ImageSet:
    if name == "svhn":
        return svhn(folder, size=look.crop, interpolation=look.interpolation)
    if name == "textures":
        return textures(folder, **look.pictures)
    return image_folder(folder, **look.pictures)


def _extra(
    name: str, folder: Path, look: Preprocess, class_names: tuple[str, ...], dataset: str
) -> ImageSet:
    if dataset == "imagenet" and name in _EXTRA:
        return _EXTRA[name](folder, **look.pictures)
    return image_folder(folder, class_names=class_names, **look.pictures)


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
