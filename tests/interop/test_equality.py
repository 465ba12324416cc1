"""NumPy, torch and ONNX Runtime give the same numbers, for every method and any row."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wildcal import (
    CALIBRATORS,
    AutoCalibrator,
    Context,
    DensityAware,
    EnergyScaling,
    evaluation,
    suites,
)
from wildcal.core.rows import Rows
from wildcal.interop.maps import MAPS, context_vector, map_of

TOLERANCE = 1e-5
DTYPES = [np.float32, np.float64]
# Few, since each is a fit and a session of every method and type.
WIDTHS = [2, 20]
NAMES = [kind.name for kind in MAPS if kind is not DensityAware]  # it has a file of its own
# Those that look probabilities up, where the last bit of a softmax could show.
TABLES = ["irm", "irova", "irovats", "isotonic", "histogram", "bbq", "spline", "beta"]


def differences(calibrator, z, answers, **around):
    """Yield (what, gap) for each output of each backend."""
    proba, confidence = calibrator.predict_proba(z, **around), calibrator.confidence(z, **around)
    for where, found in answers.items():
        assert found["probabilities"].dtype == proba.dtype
        yield f"{where} probabilities", np.abs(found["probabilities"] - proba)
        yield f"{where} confidence", np.abs(found["confidence"] - confidence)
        energy = EnergyScaling.energy(calibrator, z)
        yield f"{where} energy", np.abs(found["energy"] - energy) / np.maximum(1, np.abs(energy))
        if calibrator.bind(Rows(z)).temperature is not None:
            h = calibrator.temperature(z, **around)
            yield f"{where} temperature", np.abs(found["temperature"] / h - 1)
        else:
            assert "temperature" not in found


def assert_equal(calibrator, z, answers, **around):
    for what, gap in differences(calibrator, z, answers, **around):
        assert (gap <= TOLERANCE).all(), f"{calibrator.name}: {what}, {gap.max()}"


def rows(dtype, width):
    """A few rows of moderate numbers, ties and extremes."""
    width_bits = np.dtype(dtype).itemsize * 8
    elements = st.one_of(
        st.floats(-30, 30, width=width_bits), st.sampled_from([0.0, 1.0, 2.5, -1.0, 1e4, -1e4])
    )
    return hnp.arrays(dtype, st.tuples(st.integers(1, 6), st.just(width)), elements=elements)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_row(name, dtype, fitted, three_ways):
    widths = st.sampled_from(WIDTHS)

    @given(st.data(), widths)
    @settings(max_examples=15, deadline=None)
    def holds(data, width):
        calibrator = fitted(name, width)
        z = data.draw(rows(dtype, width))
        assert_equal(calibrator, z, three_ways(calibrator, z))

    holds()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_class_that_is_kept_is_the_largest_everywhere(dtype, three_ways):
    """The second class is right more often than the first, so nearly all rows are cut."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 3, (600, 5))
    order = np.argsort(z, axis=1)
    y = np.where(rng.random(600) < 0.7, order[:, -2], order[:, -1])
    calibrator = AutoCalibrator(keep_class=True).fit(z, y)
    z = z.astype(dtype)
    answers = three_ways(calibrator, z)
    assert_equal(calibrator, z, answers)
    for found in answers.values():
        second, first = np.sort(found["probabilities"], axis=1)[:, -2:].T
        assert (second < first).all()
        assert (second > 0.999 * first).mean() > 0.3
        np.testing.assert_array_equal(found["probabilities"].argmax(1), z.argmax(1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1.0, 4.0, 1e4])
def test_many_random_rows(name, scale, fitted, three_ways):
    rng = np.random.default_rng(0)
    for width, n in ((5, 1000), (20, 500)):
        z = (scale * rng.standard_normal((n, width))).astype(np.float32)
        assert_equal(fitted(name, width), z, three_ways(fitted(name, width), z))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_ties(name, dtype, width, fitted, three_ways):
    """The first m classes tied, and the others behind them or ruled out: 1/m, an edge of bins."""
    tied = np.tri(width)[1:]
    z = np.concatenate([10 * tied, 1e4 * tied, np.where(tied > 0, 0.3, -np.inf)]).astype(dtype)
    assert_equal(fitted(name, width), z, three_ways(fitted(name, width), z))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [6, 10, 15, 20])
def test_ties_on_steps(name, dtype, width, three_ways):
    """Tables made of unsure rows and ties, so that 1/m is a threshold or the edge of a bin."""
    rng = np.random.default_rng(width)
    z = np.repeat(0.4 * rng.standard_normal((600, width)), 2, axis=0)
    z[::2] = np.round(z[::2])
    y = (2 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    tied = np.repeat([[0.0], [0.1], [-7.7], [1e4]], width, axis=1)
    asked = np.concatenate([tied, np.tri(width), np.tri(width) * 40, z]).astype(dtype)
    for n_bins in (15, 20) if name == "histogram" else (None,):
        options = {} if n_bins is None else {"n_bins": n_bins}
        calibrator = CALIBRATORS[name](**options).fit(z.astype(dtype), y)
        assert_equal(calibrator, asked, three_ways(calibrator, asked))


@pytest.mark.parametrize("name", NAMES)
def test_real_rows(name, three_ways):
    """Rows of a trained network: those a table was made of, and shifted ones."""
    suite, make = suites.load("cifar10-vgg11-half"), CALIBRATORS[name]
    tuning = evaluation.environments(suite)
    used = (tuning.environment == 0) | ("environment" in make.reads)
    used &= (tuning.y >= 0) | make.accepts_ood
    used &= np.arange(len(used)) % 5 == 0
    z, y = tuning.logits[used].astype(np.float32), tuning.y[used]
    more = {"environment": tuning.environment[used]} if ("environment" in make.reads) else {}
    calibrator = make().fit(z, y, **more)
    fog = suite.split("fog-5").logits
    for rows in (z, *(fog.astype(dtype) for dtype in DTYPES)):
        assert_equal(calibrator, rows, three_ways(calibrator, rows))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [4.0, 2e3, 1e4])
def test_two_hundred_classes(name, scale, fitted, three_ways):
    z = (scale * np.random.default_rng(0).standard_normal((500, 200))).astype(np.float32)
    calibrator = fitted(name, 200)
    assert_equal(calibrator, z, three_ways(calibrator, z))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_are_no_logits(name, dtype, fitted, three_ways):
    """NumPy refuses them; a graph cannot, and says NaN."""
    calibrator = fitted(name)
    z = np.random.default_rng(0).standard_normal((8, 5)).astype(dtype)
    z[1, 0] = z[2, 3] = z[3] = np.nan
    z[4, 0] = z[5, 4] = np.inf
    z[6] = -np.inf
    for bad in range(1, 7):
        with pytest.raises(ValueError, match="logits"):
            calibrator.predict_proba(z[bad : bad + 1])
    for where, found in three_ways(calibrator, z).items():
        for what in ("probabilities", "confidence"):
            assert np.isnan(found[what][1:7]).all(), (where, what)
            assert np.isfinite(found[what][[0, 7]]).all(), (where, what)


@pytest.mark.parametrize(
    "options", [{"interp": "reference"}, {"fill": "zeros"}, {"fill": "zeros", "n_knots": 4}]
)
def test_rows_that_are_no_logits_with_options(options, fitted, three_ways):
    z = np.array([[1, np.nan, 0, 0, 0], [np.inf, 0, 0, 0, 0], [-np.inf] * 5], np.float32)
    for found in three_ways(fitted("spline", **options), z).values():
        assert np.isnan(found["probabilities"]).all()


@pytest.mark.parametrize("name", NAMES)
def test_float64_is_kept(name, fitted, three_ways):
    """Fitted in float64 and asked in float64, all digits agree, steps included."""
    calibrator = fitted(name, dtype=np.float64)
    z = 4 * np.random.default_rng(0).standard_normal((200, 5))
    for found in three_ways(calibrator, z).values():
        np.testing.assert_allclose(found["probabilities"], calibrator.predict_proba(z), atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_classes_that_are_ruled_out(name, fitted, three_ways):
    rng = np.random.default_rng(0)
    z = (4 * rng.standard_normal((200, 5))).astype(np.float32)
    z[rng.random(z.shape) < 0.4] = -np.inf
    z[:, 2] = np.maximum(z[:, 2], -5)  # no row without any class
    assert_equal(fitted(name), z, three_ways(fitted(name), z))


@pytest.mark.parametrize("name", ["irm", "irova", "irovats", "isotonic", "spline", "bbq"])
def test_long_tables(name, fitted, three_ways):
    """Thousands of thresholds, as many tuning rows leave them."""
    calibrator = fitted(name, 10, n=10_000)
    z = (4 * np.random.default_rng(0).standard_normal((500, 10))).astype(np.float32)
    assert_equal(calibrator, z, three_ways(calibrator, z))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("spline", {"interp": "reference"}),
        ("spline", {"fill": "zeros"}),
        ("spline", {"interp": "reference", "fill": "zeros", "n_knots": 4}),
        ("irm", {"normalize": "none"}),
        ("irova", {"normalize": "none"}),
        ("irovats", {"normalize": "none"}),
        ("histogram", {"n_bins": 1}),
        ("histogram", {"n_bins": 1000}),
        ("energy", {"box": "paper"}),
        ("energy", {"box": "free"}),
        ("pts", {"top_k": 3, "n_hidden": 2}),
        ("dirichlet", {"gauge": "last", "regularizer": "l2"}),
        ("ets", {"loss": "nll"}),
    ],
)
def test_options(name, options, fitted, three_ways):
    z = (4 * np.random.default_rng(0).standard_normal((300, 5))).astype(np.float32)
    calibrator = fitted(name, **options)
    assert_equal(calibrator, z, three_ways(calibrator, z))


def test_a_single_confidence(three_ways):
    """Tables of one entry."""
    z = np.array([[3.0, 0.0]] * 4, np.float32)
    asked = np.array([[3.0, 0.0], [0.0, 9.0], [0.1, 0.0]], np.float32)
    for name in ("spline", "isotonic", "bbq", "histogram", "irm", "irova"):
        calibrator = CALIBRATORS[name]().fit(z, [0, 0, 0, 1])
        assert_equal(calibrator, asked, three_ways(calibrator, asked))


def test_energies_that_cannot_be_fitted(three_ways):
    """No wrong row: the term of the wrong ones is left out."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((50, 3)).astype(np.float32)
    with pytest.warns(UserWarning, match="too few incorrect|at its bound"):
        calibrator = EnergyScaling().fit(z, z.argmax(axis=1))
    assert calibrator.incorrect_mean_ is None
    assert_equal(calibrator, 3 * z, three_ways(calibrator, 3 * z))


counts = st.lists(st.integers(0, 300), min_size=5, max_size=5)
parts = st.lists(st.floats(0, 1), min_size=5, max_size=5)


@pytest.mark.parametrize("class_mix", ["any", "clean"])
@given(counts, st.floats(0.2, 1), st.floats(0.5, 1), st.floats(0.5, 1), parts)
@settings(max_examples=25, deadline=None)
def test_contexts(fitted, three_ways, class_mix, numbers, sure, warmer, warmest, unsure):
    """Any window, whose confidences fall as the temperature rises.

    Of each class, any part of the rows is unsure.
    """
    calibrator, n = fitted("context", class_mix=class_mix), sum(numbers)
    means = np.array([sure, sure * warmer, sure * warmer * warmest]).astype(np.float32)
    # As float32, in which the context goes into the graph.
    inside = np.array([np.array(numbers) * means[0], np.array(numbers) * unsure], np.float32)
    sums = np.append(n * means, inside[1].sum()).astype(np.float32)
    sums, inside = (tuple(of.astype(float).ravel().tolist()) for of in (sums, inside))
    around = Context(n=n, sums=sums, counts=tuple(numbers), by_class=inside)
    assert context_vector(around).shape == (1, 5 + 3 * 5)
    z = (4 * np.random.default_rng(0).standard_normal((20, 5))).astype(np.float32)
    answers = three_ways(calibrator, z, context_vector(around))
    assert_equal(calibrator, z, answers, context=around)


@pytest.mark.parametrize(("class_mix", "beta_2"), [("any", 0.0), ("clean", 0.0), ("any", 0.9)])
@pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning")
def test_contexts_of_many_classes(fitted, three_ways, class_mix, beta_2):
    """Each of which is judged by itself: from no surplus to half of the rows in one class."""
    calibrator = deepcopy(fitted("context", 40, class_mix=class_mix))
    calibrator.beta_2_ = beta_2  # a thousand classes have it
    calibrator.beta_h_ = 1.0 - beta_2 / 2  # and of so many this is less
    rows, hidden = (4 * np.random.default_rng(0).standard_normal((200, 40))).astype(np.float32), []
    for part, lead in ((0, 0.0), (20, 0.2), (100, 0.2), (100, 1.0), (100, 4.0)):
        z = rows.copy()
        z[:part, 3] = z[:part].max(axis=1) + lead
        around = calibrator.context(z)
        assert context_vector(around).shape == (1, 5 + 3 * 40)
        answers = three_ways(calibrator, z, context_vector(around))
        assert_equal(calibrator, z, answers, context=around)
        inside = np.array(around.by_class).reshape(2, 40)
        hidden.append(calibrator.class_numbers(np.array(around.counts), inside)[-1])
    assert hidden[0] == 0 < hidden[3]


@pytest.mark.parametrize("sure", [0.0, 0.3, 3.0])
def test_windows_of_sure_rows_alone(sure, fitted, three_ways):
    """Their confidence hardly falls when warmer: what cannot rise is not divided by nothing."""
    calibrator = fitted("context")
    z = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)
    z[np.arange(60), z.argmax(axis=1)] += 9 + sure
    around = calibrator.context(z)
    assert calibrator.offset(around) > -0.5
    assert_equal(calibrator, z, three_ways(calibrator, z, context_vector(around)), context=around)


@pytest.mark.parametrize("rows", [257, 1000, 30_001, 10**6, 10**9])
def test_large_contexts(rows, fitted, three_ways):
    """Beyond the sizes that the table of chance has each of."""
    calibrator = deepcopy(fitted("context", dtype=np.float64))
    calibrator.beta_h_ = 0.7  # whatever it is
    z = 3 * np.random.default_rng(0).standard_normal((20, 5))
    counts = (rows // 2, rows // 4, rows - rows // 2 - rows // 4, 0, 0)
    sure = tuple(0.7 * count for count in counts)
    for part in (0.0, 0.1, 0.4):  # of all rows that are unsure: some are hidden, or none
        unsure = tuple(part * count for count in counts)
        sums = (0.7 * rows, 0.6 * rows, 0.45 * rows, part * rows)
        around = Context(n=rows, sums=sums, counts=counts, by_class=sure + unsure)
        answers = three_ways(calibrator, z, context_vector(around))
        assert_equal(calibrator, z, answers, context=around)


@pytest.mark.parametrize("ruled_out", [0, 40])
def test_statistics_add_up_to_a_context(ruled_out, fitted, three_ways):
    calibrator = fitted("context")
    z = (4 * np.random.default_rng(0).standard_normal((300, 5))).astype(np.float32)
    z[:ruled_out, 2] = -np.inf
    whole = context_vector(calibrator.context(z))
    for found in three_ways(calibrator, z).values():
        total = found["statistics"].sum(axis=0, dtype=np.float64)[None]
        np.testing.assert_allclose(total, whole, rtol=1e-5, atol=1e-3)
    parts = [calibrator.context(z[:100]), calibrator.context(z[100:])]
    each = np.concatenate([context_vector(part) for part in np.repeat(parts, [100, 200])])
    # A context for each row.
    for found in three_ways(calibrator, z, each).values():
        expected = [calibrator.predict_proba(z[:100], context=parts[0])]
        expected.append(calibrator.predict_proba(z[100:], context=parts[1]))
        np.testing.assert_allclose(found["probabilities"], np.concatenate(expected), atol=TOLERANCE)


def test_context_without_environments(fitted, three_ways):
    """It has the numbers that are shipped then."""
    z = (4 * np.random.default_rng(0).standard_normal((300, 5))).astype(np.float32)
    y = (z + np.random.default_rng(1).gumbel(size=z.shape)).argmax(axis=1)
    calibrator = CALIBRATORS["context"]().fit(z, y)
    around = calibrator.context(z)
    answers = three_ways(calibrator, z, context_vector(around))
    assert_equal(calibrator, z, answers, context=around)


def test_every_method_has_a_map_or_says_why_not(fitted):
    for name in CALIBRATORS:
        calibrator = fitted(name)
        assert set(map_of(calibrator).outputs) >= {"probabilities", "confidence", "energy"}
    assert {kind.name for kind in MAPS} == {*CALIBRATORS, DensityAware.name}
