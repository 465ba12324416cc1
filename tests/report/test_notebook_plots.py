"""`wildcal._old.plots`: what stands on the axes is what was measured."""

import re
import subprocess
import sys

import numpy as np
import pytest

import wildcal
from wildcal import (
    CALIBRATORS,
    EnergyScaling,
    IsotonicMulticlass,
    TemperatureScaling,
    compare,
    get_calibrator,
    plots,
)
from wildcal._old.core.errors import MissingExtraError, NotFittedError
from wildcal._old.evaluation.protocol import Method, choose_methods, run_protocol
from wildcal._old.metrics import auroc
from wildcal._old.metrics import reliability as reliability_table
from wildcal._old.testing import join, make_suite

DRAWN = make_suite(0, n_tuning=400, n_ood_tuning=100, n_test=500)
METHODS = ("identity", "energy", "hts", "vector")
SHOWN = {"identity": "Uncal", "energy": "Energy", "hts": "hts", "vector": "vector", "mine": "mine"}


@pytest.fixture
def axes(needs):
    needs("matplotlib")
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.fixture(scope="module")
def results(suites):
    """Methods of the paper, of the registry and of a user, tuned with SVHN on both suites."""
    methods = [*choose_methods(METHODS), Method("mine", TemperatureScaling())]
    return run_protocol(suites, methods, ood="svhn", metrics=("ece", "mean_confidence"))


def energies(logits):
    z = np.asarray(logits, np.float64)
    top = z.max(1)
    return top + np.log(np.exp(z - top[:, None]).sum(1))


def test_every_function_is_public_and_returns_the_axes(axes, results, suites):
    ts = TemperatureScaling().fit(*DRAWN.clean)
    proba = ts.predict_proba(DRAWN.clean.logits)
    compared = compare({"ts": TemperatureScaling()}, DRAWN.clean, DRAWN.shifted, n_boot=5)
    calls = {
        "confidence_histogram": (DRAWN.clean.y, proba),
        "corruption_bars": (results, "vgg"),
        "energy_boxes": (suites["vgg"],),
        "energy_histograms": DRAWN.clean,
        "forest": (compared,),
        "ood_confidence_bars": (results, "vgg"),
        "reliability": (DRAWN.clean.y, proba),
        "severity_curves": (results, "vgg"),
        "temperature_curve": (ts, DRAWN.clean.logits),
    }
    assert ["STYLE", "ReliabilityDisplay", *calls] == plots.__all__
    for name, arguments in calls.items():
        axes.clear()
        assert getattr(wildcal._old.plots, name)(*arguments, ax=axes) is axes
        assert axes.get_xlabel()
        assert axes.get_ylabel() or name == "forest"


def test_reliability(axes):
    proba = TemperatureScaling().fit(*DRAWN.clean).predict_proba(DRAWN.shifted.logits)
    table = reliability_table(DRAWN.shifted.y, proba, n_bins=10, level=0.9)
    plots.reliability(DRAWN.shifted.y, proba, n_bins=10, level=0.9, ax=axes)
    diagonal, points = axes.lines[:2]
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [100, 100]])
    filled = table.count > 0
    np.testing.assert_allclose(points.get_xdata(orig=False), 100 * table.confidence[filled])
    np.testing.assert_allclose(points.get_ydata(orig=False), 100 * table.accuracy[filled])
    segments = np.array(axes.collections[0].get_segments())
    np.testing.assert_allclose(segments[:, 0, 1], 100 * table.low[filled])
    np.testing.assert_allclose(segments[:, 1, 1], 100 * table.high[filled])
    (behind,) = [other for other in axes.figure.axes if other is not axes]
    counts, edges, _ = behind.patches[0].get_data()
    np.testing.assert_array_equal(counts, table.count)
    np.testing.assert_allclose(edges, 100 * table.edges)
    assert behind.get_zorder() < axes.get_zorder()
    assert axes.get_title() == f"ECE {100 * table.ece:.1f} %, 500 rows"


def test_reliability_where_all_is_right(axes):
    plots.reliability([True] * 3, [1.0, 1.0, 0.5], n_bins=4, ax=axes)
    assert len(axes.lines[1].get_xdata()) == 2


def test_histograms_of_correct_and_incorrect(axes):
    logits, y = DRAWN.shifted
    plots.energy_histograms(logits, y, ax=axes)
    score, right = energies(logits), logits.argmax(1) == y
    for patch, rows in zip(axes.patches[::2], (right, ~right), strict=True):  # and outlines
        density, edges, _ = patch.get_data()
        counts = density * np.diff(edges) * rows.sum()
        expected, _ = np.histogram(score[rows], edges)
        # The energies are those of float32, so a row may change its bin at an edge.
        assert np.abs(counts - expected).sum() <= 4
        assert counts.sum() == pytest.approx(rows.sum())
    assert axes.get_title() == f"AUROC {100 * auroc(right, score):.1f} %"
    assert _legend(axes) == ["correct", "incorrect"]


def test_histograms_of_known_and_unknown(axes):
    logits, y = join(DRAWN.shifted, DRAWN.ood)
    plots.energy_histograms(logits, y, ax=axes)
    assert axes.get_title() == f"AUROC {100 * auroc(y >= 0, energies(logits)):.1f} %"
    assert _legend(axes) == ["in-distribution", "out-of-distribution"]
    axes.clear()
    plots.energy_histograms(logits, y, groups="correct", ax=axes)
    assert _legend(axes) == ["correct", "incorrect"]
    known = DRAWN.shifted.logits.argmax(1) == DRAWN.shifted.y
    expected = 100 * auroc(known, energies(DRAWN.shifted.logits))
    assert axes.get_title() == f"AUROC {expected:.1f} %"


def test_histogram_of_one_group_has_no_auroc(axes):
    plots.energy_histograms(np.eye(3) * [1.0, 2.0, 3.0], [0, 1, 2], ax=axes)
    assert _legend(axes) == ["correct"]
    assert axes.get_title() == ""


def test_boxes(axes, suites):
    suite = suites["vgg"]
    plots.energy_boxes(suite, ax=axes)
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert ticks == ["0", "1", "2", "3", "4", "5", "SVHN", "Textures"]
    horizontal = {tuple(y) for line in axes.lines if len(set(y := line.get_ydata())) == 1}
    level3 = np.concatenate([s.logits for s in suite.tests("covariate", severity=3)])
    for share in (0.05, 0.5, 0.95):  # the caps and the median
        expected = np.quantile(energies(level3), share)
        assert min(abs(y[0] - expected) for y in horizontal) < 1e-5
    (right,) = [other for other in axes.figure.axes if other is not axes]
    accuracy = right.lines[0].get_ydata()
    clean = suite.split("test")
    assert accuracy[0] == pytest.approx(100 * np.mean(clean.logits.argmax(1) == clean.y))
    assert np.isnan(accuracy[6:]).all()
    assert axes.get_title() == "CIFAR-10, vgg11-half"


def test_boxes_of_a_suite_without_shift(axes, bare):
    plots.energy_boxes(bare, ax=axes)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0"]


def test_severity_curves(axes, results):
    plots.severity_curves(results, "vgg", ax=axes)
    assert _legend(axes) == list(SHOWN.values())
    for line, method in zip(axes.lines, SHOWN, strict=True):
        expected = 100 * np.array(results.average("vgg", method).levels)
        np.testing.assert_allclose(line.get_ydata(), expected)
        np.testing.assert_array_equal(line.get_xdata(), range(6))
    looks = {(line.get_color(), line.get_marker()) for line in axes.lines}
    assert len(looks) == len(SHOWN)
    axes.clear()
    plots.severity_curves(results, "vit", ["mine", "energy"], ax=axes)
    assert _legend(axes) == ["mine", "Energy"]


def test_corruption_bars(axes, results):
    plots.corruption_bars(results, "vgg", severity=3, ax=axes)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["fog", "snow"]
    assert axes.get_xlabel() == "corruption, severity 3"
    for bars, method in zip(axes.containers, SHOWN, strict=True):
        expected = [
            100 * results.record("vgg", method, f"{t}-3", "ece").value for t in ("fog", "snow")
        ]
        np.testing.assert_allclose([bar.get_height() for bar in bars], expected)


def test_ood_confidence_bars(axes, results):
    plots.ood_confidence_bars(results, "vgg", ax=axes)
    record = {m: results.record("vgg", m, "textures-test", "mean_confidence") for m in SHOWN}
    heights = [bar.get_height() for bar in axes.containers[0]]
    np.testing.assert_allclose(heights, [100 * record[m].value for m in SHOWN])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(SHOWN.values())
    assert axes.get_title() == "vgg: textures-test"


@pytest.mark.parametrize("name", ["energy", "hts", "pts", "energy-linear", "ts"])
def test_temperature_curve(axes, name):
    calibrator = get_calibrator(name)
    known = DRAWN.tuning.y >= 0
    seen = slice(None) if calibrator.uses_ood else known
    calibrator.fit(DRAWN.tuning.logits[seen], DRAWN.tuning.y[seen])
    plots.temperature_curve(calibrator, DRAWN.ood.logits, ax=axes)
    (line,) = axes.lines
    order = np.argsort(energies(DRAWN.ood.logits))
    np.testing.assert_allclose(line.get_xdata(), energies(DRAWN.ood.logits)[order], rtol=1e-5)
    expected = calibrator.temperatures(DRAWN.ood.logits)
    assert sorted(line.get_ydata()) == pytest.approx(np.sort(expected))
    assert axes.get_title() == calibrator.title


def test_every_method_has_a_look_of_its_own(needs):
    needs("matplotlib")
    from wildcal._old.report.names import method_title
    from wildcal._old.report.plots import method_styles

    names = [method_title(name) for name in [*CALIBRATORS, "energy-no-ood", "mine", "yours"]]
    styles = method_styles(names)
    assert list(styles) == names
    assert len(set(styles.values())) == len(names)
    # The same whoever stands beside it.
    assert method_styles(["vector"])["vector"] == styles["vector"]


def test_names_are_no_formulas(needs, suites, tmp_path):
    needs("matplotlib")
    from matplotlib.figure import Figure

    hostile = r"_$\broken$"
    suite = {hostile: suites["vgg"]}
    found = run_protocol(suite, [Method(hostile, TemperatureScaling())], ood="svhn")
    figure = Figure()
    grid = figure.subplots(3)
    for axes, draw in zip(
        grid, (plots.severity_curves, plots.corruption_bars, plots.ood_confidence_bars), strict=True
    ):
        draw(found, ax=axes)
    figure.savefig(tmp_path / "x.png")
    assert _legend(grid[0]) == [hostile[1:]]  # an underscore would keep it out of the legend


WRONG = {
    "no suite named": (
        lambda axes, r: plots.severity_curves(r, ax=axes),
        "name one suite; the results have vit, vgg.",
    ),
    "unknown suite": (
        lambda axes, r: plots.corruption_bars(r, "alexnet", ax=axes),
        "the results have no suite named 'alexnet'; they have vit, vgg.",
    ),
    "unknown method": (
        lambda axes, r: plots.severity_curves(r, "vgg", ["irm"], ax=axes),
        "vgg has no results of 'irm': fitted were identity, energy, hts, vector, mine.",
    ),
    "unknown split": (
        lambda axes, r: plots.ood_confidence_bars(r, "vgg", "places", ax=axes),
        "the results have no split of vgg named 'places'; they have textures-test.",
    ),
    "severity": (
        lambda axes, r: plots.corruption_bars(r, "vgg", severity=6, ax=axes),
        "severity must be a whole number from 1 to 5, got 6.",
    ),
    "no temperature": (
        lambda axes, r: plots.temperature_curve(
            IsotonicMulticlass().fit(*DRAWN.clean), DRAWN.ood.logits, ax=axes
        ),
        "irm divides no row by one temperature.",
    ),
    "groups": (
        lambda axes, r: plots.energy_histograms(*DRAWN.clean, groups="both", ax=axes),
        "groups must be one of 'correct', 'known', 'all', got 'both'.",
    ),
    "nothing known": (
        lambda axes, r: plots.energy_histograms(*DRAWN.ood, groups="correct", ax=axes),
        "y must have a label that is not -1, to tell correct from incorrect.",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls(axes, results, case):
    call, message = WRONG[case]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call(axes, results)


def test_unfitted(axes):
    with pytest.raises(NotFittedError):
        plots.temperature_curve(EnergyScaling(), DRAWN.ood.logits, ax=axes)


def test_a_suite_without_severities(axes, bare):
    found = run_protocol({"bare": bare}, choose_methods(["ts"]))
    for draw in (plots.severity_curves, plots.corruption_bars):
        with pytest.raises(ValueError, match="there is nothing to draw: the results of bare lack"):
            draw(found, ax=axes)
    with pytest.raises(ValueError, match="name one split of bare; the results have none."):
        plots.ood_confidence_bars(found, ax=axes)


def test_without_matplotlib(monkeypatch):
    monkeypatch.delitem(sys.modules, "wildcal._old.report.plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match='pip install "wildcal\\[report\\]"'):
        plots.reliability([True, False], [0.5, 0.7])


def test_imports_are_late():
    probe = (
        "import sys, wildcal; assert 'wildcal._old.plots' not in sys.modules; wildcal._old.plots;"
        " assert 'wildcal._old.plots' in sys.modules; assert 'matplotlib' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", probe]).returncode == 0


def _legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]
