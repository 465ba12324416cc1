"""A slice of the campaign finds nothing, and a planted fault is found."""

import mmap
import resource
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

import benchmarks.campaign.__main__ as campaign  # noqa: E402
from benchmarks.campaign.attack import Attack, FindingError, Tally, run_trial  # noqa: E402
from benchmarks.campaign.mutants import broken_bytes, mutant  # noqa: E402
from benchmarks.campaign.summary import added  # noqa: E402

SHORT = [a for a in campaign.ATTACKS if not a.long and not a.name.startswith("kills/")]


@pytest.mark.parametrize("attack", SHORT, ids=lambda attack: attack.name)
def test_a_slice_finds_nothing(attack: Attack) -> None:
    tally = Tally()
    run_trial(attack, 0, 0, tally)
    run_trial(attack, 0, 1, tally)
    assert tally.findings == []


def test_the_command_counts_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(campaign, "limit_memory", lambda attack: None)  # that of the tests
    words = ["--only", "numbers/metrics", "--state", str(tmp_path / "state.json"), "--trials"]
    for trials in ("2", "3"):
        monkeypatch.setattr(sys, "argv", ["campaign", *words, trials])
        assert campaign.main() == 0
        assert f"numbers/metrics                {trials:>7}" in capsys.readouterr().out


def test_addresses_that_nothing_uses_are_not_held_against_a_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Allocators keep them: after 300,000 trials none were left, and right files were findings."""
    kept = []

    def trial(rng: np.random.Generator) -> None:
        kept.append(mmap.mmap(-1, 4 << 30, mmap.MAP_PRIVATE, mmap.PROT_READ))

    monkeypatch.setattr(campaign, "ATTACKS", [Attack("a", trial, batch=1)])
    monkeypatch.setattr(sys, "argv", ["campaign", "--trials", "3"])
    before = resource.getrlimit(resource.RLIMIT_AS)
    try:
        assert campaign.main() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert len(kept) == 3


@pytest.mark.parametrize(
    "attack", [a for a in campaign.ATTACKS if a.target], ids=lambda attack: attack.name
)
def test_right_files_are_taken(attack: Attack) -> None:
    """Otherwise an attack would break what is refused anyway."""
    try:
        attack.target.read(attack.target.whole())
    except ImportError as error:
        pytest.skip(str(error))


def test_runs_are_added_up() -> None:
    one = {"tallies": {"a": {"trials": 2, "refused": 1, "findings": ["x"], "seconds": 0.5}}}
    assert added([one, one, {"tallies": {}}]) == {
        "a": {"trials": 4, "refused": 2, "findings": ["x", "x"], "seconds": 1.0}
    }


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
        (Attack("a", _hangs, seconds=1), 0, "a#7: no answer within 1 s of work"),
        (Attack("a", _breaks), 0, "a#7: FindingError: broken"),
        (Attack("a", _refuses), 0, "a#7: ValueError: no"),
        (Attack("a", _refuses, (ValueError,)), 1, None),
    ],
)
def test_what_counts_as_a_finding(attack: Attack, refused: int, said: str | None) -> None:
    tally = Tally()
    run_trial(attack, 0, 7, tally)
    assert tally == Tally(1, refused, [] if said is None else [said])


def test_the_attack_with_least_time_is_next() -> None:
    slow, fast, idle = (Attack(name, _refuses) for name in ("slow", "fast", "idle"))
    every = [slow, fast, idle]
    tallies = {"slow": Tally(1, seconds=70.0), "fast": Tally(1000, seconds=4.0)}
    assert campaign.least_tried(every, tallies) is idle
    tallies["idle"] = Tally(5000)  # one that does nothing: five seconds, not none
    assert campaign.least_tried(every, tallies) is fast
    assert campaign.least_tried(every, tallies, trials=1000) is slow
    assert campaign.least_tried(every, tallies, trials=1) is None


def test_mutants_differ_and_are_the_same_for_a_seed() -> None:
    document = {"fitted": {"t": 1.5, "v": [1.0, 2.0]}, "name": "ts"}
    made = [mutant(document, np.random.default_rng(seed)) for seed in range(40)]
    again = [mutant(document, np.random.default_rng(seed)) for seed in range(40)]
    assert str(made) == str(again)
    assert sum(str(m) != str(document) for m in made) > 30
    data = bytes(range(256))
    assert sum(broken_bytes(data, np.random.default_rng(s)) != data for s in range(40)) > 35
