"""The figures of the paper from benchmarks and raw logits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray
from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.methods import PAPER_METHODS
from wildcal.evaluation.splits import ood_set
from wildcal.io.suite import Split
from wildcal.metrics import METRICS, Estimate
from wildcal.metrics.bootstrap import difference, interval
from wildcal.plots.display import Display
from wildcal.plots.energy import EnergyDisplay, HistogramDisplay, negative_energy
from wildcal.plots.shift import DotsDisplay, HeatmapDisplay, SeverityDisplay
from wildcal.plots.style import COLUMN, PAGE, STYLE, grid, new_figure
from wildcal.report.paper.names import is_transformer, method_title
from wildcal.report.paper.study import Study
from wildcal.report.paper.tables import CONDITIONS, EXTRACT, Missing
from wildcal.report.paper.variants import COUNTED, WITHOUT_OOD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OOD_NEEDED = ("a source test split and test samples of SVHN", f"{EXTRACT} --ood svhn")
_SEVERITIES = ("0", "1", "2", "3", "4", "5")


@dataclass(frozen=True)
class PaperFigure:
    """A figure, or one for each suite, with the numbers that are drawn."""

    name: str
    caption: str
    figures: dict[str, "Figure"]
    """By the name of the file without its suffix."""
    records: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = field(default=())


def fig1(study: Study) -> PaperFigure | Missing:
    """Return densities of confidence (top) and negative energy (bottom), a figure for a suite."""
    figures, records = {}, []
    for name, suite in study.suites.items():
        source = _source(suite.test)
        svhn = next((s for s in suite.test if s.is_ood and ood_set(s.name) == "svhn"), None)
        if source is None or svhn is None:
            continue
        data = study.names[name].data
        panels = {}
        for score, title in ((softmax_confidence, "Softmax confidence"),
                             (negative_energy, "Negative energy")):  # fmt: skip
            values, other = score(source.logits), score(svhn.logits)
            right = source.logits.argmax(axis=1) == source.y
            groups = {"correct": values[right], "incorrect": values[~right]}
            panels[f"{title}, {data}"] = HistogramDisplay.from_groups(groups, title)
            groups = {data: values, "SVHN": other}
            panels[f"{title}, {data} and SVHN"] = HistogramDisplay.from_groups(groups, title)
        key = "fig1" if len(study.suites) == 1 else f"fig1-{name}"
        figures[key] = _two_by_two(list(panels.values()))
        records += _records(panels, name)
    if not figures:
        return Missing("fig1", *OOD_NEEDED)
    caption = (
        "Softmax confidence (top) and negative energy (bottom) of correct and incorrect test"
        " samples (left), and of test samples and SVHN (right)."
    )
    return PaperFigure("fig1", caption, figures, tuple(records))


def fig3(study: Study) -> PaperFigure | Missing:
    """Return box plots of the negative energy by severity and of SVHN, with the accuracy."""
    panels: dict[str, Display] = {}
    for name, suite in study.suites.items():
        groups: dict[str, Any] = {}
        for level in _SEVERITIES:
            splits = [s for s in suite.test if _level(s) == level]
            if splits:
                y = np.concatenate([s.y for s in splits])
                groups[level] = (np.concatenate([s.logits for s in splits]), y)
        svhn = [s for s in suite.test if s.is_ood and ood_set(s.name) == "svhn"]
        if len(groups) == len(_SEVERITIES) and svhn:
            groups["SVHN"] = (svhn[0].logits, None)
            panels[str(study.names[name])] = EnergyDisplay.from_logits(groups)
    caption = (
        "Negative energy by severity (boxes: quartiles, whiskers: 5 % and 95 %, corruption types"
        " pooled) and of SVHN; line: accuracy."
    )
    return _grid("fig3", caption, panels, (f"{CONDITIONS}, and SVHN", OOD_NEEDED[1]))


def fig4(study: Study, name: str = "fig4") -> PaperFigure | Missing:
    """Return ECE by severity (figure 4), of vision transformers (figure 7)."""
    methods: Sequence[str] = study.shown_methods
    suites = list(study.suites)
    caption = "ECE by severity, with 95 % intervals and the noise floor."
    if name == "fig7":
        methods = ("identity", *(m for m in study.methods if m not in PAPER_METHODS), "energy")
        suites = [suite for suite in suites if is_transformer(study.suites[suite])]
        caption = "ECE of vision transformers by severity, with 95 % intervals and the noise floor."
    panels: dict[str, Display] = {}
    for suite in suites:
        results = study.results(suite)
        if results is None or not results.has_severities(suite):
            continue
        curves = {
            method_title(m): levels for m in methods if (levels := _levels(results, suite, m))
        }
        if curves:
            average = results.average(suite, "energy", "ece")
            panels[str(study.names[suite])] = SeverityDisplay(curves, average.floors)
    needs = (CONDITIONS, EXTRACT)
    if name == "fig7":
        needs = ("a suite of a vision transformer", "wildcal extract DATA --dataset imagenet"
                 " --network vit_b_32.onnx -o SUITE")  # fmt: skip
    return _grid(name, caption, panels, needs, _pooled_notes(study, suites))


def fig5(study: Study, name: str = "fig5") -> PaperFigure | Missing:
    """Return ECE by corruption at severity 5: dots for one suite, differences for several."""
    methods: Sequence[str] = study.shown_methods
    if name == "fig8":
        methods = (*methods[:-1], WITHOUT_OOD, methods[-1])
    found = {}
    for suite in study.suites:
        results = study.results(suite)
        if results is not None and any(m.severity == 5 for m in results.measurements):
            found[suite] = results
    if not found:
        return Missing(name, "corrupted test splits of severity 5", EXTRACT)
    if len(found) == 1:
        ((suite, results),) = found.items()
        dots = DotsDisplay(_by_corruption(results, suite, methods), show_floor=True)
        figure = grid({str(study.names[suite]): dots}, n_columns=1, width=4.8)
        caption = "ECE by corruption at severity 5, with 95 % intervals and the noise floor."
        return PaperFigure(name, caption, {name: figure}, tuple(_records({suite: dots}, suite)),
                           _pooled_notes(study, [suite]))  # fmt: skip
    columns = {}
    for suite, results in found.items():
        if not study.is_pooled(suite):
            columns[str(study.names[suite])] = _energy_minus_best(results, suite, methods)
    if not columns:
        return Missing(name, "at least 200 samples in each condition", EXTRACT)
    heatmap = HeatmapDisplay(columns, "ECE of Energy minus the lowest other (points)")
    figure = new_figure(PAGE, 0.9 + 0.19 * 20)
    from matplotlib import rc_context

    with rc_context(STYLE):
        heatmap.draw(figure.add_subplot())
    caption = (
        "ECE of Energy minus that of the best other method for each corruption at severity 5;"
        " in brackets: the 95 % interval contains 0."
    )
    return PaperFigure(name, caption, {name: figure}, tuple(_records({"": heatmap}, "")),
                       _pooled_notes(study, list(found), "left out"))  # fmt: skip


def fig6(study: Study, name: str = "fig6") -> PaperFigure | Missing:
    """Return the mean confidence on Textures of methods calibrated with SVHN."""
    methods: Sequence[str] = study.shown_methods
    if name == "fig9":
        methods = (*methods[:-1], WITHOUT_OOD, methods[-1])
    panels: dict[str, Display] = {}
    for suite in study.suites:
        results = study.results(suite, ood="svhn")
        if results is None:
            continue
        series = {}
        for m in methods:
            # The confidences that the authors' ECE leaves out count here.
            fitted = COUNTED if m == "irovats" and study.authors else m
            e = results.estimate(suite, fitted, "textures-test", "ood_mean_confidence")
            if e is not None:
                series[method_title(m)] = {method_title(m): e}
        if series:
            label = "Mean confidence on Textures (%)"
            panels[str(study.names[suite])] = DotsDisplay(series, label)
    caption = "Mean confidence on Textures with 95 % intervals; lower is better."
    needs = ("calibration samples of SVHN and test samples of Textures", f"{EXTRACT} --ood svhn")
    return _grid(name, caption, panels, needs)


def softmax_confidence(logits: NDArray[Any]) -> FloatArray:
    """Return the largest probability of the softmax.

    Examples
    --------
    >>> softmax_confidence(np.array([[0.0, 0.0]]))
    array([0.5])
    """
    z = np.asarray(logits, dtype=np.float64)
    return np.asarray(np.exp(z.max(axis=1) - negative_energy(z)))


def _source(splits: Sequence[Split]) -> Split | None:
    return next((s for s in splits if s.is_source), None)


def _level(split: Split) -> str | None:
    if split.is_source:
        return "0"
    return None if split.severity is None or not split.is_shifted else str(split.severity)


def _levels(results: BenchmarkResults, suite: str, method: str) -> list[Estimate]:
    """Return the mean ECE over types at each severity, with its interval."""
    result = results.suites[suite]
    if method not in [m.name for m in result.methods]:
        return []
    found, row = [], result.index(method)
    for level in _SEVERITIES:
        cells = [
            m for m in results.select(suite=suite, method=method, metric="ece")
            if (m.domain == "source" if level == "0" else str(m.severity) == level)
        ]  # fmt: skip
        if not cells:
            return []
        value = float(np.mean([m.estimate.value for m in cells]))
        low = high = None
        if result.replicates:
            drawn = np.mean([result.replicates["ece", m.split][row] for m in cells], axis=0)
            low, high = interval(METRICS["ece"].kind, value, drawn, result.level)
        found.append(Estimate(value, low, high))
    return found


def _by_corruption(
    results: BenchmarkResults, suite: str, methods: Sequence[str], severity: int = 5
) -> dict[str, dict[str, Estimate]]:
    """Return the ECE of each corruption by method; corruptions in the order of the first's ECE."""
    found = {}
    for method in methods:
        cells = results.select(suite=suite, method=method, metric="ece", severity=severity)
        cells = sorted(cells, key=lambda m: str(m.corruption))
        if cells:
            found[method_title(method)] = {
                str(m.corruption).replace("_", " "): m.estimate for m in cells
            }
    first = next(iter(found.values()))
    order = sorted(first, key=lambda kind: -first[kind].value)
    return {m: {kind: cells[kind] for kind in order} for m, cells in found.items()}


def _energy_minus_best(
    results: BenchmarkResults, suite: str, methods: Sequence[str]
) -> dict[str, Estimate]:
    """Return by corruption at severity 5 the ECE of energy minus the lowest of other methods."""
    result = results.suites[suite]
    fitted = [m.name for m in result.methods if m.name in methods]
    others = [m for m in fitted if m not in ("energy", WITHOUT_OOD)]
    found = {}
    for m in results.select(suite=suite, method="energy", metric="ece", severity=5):
        values = {
            o: e.value for o in others
            if (e := results.estimate(suite, o, m.split, "ece")) is not None
        }  # fmt: skip
        best = min(values, key=lambda name: values[name])
        gap = m.estimate.value - values[best]
        drawn = None
        if result.replicates:
            both = result.replicates["ece", m.split]
            drawn = both[result.index("energy")] - both[result.index(best)]
        d = difference(gap, drawn, result.level)
        found[str(m.corruption).replace("_", " ")] = Estimate(d.value, d.low, d.high)
    return dict(sorted(found.items()))


def _grid(
    name: str, caption: str, panels: dict[str, Display], needs: tuple[str, str],
    notes: tuple[str, ...] = (),
) -> PaperFigure | Missing:  # fmt: skip
    if not panels:
        return Missing(name, *needs)
    n = len(panels)
    width = COLUMN if n == 1 else PAGE
    figure = grid(panels, n_columns=1 if n == 1 else 2 if n in (2, 4) else 3, width=width)
    return PaperFigure(name, caption, {name: figure}, tuple(_records(panels, None)), notes)


def _two_by_two(panels: Sequence[HistogramDisplay]) -> "Figure":
    """Draw two densities of the confidence above two of the energy."""
    from matplotlib import rc_context

    figure = new_figure(PAGE * 0.8, 3.9)
    with rc_context(STYLE):
        axes = figure.subplots(2, 2)
        for ax, panel in zip(axes.flat, panels, strict=True):
            panel.draw(ax)
        for ax in axes[:, 1]:
            ax.set_ylabel("")
    return figure


def _records(panels: Any, suite: str | None) -> list[dict[str, Any]]:
    return [
        {"panel": title if suite is None else f"{suite} {title}".strip(), **record}
        for title, display in panels.items()
        for record in display.records()
    ]


def _pooled_notes(study: Study, suites: Sequence[str], what: str = "pooled") -> tuple[str, ...]:
    names = [str(study.names[s]) for s in suites if study.is_pooled(s)]
    if not names:
        return ()
    if what == "pooled":
        return (f"Corruption types of a severity are pooled (few samples): {'; '.join(names)}.",)
    return (f"Left out, with fewer than 200 samples in a condition: {'; '.join(names)}.",)
