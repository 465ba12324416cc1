"""Displays: records, drawings and files."""

import io
import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from wildcal import EnergyScaling, Monitor, TemperatureScaling, compare, evaluate
from wildcal.core.exceptions import InputError
from wildcal.metrics import Estimate, ece
from wildcal.plots import (
    DifferencesDisplay,
    DotsDisplay,
    EnergyDisplay,
    GroupsDisplay,
    HeatmapDisplay,
    HistogramDisplay,
    MonitorDisplay,
    ReliabilityDisplay,
    RiskCoverageDisplay,
    SeverityDisplay,
    TemperatureDisplay,
    grid,
    negative_energy,
)
from wildcal.plots.style import method_styles
from wildcal.testing import make_suite


@pytest.fixture(scope="module")
def suite():
    return make_suite(1000, seed=0)


def known(suite):
    """Return the in-distribution calibration samples."""
    return suite.calibration.logits[:1000], suite.calibration.y[:1000]


@pytest.fixture(scope="module")
def displays(suite):
    """Return one display of each kind."""
    ts, energy = TemperatureScaling().fit(*known(suite)), EnergyScaling().fit(*suite.calibration)
    proba = ts.predict_proba(suite.shifted.logits)
    groups = np.arange(len(proba)) % 3
    monitor, statuses = Monitor(ts), []
    for start in range(0, 1000, 100):
        monitor.update(suite.shifted.logits[start : start + 100])
        statuses.append(monitor.status())
    e = [Estimate(0.02 + i / 50, 0.01 + i / 50, 0.04 + i / 50, 0.01) for i in range(6)]
    rows = {f"type {i}": one for i, one in enumerate(e)}
    return {
        "reliability": ReliabilityDisplay.from_predictions(suite.shifted.y, proba),
        "risk": RiskCoverageDisplay.from_predictions({"ts": (suite.shifted.y, proba)}),
        "severity": SeverityDisplay({"ts": e, "energy": e}, [0.01] * 6),
        "dots": DotsDisplay({"ts": rows, "energy": rows}, show_floor=True),
        "heatmap": HeatmapDisplay(
            {"a": rows, "b": {k: Estimate(-v.value) for k, v in rows.items()}}
        ),
        "histogram": HistogramDisplay.from_groups({"a": proba[:500, 0], "b": proba[500:, 0]}),
        "energy": EnergyDisplay.from_logits({"0": suite.test, "OOD": (suite.ood.logits, None)}),
        "temperature": TemperatureDisplay.from_calibrators({"e": energy}, suite.test.logits),
        "differences": DifferencesDisplay.from_comparison(
            compare(known(suite), suite.test, ["identity", "ts"]), "identity"
        ),
        "groups": GroupsDisplay.from_evaluation(evaluate(suite.shifted.y, proba, groups=groups)),
        "monitor": MonitorDisplay(statuses),
    }


KINDS = (
    *("reliability", "risk", "severity", "dots", "heatmap", "histogram", "energy", "temperature"),
    *("differences", "groups", "monitor"),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_display_has_numbers_and_files(displays, kind, tmp_path):
    display = displays[kind]
    frame = display.frame()
    assert len(frame) == len(display.records()) > 0
    ax = Figure().subplots()
    assert display.plot(ax).ax_ is ax
    for suffix in ("png", "svg", "pdf"):
        paths = [tmp_path / f"{i}.{suffix}" for i in range(2)]
        for path in paths:
            display.save(path)
        first, second = (path.read_bytes() for path in paths)
        assert len(first) > 3000
        assert first == second  # no dates, no random ids
    assert not ax.get_title()


def test_unknown_suffixes(displays, tmp_path):
    with pytest.raises(InputError, match=r"path must end in .png, .svg, .pdf, got .*figure.jpg"):
        displays["dots"].save(tmp_path / "figure.jpg")


def test_reliability_panel(displays):
    """The panel is square, the histogram lies below it with the same range, the ECE is inside."""
    display = displays["reliability"]
    ax = display.plot(Figure(figsize=(4, 5)).subplots()).ax_
    ax.figure.savefig(io.BytesIO())
    box = ax.get_window_extent()
    (below,) = ax.child_axes
    assert box.width == pytest.approx(box.height)
    assert below.get_xlim() == ax.get_xlim() == (0, 1)
    assert below.get_window_extent().y1 < box.y0
    assert ax.get_ylabel() == "Accuracy"
    assert below.get_xlabel() == "Confidence"
    low, high = display.error.interval
    text = f"ECE {100 * display.error.value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
    assert any(t.get_text().startswith(text) for t in ax.texts)


def test_reliability_numbers(displays, suite):
    frame = displays["reliability"].frame()
    bins = frame[frame.curve == "bins"]
    steps = frame[frame.curve == "isotonic"]
    proba = TemperatureScaling().fit(*known(suite)).predict_proba(suite.shifted.logits)
    gap = np.average(abs(bins.accuracy - bins.confidence), weights=bins.n_samples)
    assert gap == pytest.approx(ece(suite.shifted.y, proba))
    assert (np.diff(steps.accuracy) >= 0).all()


def test_two_classes_show_the_probability_of_class_1():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    names = np.where(x[:, 0] + rng.normal(size=500) > 0, "spam", "ham")
    model = LogisticRegression().fit(x, names)
    display = ReliabilityDisplay.from_estimator(model, x, names)
    assert display.labels == ("Predicted probability", "Fraction of positives")
    assert display.name == "LogisticRegression"
    b = display.bins
    assert np.nansum(b.accuracy * b.count) == pytest.approx((names == "spam").sum())


def test_class_index_must_be_a_column():
    with pytest.raises(InputError, match=r"class_index must be a column of proba, got 3"):
        ReliabilityDisplay.from_predictions([0, 1], np.eye(2), class_index=3)


def test_curves_on_one_axis_have_a_legend(displays, suite):
    ax = Figure().subplots()
    for method in (TemperatureScaling(), EnergyScaling()):
        fitted = method.fit(*known(suite))
        ReliabilityDisplay.from_estimator(fitted, *suite.shifted, n_bootstrap=0).plot(ax)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [text.partition(":")[0] for text in texts] == ["ts", "energy"]
    assert len(ax.child_axes) == 1


def test_grid_shares_axes_and_has_one_legend(displays):
    wide = SeverityDisplay({"ts": [Estimate(0.5)] * 6, "energy": [Estimate(0.1)] * 6})
    figure = grid({"$a$": displays["severity"], "b": wide, "c": wide}, n_columns=2, width=7)
    axes = [ax for ax in figure.axes if ax.get_title()]
    assert len({ax.get_ylim() for ax in axes}) == 1
    assert axes[0].get_ylim()[1] > 50
    assert [ax.get_ylabel() for ax in axes] == ["ECE (%)", "", "ECE (%)"]
    assert [bool(ax.get_xlabel()) for ax in axes] == [False, True, True]
    assert len(figure.legends) == 1
    assert not any(ax.get_legend() for ax in axes)
    assert axes[0].title.get_parse_math() is False
    figure.savefig(io.BytesIO())


def test_markers_of_equal_values_are_side_by_side():
    e = [Estimate(0.1, 0.05, 0.2)] * 6
    ax = SeverityDisplay({"ts": e, "ets": e, "energy": e}).plot(Figure().subplots()).ax_
    lines = [container.lines[0] for container in ax.containers]
    starts = [line.get_xdata()[0] for line in lines]
    assert len(set(starts)) == 3
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 3


def test_hollow_markers_of_intervals_that_contain_0():
    row = {"a": Estimate(0.02, 0.01, 0.03), "b": Estimate(0.01, -0.01, 0.02)}
    ax = DotsDisplay({"x": row}, zero=True).plot(Figure().subplots()).ax_
    faces = [c.lines[0].get_markerfacecolor() for c in ax.containers]
    assert [face == "white" for face in faces] == [False, True]


def test_styles_differ_and_do_not_depend_on_the_other_methods():
    names = ["identity", "ts", "ets", "irm", "irova", "irovats", "spline", "energy", "a", "b"]
    styles = method_styles(names)
    for one, other in itertools.combinations(names, 2):
        assert (styles[one].color, styles[one].marker) != (
            styles[other].color,
            styles[other].marker,
        )
    assert method_styles(["Energy"])["Energy"] == styles["energy"]


def test_panels_with_other_rows_keep_their_names():
    one = DotsDisplay({"a": {"fog": Estimate(0.1), "snow": Estimate(0.2)}})
    other = DotsDisplay({"a": {"snow": Estimate(0.1)}})
    for second, is_shown in ((one, False), (other, True)):
        axes = grid({"one": one, "second": second}).axes
        assert axes[1].yaxis.get_tick_params()["labelleft"] == is_shown


@pytest.mark.parametrize(
    ("first", "second"), [([0.5, 0.6], [0.4]), ([0.5, 0.6], []), ([0.5], [np.nextafter(0.5, 0)])]
)
def test_histogram_of_few_or_equal_samples(first, second):
    display = HistogramDisplay.from_groups({"a": first, "b": second})
    assert display.auroc == (1.0 if second else None)
    top = max(density.max() for density in display.densities.values())
    assert display.plot(Figure().subplots()).ax_.get_ylim()[1] > top


def test_intervals_of_some_estimates():
    row = {"a": Estimate(0.02, 0.01, 0.03), "b": Estimate(0.01)}
    ax = DotsDisplay({"x": row}).plot(Figure().subplots()).ax_
    assert ax.containers[0].has_xerr


def test_negative_energy_by_hand():
    assert negative_energy(np.log([[1.0, 2.0]])) == pytest.approx(np.log([3.0]))


def test_worst_group_is_on_top(displays):
    display = displays["groups"]
    values = [display.series["energy"][row].value for row in display.rows[:-1]]
    assert values == sorted(values, reverse=True)
    assert display.rows[-1] == "all samples"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GroupsDisplay.from_evaluation(evaluate([True], [0.9])), "must have groups"),
        (lambda: grid({}), "displays must not be empty"),
    ],
)  # fmt: skip
def test_errors(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_unknown_baseline(suite):
    found = compare(known(suite), suite.test, ["identity", "ts"], n_bootstrap=20)
    with pytest.raises(InputError, match="baseline must be one of"):
        DifferencesDisplay.from_comparison(found, "nothing")
    found = compare(known(suite), suite.test, ["identity", "ts"], n_bootstrap=0)
    with pytest.raises(InputError, match="must have replicates of 'nll'"):
        DifferencesDisplay.from_comparison(found)
