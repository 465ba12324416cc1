"""The search for noise that takes accuracy to given values, on curves known by hand."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from wildcal.core.errors import FileFormatError
from wildcal.vision.noise_search import FIRST, LARGEST, MOST_PASSES, find_levels
from wildcal.vision.perturb import NoiseRecord, notes

ABOUT = {"seed": 0, "space": "input", "rows": 10}


def searched(curve, n_classes=10):
    """Return the levels and every sigma that was tried, in order."""
    asked = []

    def measured(sigma):
        asked.append(sigma)
        return curve(sigma)

    return find_levels(measured, n_classes), asked


@pytest.mark.parametrize("scale", [0.001, 0.05, 0.3, 2.0])
def test_targets_are_met(scale):
    levels, asked = searched(lambda sigma: 0.1 + 0.8 * np.exp(-sigma / scale))
    np.testing.assert_allclose([level.target for level in levels], [0.74, 0.58, 0.42, 0.26, 0.1])
    for level, share in zip(levels, [0.03] * 4 + [0.05], strict=True):
        assert level.met
        assert level.accuracy == 0.1 + 0.8 * np.exp(-level.sigma / scale)
        assert abs(level.accuracy - level.target) <= share * 0.9
    assert len(asked) == len(set(asked)) <= 30
    sigmas = [level.sigma for level in levels]
    assert sigmas == sorted(sigmas)


def test_search_by_hand():
    """A curve that falls by 0.08 per 0.1: doubled from 0.125, then halved."""
    levels, asked = searched(lambda sigma: max(0.1, 0.9 - 0.8 * sigma))
    # 0.74 wants 0.2; 0.58 wants 0.4; 0.42 wants 0.6; 0.26 wants 0.8; 0.1 wants 1; all +- 0.034.
    first = [0, 0.125, 0.25, 0.1875]
    second = [0.5, 0.375]
    third = [1.0, 0.75, 0.625]
    fourth = [0.875, 0.8125]
    assert asked == first + second + third + fourth
    assert [level.sigma for level in levels] == [0.1875, 0.375, 0.625, 0.8125, 1.0]


def test_a_network_that_noise_does_not_harm():
    levels, asked = searched(lambda sigma: 0.9)
    assert asked == [0.0, *(FIRST * 2**i for i in range(9))]
    assert asked[-1] == LARGEST
    assert not any(level.met for level in levels)
    assert {(level.sigma, level.accuracy) for level in levels} == {(FIRST, 0.9)}


def test_a_network_that_stays_above_chance():
    """Targets above its floor are met; the last level has the lowest accuracy there is."""
    levels, asked = searched(lambda sigma: 0.3 + 0.6 * np.exp(-sigma))
    assert [level.met for level in levels] == [True, True, True, False, False]
    assert levels[-1].sigma == LARGEST
    assert len(asked) < 30
    found = notes({"levels": [asdict(level) for level in levels]})
    assert len(found) == 2
    assert found[1].startswith("Noise level 5: no sigma tried brings accuracy near 10.0%;")
    assert "the split has 30.0%, at sigma 32." in found[1]


def test_a_step_that_no_halving_gets_past():
    levels, asked = searched(lambda sigma: 0.9 if sigma < 0.3 else 0.1)
    assert [level.met for level in levels] == [False, False, False, False, True]
    assert all(level.accuracy in (0.9, 0.1) for level in levels)
    assert len(asked) <= MOST_PASSES


def test_accuracy_that_jumps_up_and_down():
    """Few rows make steps; the search ends all the same, with the best it has seen."""
    rng = np.random.default_rng(0)
    levels, asked = searched(
        lambda sigma: float(np.clip(round(6 * np.exp(-sigma) + rng.normal()) / 6, 0, 1)), 4
    )
    assert len(asked) <= 1 + 5 * MOST_PASSES
    assert all(level.sigma > 0 for level in levels)


@pytest.mark.parametrize("clean", [0.1, 0.05, 0.0])
def test_a_network_no_better_than_chance(clean):
    with pytest.raises(ValueError, match="perturbation needs a network that is better than chance"):
        find_levels(lambda sigma: clean, 10)


def test_expected_passes_are_told():
    told, left = [], []

    def curve(sigma):
        left.append(told[-1])
        return 0.1 + 0.8 * np.exp(-sigma)

    find_levels(curve, 10, on_expected=told.append)
    assert told[0] == left[0] == 16
    assert min(left) >= 1
    assert told[-1] == 0
    assert left[-1] < left[0]


def test_record_answers_from_what_it_kept():
    def curve(sigma):
        return 0.1 + 0.8 * float(np.exp(-sigma))

    kept = []
    whole = NoiseRecord(ABOUT, None, kept.append).levels(curve, 10)
    for stored in map(json.loads, map(json.dumps, list(kept))):
        asked, again = [], []
        record = NoiseRecord(ABOUT, stored, again.append)

        def measured(sigma, asked=asked):
            asked.append(sigma)
            return curve(sigma)

        assert record.levels(measured, 10) == whole
        assert record.to_dict() == kept[-1]
        known = [trial["sigma"] for trial in stored["tried"]]
        assert known + asked == [trial["sigma"] for trial in kept[-1]["tried"]]
    assert again == []  # nothing to write where all levels were there


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"seed": 1}, "seed is 1, not 0"),
        ({"space": "pixels"}, "space is 'pixels', not 'input'"),
        ({"tried": 3}, "TypeError"),
        ({"tried": [{"sigma": "0.1", "accuracy": 0.5}]}, "'0.1' must be a number from 0 to 32"),
        ({"tried": [{"sigma": 0.1, "accuracy": 1.5}]}, "1.5 must be a number from 0 to 1"),
        ({"levels": [{"sigma": 0.1}]}, "TypeError"),
        (
            {"levels": [{"severity": 1, "sigma": 0.1, "accuracy": 1, "target": 1, "met": True}]},
            "levels must be those of severities 1 to 5",
        ),
    ],
)
def test_record_that_cannot_be_read(change, text):
    stored = ABOUT | {"clean_accuracy": None, "tried": [], "levels": []} | change
    with pytest.raises(FileFormatError, match="field perturbation is not what this") as caught:
        NoiseRecord(ABOUT, stored, print)
    assert text in str(caught.value)
    with pytest.raises(FileFormatError, match="KeyError"):
        NoiseRecord(ABOUT, {}, print)
