"""Windows of replicas, put together: the sums of all their rows."""

import numpy as np
import pytest

from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.stream import Stream, merged


def test_contexts_add(calibrator, clean, foggy):
    a, b = Stream(calibrator, 100, alarm="window"), Stream(calibrator, 50, alarm="window")
    a.read(clean.logits[:70])
    b.read(foggy.logits[:200])
    both = merged([a, b])
    assert both.context == a.context + b.context
    assert (both.window, both.seen, both.estimated_accuracy.n) == (150, 120, 120)
    parts = [s.estimated_accuracy for s in (a, b)]
    mean = sum(p.n * p.value for p in parts) / 120
    assert both.estimated_accuracy.value == pytest.approx(mean, rel=1e-12)
    assert not both.drift.alarm  # not all of the merged window has been seen yet


def test_full_windows_decide_together(calibrator, clean, foggy):
    streams = [Stream(calibrator) for _ in range(3)]
    for i, stream in enumerate(streams):
        stream.read(foggy.logits[300 * i : 300 * i + 300])
    both = merged(streams)
    assert both.seen == 900
    assert both.drift.alarm
    # One stream that has seen the same 768 rows last agrees on all but their order.
    one = Stream(calibrator, 768)
    last = [foggy.logits[300 * i + 44 : 300 * i + 300] for i in range(3)]
    one.read(np.concatenate(last))
    assert both.context.counts == one.context.counts
    assert both.context.by_class == one.context.by_class
    assert both.drift.score == pytest.approx(one.drift.score, rel=1e-12)


def test_a_merged_stream_goes_on_and_is_saved(calibrator, clean, tmp_path):
    a, b = Stream(calibrator, 64), Stream(calibrator, 64)
    a.read(clean.logits[:100])
    b.read(clean.logits[100:300])
    both = merged([a, b])
    both.save(tmp_path / "both.json")
    again = Stream.load(tmp_path / "both.json", calibrator)
    np.testing.assert_array_equal(both(clean.logits[300:500]), again(clean.logits[300:500]))
    assert both.estimated_accuracy == again.estimated_accuracy


def test_one_alone_is_itself(calibrator, clean):
    a = Stream(calibrator, 64)
    a.read(clean.logits[:100])
    np.testing.assert_array_equal(merged([a])(clean.logits[:50]), a(clean.logits[:50]))


def test_what_cannot_be_merged(calibrator, clean):
    split = clean.logits, clean.y, np.arange(len(clean.y)) % 2
    other = ContextScaling().fit(*split[:2], environment=split[2])
    with pytest.raises(ValueError, match="at least one stream"):
        merged([])
    with pytest.raises(ValueError, match="the same calibrator"):
        merged([Stream(calibrator), Stream(other)])
    with pytest.raises(ValueError, match="the same rate of false alarms"):
        merged([Stream(calibrator), Stream(calibrator, false_alarms=0.1)])
    with pytest.raises(ValueError, match="window must be a whole number"):
        merged([Stream(calibrator, 60_000), Stream(calibrator, 60_000)])
