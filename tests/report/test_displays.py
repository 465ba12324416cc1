"""Displays and the figures beyond the paper's: what stands on the axes is what was measured."""

import numpy as np
import pytest

from wildcal import (
    EnergyScaling,
    Identity,
    TemperatureScaling,
    compare,
    plots,
)
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.evaluation.protocol import choose_methods, run_protocol
from wildcal._old.metrics import auroc
from wildcal._old.metrics import reliability as reliability_table
from wildcal._old.testing import join, make_suite

DRAWN = make_suite(0, n_tuning=400, n_ood_tuning=100, n_test=500)


@pytest.fixture
def ax(needs):
    needs("matplotlib")
    from matplotlib.figure import Figure

    return Figure().subplots()


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_new_axis_where_none_is_given(needs):
    needs("matplotlib")
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    first = plots.reliability([True, False], [0.7, 0.6])
    second = plots.ReliabilityDisplay.from_predictions([True, False], [0.7, 0.6]).ax_
    assert first.figure is not second.figure
    assert not first.spines["top"].get_visible()  # of the style
    for number in set(plt.get_fignums()) - set(before):
        plt.close(number)


def test_displays_of_two_calibrators_on_one_axis(ax):
    logits, y = DRAWN.shifted
    shown = []
    for calibrator in (Identity().fit(*DRAWN.clean), EnergyScaling().fit(*DRAWN.clean)):
        one = plots.ReliabilityDisplay.from_calibrator(calibrator, logits, y, n_bins=10, ax=ax)
        table = reliability_table(y, calibrator.predict_proba(logits), n_bins=10)
        np.testing.assert_array_equal(one.table.count, table.count)
        shown.append(f"{calibrator.name}: ECE {100 * table.ece:.1f} %")
        assert one.ax_ is ax
    assert legend(ax) == shown
    diagonal, first, *_ = ax.lines
    curves = [line for line in ax.lines if line.get_gid()]
    assert len({line.get_color() for line in curves}) == 2
    assert len({line.get_marker() for line in curves}) == 2
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [100, 100]])
    # One axis for the rows of both, high enough for both.
    (behind,) = [other for other in ax.figure.axes if other is not ax]
    counts = [patch.get_data().values for patch in behind.patches]
    assert [c.sum() for c in counts] == [500, 500]
    assert behind.get_ylim()[1] == 3 * max(c.max() for c in counts)
    assert first in curves


def test_a_display_takes_what_the_calibrator_reads(ax):
    calibrator = ContextScaling().fit(*DRAWN.clean)
    around = calibrator.context(DRAWN.shifted.logits)
    shown = plots.ReliabilityDisplay.from_calibrator(
        calibrator, *DRAWN.shifted, context=around, name="in its window", ax=ax
    )
    proba = calibrator.predict_proba(DRAWN.shifted.logits, context=around)
    assert shown.table.ece == reliability_table(DRAWN.shifted.y, proba).ece
    assert legend(ax)[0].startswith("in its window: ECE")


def test_confidence_by_hand(ax):
    proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.95, 0.05]])
    plots.confidence_histogram([0, 1, 1, -1], proba, n_bins=10, ax=ax)
    right, wrong, unknown = (patch.get_data() for patch in ax.patches)
    np.testing.assert_array_equal(right.values - right.baseline, [0] * 6 + [1, 0, 1, 0])
    np.testing.assert_array_equal(wrong.values - wrong.baseline, [0] * 7 + [1, 0, 0])
    np.testing.assert_array_equal(unknown.values - unknown.baseline, [0] * 9 + [1])
    np.testing.assert_array_equal(unknown.values, [0] * 6 + [1, 1, 1, 1])
    mean, accuracy = (line.get_xdata()[0] for line in ax.lines)
    assert mean == pytest.approx(83.75)
    assert accuracy == 50
    assert legend(ax)[:3] == ["correct", "incorrect", "unknown class"]


def test_energy_of_right_wrong_and_unknown_rows(ax):
    logits, y = join(DRAWN.shifted, DRAWN.ood)
    plots.energy_histograms(logits, y, groups="all", ax=ax)
    assert legend(ax) == ["correct", "incorrect", "unknown"]
    right = logits.argmax(1) == y
    score = np.logaddexp.reduce(logits.astype(np.float64), axis=1)
    seen = []
    for other in ((y >= 0) & ~right, y < 0):
        rows = right | other
        seen.append(f"{100 * auroc(right[rows], score[rows]):.1f} %")
    assert ax.get_title() == f"AUROC, correct against incorrect {seen[0]}, unknown {seen[1]}"


def test_forest_of_a_comparison(ax):
    methods = {"none": Identity(), "ts": TemperatureScaling(), "energy": EnergyScaling()}
    found = compare(methods, DRAWN.tuning, DRAWN.shifted, n_boot=40)
    best = found.methods[0]
    plots.forest(found, ax=ax)
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert len(names) == 3
    for place, (name, bar) in enumerate(zip(list(found)[1:], ax.containers, strict=True), 1):
        pair = found[name].behind.interval
        assert bar.lines[0].get_ydata() == place
        assert bar.lines[0].get_xdata() == pytest.approx(100 * (found[name].ece - best.ece))
        (segment,) = bar.lines[2][0].get_segments()
        np.testing.assert_allclose(segment[:, 0], [100 * pair.low, 100 * pair.high])
        sure = bar.lines[0].get_markerfacecolor() != "white"
        assert sure == found[name].behind.is_sure
    with pytest.raises(ValueError, match="the results have no method named 'irm'; they have"):
        plots.forest(found, "irm", ax=ax)
    with pytest.raises(ValueError, match="no metric with intervals named 'size'"):
        plots.forest(found, metric="size", ax=ax)
    bare = compare({"none": Identity()}, DRAWN.tuning, DRAWN.shifted, n_boot=0)
    with pytest.raises(ValueError, match="there are no resampled rows of ece"):
        plots.forest(bare, ax=ax)


def test_forest_of_a_protocol(ax, suites):
    suite = {"vgg": suites["vgg"]}
    found = run_protocol(suite, choose_methods(["identity", "ts"]), metrics=["ece"], n_boot=20)
    plots.forest(found, "identity", ax=ax)
    (bar,) = ax.containers
    expected = found.difference("vgg", "ts", "identity")
    assert bar.lines[0].get_xdata() == pytest.approx(100 * expected.value)
    assert "minus that of Uncal (points)" in ax.get_xlabel()
