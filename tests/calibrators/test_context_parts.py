"""The parts of context scaling by hand: chance, class counts, the gap, what is learned of it."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, poisson

from wildcal.calibrators.context.belief import BELIEFS, FEW_CLASSES, MANY_CLASSES
from wildcal.calibrators.context.chance import ChanceTable, chance_variation, mean_distance
from wildcal.calibrators.context.classes import ClassRows, pairs_of, rolling_pairs
from wildcal.calibrators.context.constants import KNOWN_MIX, SHIPPED, shipped
from wildcal.calibrators.context.gap import (
    COUNTED_ROWS,
    GapModel,
    curve,
    offset_for,
    window_statistics,
)
from wildcal.calibrators.context.learn import Clean, Points, learn, left_out_errors, mixtures
from wildcal.calibrators.context.terms import (
    SHARE_UNIT,
    UNIT,
    CleanClasses,
    beyond_chance,
    class_terms,
    put_down_to_shift,
    usual_confidence,
)
from wildcal.calibrators.context.unsure import WIDTH, fit_border, unsure

CLEAN = np.array([0.9, 0.85, 0.75])
UNSURE = 0.1
"""Which share of clean rows is."""
TEN, FOUR = SHIPPED[10], shipped(4)
COUNTING = [belief for belief in BELIEFS if belief.counts_unsure]

# Chance.


@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.5, 3.0, 17.3, 59.9])
@pytest.mark.parametrize("away", [0.0, 0.3, 1.0, 4.5])
def test_mean_distance_is_that_of_a_poisson_count(rate, away):
    k = np.arange(400)
    for center in (rate + away, max(0.0, rate - away), float(round(rate)), 0.0):
        expected = (poisson.pmf(k, rate) * np.abs(k - center)).sum()
        assert mean_distance(rate, center) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("center", [0.0, 55.0, 61.0, 80.0])
def test_mean_distance_of_many_is_that_of_a_normal_one(center):
    x = np.linspace(61 - 80, 61 + 80, 200_001)
    expected = (norm.pdf(x, 61, np.sqrt(61)) * np.abs(x - center)).sum() * (x[1] - x[0])
    assert mean_distance(61.0, center) == pytest.approx(expected, rel=1e-6)


def test_from_counts_to_normal_is_no_jump():
    below, above = mean_distance([60.0, 60.0001], 58.0)
    assert above == pytest.approx(below, rel=1e-2)


def test_a_count_of_rate_zero_stays_at_zero():
    np.testing.assert_allclose(mean_distance(0.0, [0.0, 0.5, 3.0]), [0, 0.5, 3])


@pytest.mark.parametrize(("n", "k"), [(1, 10), (32, 10), (500, 10), (100, 1000)])
def test_chance_is_what_simulated_windows_show(n, k):
    """Exact where counts of classes are independent, and at most 1 / √(1 - q) above where the
    number of rows is fixed; so many clean rows that the shares are as good as exact."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.full(k, 5.0))
    found = chance_variation(n, q, 1e9)
    free = np.abs(rng.poisson(n * q, size=(4000, k)) / n - q).sum(axis=1).mean() / 2
    assert found == pytest.approx(free, rel=0.02)
    fixed = np.abs(rng.multinomial(n, q, size=4000) / n - q).sum(axis=1).mean() / 2
    assert 0.99 * fixed <= found <= 1.02 * fixed / np.sqrt(1 - q.max())


def test_classes_that_clean_rows_never_had_may_come_by_chance():
    q = np.array([0.5, 0.5, 0.0])
    few, many = chance_variation(np.array(100.0), q, 20.0), chance_variation(100.0, q, 20_000.0)
    assert few > many + 0.01


@pytest.mark.parametrize("k", [2, 10, 1000])
def test_the_table_is_exact_up_to_256_rows_and_close_beyond(k):
    q = np.random.default_rng(k).multinomial(5000, np.full(k, 1 / k)) / 5000
    table = ChanceTable.of(q, 5000.0)
    n = np.array([1.0, 2, 31, 255, 256])
    np.testing.assert_array_equal(table(n), chance_variation(n, q, 5000.0))
    n = np.rint(np.geomspace(257, 9e6, 700))
    assert np.abs(table(n) - chance_variation(n, q, 5000.0)).max() < 5e-4
    assert table(1e15) == table.values[-1]


# Class counts.

classes = st.lists(st.integers(0, 4), min_size=1, max_size=60)


@pytest.mark.parametrize("rule", ["total", "each", "each, known mix"])
@given(
    pred=classes,
    size=st.integers(1, 12),
    weights=st.lists(st.integers(0, 9), min_size=5, max_size=5),
    kept=st.integers(1, 2),
)
def test_rolling_numbers_are_those_of_each_window(rule, pred, size, weights, kept):
    """However many rows come at once, while the window fills and afterwards; to the last bit.

    With unsure rows, and without, as in files of earlier versions.
    """
    pred = np.array(pred)
    own = np.random.default_rng(len(pred)).integers(0, 2**40, (kept, len(pred)))
    usual = np.random.default_rng(size).uniform(size=5)
    clean = CleanClasses.of(np.array(weights) / max(1, sum(weights)), usual, rule)

    def windows(upto):
        return np.bincount(pred[max(0, upto - size) : upto], minlength=5)

    def sums(upto):
        found, some = np.zeros((kept, 5), np.int64), slice(max(0, upto - size), upto)
        for of, values in zip(found, own, strict=True):
            np.add.at(of, pred[some], values[some])
        return found

    for step in (1, 7, len(pred)):
        for start in range(0, len(pred), step):
            entering = pred[start : start + step]
            first, last = max(0, start - size), max(0, start + len(entering) - size)
            leaving = pred[first:last]
            after = range(start + 1, start + len(entering) + 1)
            come, gone = slice(start, start + step), slice(first, last)
            before = sums(start)
            rows = [ClassRows(pred[some], own[:, some]) for some in (come, gone)]
            got = clean.rolling_numbers(windows(start), before, *rows)
            each = [clean.numbers(windows(i), sums(i) * UNIT) for i in after]
            assert got.T.tolist() == np.array(each).tolist()
            assert got.shape == (7, len(entering))
            assert kept == 2 or (got[5] == 0).all()
            got = rolling_pairs(windows(start), entering, leaving)
            assert got.tolist() == [pairs_of(windows(i)) for i in after]


def test_a_long_window_of_many_classes_while_it_fills():
    rng = np.random.default_rng(0)
    rows = ClassRows(rng.integers(0, 300, 20_000), rng.integers(0, 2**40, (2, 20_000)))
    clean = CleanClasses.of(rng.dirichlet(np.ones(300)), rng.uniform(size=300))
    nothing = np.zeros((2, 300), np.int64)
    got = clean.rolling_numbers(nothing[0], nothing, rows, rows[:0])
    for n in (1, 2, 77, 4096, 19_999, 20_000):
        counts, inside = np.bincount(rows.pred[:n], minlength=300), nothing.copy()
        for of, values in zip(inside, rows.inside, strict=True):
            np.add.at(of, rows.pred[:n], values[:n])
        assert got[:, n - 1].tolist() == clean.numbers(counts, inside * UNIT).tolist()


def test_some_of_the_rows_that_come():
    rows = ClassRows(np.array([3, 1, 2]), np.array([[10, 20, 30], [1, 2, 3]]))
    assert rows[1:].pred.tolist() == [1, 2]
    assert rows[1:].inside.tolist() == [[20, 30], [2, 3]]
    assert rows[:0].inside.shape == (2, 0)


def test_surplus_is_total_variation():
    q, counts = np.array([0.2, 0.3, 0.5]), np.array([10, 0, 10])
    surplus = CleanClasses.of(q, np.ones(3)).numbers(counts, 0.8 * counts[None])[0]
    assert surplus / (20 * SHARE_UNIT) == pytest.approx(
        0.5 * np.abs(counts / 20 - q).sum(), abs=1e-8
    )


def test_what_classes_say_by_hand():
    """Ten rows where four were expected, and two where eight were."""
    counts, sure, shy = np.array([10.0, 2.0]), np.array([7.5, 1.0]), np.array([1.5, 0.25])
    surplus, price, fallen, scarce, less, b, hidden = class_terms(
        counts, sure, shy, np.array([4.0, 8.0]), np.array([0.9, 0.8])
    )
    np.testing.assert_allclose(surplus, [6, 0])
    # With mean confidence 0.75 leads are uniform in (0, 1); and 7.5 is more than 4.
    np.testing.assert_allclose(price, [10 * 0.5 * 0.6**2 + 3.5, 0])
    leads = np.sort(np.random.default_rng(0).uniform(size=100_000))
    assert price[0] - 3.5 == pytest.approx(10 * leads[:60_000].sum() / 100_000, rel=1e-2)
    np.testing.assert_allclose(fallen, [6 * (0.9 - 0.75), 0])
    np.testing.assert_allclose(scarce, [0, 2])
    np.testing.assert_allclose(less, [0, 2 * 0.8 - 1.0])
    np.testing.assert_array_equal(b, shy)
    # Six too many, of which two standard deviations are chance, and 1.5 unsure.
    np.testing.assert_allclose(hidden, [np.sqrt(6**2 - 4 * 5.5) - 1.5, 0])


def test_numbers_of_a_window_are_what_its_classes_say_together():
    """In parts of 2^-30; without sums of unsure rows, none is."""
    counts, inside = np.array([30, 2]), np.array([[20.5, 1.0], [3.5, 0.25]])
    shares, usual = np.array([0.25, 0.75]), np.array([0.9, 0.8])
    for rule in ("total", "each", "each, known mix"):
        clean = CleanClasses.of(shares, usual, rule)
        for kept, shy in ((inside, inside[1]), (inside[:1], np.zeros(2))):
            each = class_terms(counts * 1.0, inside[0], shy, 32 * shares, usual, rule)
            whole = np.rint(each * SHARE_UNIT).sum(axis=1)
            np.testing.assert_array_equal(clean.numbers(counts, kept), whole)
            assert whole[6] > 0


def class_price(counts, sure, expected, usual, rule="each"):
    return class_terms(counts, sure, np.zeros_like(counts), expected, usual, rule)[1]


def test_a_surplus_costs_what_its_smallest_leads_are():
    """A hundred rows where forty were expected, 75 of confidence: leads are uniform in (0, 1)."""
    counts, sure, expected, usual = (np.array([x]) for x in (100.0, 75.0, 40.0, 0.9))
    surplus = np.sqrt(60**2 - 4 * (40 + 1.5))
    price = class_price(counts, sure, expected, usual, "each, known mix")
    # And 75 is more than 40.
    np.testing.assert_allclose(price, 100 * 0.5 * (surplus / 100) ** 2 + 35)
    leads = np.sort(np.random.default_rng(0).uniform(size=100_000))
    moved = 100 * leads[: round(1000 * surplus)].sum() / 100_000
    assert price[0] - 35 == pytest.approx(moved, rel=1e-2)


def test_a_price_counts_as_far_as_its_rows_are_less_sure_than_usual():
    """Half where they are by 0.07; nothing where they are as sure as ever, or surer."""
    counts, expected, usual = np.full(4, 100.0), np.full(4, 20.0), np.full(4, 0.9)
    sure = 100 * np.array([0.9, 0.95, 0.83, 0.5])
    full = class_price(counts, sure, expected, usual, "each, known mix")
    part = class_price(counts, sure, expected, usual) / full
    np.testing.assert_allclose(part[:3], [0, 0, 0.5], atol=1e-12)
    assert part[3] > 0.99


@pytest.mark.parametrize("expected", [0.0, 0.1, 3.0, 100.0])
def test_what_chance_does_to_a_class_costs_nothing(expected):
    """Two standard deviations too many, and one or two rows of a class that is hardly expected."""
    counts = np.array([1.0, 2.0, expected + 2 * np.sqrt(expected)])
    np.testing.assert_array_equal(
        class_price(counts, 0.3 * counts, np.full(3, expected), np.full(3, 0.9)), 0
    )
    np.testing.assert_array_equal(beyond_chance(counts, np.full(3, expected)), 0)
    many = np.array([expected + 10 * np.sqrt(expected + 1)])
    assert class_price(many, 0.3 * many, np.array([expected]), np.array([0.9])) > 0
    assert beyond_chance(many, np.array([expected])) > 0


def test_a_surplus_beyond_chance_by_hand():
    """Thirty too many of ten, of which √46 are chance; three too many are, and ten too few."""
    counts, expected = np.array([40.0, 13.0, 0.0, 3.0]), np.array([10.0, 10.0, 10.0, 0.0])
    found = beyond_chance(counts, expected)
    np.testing.assert_allclose(found, [np.sqrt(900 - 46), 0, 0, np.sqrt(3)])
    # 200 rows, given as shares of them.
    np.testing.assert_allclose(200 * beyond_chance(counts / 200, expected / 200, 1 / 200), found)
    # Of ever more rows with the same shares nothing is chance.
    endless = beyond_chance(np.array([0.4]), np.array([0.1]), 0.0)
    np.testing.assert_allclose(endless, 0.3)


def test_what_is_put_down_to_shift_by_hand():
    """Rows as sure as usual are none of it, half of those less sure by 0.07."""
    found = put_down_to_shift(np.array([-0.5, 0.0, 0.035, 0.07, 0.14]))
    np.testing.assert_allclose(found, [0, 0, 1 / 17, 1 / 2, 16 / 17])


def hidden_rows(unsure_rows, each, rule):
    """Of a hundred rows where forty were expected, each as sure as that, usually 0.9."""
    given = (np.array([x]) for x in (100.0, 100 * each, unsure_rows, 40.0, 0.9))
    return class_terms(*given, rule)[6, 0]


def test_hidden_rows_by_hand():
    """Too many beyond chance and not unsure: of each class as far as they are less sure."""
    beyond = np.sqrt(60**2 - 4 * 41.5)
    for rule, part in (("total", 1.0), ("each", 0.5), ("each, known mix", 1.0)):
        assert hidden_rows(10.0, 0.83, rule) == pytest.approx((beyond - 10) * part)
        assert hidden_rows(0.0, 0.83, rule) == pytest.approx(beyond * part)
        assert hidden_rows(beyond + 1, 0.83, rule) == 0  # unsure rows are all that came
    assert hidden_rows(10.0, 0.9, "each") == 0 < hidden_rows(10.0, 0.9, "each, known mix")
    few = np.array([30.0])  # fewer than expected
    assert class_terms(few, few, np.zeros(1), np.array([40.0]), np.array([0.9]))[6] == 0


@pytest.mark.parametrize("rule", ["total", "each", "each, known mix"])
def test_terms_of_shares_are_those_of_counts(rule):
    rng = np.random.default_rng(0)
    counts, expected = rng.integers(0, 90, 7) * 1.0, rng.uniform(0, 40, 7)
    usual, sure, n = rng.uniform(size=7), counts * rng.uniform(size=7), 200.0
    shy = counts * rng.uniform(0, 0.3, size=7)
    parts = counts / n, sure / n, shy / n, expected / n, usual, rule, 1 / n
    whole = class_terms(counts, sure, shy, expected, usual, rule)
    np.testing.assert_allclose(n * class_terms(*parts), whole)
    assert (whole[[1, 5, 6]].max(axis=1) > 0).all()


def test_a_class_that_clean_rows_never_had_is_as_sure_as_all():
    np.testing.assert_allclose(
        usual_confidence(np.array([0.5, 0.5, 0.0]), np.array([0.45, 0.3, 0.0])), [0.9, 0.6, 0.75]
    )


# Unsure rows.


def test_the_border_of_unsure_rows_is_soft():
    """Whole below it, none above, and in parts over its width."""
    sure = 0.6 + WIDTH * np.array([-3.0, -0.5, -0.25, 0.0, 0.25, 0.5, 3.0])
    np.testing.assert_allclose(unsure(sure, 0.6), [1, 1, 0.75, 0.5, 0.25, 0, 0], atol=1e-12)
    assert WIDTH == 0.1


class Sure:
    """What asks for confidences of two classes as they are, whatever the offset."""

    def confidences(self, block, offsets):
        assert offsets == (0.9,)
        return block.confidence(np.ones(block.n))[None]


@pytest.mark.parametrize("wrong", [0.001, 0.2, 0.5, 0.9])
def test_so_many_rows_are_below_the_border(wrong):
    """Among rows of any confidence; a row of weight zero is none."""
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1, 3000)
    logits = np.stack([np.log(sure), np.log1p(-sure)], axis=1)
    weight = rng.uniform(0, 2, 3000) * (rng.random(3000) < 0.9)
    border = fit_border(Sure(), logits, weight, wrong)
    share = weight @ unsure(sure, border) / weight.sum()
    assert share == pytest.approx(wrong, abs=1e-3)


def test_where_no_row_or_every_row_is_unsure_the_border_lies_beyond_all():
    sure = np.array([0.55, 0.7, 0.97])
    logits = np.stack([np.log(sure), np.log1p(-sure)], axis=1)
    low, high = (fit_border(Sure(), logits, np.ones(3), wrong) for wrong in (0.0, 1.0))
    assert unsure(sure, low).sum() == 0
    assert unsure(sure, high).mean() == pytest.approx(1, abs=3e-3)
    assert max(abs(low), abs(high)) <= 1 + 2 * WIDTH  # so that a file may say so


# The gap.


def test_a_window_by_hand():
    """Twenty rows that fell by 0.1 and moved by 0.3, of which 0.12 is chance, at a price of 0.2.

    A quarter of them is unsure, and 0.04 are hidden.
    """
    means, clean = np.array([0.8, 0.7, 0.55]), (*CLEAN[:2], UNSURE)
    # The surplus of 0.3 fell by 0.03 / 0.3, scarce rows, 0.4 of all, by 0.06 / 0.4.
    terms = [0.3, 0.2, 0.03, 0.4, 0.06, 0.25, 0.04]
    seen = window_statistics(20, means[:2], terms, 0.12, clean, 4)
    g, v = (20 * 0.1 + 2 * 0.04) / 22, np.sqrt(0.3**2 - 0.12**2)
    assert seen.fall == pytest.approx(g)
    warm = (20 * 0.15 + 2 * 0.04) / 22
    assert seen.warm_fall == pytest.approx(warm)
    assert seen.variation == pytest.approx(v)
    p = 0.2 * (v / 0.3) ** 3
    assert seen.price == pytest.approx(p)
    mu, sd = 1.5 * g, 0.6 * 0.12 / np.sqrt(20)
    like = 0.1 / (0.17 / 1.5)
    far = (v - 0.6 * mu) / (0.43 * mu + 0.01 + 1.2 * np.sqrt(sd))
    e = np.exp(-((far / (1 + like**4)) ** 4))
    w = (v**2 + sd) ** 2 / ((v**2 + sd) ** 2 + (1.35 * mu) ** 4)
    few = 1 + (0.12 / 0.5) ** 8
    r = e * w / few
    model = GapModel(beta_p=0.9, beta_2=2.0, beta_g=0.4, lam=1.5, beta_h=0.8, counted=0.7)
    assert model.belief_in_classes(seen) == pytest.approx(r)
    signs = r * (0.9 * p + 2 * g * g) + (1 - r) * 0.4 * warm
    u = (0.8 - 0.9) + (0.25 - UNSURE)
    assert seen.unsure == pytest.approx(u)
    assert seen.hidden == 0.04
    second = u + 0.8 * 0.04 * e / few
    gap = signs + 0.7 * 20 / 120 * (second - signs)
    assert model.gap(seen) == pytest.approx(gap)
    assert replace(model, counted=0.0).gap(seen) == pytest.approx(signs)
    assert replace(model, belief=BELIEFS[2]).gap(seen) == pytest.approx(signs)
    knows = replace(model, other_mixes=False)
    r = w / few
    signs = r * (0.9 * p + 2 * g * g) + (1 - r) * 0.4 * warm
    second = u + 0.8 * 0.04 / few
    assert knows.gap(seen) == pytest.approx(signs + 0.7 / 6 * (second - signs))
    # The parabola through (0, 0.8), (0.4, 0.7), (0.9, 0.55).
    q2 = ((0.55 - 0.8) / 0.9 - (0.7 - 0.8) / 0.4) / 0.5
    s = -((0.7 - 0.8) / 0.4 - 0.4 * q2)
    a = offset_for(model.gap(seen), means)
    assert 0.8 - s * a + q2 * a * a == pytest.approx(0.8 - gap)


@given(st.floats(0.05, 1), st.floats(0, 1), st.floats(0, 1), st.floats(-0.2, 0.6))
def test_the_offset_takes_the_gap_off_or_goes_as_far_as_it_can(c0, x, y, gap):
    means = np.array([c0, c0 * x, c0 * x * y])
    s, q = curve(means)
    a = float(offset_for(np.array(gap), means))
    assert -1 <= a <= 2.5
    if s <= 0:
        assert a == 0 or (a < 0 < q and gap < 0)  # it falls from there on to the left
    if s > 0 > q:
        assert a >= s / (2 * q) - 1e-9  # nothing is surer than its highest point
    if -1 < a < 2.5 and s > 1e-3 and s * s - 4 * q * gap > 1e-6:
        assert s * a - q * a * a == pytest.approx(gap, abs=1e-9)
        assert s - 2 * q * a >= -1e-9  # still falling
        assert a * gap >= 0


def test_a_sure_window_is_not_made_surer_by_a_trifle():
    means = np.array([0.9956, 0.9658, 0.8089])  # falls ever faster, and not at first
    assert offset_for(np.array([-0.5, -1e-9, 0.0, 1e-9]), means[:, None]).tolist() == [0.0] * 4


def window(fall, variation, chance=0.05, n=1000, price=0.1, grown=0.0, more=None, hidden=0.0):
    """Rows of classes that grew are less sure by `grown`, the others by 0.2.

    So many `more` rows than clean ones are unsure, or as many as make U what the fall is.
    """
    fall, variation = np.broadcast_arrays(np.asarray(fall, float), variation)
    few, shy = np.full(fall.shape, 0.3), UNSURE + (2 * fall if more is None else more + 0 * fall)
    prices, far = np.full(fall.shape, price), np.full(fall.shape, hidden)
    terms = [variation, prices, grown * variation, few, 0.2 * few, shy, far]
    clean = CLEAN[0], CLEAN[0], UNSURE
    return window_statistics(n, [CLEAN[0] - fall] * 2, terms, chance, clean, 10)


def signs_alone(model):
    return replace(model, counted=0.0)


def test_the_gap_has_the_sign_of_the_fall():
    """More confident than clean rows: a negative gap, through G alone."""
    for ten in (TEN, signs_alone(TEN)):
        assert ten.gap(window(-0.03, 0.2)) < 0 < ten.gap(window(0.03, 0.2))


def test_one_row_is_hardly_believed():
    """A third of its fall, a twentieth of its rise, and the fall that comes before any row."""
    few = window([0.6, -0.1], 0.9, chance=0.9, n=1)
    np.testing.assert_allclose(few.fall, [0.6 / 3 + 0.08 / 3, -0.1 / 21 + 0.08 / 3])
    np.testing.assert_array_equal(few.price, 0)


def test_another_class_mix_is_not_taken_for_shift():
    """Classes moved far and confidence hardly: the counts are not believed."""
    assert TEN.belief_in_classes(window(0.005, 0.7, n=200)) < 1e-3
    assert TEN.belief_in_classes(window(0.15, 0.3, n=200, grown=0.15)) > 0.5


def test_where_no_other_class_mix_is_to_be_expected_all_that_moved_is_shift():
    """The same windows with and without that knowledge; where classes hardly moved, the same."""
    for ten in (TEN, signs_alone(TEN)):
        knows = replace(ten, other_mixes=False)
        assert knows.belief_in_classes(window(0.005, 0.7, n=200)) > 0.9
        assert knows.gap(window(0.005, 0.7, n=200)) > 5 * ten.gap(window(0.005, 0.7, n=200))
        near = window(0.2, 0.25)
        assert knows.gap(near) == pytest.approx(ten.gap(near), rel=1e-2)


def test_rows_that_gather_in_one_class_and_are_unsure_there_are_shifted():
    """As far as another class mix would move them; but there they would be sure."""
    far = [TEN.belief_in_classes(window(0.2, 0.6, grown=grown)) for grown in (0.02, 0.2)]
    assert far[0] < 0.05
    assert far[1] > 0.6


def test_a_mixture_of_conditions_is_read_by_its_fall():
    """Confidence fell and classes did not move, as they cancel: the counts are not believed."""
    still = window(0.1, 0.04)
    assert TEN.belief_in_classes(still) < 0.1
    assert signs_alone(TEN).gap(still) > 0.9 * TEN.beta_g * 0.1
    assert TEN.gap(still) > 0.9 * TEN.beta_g * 0.1


def test_no_window_is_taken_to_be_less_accurate_than_guessing():
    """Confidence fell from 0.9 to 0.3 of ten classes; files of earlier versions do as they did."""
    dark, former = window(0.6, 0.6, grown=0.5), replace(TEN, belief=BELIEFS[1])
    assert TEN.gap(dark) == pytest.approx(0.3 - 0.1)
    assert signs_alone(TEN).gap(dark) == pytest.approx(0.3 - 0.1)
    assert former.gap(dark) > 0.5


def test_with_many_classes_the_price_and_the_fall_count_side_by_side():
    """Whatever chance does to all classes together, and however far they moved."""
    hundred, thousand = SHIPPED[100], SHIPPED[1000]
    means, clean = [CLEAN[0] - 0.1, CLEAN[2] - 0.2], (CLEAN[0], CLEAN[2], UNSURE)
    terms = [0.9, 0.05, 0.0, 0.0, 0.0, 0.33, 0.06]
    seen = window_statistics(100, means, terms, 0.85, clean, 100, "each")
    fall = 0.2 * 100 / 102 + 0.08 / 102
    far = 0.1 * 100 / 102 + 0.08 / 102
    signs = hundred.beta_p * 0.05 + hundred.beta_g * fall
    second = -0.1 + (0.33 - UNSURE) + hundred.beta_h * 0.06
    weight = hundred.counted * 100 / 200
    assert weight > 0
    assert hundred.gap(seen) == pytest.approx((1 - weight) * signs + weight * second)
    assert signs_alone(hundred).gap(seen) == pytest.approx(signs)
    assert thousand.gap(seen) == pytest.approx(thousand.beta_2 * far**2)
    np.testing.assert_allclose(
        hundred.columns(seen), (1 - weight) * np.array([0.05, 0, fall]), rtol=1e-12
    )
    np.testing.assert_allclose(signs_alone(hundred).columns(seen), [0.05, 0, fall])
    assert hundred.not_learned(seen) == pytest.approx(weight * second)
    assert signs_alone(hundred).not_learned(seen) == signs_alone(TEN).not_learned(seen) == 0
    assert thousand.not_learned(seen) == thousand.gap(seen)


# The second opinion.


def models(belief):
    """Such as have every term, where the mix may be another one and where it is known."""
    one = GapModel(0.7, 1.2, 0.5, 1.5, True, belief, beta_h=0.8, counted=0.45)
    return one, replace(one, other_mixes=False)


@pytest.mark.parametrize("belief", COUNTING)
@pytest.mark.parametrize(
    ("n", "part"),
    [(1.0, 1 / 101), (7.0, 7 / 107), (100.0, 1 / 2), (900.0, 9 / 10), (np.inf, 1.0)],
)
def test_the_second_opinion_weighs_the_more_the_more_rows_there_are(belief, n, part):
    """Half of h at a hundred, h in the end; of few rows the signs know more."""
    assert COUNTED_ROWS == 100
    fall = np.array([0.1, 0.05])
    seen = window(fall, 0.2, n=n, more=0.3)
    np.testing.assert_allclose(seen.unsure, 0.3 - fall)
    for model in models(belief):
        signs, weight = signs_alone(model).gap(seen), model.counted * part
        expected = (1 - weight) * signs + weight * (0.3 - fall)
        np.testing.assert_allclose(model.gap(seen), expected, rtol=1e-12)
        assert (np.abs(expected - signs) > 0.02 * part).all()


@pytest.mark.parametrize("belief", BELIEFS[:FEW_CLASSES])
def test_in_files_of_earlier_versions_there_is_no_second_opinion(belief):
    """Whatever is unsure or hidden, and whatever it would weigh."""
    assert not belief.counts_unsure
    for model in models(belief):
        gaps = [
            model.gap(window(0.1, 0.3, more=0.0)),
            model.gap(window(0.1, 0.3, more=0.6, hidden=0.2)),
            signs_alone(model).gap(window(0.1, 0.3)),
        ]
        assert gaps[0] == gaps[1] == gaps[2]
    assert [BELIEFS[FEW_CLASSES], BELIEFS[MANY_CLASSES]] == COUNTING
    assert [belief.each_class for belief in COUNTING] == [False, True]


def test_the_signs_of_the_present_beliefs_are_those_of_the_last_ones():
    former = [replace(belief, counts_unsure=True) for belief in BELIEFS[2:FEW_CLASSES]]
    assert former == COUNTING


def test_hidden_rows_are_not_counted_where_another_class_mix_is_suspected():
    """Few classes are judged together; of many, each was judged before."""
    few, many = (models(belief)[0] for belief in COUNTING)
    knows = replace(few, other_mixes=False)

    def adds(model, *rows, **more):
        hidden, none = (window(*rows, hidden=part, **more) for part in (0.3, 0.0))
        return (model.gap(hidden) - model.gap(none)) / (model.counted / (1 + 100 / hidden.n))

    other_mix, shift = (0.005, 0.7), (0.2, 0.25)
    assert adds(few, *other_mix) < 1e-3
    assert adds(knows, *other_mix) == pytest.approx(0.8 * 0.3, rel=1e-6)
    assert adds(few, *shift, grown=0.2) == pytest.approx(0.8 * 0.3, rel=1e-4)
    # Nor where there are too few rows for so many classes: half at 0.5.
    chance = adds(knows, *other_mix, chance=0.5)
    assert chance == pytest.approx(0.8 * 0.3 / 2)
    for rows in (other_mix, shift):
        assert adds(many, *rows, chance=0.5) == pytest.approx(0.8 * 0.3)


def test_unsure_rows_tell_of_a_gap_that_confidence_does_not():
    """As unsure as clean rows and as sure: none. More unsure rows: a gap; fewer: the opposite."""
    model = replace(TEN, counted=1.0)
    gaps = [float(model.gap(window(0.0, 0.0, n=np.inf, more=more))) for more in (-0.05, 0.0, 0.2)]
    assert gaps == pytest.approx([-0.05, 0, 0.2], abs=1e-12)


@pytest.mark.parametrize("counted", [0.0, 0.45, 1.0])
@pytest.mark.parametrize("belief", BELIEFS)
def test_what_is_learned_and_what_is_not_are_the_whole_gap(belief, counted):
    """Before the limit of guessing: as linear in the slopes as it is learned."""
    rng = np.random.default_rng(0)
    n = np.r_[np.inf, np.rint(10 ** rng.uniform(0, 5, 199))]
    chance = np.where(np.isinf(n), 0.0, np.minimum(0.9, 1 / np.sqrt(n)))
    terms = rng.uniform([[0], [0], [-0.1], [0], [-0.1], [0], [0]], 0.5, (7, 200))
    sure = rng.uniform(0.3, 0.95, (2, 200))
    for base in models(replace(belief, above_guessing=False)):
        model = replace(base, counted=counted)
        clean = (*CLEAN[:2], UNSURE)
        seen = window_statistics(n, sure, terms, chance, clean, 10, model.rule)
        whole = np.array(model.numbers()[:3]) @ model.columns(seen) + model.not_learned(seen)
        np.testing.assert_allclose(whole, model.gap(seen), rtol=1e-12, atol=1e-14)
        assert model.columns(seen).shape == (3, 200)
        # No slope that is learned is in what is not.
        others = replace(model, beta_p=0.1, beta_g=2.0)
        np.testing.assert_array_equal(others.not_learned(seen), model.not_learned(seen))
        held = belief.each_class or (belief.counts_unsure and counted > 0)
        assert (np.ptp(model.not_learned(seen)) > 0) == held


def test_which_numbers_so_many_classes_have():
    assert shipped(31) == TEN
    assert shipped(31, other_mixes=False) == replace(TEN, other_mixes=False)
    assert shipped(32) == SHIPPED[100]
    assert shipped(100, other_mixes=False) == KNOWN_MIX[100]
    low, middle, high = (np.array(shipped(k).numbers()) for k in (100, 300, 1000))
    assert ((low - middle) * (middle - high) >= 0).all()
    assert [shipped(k).rule for k in (31, 32)] == ["total", "each"]
    assert shipped(32).beta_2 == shipped(100).beta_2 == 0 < shipped(300).beta_2
    for mixes in (True, False):
        of = [shipped(k, other_mixes=mixes) for k in (10, 100, 300, 1000)]
        assert all(model.belief.counts_unsure for model in of)
        h, hidden = [model.counted for model in of], [model.beta_h for model in of]
        assert 1 >= h[0] >= h[1] > h[2] > h[3] == 0
        assert hidden[0] >= hidden[1] > hidden[2] > hidden[3] == 0
    assert TEN.numbers() == (TEN.beta_p, TEN.beta_2, TEN.beta_g, TEN.lam, TEN.beta_h, TEN.counted)


def test_too_few_rows_for_so_many_classes_hand_over_to_the_fall():
    assert TEN.belief_in_classes(window(0.2, 0.9, chance=0.89, n=100)) < 0.1


# Learning.


def points(n, means, shares, inside, shy, accuracy):
    return Points(*(np.array(x, float) for x in (n, means, shares, inside, shy, accuracy, n)))


UNIFORM = np.full(4, 0.25)
ONE = points([5000], [CLEAN], [UNIFORM], [0.9 * UNIFORM], [UNSURE * UNIFORM], [0.9])
CLEAN_ROWS = Clean(ONE, ChanceTable.of(UNIFORM, 5000.0), FOUR, read_at=1)


def environments(rng, n, beta=(0.8, 1.5, 0.3)):
    """Shifted environments whose gap is that of a model, of a price, a square and a fall.

    And of unsure rows, fewer in classes that grew: some of those are hidden.
    """
    fall = rng.uniform(0.02, 0.3, n)
    means = CLEAN - fall[:, None] * [1.0, 1.1, 1.2]
    shares = UNIFORM + (fall * rng.uniform(0.8, 1.2, n))[:, None] * [0.5, 0.5, -0.5, -0.5]
    inside = shares * means[:, :1]
    shy = shares * (UNSURE + fall * rng.uniform(1.2, 1.6, n))[:, None] * [0.5, 0.5, 1.5, 1.5]
    made = points(np.full(n, 1e7), means, shares, inside, shy, np.zeros(n))
    model = replace(FOUR, **dict(zip(("beta_p", "beta_2", "beta_g"), beta, strict=True)))
    gap = model.gap(CLEAN_ROWS.statistics(made))
    return replace(made, accuracy=means[:, 0] - gap)


@pytest.mark.parametrize("known", [FOUR, SHIPPED[100], KNOWN_MIX[100]])
def test_a_point_says_what_a_window_of_its_rows_says(known):
    """Shares of so many rows, or their counts: unsure and hidden rows as well."""
    n = np.array([400.0, 3000.0])
    shares = np.array([[0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.4, 0.1]])
    made = points(
        n, CLEAN - [[0.1] * 3, [0.2] * 3], shares, shares * 0.75, shares * [[0.2], [0.3]], [0.5] * 2
    )
    clean = replace(CLEAN_ROWS, known=known)
    got = clean.statistics(made)
    classes = CleanClasses.of(UNIFORM, np.full(4, 0.9), known.rule)
    for i in range(2):
        inside = n[i] * np.stack([made.inside[i], made.unsure[i]])
        terms = classes.numbers(n[i] * shares[i], inside) / (n[i] * SHARE_UNIT)
        expected = window_statistics(
            n[i], made.means[i, :2], terms, clean.chance(n[i]), (*CLEAN[:2], UNSURE), 4, known.rule
        )
        for field in fields(expected):
            found = getattr(got, field.name)[i]
            assert found == pytest.approx(getattr(expected, field.name), abs=1e-8), field.name
    assert got.unsure == pytest.approx([-0.1 + 0.1, -0.2 + 0.2])
    assert (got.hidden > 0.01).all()


def test_what_made_the_gaps_is_found():
    """By many environments: a few are pulled towards what is shipped."""
    made = environments(np.random.default_rng(0), 500, beta=(0.9, 2.0, 0.4))
    model, seen, gaps = learn(CLEAN_ROWS, made), CLEAN_ROWS.statistics(made), CLEAN_ROWS.gaps(made)
    assert np.median(seen.hidden) > 0.01
    few = learn(CLEAN_ROWS, made[np.arange(2)])
    off, off_few, off_shipped = (
        np.abs(found.gap(seen) - gaps).mean() for found in (model, few, FOUR)
    )
    assert off < 0.4 * off_shipped
    assert off < off_few < off_shipped
    assert model.lam == FOUR.lam
    error, offset = left_out_errors(CLEAN_ROWS, made)
    assert np.abs(error).max() < 0.05
    assert (offset > 0).all()


def test_prices_that_environments_hardly_have_keep_the_slope_that_is_shipped():
    """Classes that stay as they are have no price; a gap of thirty prices would say any slope."""
    made = environments(np.random.default_rng(0), 30)
    still = np.broadcast_to(UNIFORM, made.shares.shape)
    same = replace(
        made,
        shares=still,
        inside=still * made.means[:, :1],
        unsure=still * made.unsure.sum(axis=1, keepdims=True),
    )
    assert learn(CLEAN_ROWS, same).beta_p == pytest.approx(FOUR.beta_p)


def test_of_many_classes_the_square_of_the_fall_is_not_learned():
    """Environments that it explains teach next to nothing beside it: mixtures bend it a little."""
    known = SHIPPED[1000]
    clean, made = replace(CLEAN_ROWS, known=known), environments(np.random.default_rng(0), 30)
    gap = known.gap(clean.statistics(made))
    explained = replace(made, accuracy=made.means[:, 0] - gap)
    model, taught = learn(clean, explained), learn(clean, made)
    assert model.beta_2 == taught.beta_2 == known.beta_2
    assert model.beta_p + model.beta_g < 0.1 < taught.beta_p + taught.beta_g


@pytest.mark.parametrize("known", [FOUR, SHIPPED[100]])
def test_the_second_opinion_is_not_learned(known):
    """Where unsure rows explain all gaps, the fall of confidence is left with nothing to explain.

    They are in the classes that grew, so that none is hidden, which mixtures would bend.
    """
    clean, made = replace(CLEAN_ROWS, known=known), environments(np.random.default_rng(0), 500)
    total = UNSURE + 1.4 * (CLEAN[0] - made.means[:, :1])
    made = replace(made, unsure=total * [0.5, 0.5, 0, 0])
    seen = clean.statistics(made)
    assert seen.hidden.max() == 0
    gap = replace(known, beta_p=0.0, beta_2=0.0, beta_g=0.0).gap(seen)
    assert gap.min() > 0
    made = replace(made, accuracy=made.means[:, 0] - gap)
    model, alone = (learn(replace(clean, known=of), made) for of in (known, signs_alone(known)))
    assert (model.beta_h, model.counted, model.lam) == (known.beta_h, known.counted, known.lam)
    assert model.beta_g < 1e-6 < 0.1 < alone.beta_g


def test_order_does_not_matter():
    made = environments(np.random.default_rng(0), 9)
    other = made[np.random.default_rng(1).permutation(9)]
    a, b = learn(CLEAN_ROWS, made), learn(CLEAN_ROWS, other)
    np.testing.assert_allclose(a.numbers(), b.numbers())


def test_mixtures_by_hand():
    made = environments(np.random.default_rng(0), 2)
    some, pools = mixtures(ONE, made)
    assert (len(some), len(pools)) == (3, 2)  # two halves and one of both at random
    np.testing.assert_allclose(some.accuracy[:2], (0.9 + made.accuracy) / 2)
    np.testing.assert_allclose(some.shares[1], (UNIFORM + made.shares[1]) / 2)
    np.testing.assert_allclose(pools.means[0], CLEAN / 6 + made.means.sum(axis=0) * 5 / 12)
    np.testing.assert_allclose(pools.inside[1].sum(), pools.means[1, 0])
    shy = UNSURE * UNIFORM / 6 + made.unsure.sum(axis=0) * 5 / 12
    np.testing.assert_allclose(pools.unsure[0], shy)
    np.testing.assert_allclose(some.unsure[1], (UNSURE * UNIFORM + made.unsure[1]) / 2)
    np.testing.assert_array_equal(pools.n, np.inf)
    # A sixth of 5,000 rows and 5/12 of 10^7 each.
    np.testing.assert_allclose(pools.counted[0], 1 / (1 / 36 / 5000 + 2 * (5 / 12) ** 2 / 1e7))
    assert len(mixtures(ONE, environments(np.random.default_rng(0), 10))[0]) == 15
    assert len(mixtures(ONE, made[np.array([0])])[0]) == 1


def test_less_wrong_where_less_sure_gives_no_negative_slope():
    made = environments(np.random.default_rng(0), 6)
    better = replace(made, accuracy=np.full(6, 0.99))
    slopes = learn(CLEAN_ROWS, better).numbers()[:3]
    assert min(slopes) == 0
    assert (np.array(slopes) < FOUR.numbers()[:3]).all()


def test_environments_like_the_clean_one_teach_next_to_nothing():
    """Then the numbers are as shipped."""
    same = points([500.0], [CLEAN], [UNIFORM], [0.9 * UNIFORM], [UNSURE * UNIFORM], [0.9])
    model = learn(CLEAN_ROWS, same)
    assert model.numbers() == pytest.approx(FOUR.numbers(), rel=0.4)
    error, _ = left_out_errors(CLEAN_ROWS, same)
    assert np.abs(error).max() < 1e-3


def test_one_environment_cannot_tell_two_slopes_apart_and_stays_near_what_is_shipped():
    made = environments(np.random.default_rng(0), 1)
    model = learn(CLEAN_ROWS, made)
    assert model.numbers() == pytest.approx(FOUR.numbers(), rel=0.2)


def test_many_environments_are_left_out_together():
    made = environments(np.random.default_rng(0), 300)
    error, _ = left_out_errors(CLEAN_ROWS, made)
    assert error.shape == (300,)
    assert 0 < np.abs(error).max() < 0.05
