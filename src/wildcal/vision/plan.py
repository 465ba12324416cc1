"""Plan of a suite: the images of each split, and the corruption or transform applied to them."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice, check_number
from wildcal.corruptions import (
    CORRUPTIONS,
    SEVERITIES,
    VALIDATION_CORRUPTIONS,
    VALIDATION_TRANSFORMS,
    corrupt,
    transform,
)
from wildcal.vision.classifiers import Classifier
from wildcal.vision.datasets import CIFAR, cifar_c, image_folder, svhn, svhn_file, textures
from wildcal.vision.imagenet import RELATIVES, imagenet, imagenet_c, imagenet_relative
from wildcal.vision.images import (
    CIFAR10,
    CIFAR_PREPROCESS,
    IMAGENET,
    PRESETS,
    Images,
    ImageSet,
    Indices,
    Preprocess,
    common_size,
)
from wildcal.vision.splits import draw, n_learned, stratified_order

TRANSFORM_GROUPS: Final = {
    "color": ("posterize", "solarize", "gamma", "gray", "inverted", "channel_swap"),
    "geometric": ("rotation", "shear", "translation", "scaling", "vertical_flip", "cutout"),
    "all": tuple(VALIDATION_TRANSFORMS),
    "none": (),
}
Source = ImageSet | Callable[[], ImageSet]


@dataclass(frozen=True, eq=False, kw_only=True)
class Condition:
    """One split of a suite: some images of a data set, as they are or changed on the fly."""

    name: str
    role: str
    domain: str | None
    """"source", the name of a shifted domain, or None for OOD images."""
    source: Source
    indices: Indices
    change: tuple[str, int] | None = None
    """Corruption or transform, and its severity."""
    labels: Indices | None = None
    """What the labels of published corrupted images must be; these are not changed here."""

    def open(self) -> ImageSet:
        """Return the images."""
        images = self.source if isinstance(self.source, ImageSet) else self.source()
        if self.labels is not None and not np.array_equal(images.labels, self.labels):
            raise InputError(
                "corrupted must have the test images in the same order, got other labels in"
                f" {images.name}.",
                "corrupted",
            )
        return images

    def pixels(self, images: ImageSet, indices: Indices, seed: int) -> Images:
        """Return some of the images under the change of this condition."""
        pixels = images.read(indices)
        if self.change is None or self.labels is not None:
            return pixels
        apply = corrupt if self.change[0] in CORRUPTIONS else transform
        return apply(pixels, *self.change, seed=seed, indices=indices)


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """The conditions of a suite, in order."""

    data: Mapping[str, Any]
    class_names: tuple[str, ...]
    seed: int
    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        names = {condition.name.lower() for condition in self.conditions}
        if len(names) < len(self.conditions):
            raise InputError(
                "ood and extra must have new names: two conditions are the same.", "ood"
            )

    @property
    def n_samples(self) -> int:
        """Number of images in all conditions."""
        return sum(len(condition.indices) for condition in self.conditions)

    def summary(self) -> str:
        """Return a description of the conditions for the terminal."""
        groups: dict[str, list[Condition]] = {}
        for condition in self.conditions:
            kind = "OOD" if condition.domain is None else "shifted"
            kind = "in distribution" if condition.domain == "source" else kind
            groups.setdefault(f"{condition.role}, {kind}", []).append(condition)
        lines = [f"{len(self.conditions)} conditions, {self.n_samples:,} samples:"]
        for title, group in groups.items():
            names = list(dict.fromkeys(c.change[0] if c.change else c.name for c in group))
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            total = sum(len(c.indices) for c in group)
            lines.append(f"  {title}: {total:,} samples of {', '.join(names[:6])}{more}")
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Numbers of images; None takes all.

    Parameters
    ----------
    validation, test
        In-distribution images, every class in proportion; of ImageNet a quarter each by default.
    corrupted
        Of each corrupted test condition.
    shifted_validation
        Of each corrupted or transformed validation condition.
    ood
        Of each OOD set for calibration, at most half of it. Default: 100, 400 or 3,500 by the
        number of classes, as in the paper.
    ood_test
        Of each OOD set for tests.
    """

    validation: int | None = None
    test: int | None = None
    corrupted: int | None = None
    shifted_validation: int | None = 1000
    ood: int | None = None
    ood_test: int | None = None

    def n_ood(self, n_classes: int) -> int:
        """Return how many images of each OOD set are wanted for calibration."""
        # As `evaluation.splits.paper_n_ood`.
        return self.ood or (100 if n_classes <= 10 else 400 if n_classes <= 100 else 3500)


def choose_preprocess(
    dataset: str,
    folder: Path,
    classifier: Classifier,
    *,
    preset: str | None = None,
    crop: int | None = None,
    **options: Any,
) -> tuple[Preprocess, bool]:
    """Return how images are preprocessed, and whether the normalization is known and not guessed.

    In this order: the given options, a preset, the preprocessing of the network, the usual one of
    the data set.
    Folders of pictures that are squares of one size are not resized.

    Parameters
    ----------
    dataset, folder
        As in `make_plan`.
    classifier
        The network.
    preset
        A key of `PRESETS`.
    crop
        Side of the crop; the margin around it stays in proportion.
    options
        Other fields of `Preprocess`; None for the default.
    """
    known = classifier.preprocess
    usual = CIFAR_PREPROCESS.get(dataset, IMAGENET)
    base = PRESETS[preset] if preset is not None else known or usual
    if dataset == "folders" and known is None:
        side = common_size(folder / "validation")
        if side is not None or preset is None:
            base = replace(base, crop=side or base.crop, resize=side or base.crop)
    crop = classifier.size if crop is None else crop
    if crop is not None:
        base = base.with_crop(crop)
    given = {name: value for name, value in options.items() if value is not None}
    is_known = preset is not None or known is not None or {"mean", "std"} <= set(given)
    return replace(base, **given), is_known


def ood_sets(folder: Path) -> dict[str, Path]:
    """Return the usual OOD sets, svhn and textures, that a folder has."""
    found = {}
    with suppress(FileNotFoundError):
        svhn_file(folder)
        found["svhn"] = folder
    with suppress(FileNotFoundError):
        textures(folder, CIFAR10)
        found["textures"] = folder
    return found


def choose_transforms(words: Sequence[str] | None, dataset: str) -> tuple[str, ...]:
    """Return the validation transforms that groups and names mean.

    Default: all for the published photographs, color for other images: a digit 6 upside down may
    be a 9.

    Examples
    --------
    >>> choose_transforms(["geometric", "gamma"], "folders")[-2:]
    ('cutout', 'gamma')
    """
    found: list[str] = []
    for word in words or ("color" if dataset == "folders" else "all",):
        check_choice("transforms", word, (*TRANSFORM_GROUPS, *VALIDATION_TRANSFORMS))
        found += TRANSFORM_GROUPS.get(word, (word,))
    return tuple(name for name in VALIDATION_TRANSFORMS if name in found)


def make_plan(
    dataset: str,
    folder: Path,
    preprocess: Preprocess,
    *,
    name: str | None = None,
    ood: Mapping[str, Path] | None = None,
    extra: Mapping[str, Path] | None = None,
    corrupted: Path | None = None,
    transforms: Sequence[str] | None = None,
    sizes: Sizes | None = None,
    paired: bool = True,
    seed: int = 0,
) -> Plan:
    """Return the plan of a suite.

    Parameters
    ----------
    dataset
        cifar10 and cifar100: the last tenth of the training images for validation, the test images
        for tests. imagenet: parts of the validation images. folders: `folder` has subfolders
        validation and test, each with a subfolder per class.
    folder, preprocess
        Where the data are, and how pictures are cropped.
    name
        Name of the data in the suite. Default: `dataset`, or the name of the folder.
    ood
        Folders of OOD sets by name: svhn, textures, or any name for a folder of classes.
    extra
        Folders of more sets with the same classes: imagenet-r, imagenet-a, imagenet-sketch, or any
        name for a folder of classes.
    corrupted
        Folder of published corrupted images, which are read instead of made, for the types it has.
    transforms, sizes
        Groups or names for `choose_transforms`, and numbers of images.
    paired
        Whether all corruptions have the same images. Otherwise images are drawn for each type, and
        conditions of several types pooled are nearly independent.
    seed
        Of the draws and of the corruptions.
    """
    if dataset in CIFAR and preprocess.crop != CIFAR10.crop:
        raise InputError(f"crop must be 32 for {dataset}, got {preprocess.crop}.", "crop")
    chosen, sizes = choose_transforms(transforms, dataset), sizes or Sizes()
    validation, test, parts = _in_distribution(dataset, folder, preprocess, sizes, seed)
    published = _published(dataset, corrupted, preprocess)
    n_shifted, n_ood = sizes.shifted_validation, sizes.n_ood(len(test.class_names))
    others = [
        *_ood_conditions(ood or {}, preprocess, n_ood, sizes.ood_test, seed),
        *_extra_conditions(extra or {}, preprocess, dataset, test.class_names),
    ]
    conditions = (
        *_validation_conditions(validation, parts["validation"], chosen, n_shifted, seed),
        *_test_conditions(test, parts["test"], published, sizes.corrupted, seed, paired=paired),
        *others,
    )
    sources = [validation, test, *dict.fromkeys(condition.open() for condition in others)]
    data = {
        "name": name or (folder.resolve().name if dataset == "folders" else dataset),
        "layout": dataset,
        "sizes": vars(sizes),
        "paired": paired,
        "corrupted": "generated" if corrupted is None else "published",
        "sources": [_fingerprint(images) for images in sources],
    }
    names = test.class_names
    return Plan(data=data, class_names=names, seed=seed, conditions=conditions)


def _validation_conditions(
    images: ImageSet, indices: Indices, transforms: Sequence[str], n: int | None, seed: int
) -> Iterator[Condition]:
    make = partial(Condition, role="calibration", source=images)
    yield make(name="validation", domain="source", indices=indices)
    some = draw(indices, n, seed)
    levels = dict.fromkeys(VALIDATION_CORRUPTIONS, len(SEVERITIES))
    levels |= {name: len(VALIDATION_TRANSFORMS[name]) for name in transforms}
    for name, count in levels.items():
        for level in range(1, count + 1):
            domain, change = f"{name}-{level}", (name, level)
            yield make(name=f"validation-{domain}", domain=domain, indices=some, change=change)


def _test_conditions(
    test: ImageSet,
    indices: Indices,
    published: Callable[[str, int], ImageSet] | None,
    n: int | None,
    seed: int,
    *,
    paired: bool,
) -> Iterator[Condition]:
    yield Condition(name="test", role="test", domain="source", source=test, indices=indices)
    for name in CORRUPTIONS if published is None else _types_there(published):
        some = draw(indices, n, seed, "" if paired else name)
        for level in SEVERITIES:
            condition = Condition(
                name=f"{name}-{level}",
                role="test",
                domain=f"{name}-{level}",
                source=test if published is None else partial(published, name, level),
                indices=some,
                change=(name, level),
                labels=None if published is None else test.labels,
            )
            if level == 1:
                condition.open()  # raises now, not in the middle of a run, if labels differ
            yield condition


def _ood_conditions(
    folders: Mapping[str, Path], preprocess: Preprocess, n: int, n_test: int | None, seed: int
) -> Iterator[Condition]:
    for name, folder in folders.items():
        images = {"svhn": svhn, "textures": textures}.get(name, image_folder)(folder, preprocess)
        if len(images) < 2:
            raise InputError(f"ood must have at least 2 images, got {name}.", "ood")
        order = draw(np.arange(len(images)), None, seed)
        first = min(n, len(images) // 2)
        # From both ends: one part does not depend on the size of the other.
        parts = {"calibration": order[:first], "test": order[first:][::-1][:n_test]}
        for role, indices in parts.items():
            yield Condition(
                name=f"{name}-{role}", role=role, domain=None, source=images, indices=indices
            )


def _extra_conditions(
    folders: Mapping[str, Path], preprocess: Preprocess, dataset: str, class_names: tuple[str, ...]
) -> Iterator[Condition]:
    for name, folder in folders.items():
        if dataset == "imagenet" and name in RELATIVES:
            images = imagenet_relative(name, folder, preprocess)
        else:
            images = image_folder(folder, preprocess, class_names)
        indices = np.arange(len(images))
        yield Condition(name=name, role="test", domain=name, source=images, indices=indices)


def _in_distribution(
    dataset: str, folder: Path, preprocess: Preprocess, sizes: Sizes, seed: int
) -> tuple[ImageSet, ImageSet, dict[str, Indices]]:
    """Return the images for validation and for tests, and which of them are used."""
    if dataset == "imagenet":
        images = imagenet(folder, preprocess)
        n = len(images)
        n_validation, n_test = sizes.validation or n // 4, sizes.test or n // 4
        check_number("n_validation + n_test", n_validation + n_test, 1, n, whole=True)
        order = stratified_order(images.labels, seed)
        return images, images, {"validation": order[:n_validation], "test": order[::-1][:n_test]}
    validation: ImageSet
    test: ImageSet
    if dataset in CIFAR:
        validation, test = CIFAR[dataset](folder, "train"), CIFAR[dataset](folder, "test")
        first = n_learned(len(validation))
    else:
        validation, test = (image_folder(folder / p, preprocess) for p in ("validation", "test"))
        first = 0
        if validation.class_names != test.class_names:
            raise InputError(
                f"validation and test must have the same class folders in {folder}.", "data"
            )
    parts = {"validation": np.arange(first, len(validation)), "test": np.arange(len(test))}
    for part, images in (("validation", validation), ("test", test)):
        wanted = getattr(sizes, part)
        if wanted is not None:
            check_number(f"n_{part}", wanted, 1, len(parts[part]), whole=True)
            order = stratified_order(images.labels[parts[part]], seed)
            parts[part] = parts[part][order[:wanted]]
    return validation, test, parts


def _published(
    dataset: str, folder: Path | None, preprocess: Preprocess
) -> Callable[[str, int], ImageSet] | None:
    if folder is None:
        return None
    if dataset == "folders":
        raise InputError("corrupted must be left out for folders of images.", "corrupted")
    if dataset == "imagenet":
        return partial(imagenet_c, folder, preprocess=preprocess)
    return partial(cifar_c, dataset, folder)


def _types_there(published: Callable[[str, int], ImageSet]) -> list[str]:
    """Return the corruptions that a published folder has."""
    found = []
    for name in CORRUPTIONS:
        with suppress(FileNotFoundError):
            published(name, 1)
            found.append(name)
    if not found:
        published(CORRUPTIONS[0], 1)  # raises the error with the files that were looked for
    return found


def _fingerprint(images: ImageSet) -> dict[str, Any]:
    """Return what distinguishes other images: their number, labels and some of the pixels."""
    some = np.linspace(0, len(images) - 1, min(8, len(images))).astype(np.int64)
    digest = hashlib.sha256(images.labels.astype("<i8").tobytes())
    digest.update(images.read(some).tobytes())
    return {"name": images.name, "n_samples": len(images), "sha256": digest.hexdigest()}
