"""The parts of context scaling by hand: chance, class counts, the gap, what is learned of it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, poisson

from wildcal.calibrators.context.chance import ChanceTable, chance_variation, mean_distance
from wildcal.calibrators.context.classes import ClassRows, pairs_of, rolling_pairs
from wildcal.calibrators.context.constants import KNOWN_MIX, SHIPPED, shipped
from wildcal.calibrators.context.gap import (
    BELIEFS,
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
    class_price,
    class_terms,
    usual_confidence,
)

CLEAN = np.array([0.9, 0.85, 0.75])
TEN, FOUR = SHIPPED[10], shipped(4)

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
)
def test_rolling_numbers_are_those_of_each_window(rule, pred, size, weights):
    """However many rows come at once, while the window fills and afterwards; to the last bit."""
    pred = np.array(pred)
    sure = np.random.default_rng(len(pred)).integers(0, 2**40, len(pred))
    usual = np.random.default_rng(size).uniform(size=5)
    clean = CleanClasses.of(np.array(weights) / max(1, sum(weights)), usual, rule)

    def windows(upto):
        return np.bincount(pred[max(0, upto - size) : upto], minlength=5)

    def sums(upto):
        found = np.zeros(5, np.int64)
        np.add.at(found, pred[max(0, upto - size) : upto], sure[max(0, upto - size) : upto])
        return found

    for step in (1, 7, len(pred)):
        for start in range(0, len(pred), step):
            entering = pred[start : start + step]
            first, last = max(0, start - size), max(0, start + len(entering) - size)
            leaving = pred[first:last]
            after = range(start + 1, start + len(entering) + 1)
            come, gone = slice(start, start + step), slice(first, last)
            before = sums(start)
            rows = [ClassRows(pred[some], sure[some]) for some in (come, gone)]
            got = clean.rolling_numbers(windows(start), before, *rows)
            each = [clean.numbers(windows(i), sums(i) * UNIT) for i in after]
            assert got.T.tolist() == np.array(each).tolist()
            got = rolling_pairs(windows(start), entering, leaving)
            assert got.tolist() == [pairs_of(windows(i)) for i in after]


def test_a_long_window_of_many_classes_while_it_fills():
    rng = np.random.default_rng(0)
    rows = ClassRows(rng.integers(0, 300, 20_000), rng.integers(0, 2**40, 20_000))
    clean = CleanClasses.of(rng.dirichlet(np.ones(300)), rng.uniform(size=300))
    nothing = np.zeros(300, np.int64)
    got = clean.rolling_numbers(nothing, nothing, rows, ClassRows(rows.pred[:0], rows.sure[:0]))
    for n in (1, 2, 77, 4096, 19_999, 20_000):
        counts, sure = np.bincount(rows.pred[:n], minlength=300), nothing.copy()
        np.add.at(sure, rows.pred[:n], rows.sure[:n])
        assert got[:, n - 1].tolist() == clean.numbers(counts, sure * UNIT).tolist()


def test_surplus_is_total_variation():
    q, counts = np.array([0.2, 0.3, 0.5]), np.array([10, 0, 10])
    surplus = CleanClasses.of(q, np.ones(3)).numbers(counts, 0.8 * counts)[0]
    assert surplus / (20 * SHARE_UNIT) == pytest.approx(
        0.5 * np.abs(counts / 20 - q).sum(), abs=1e-8
    )


def test_what_classes_say_by_hand():
    """Ten rows where four were expected, and two where eight were."""
    counts, sure = np.array([10.0, 2.0]), np.array([7.5, 1.0])
    surplus, price, fallen, scarce, less = class_terms(
        counts, sure, np.array([4.0, 8.0]), np.array([0.9, 0.8])
    )
    np.testing.assert_allclose(surplus, [6, 0])
    # With mean confidence 0.75 leads are uniform in (0, 1); and 7.5 is more than 4.
    np.testing.assert_allclose(price, [10 * 0.5 * 0.6**2 + 3.5, 0])
    leads = np.sort(np.random.default_rng(0).uniform(size=100_000))
    assert price[0] - 3.5 == pytest.approx(10 * leads[:60_000].sum() / 100_000, rel=1e-2)
    np.testing.assert_allclose(fallen, [6 * (0.9 - 0.75), 0])
    np.testing.assert_allclose(scarce, [0, 2])
    np.testing.assert_allclose(less, [0, 2 * 0.8 - 1.0])


def test_a_surplus_costs_what_its_smallest_leads_are():
    """A hundred rows where forty were expected, 75 of confidence: leads are uniform in (0, 1)."""
    counts, sure, expected, usual = (np.array([x]) for x in (100.0, 75.0, 40.0, 0.9))
    surplus = np.sqrt(60**2 - 4 * (40 + 1.5))
    price = class_price(counts, sure, expected, usual, known_mix=True)
    # And 75 is more than 40.
    np.testing.assert_allclose(price, 100 * 0.5 * (surplus / 100) ** 2 + 35)
    leads = np.sort(np.random.default_rng(0).uniform(size=100_000))
    moved = 100 * leads[: round(1000 * surplus)].sum() / 100_000
    assert price[0] - 35 == pytest.approx(moved, rel=1e-2)


def test_a_price_counts_as_far_as_its_rows_are_less_sure_than_usual():
    """Half where they are by 0.07; nothing where they are as sure as ever, or surer."""
    counts, expected, usual = np.full(4, 100.0), np.full(4, 20.0), np.full(4, 0.9)
    sure = 100 * np.array([0.9, 0.95, 0.83, 0.5])
    full = class_price(counts, sure, expected, usual, known_mix=True)
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
    many = np.array([expected + 10 * np.sqrt(expected + 1)])
    assert class_price(many, 0.3 * many, np.array([expected]), np.array([0.9])) > 0


def test_prices_of_shares_are_those_of_counts():
    rng = np.random.default_rng(0)
    counts, expected = rng.integers(0, 90, 7) * 1.0, rng.uniform(0, 40, 7)
    usual, sure, n = rng.uniform(size=7), counts * rng.uniform(size=7), 200.0
    np.testing.assert_allclose(
        n * class_terms(counts / n, sure / n, expected / n, usual, "each", 1 / n)[1],
        class_terms(counts, sure, expected, usual, "each")[1],
    )


def test_a_class_that_clean_rows_never_had_is_as_sure_as_all():
    np.testing.assert_allclose(
        usual_confidence(np.array([0.5, 0.5, 0.0]), np.array([0.45, 0.3, 0.0])), [0.9, 0.6, 0.75]
    )


# The gap.


def test_a_window_by_hand():
    """Twenty rows that fell by 0.1 and moved by 0.3, of which 0.12 is chance, at a price of 0.2."""
    means = np.array([0.8, 0.7, 0.55])
    # The surplus of 0.3 fell by 0.03 / 0.3, scarce rows, 0.4 of all, by 0.06 / 0.4.
    seen = window_statistics(20, means[:2], [0.3, 0.2, 0.03, 0.4, 0.06], 0.12, CLEAN[:2], 4)
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
    r = e * w / (1 + (0.12 / 0.5) ** 8)
    model = GapModel(beta_p=0.9, beta_2=2.0, beta_g=0.4, lam=1.5)
    gap = r * (0.9 * p + 2 * g * g) + (1 - r) * 0.4 * warm
    assert model.gap(seen) == pytest.approx(gap)
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
    if -1 < a < 2.5 and s > 1e-3 and s * s - 4 * q * gap > 1e-6:
        assert s * a - q * a * a == pytest.approx(gap, abs=1e-9)
        assert s - 2 * q * a >= -1e-9  # still falling
        assert a * gap >= 0


def window(fall, variation, chance=0.05, n=1000, price=0.1, grown=0.0):
    """Rows of classes that grew are less sure by `grown`, the others by 0.2."""
    fall, variation = np.broadcast_arrays(np.asarray(fall, float), variation)
    few = np.full(fall.shape, 0.3)
    terms = [variation, np.full(fall.shape, price), grown * variation, few, 0.2 * few]
    return window_statistics(n, [CLEAN[0] - fall] * 2, terms, chance, CLEAN[[0, 0]], 10)


def test_the_gap_has_the_sign_of_the_fall():
    """More confident than clean rows: a negative gap, through G alone."""
    assert TEN.gap(window(-0.03, 0.2)) < 0 < TEN.gap(window(0.03, 0.2))


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
    knows = replace(TEN, other_mixes=False)
    assert knows.belief_in_classes(window(0.005, 0.7, n=200)) > 0.9
    assert knows.gap(window(0.005, 0.7, n=200)) > 5 * TEN.gap(window(0.005, 0.7, n=200))
    near = window(0.2, 0.25)
    assert knows.gap(near) == pytest.approx(TEN.gap(near), rel=1e-2)


def test_rows_that_gather_in_one_class_and_are_unsure_there_are_shifted():
    """As far as another class mix would move them; but there they would be sure."""
    far = [TEN.belief_in_classes(window(0.2, 0.6, grown=grown)) for grown in (0.02, 0.2)]
    assert far[0] < 0.05
    assert far[1] > 0.6


def test_a_mixture_of_conditions_is_read_by_its_fall():
    """Confidence fell and classes did not move, as they cancel: the counts are not believed."""
    still = window(0.1, 0.04)
    assert TEN.belief_in_classes(still) < 0.1
    assert TEN.gap(still) > 0.9 * TEN.beta_g * 0.1


def test_no_window_is_taken_to_be_less_accurate_than_guessing():
    """Confidence fell from 0.9 to 0.3 of ten classes; files of earlier versions do as they did."""
    dark, former = window(0.6, 0.6, grown=0.5), replace(TEN, belief=BELIEFS[1])
    assert TEN.gap(dark) == pytest.approx(0.3 - 0.1)
    assert former.gap(dark) > 0.5


def test_with_many_classes_the_price_and_the_fall_count_side_by_side():
    """Whatever chance does to all classes together, and however far they moved."""
    hundred = SHIPPED[100]
    means = [CLEAN[0] - 0.1, CLEAN[2] - 0.2]
    terms = [0.9, 0.05, 0.0, 0.0, 0.0]
    seen = window_statistics(100, means, terms, 0.85, CLEAN[[0, 2]], 100, "each")
    fall = 0.2 * 100 / 102 + 0.08 / 102
    far = 0.1 * 100 / 102 + 0.08 / 102
    assert hundred.gap(seen) == pytest.approx(hundred.beta_p * 0.05 + hundred.beta_g * fall)
    assert SHIPPED[1000].gap(seen) == pytest.approx(SHIPPED[1000].beta_2 * far**2)
    np.testing.assert_allclose(hundred.columns(seen), [0.05, 0, fall])
    assert hundred.not_learned(seen) == TEN.not_learned(seen) == 0
    assert SHIPPED[1000].not_learned(seen) == SHIPPED[1000].gap(seen)


def test_which_numbers_so_many_classes_have():
    assert shipped(31) == TEN
    assert shipped(31, other_mixes=False) == replace(TEN, other_mixes=False)
    assert shipped(32) == SHIPPED[100]
    assert shipped(100, other_mixes=False) == KNOWN_MIX[100]
    low, middle, high = (np.array(shipped(k).numbers()) for k in (100, 300, 1000))
    assert ((low - middle) * (middle - high) >= 0).all()
    assert [shipped(k).rule for k in (31, 32)] == ["total", "each"]
    assert shipped(32).beta_2 == shipped(100).beta_2 == 0 < shipped(300).beta_2


def test_too_few_rows_for_so_many_classes_hand_over_to_the_fall():
    assert TEN.belief_in_classes(window(0.2, 0.9, chance=0.89, n=100)) < 0.1


# Learning.


def points(n, means, shares, inside, accuracy):
    return Points(*(np.array(x, float) for x in (n, means, shares, inside, accuracy, n)))


UNIFORM = np.full(4, 0.25)
ONE = points([5000], [CLEAN], [UNIFORM], [0.9 * UNIFORM], [0.9])
CLEAN_ROWS = Clean(ONE, ChanceTable.of(UNIFORM, 5000.0), FOUR, read_at=1)


def environments(rng, n, beta=(0.8, 1.5, 0.3)):
    """Shifted environments whose gap is that of a model, of a price, a square and a fall."""
    fall = rng.uniform(0.02, 0.3, n)
    means = CLEAN - fall[:, None] * [1.0, 1.1, 1.2]
    shares = UNIFORM + (fall * rng.uniform(0.8, 1.2, n))[:, None] * [0.5, 0.5, -0.5, -0.5]
    inside = shares * means[:, :1]
    made = points(np.full(n, 1e7), means, shares, inside, np.zeros(n))
    gap = GapModel(*beta, FOUR.lam).gap(CLEAN_ROWS.statistics(made))
    return points(made.n, means, shares, inside, means[:, 0] - gap)


def test_what_made_the_gaps_is_found():
    """By many environments: a few are pulled towards what is shipped."""
    made = environments(np.random.default_rng(0), 500, beta=(0.9, 2.0, 0.4))
    model, seen, gaps = learn(CLEAN_ROWS, made), CLEAN_ROWS.statistics(made), CLEAN_ROWS.gaps(made)
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
    same = points(made.n, made.means, still, still * made.means[:, :1], made.accuracy)
    assert learn(CLEAN_ROWS, same).beta_p == pytest.approx(FOUR.beta_p)


def test_of_many_classes_the_square_of_the_fall_is_not_learned():
    """Environments that it explains teach next to nothing beside it: mixtures bend it a little."""
    known = SHIPPED[1000]
    clean, made = replace(CLEAN_ROWS, known=known), environments(np.random.default_rng(0), 30)
    gap = known.gap(clean.statistics(made))
    explained = points(made.n, made.means, made.shares, made.inside, made.means[:, 0] - gap)
    model, taught = learn(clean, explained), learn(clean, made)
    assert model.beta_2 == taught.beta_2 == known.beta_2
    assert model.beta_p + model.beta_g < 0.1 < taught.beta_p + taught.beta_g


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
    np.testing.assert_array_equal(pools.n, np.inf)
    # A sixth of 5,000 rows and 5/12 of 10^7 each.
    np.testing.assert_allclose(pools.counted[0], 1 / (1 / 36 / 5000 + 2 * (5 / 12) ** 2 / 1e7))
    assert len(mixtures(ONE, environments(np.random.default_rng(0), 10))[0]) == 15
    assert len(mixtures(ONE, made[np.array([0])])[0]) == 1


def test_less_wrong_where_less_sure_gives_no_negative_slope():
    made = environments(np.random.default_rng(0), 6)
    better = points(made.n, made.means, made.shares, made.inside, np.full(6, 0.99))
    slopes = learn(CLEAN_ROWS, better).numbers()[:3]
    assert min(slopes) == 0
    assert (np.array(slopes) < FOUR.numbers()[:3]).all()


def test_environments_like_the_clean_one_teach_next_to_nothing():
    """Then the numbers are as shipped."""
    same = points([500.0], [CLEAN], [UNIFORM], [0.9 * UNIFORM], [0.9])
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
