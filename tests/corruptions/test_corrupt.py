"""Every corruption is reproducible, leaves its input unchanged and grows with severity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wildcal.corruptions import CORRUPTIONS, SEVERITIES, VALIDATION_CORRUPTIONS, corrupt

EVERY = pytest.mark.parametrize("name", CORRUPTIONS)
# Deterministic: another seed changes nothing.
SEEDLESS = {
    "defocus_blur",
    "zoom_blur",
    "brightness",
    "contrast",
    "pixelate",
    "jpeg_compression",
    "gaussian_blur",
    "saturate",
}


def change(images, name, severity, **options):
    return np.abs(corrupt(images, name, severity, **options).astype(int) - images).mean()


def test_names():
    assert len(CORRUPTIONS) == len(set(CORRUPTIONS)) == 19
    assert CORRUPTIONS[:3] == ("gaussian_noise", "shot_noise", "impulse_noise")
    assert CORRUPTIONS[15:] == VALIDATION_CORRUPTIONS
    assert SEVERITIES == (1, 2, 3, 4, 5)


@EVERY
@pytest.mark.parametrize("severity", [1, 3, 5])
def test_any_subset_order_and_split_reproduces(images, name, severity):
    whole = corrupt(images, name, severity, seed=3)
    order = np.random.default_rng(1).permutation(len(images))[:41]
    some = corrupt(images[order], name, severity, seed=3, indices=order)
    assert np.array_equal(some, whole[order])
    parts = [
        corrupt(images[a:b], name, severity, seed=3, indices=range(a, b))
        for a, b in ((0, 1), (1, 60), (60, 130))
    ]
    assert np.array_equal(np.concatenate(parts), whole)


@settings(max_examples=40)
@given(
    st.sampled_from(CORRUPTIONS),
    st.sampled_from(SEVERITIES),
    st.integers(0, 2**70),
    st.lists(st.integers(0, 2**62), min_size=1, max_size=4),
)
def test_one_image_alone_is_the_same(name, severity, seed, numbers):
    batch = np.random.default_rng(0).integers(0, 256, (len(numbers), 32, 32, 3), dtype=np.uint8)
    whole = corrupt(batch, name, severity, seed=seed, indices=numbers)
    alone = corrupt(batch[-1:], name, severity, seed=seed, indices=numbers[-1:])
    assert np.array_equal(alone[0], whole[-1])


@EVERY
def test_seed_and_index_make_the_noise(images, name):
    same = np.repeat(images[:1], 4, axis=0)
    first, other = corrupt(same, name, 5), corrupt(same, name, 5, seed=1)
    if name in SEEDLESS:
        assert np.array_equal(first, other)
        assert all(np.array_equal(image, first[0]) for image in first)
    else:
        assert not np.array_equal(first, other)
        assert not np.array_equal(first[0], first[1])


@EVERY
@pytest.mark.parametrize("severity", SEVERITIES)
def test_changes_the_images_and_leaves_the_input(images, name, severity):
    batch = images[:20].copy()
    batch.flags.writeable = False
    got = corrupt(batch, name, severity)
    assert np.array_equal(batch, images[:20])
    assert (got.shape, got.dtype) == (batch.shape, np.uint8)
    changed = (got != batch).any(axis=(1, 2, 3))
    # The mildest CIFAR spatter may miss an image; nothing else does.
    assert changed.all() or (name == "spatter" and changed.mean() > 0.8)


# Severities in the order of their mean change, where it is not 1 to 5: saturate takes color away
# (1, 2) or adds it, spatter is water (1 to 3) or mud, glass does one round (1 to 3) or two, motion
# 3 and 4 differ in a negligible tail, and elastic has less and less affine jitter at 32 x 32; frost
# dims the image as it adds ice (see test_frost).
ORDERS = {
    "saturate": [(1, 2), (3, 4, 5)],
    "spatter": [(1, 2, 3), (4, 5)],
    "glass_blur": [(1, 4), (2, 4), (3, 5)],
    "motion_blur": [(1, 2, 3, 5)],
    "elastic_transform": [(5, 1)],
    "frost": [(1, 2)],
}


@EVERY
def test_change_grows_with_severity(images, name):
    changes = {s: change(images, name, s) for s in SEVERITIES}
    for order in ORDERS.get(name, [SEVERITIES]):
        values = [changes[severity] for severity in order]
        assert values == sorted(set(values)), changes


@EVERY
@pytest.mark.parametrize(("height", "width"), [(64, 48), (224, 224), (97, 301)])
def test_other_sizes_take_imagenet_strengths(make, name, height, width):
    batch = make(2, height, width)
    got = corrupt(batch, name, 3)
    assert (got.shape, got.dtype) == (batch.shape, np.uint8)
    assert (got != batch).any(axis=(1, 2, 3)).all()
    assert np.array_equal(got, corrupt(batch, name, 3, scale="imagenet"))
    alone = corrupt(batch[1:], name, 3, indices=[1])
    assert np.array_equal(alone[0], got[1])


@EVERY
def test_scale_can_be_chosen(images, make, name):
    few = images[:4]
    assert np.array_equal(corrupt(few, name, 4), corrupt(few, name, 4, scale="cifar"))
    assert not np.array_equal(corrupt(few, name, 4), corrupt(few, name, 4, scale="imagenet"))
    assert corrupt(make(2, 40, 50), name, 2, scale="cifar").shape == (2, 40, 50, 3)


@EVERY
@pytest.mark.parametrize("level", [0, 255])
def test_flat_black_and_white_images(name, level):
    flat = np.full((2, 32, 32, 3), level, np.uint8)
    for severity in SEVERITIES:
        assert corrupt(flat, name, severity).shape == flat.shape


@EVERY
def test_views_of_any_layout(images, name):
    flipped = images[:6, ::-1, :, ::-1]
    assert np.array_equal(corrupt(flipped, name, 3), corrupt(flipped.copy(), name, 3))


GOOD = np.zeros((2, 32, 32, 3), np.uint8)


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (
            (GOOD[0], "fog", 1),
            {},
            "got (32, 32, 3). For one image give images[None]",
        ),
        (
            (GOOD[..., :1], "fog", 1),
            {},
            "(n, height, width, 3), got (2, 32, 32, 1).",
        ),
        ((GOOD / 1.0, "fog", 1), {}, "images must be uint8 (levels 0 to 255), got float64. Try"),
        ((GOOD[:0], "fog", 1), {}, "images must hold at least one image, got an empty batch."),
        ((GOOD[:, :31], "fog", 1), {}, "images must be at least 32 x 32 pixels, got 31 x 32."),
        ((GOOD, "smog", 1), {}, "name must be one of 'gaussian_noise', 'shot_noise',"),
        ((GOOD, "fog", 0), {}, "severity must be an integer in [1, 5], got 0."),
        ((GOOD, "fog", 6), {}, "severity must be an integer in [1, 5], got 6."),
        ((GOOD, "fog", 2.0), {}, "severity must be an integer in [1, 5], got 2.0."),
        ((GOOD, "fog", True), {}, "severity must be an integer in [1, 5], got True."),
        ((GOOD, "fog", 1), {"seed": -1}, "seed must be an integer in [0, inf], got -1."),
        ((GOOD, "fog", 1), {"indices": [1]}, "indices must be 2 integers >= 0, one per image"),
        ((GOOD, "fog", 1), {"indices": [0, -1]}, "indices must be 2 integers >= 0"),
        ((GOOD, "fog", 1), {"indices": [0.0, 1.0]}, "got shape (2,) of float64."),
        (
            (GOOD, "fog", 1),
            {"scale": "svhn"},
            "scale must be one of 'auto', 'cifar'",
        ),
        ((GOOD, "frost", 1), {"frost_textures": "/nowhere"}, "frost_textures must be a folder"),
    ],
)
def test_errors(arguments, options, text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the text follows)
        corrupt(*arguments, **options)
    assert text in str(caught.value)
