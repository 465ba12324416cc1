"""A slice of the campaign finds nothing, and a planted fault is found."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from benchmarks.campaign.attack import Attack, FindingError, Tally, run_trial  # noqa: E402
from benchmarks.campaign.mutants import broken_bytes, mutant  # noqa: E402


def test_a_slice_finds_nothing() -> None:
    attacks = ["files/", "numbers/", "streams/"]
    words = [sys.executable, "-m", "benchmarks.campaign", "--minutes", "9", "--trials", "20"]
    found = subprocess.run([*words, "--only", *attacks], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "files/calibrator-sealed" in found.stdout


def _hangs(rng: np.random.Generator) -> None:
    while True:
        rng.random()


def _breaks(rng: np.random.Generator) -> None:
    raise FindingError("broken")


def _refuses(rng: np.random.Generator) -> None:
    raise ValueError("no")


@pytest.mark.parametrize(
    ("attack", "refused", "said"),
    [
        (Attack("a", _hangs, seconds=1), 0, "a#7: no answer within 1 s"),
        (Attack("a", _breaks), 0, "a#7: FindingError: broken"),
        (Attack("a", _refuses), 0, "a#7: ValueError: no"),
        (Attack("a", _refuses, (ValueError,)), 1, None),
    ],
)
def test_what_counts_as_a_finding(attack: Attack, refused: int, said: str | None) -> None:
    tally = Tally()
    run_trial(attack, 0, 7, tally)
    assert tally == Tally(1, refused, [] if said is None else [said])


def test_mutants_differ_and_are_the_same_for_a_seed() -> None:
    document = {"fitted": {"t": 1.5, "v": [1.0, 2.0]}, "name": "ts"}
    made = [mutant(document, np.random.default_rng(seed)) for seed in range(40)]
    again = [mutant(document, np.random.default_rng(seed)) for seed in range(40)]
    assert str(made) == str(again)
    assert sum(str(m) != str(document) for m in made) > 30
    data = bytes(range(256))
    assert sum(broken_bytes(data, np.random.default_rng(s)) != data for s in range(40)) > 35
