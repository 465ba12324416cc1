import math

import numpy as np
import pytest

from wildcal._old.metrics import (
    ClasswiseAccumulator,
    KdeAccumulator,
    ProperAccumulator,
    TopLabelAccumulator,
    ece,
    kde_ece,
    mean_confidence,
    nll,
    sce,
    top_label_brier,
)

MAKERS = {
    "top label": (lambda: TopLabelAccumulator(12), lambda a: a.ece()),
    "top label mce": (lambda: TopLabelAccumulator(), lambda a: a.mce()),
    "classwise": (lambda: ClasswiseAccumulator(6, 10), lambda a: a.sce()),
    "kde": (lambda: KdeAccumulator(), lambda a: a.kde_ece()),
    "nll": (lambda: ProperAccumulator(), lambda a: a.nll()),
    "brier": (lambda: ProperAccumulator(), lambda a: a.brier()),
}


@pytest.fixture(params=MAKERS)
def accumulator(request):
    return MAKERS[request.param]


def test_pieces_equal_the_whole(accumulator, make_rows):
    make, value = accumulator
    y, proba = make_rows(2000, 6, ood=0.1)
    whole = value(make().update(y, proba))
    streamed = make()
    for start, end in ((0, 1), (1, 500), (500, 2000)):
        streamed.update(y[start:end], proba[start:end])
    streamed.update(y[:0], proba[:0])
    assert value(streamed) == pytest.approx(whole, abs=1e-13)
    merged = make().update(y[1500:], proba[1500:]).merge(make().update(y[:1500], proba[:1500]))
    assert value(merged) == pytest.approx(whole, abs=1e-13)


def test_merging_with_itself_doubles(make_rows):
    y, proba = make_rows(300, 6)
    seen = TopLabelAccumulator().update(y, proba)
    value = seen.ece()
    assert seen.merge(seen).n == 600
    assert seen.ece() == pytest.approx(value, abs=1e-15)


def test_merging_leaves_the_other_alone(make_rows):
    y, proba = make_rows(300, 6)
    other = TopLabelAccumulator().update(y, proba)
    TopLabelAccumulator().merge(other).update(y, proba)
    assert other.n == 300


def test_bad_rows_leave_the_sums_as_they_were(accumulator, make_rows):
    make, value = accumulator
    y, proba = make_rows(30_000, 6)
    seen = make().update(y, proba)
    before = value(seen)
    proba[-1, 0] = np.nan
    with pytest.raises(ValueError, match="row 29999"):
        seen.update(y, proba)
    assert value(seen) == before


def test_different_settings_do_not_merge():
    with pytest.raises(ValueError, match=r"TopLabelAccumulator with .*'n_bins': 15.* cannot take"):
        TopLabelAccumulator(15).merge(TopLabelAccumulator(10))
    with pytest.raises(ValueError, match="cannot take in one with"):
        TopLabelAccumulator(15).merge(KdeAccumulator())
    with pytest.raises(ValueError, match="6 classes cannot take in one with 5 classes"):
        ClasswiseAccumulator(6).update([0], np.full((1, 5), 0.2))


def test_both_forms_may_be_mixed(make_rows):
    y, proba = make_rows(400, 6)
    seen = TopLabelAccumulator().update(y[:100], proba[:100])
    seen.update(proba[100:].argmax(axis=1) == y[100:], proba[100:].max(axis=1))
    assert seen.ece() == pytest.approx(ece(y, proba), abs=1e-15)


def test_names_and_repr():
    assert repr(TopLabelAccumulator(7)) == "TopLabelAccumulator(n_bins=7)"


def test_functions_are_the_accumulators(make_rows):
    y, proba = make_rows(400, 6)
    assert sce(y, proba) == ClasswiseAccumulator(6).update(y, proba).sce()
    assert kde_ece(y, proba) == KdeAccumulator().update(y, proba).kde_ece()
    assert nll(y, proba) == ProperAccumulator().update(y, proba).nll()


def test_millions_of_float32_rows_lose_nothing():
    # Sums in float32 are off by percents here (torchmetrics: 2.7 % at two million rows).
    rng = np.random.default_rng(0)
    chunk = rng.random(250_000, dtype=np.float32)
    correct = rng.random(250_000) < 0.9 * chunk
    seen = TopLabelAccumulator()
    for _ in range(10):
        seen.update(correct, chunk)
    assert seen.n == 2_500_000
    exact = math.fsum(chunk.tolist()) / 250_000
    assert seen.mean_confidence() == pytest.approx(exact, rel=1e-13)
    exact = math.fsum(((chunk.astype(np.float64) - correct) ** 2).tolist()) / 250_000
    assert seen.top_label_brier() == pytest.approx(exact, rel=1e-13)
    assert seen.ece() == pytest.approx(ece(correct, chunk), rel=1e-12)
    assert mean_confidence(correct, chunk) == pytest.approx(seen.mean_confidence(), rel=1e-13)
    assert top_label_brier(correct, chunk) == pytest.approx(seen.top_label_brier(), rel=1e-13)
