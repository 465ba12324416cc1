"""The alarm that may ring at any row: the mathematics by hand, and the promises of a stream."""

import json

import numpy as np
import pytest

import wildcal
from wildcal._old.core.errors import FileFormatError
from wildcal._old.stream import Stream, merged
from wildcal._old.stream.evidence import BETS, BLOCK, Evidence
from wildcal._old.stream.sequential import Bets, follow

BOX = np.array([[-6.0, -5.0], [6.0, 0.5]])


def run(bets, x, now=None, window=256, moved=False):
    n = x.shape[1]
    decided = np.arange(1, n + 1) % window == 0
    return follow(bets, now or Evidence.none(), x, decided, np.full(n, moved), window)


def test_bets_cannot_lose_more_than_they_have():
    bets = Bets.make(0.6, 5000, BOX, 1.0)
    corners = np.array([[x, y] for x in BOX[:, 0] for y in BOX[:, 1]]).T
    assert bets.factors(corners).min() > 0
    # The largest bet on falling confidence keeps a tenth on the surest row.
    assert bets.factors(np.array([[0.0], [0.5]])).min() == pytest.approx(0.1)


def test_clean_rows_are_a_fair_game_at_most():
    """Exactly, on a distribution of two points with mean zero: no bet gains."""
    bets = Bets.make(0.0, 5000, BOX, 1.0)
    # Confidence is 0.5 with probability 10/11 and -5 with 1/11; energy is 2 or -2.
    mean = sum(
        p * q * bets.factors(np.array([[e], [c]]))[0]
        for e, p in ((2.0, 0.5), (-2.0, 0.5))
        for c, q in ((0.5, 10 / 11), (-5.0, 1 / 11))
    )
    assert (mean < 1).all()
    assert mean.min() > 0.8


def test_stakes_by_hand():
    bets = Bets.make(0.3, 1000, BOX, 1.0)
    x = np.random.default_rng(0).normal(size=(2, 3 * BLOCK)).clip(-1, 0.5)
    _, after = run(bets, x)
    stakes = np.zeros(BETS)
    for block in bets.factors(x).reshape(3, BLOCK, BETS):
        stakes = (stakes + 1) * block.prod(axis=0)
    np.testing.assert_allclose(after.stakes, stakes, rtol=1e-12)
    assert (after.count, after.since, after.alarm) == (0, 3 * BLOCK, False)


def test_the_same_bits_however_rows_are_split():
    bets = Bets.make(0.3, 1000, BOX, 1.0)
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=(2, 300)), rng.normal(-1, 1, (2, 300))], axis=1)
    x = x.clip(*BOX[:, :, None])
    whole, last = run(bets, x, window=64)
    for cuts in ([1, 2, 3, 9, 16, 17, 500], list(range(1, 600)), [8, 16, 24]):
        now, parts, seen = Evidence.none(), [], 0
        for part in np.split(x, cuts, axis=1):
            n = part.shape[1]
            decided = (seen + np.arange(1, n + 1)) % 64 == 0
            alarms, now = follow(bets, now, part, decided, np.zeros(n, np.bool_), 64)
            parts.append(alarms)
            seen += n
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        np.testing.assert_array_equal(now.stakes, last.stakes)
        np.testing.assert_array_equal(now.pending, last.pending)
        assert (now.count, now.since, now.alarm) == (last.count, last.since, last.alarm)
    assert whole.any()


def test_it_ends_when_a_new_window_looks_clean():
    bets = Bets.make(0.3, 1000, BOX, 1.0)
    x = np.concatenate([np.full((2, 64), -1.5), np.zeros((2, 512))], axis=1)
    alarms, _ = run(bets, x, window=128)
    rows = np.flatnonzero(alarms)
    assert rows[0] < 64
    # The window that ends at row 128 shares rows with the alarm; the next one does not.
    assert rows[-1] + 2 == 256
    alarms, _ = run(bets, x, window=128, moved=True)
    assert alarms[-1]


def test_few_false_alarms(calibrator, clean):
    """At most one in 100,000 rows on average: of ten such streams, hardly any has three."""
    z = clean.logits[np.random.default_rng(0).integers(0, len(clean.logits), 100_000)]
    stream = Stream(calibrator, alarm="sequential", false_alarms_per_100k=1.0)
    alarms = np.concatenate([stream.read(part).alarm for part in np.array_split(z, 10)])
    assert np.sum(np.diff(alarms, prepend=False) & alarms) <= 2


def test_sooner_than_windows(calibrator, clean, foggy):
    z = np.concatenate([clean.logits[:1500], foggy.logits[:1000]])
    first = {
        kind: int(Stream(calibrator, alarm=kind).read(z).alarm.argmax())
        for kind in ("window", "sequential")
    }
    assert 1500 < first["sequential"] < 1560
    assert first["window"] > first["sequential"] + 100


def test_states_and_merging(calibrator, clean, foggy, tmp_path):
    options = {"alarm": "sequential", "false_alarms_per_100k": 0.5}
    z = np.concatenate([clean.logits[:301], foggy.logits[:300], clean.logits[301:1000]])
    whole = Stream(calibrator, **options).read(z)
    one = Stream(calibrator, **options)
    one.read(z[:333])
    one.save(tmp_path / "s.json")
    two = Stream.load(tmp_path / "s.json", calibrator)
    assert (two.alarm, two.false_alarms_per_100k) == ("sequential", 0.5)
    np.testing.assert_array_equal(two.read(z[333:]).alarm, whole.alarm[333:])
    assert merged([one, two]).drift.alarm == (one.drift.alarm or two.drift.alarm)
    with pytest.raises(ValueError, match="decide on alarms in the same way"):
        merged([one, Stream(calibrator)])
    assert Stream.load(tmp_path / "s.json", calibrator, alarm="window").alarm == "window"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stakes": [1.0]}, "stakes of the alarm must be a list of 32"),
        ({"pending": [-1.0] * BETS}, "pending of the alarm must be numbers of at least 0"),
        ({"count": 8}, "count of the alarm must be 0 to 7"),
        ({"since": -1}, "since and alarm"),
        ({"false_alarms_per_100k": 0}, "false_alarms_per_100k must be a number"),
    ],
)
def test_states_that_cannot_be(calibrator, clean, tmp_path, change, message):
    from wildcal._old.stream import state

    stream = Stream(calibrator, alarm="sequential")
    stream.read(clean.logits[:20])
    stream.save(tmp_path / "s.json")
    document = json.loads((tmp_path / "s.json").read_text())
    document["sequential"] |= change
    for name in ("sha256", "format", "format_version"):
        del document[name]
    (tmp_path / "s.json").write_text(json.dumps(state._KIND.seal(document)))
    with pytest.raises(FileFormatError, match=message):
        Stream.load(tmp_path / "s.json", calibrator)


def test_options(calibrator):
    with pytest.raises(ValueError, match="alarm"):
        Stream(calibrator, alarm="loud")
    with pytest.raises(ValueError, match="false_alarms_per_100k must be a number"):
        wildcal.Stream(calibrator, false_alarms_per_100k=0.0)
