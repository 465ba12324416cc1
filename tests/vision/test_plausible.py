"""Environments that may not show what their labels say, and the choice of transforms."""

import pytest

from wildcal._old.core.odd_environments import odd_environments
from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.shift import TUNING_TRANSFORMS
from wildcal._old.vision.plausible import plausibility_notes
from wildcal._old.vision.transforms import COLOR, GEOMETRIC, chosen_transforms


def test_small_steps_are_plausible():
    assert odd_environments({f"noise-{i}": 0.9 - 0.1 * i for i in range(8)}) == {}
    assert odd_environments({}) == {}
    assert odd_environments({"a": 0.9, "b": 0.1}) == {}  # which of the two is odd?


def test_several_odd_ones():
    found = odd_environments(
        {f"noise-{i}": 0.9 - 0.05 * i for i in range(7)} | {"flip": 0.3, "rotation": 0.4}
    )
    assert found == {"flip": 0.3, "rotation": 0.2}


def test_a_sentence_for_each(tmp_path):
    """Five environments: in one of them 1 of 4 rows is right, in the others 4."""
    about = {"network": {}, "data": {}, "seed": 0, "versions": {}}
    writer = SuiteWriter(tmp_path, **about, n_classes=2, class_names=["a", "b"])
    for i, y in enumerate(([1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]), start=1):
        writer.add(
            f"validation-rotation-{i}",
            [[0.0, 2.0]] * 4,
            y,
            role="tune",
            shift="covariate",
            corruption="rotation",
            severity=i,
        )
    (note,) = plausibility_notes(Suite.open(tmp_path))
    assert note == (
        "rotation-4: 25 % right, 75 points below the next environment: does it change what the"
        " image shows? If so, leave it out of the transforms."
    )


def test_words_for_transforms():
    assert {*COLOR, *GEOMETRIC} == set(TUNING_TRANSFORMS)
    assert not set(COLOR) & set(GEOMETRIC)
    assert chosen_transforms("all", "folders") == tuple(TUNING_TRANSFORMS)
    assert chosen_transforms("none", "imagenet") == ()
    assert set(chosen_transforms("color", "cifar10")) == set(COLOR)
    assert set(chosen_transforms("geometric, gray", "cifar10")) == {*GEOMETRIC, "gray"}
    with pytest.raises(ValueError, match="there is no transform 'tint'; choose from color, geo"):
        chosen_transforms("tint", "cifar10")


def test_unknown_images_keep_their_shape():
    assert set(chosen_transforms(None, "folders")) == set(COLOR)
    assert chosen_transforms(None, "imagenet") == tuple(TUNING_TRANSFORMS)
