"""Validation transforms: number, reproducibility, and comparison with reference implementations."""

import numpy as np
import pytest
from PIL import Image, ImageOps
from scipy.ndimage import affine_transform

from wildcal.corruptions import CORRUPTIONS, VALIDATION_TRANSFORMS, corrupt, transform
from wildcal.corruptions.random import RandomStreams

CONDITIONS = [
    (name, level) for name, s in VALIDATION_TRANSFORMS.items() for level in range(1, len(s) + 1)
]
EVERY = pytest.mark.parametrize(("name", "level"), CONDITIONS)
# With a direction or a place that is drawn for each image.
RANDOM = {"rotation", "shear", "translation", "cutout"}


def test_there_are_24_and_none_is_a_corruption():
    assert len(CONDITIONS) == 24
    assert not set(VALIDATION_TRANSFORMS) & set(CORRUPTIONS)
    assert len(CORRUPTIONS) == 19
    for name in VALIDATION_TRANSFORMS:
        with pytest.raises(ValueError, match=f"must be a corruption, got '{name}'"):
            corrupt(np.zeros((1, 32, 32, 3), np.uint8), name, 1)


@EVERY
def test_any_subset_order_and_split_reproduces(images, name, level):
    whole = transform(images, name, level, seed=3)
    order = np.random.default_rng(1).permutation(len(images))[:41]
    some = transform(images[order], name, level, seed=3, indices=order)
    assert np.array_equal(some, whole[order])
    parts = [
        transform(images[a:b], name, level, seed=3, indices=range(a, b))
        for a, b in ((0, 1), (1, 60), (60, 130))
    ]
    assert np.array_equal(np.concatenate(parts), whole)


@EVERY
def test_seed_and_index_draw_directions_and_places(images, name, level):
    same = np.repeat(images[:1], 20, axis=0)
    first, other = transform(same, name, level), transform(same, name, level, seed=1)
    different = {image.tobytes() for image in first}
    assert np.array_equal(first, other) == (name not in RANDOM)
    expected = {"rotation": 2, "shear": 2, "translation": 4}.get(name, 1)
    assert len(different) > 10 if name == "cutout" else len(different) == expected


@EVERY
def test_changes_every_image_and_leaves_the_input(images, name, level):
    batch = images[:20].copy()
    batch.flags.writeable = False
    got = transform(batch, name, level)
    assert np.array_equal(batch, images[:20])
    assert (got.shape, got.dtype) == (batch.shape, np.uint8)
    assert got.flags.c_contiguous
    assert np.abs(got.astype(int) - batch).mean(axis=(1, 2, 3)).min() > 1


# Levels in the order of their mean change, where it is not the order of the levels.
ORDERS = {"scaling": [(1, 2), (3, 4)], "gamma": [(1,), (2,)]}


@pytest.mark.parametrize("name", VALIDATION_TRANSFORMS)
def test_change_grows_with_the_level(images, name):
    every = range(1, len(VALIDATION_TRANSFORMS[name]) + 1)
    for order in ORDERS.get(name, [tuple(every)]):
        changes = [np.abs(transform(images, name, k).astype(int) - images).mean() for k in order]
        assert changes == sorted(set(changes)), changes


@EVERY
@pytest.mark.parametrize(("height", "width"), [(64, 48), (97, 301)])
def test_other_sizes(make, name, level, height, width):
    batch = make(3, height, width)
    got = transform(batch, name, level)
    assert (got.shape, got.dtype) == (batch.shape, np.uint8)
    assert (got != batch).any(axis=(1, 2, 3)).all()
    assert np.array_equal(transform(batch[1:2], name, level, indices=[1])[0], got[1])
    flipped = batch[:, ::-1, :, ::-1]
    assert np.array_equal(transform(flipped, name, level), transform(flipped.copy(), name, level))


@EVERY
def test_large_images_are_changed_as_their_small_versions(make, name, level):
    """Strengths grow with the image: transforming and shrinking commute."""
    small = make(8)
    large = small.repeat(4, axis=1).repeat(4, axis=2)
    got = transform(large, name, level).reshape(8, 32, 4, 32, 4, 3).mean(axis=(2, 4))
    difference = np.abs(got - transform(small, name, level))
    # A place is drawn from finer steps, and interpolation from blocks is not that from pixels.
    if name == "cutout":
        side = int(VALIDATION_TRANSFORMS[name][level - 1][0])
        hidden = (transform(large, name, level) == 128).all(axis=3).sum(axis=(1, 2))
        assert (hidden >= 16 * side**2).all()
        assert (hidden < 16 * side**2 + 50).all()
    elif name in ("rotation", "shear", "scaling"):
        assert np.median(difference) < 6
    else:
        assert difference.max() == 0


def pillow(images, function):
    return np.stack([np.asarray(function(Image.fromarray(image))) for image in images])


def test_flip_inversion_and_solarization_are_pillows(images):
    for name, level, function in (
        ("vertical_flip", 1, ImageOps.flip),
        ("inverted", 1, ImageOps.invert),
        ("solarize", 1, lambda image: ImageOps.solarize(image, 192)),
        ("solarize", 2, lambda image: ImageOps.solarize(image, 128)),
        ("gray", 1, lambda image: image.convert("L").convert("RGB")),
    ):
        assert np.array_equal(transform(images, name, level), pillow(images, function)), name


def test_known_levels():
    levels = np.zeros((1, 32, 32, 3), np.uint8)
    levels[0, 0, :3] = [[0, 64, 255], [10, 127, 200], [60, 128, 230]]

    def got(name, level):
        return transform(levels, name, level)[0, 0, :3].tolist()

    assert got("channel_swap", 1) == [[255, 64, 0], [200, 127, 10], [230, 128, 60]]
    assert got("inverted", 1) == [[255, 191, 0], [245, 128, 55], [195, 127, 25]]
    assert got("solarize", 2) == [[0, 64, 0], [10, 127, 55], [60, 127, 25]]
    # Four levels: 0, 85, 170, 255, each for those nearest to it.
    assert got("posterize", 2) == [[0, 85, 255], [0, 85, 170], [85, 170, 255]]
    # 255 √(x / 255) and x² / 255.
    assert got("gamma", 1) == [[0, 128, 255], [50, 180, 226], [124, 181, 242]]
    assert got("gamma", 2) == [[0, 16, 255], [0, 63, 157], [14, 64, 207]]
    # 0.587 · 64 + 0.114 · 255 = 66.6
    assert got("gray", 1)[0] == [67, 67, 67]


def test_posterize_keeps_few_levels(images):
    for level, count in ((1, 8), (2, 4)):
        assert len(np.unique(transform(images, "posterize", level))) == count


def signs(name, level, n):
    """The drawn directions: the first number of each image's stream."""
    streams = RandomStreams.of(name, level, 0, np.arange(n, dtype=np.uint64))
    return [1 - 2 * int(rng.integers(2)) for rng in streams]


def matrix(name, level, sign):
    """The map from a place (row, column) in the result to that in the image."""
    strength = VALIDATION_TRANSFORMS[name][level - 1][0]
    if name == "rotation":
        a = sign * np.radians(strength)
        return np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    if name == "shear":
        return np.array([[1, 0], [sign * strength, 1]])
    return np.eye(2) / strength


@pytest.mark.parametrize(
    ("name", "level"), [c for c in CONDITIONS if c[0] in ("rotation", "shear", "scaling")]
)
@pytest.mark.parametrize(("height", "width"), [(32, 32), (45, 70)])
def test_affine_maps_are_scipys(make, name, level, height, width):
    images = make(6, height, width)
    center = np.array([height - 1, width - 1]) / 2
    drawn = signs(name, level, 6)
    assert len(set(drawn)) == 2
    for image, sign, got in zip(images, drawn, transform(images, name, level), strict=True):
        a = matrix(name, level, sign)
        for channel in range(3):
            expected = affine_transform(
                image[..., channel].astype(float), a, center - a @ center, order=1, mode="nearest"
            )
            # OpenCV may take places on a grid of 1/32 pixel.
            difference = np.abs(got[..., channel] - expected)
            assert difference.max() < 16
            assert difference.mean() < 0.6


def test_translation_moves_whole_pixels(images):
    for level, move in ((1, 4), (2, 8)):
        seen = set()
        for image, got in zip(images, transform(images, "translation", level), strict=True):
            wide = np.pad(image, ((move, move), (move, move), (0, 0)), mode="edge")
            places = [(y, x) for y in (0, 2 * move) for x in (0, 2 * move)]
            found = [(y, x) for y, x in places if (wide[y : y + 32, x : x + 32] == got).all()]
            assert len(found) == 1
            seen.update(found)
        assert len(seen) == 4


def test_cutout_hides_a_square_inside(images):
    dark = np.minimum(images, 100)
    for level, side in ((1, 8), (2, 12), (3, 16)):
        got = transform(dark, "cutout", level)
        hidden = (got == 128).all(axis=3)
        assert (hidden.any(axis=1).sum(axis=1) == side).all()
        assert (hidden.any(axis=2).sum(axis=1) == side).all()
        assert (hidden.sum(axis=(1, 2)) == side**2).all()
        assert np.array_equal(got[~hidden], dark[~hidden])
        assert hidden[:, 0].any()
        assert hidden[:, -1].any()


GOOD = np.zeros((2, 32, 32, 3), np.uint8)


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (
            (GOOD[0], "gray", 1),
            {},
            "images must have shape (n, height, width, 3), got (32, 32, 3).",
        ),
        ((GOOD / 1.0, "gray", 1), {}, "images must be uint8 (levels 0 to 255), got float64."),
        ((GOOD[:0], "gray", 1), {}, "images must hold at least one image"),
        ((GOOD[:, :31], "gray", 1), {}, "images must be at least 32 x 32 pixels, got 31 x 32."),
        ((GOOD, "fog", 1), {}, "name must be one of 'rotation', 'shear',"),
        ((GOOD, ["gray"], 1), {}, "name must be one of 'rotation', 'shear',"),
        ((GOOD, "rotation", 4), {}, "level must be an integer in [1, 3], got 4."),
        ((GOOD, "rotation", 0), {}, "level must be an integer in [1, 3], got 0."),
        ((GOOD, "shear", True), {}, "level must be an integer in [1, 2], got True."),
        ((GOOD, "gray", 2), {}, "level must be an integer in [1, 1], got 2."),
        ((GOOD, "gray", 1), {"seed": -1}, "seed must be an integer in [0, inf], got -1."),
        ((GOOD, "gray", 1), {"indices": [1]}, "indices must be 2 integers >= 0"),
    ],
)
def test_errors(arguments, options, text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text follows)
        transform(*arguments, **options)
    assert text in str(caught.value)
