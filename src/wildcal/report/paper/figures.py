"""The figures of the paper from benchmarks and raw logits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wildcal.evaluation.benchmark_results import BenchmarkResults
from wildcal.evaluation.methods import PAPER_METHODS
from wildcal.metrics import METRICS, Estimate
from wildcal.metrics.bootstrap import interval
from wildcal.plots.display import Display
from wildcal.plots.energy import EnergyDisplay, HistogramDisplay, negative_energy
from wildcal.plots.shift import DotsDisplay, HeatmapDisplay, SeverityDisplay
from wildcal.plots.style import COLUMN, PAGE, context, grid, new_figure
from wildcal.report.paper.names import is_transformer, method_title
from wildcal.report.paper.study import (
    PooledSplit,
    Study,
    is_pooled,
    margin_of_energy,
    mean_over,
    softmax_confidence,
    source_split,
    split_names,
    splits_at,
    svhn_split,
)
from wildcal.report.paper.tables import CONDITIONS, EXTRACT, TEXTURES, TRANSFORMER, Missing
from wildcal.report.paper.variants import COUNTED, WITHOUT_OOD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVHN = ("a source test split and test samples of SVHN", f"{EXTRACT} --ood svhn")
_SEVERITIES = range(6)


@dataclass(frozen=True)
class PaperFigure:
    """A figure, or one for each suite, with the numbers that are drawn."""

    name: str
    caption: str
    figures: dict[str, "Figure"]
    """By the name of the file without its suffix."""
    records: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()


def fig1(study: Study, name: str = "fig1") -> PaperFigure | Missing:
    """Return densities of confidence (top) and negative energy (bottom), a figure for a suite."""
    figures = {}
    records: list[dict[str, Any]] = []
    for suite_name, suite in study.suites.items():
        source, svhn = source_split(suite), svhn_split(suite)
        if source is None or svhn is None:
            continue
        data = study.names[suite_name].data
        right = source.logits.argmax(axis=1) == source.y
        panels = {}
        for score, title in ((softmax_confidence, "Softmax confidence"),
                             (negative_energy, "Negative energy")):  # fmt: skip
            values = score(source.logits)
            groups = {"correct": values[right], "incorrect": values[~right]}
            panels[f"{title}, {data}"] = HistogramDisplay.from_groups(groups, title)
            groups = {data: values, "SVHN": score(svhn.logits)}
            panels[f"{title}, {data} and SVHN"] = HistogramDisplay.from_groups(groups, title)
        figure = new_figure(PAGE * 0.8, 3.9)
        with context():
            axes = figure.subplots(2, 2)
            for ax, panel in zip(axes.flat, panels.values(), strict=True):
                panel.draw(ax)
            for ax in axes[:, 1]:
                ax.set_ylabel("")
        figures[name if len(study.suites) == 1 else f"{name}-{suite_name}"] = figure
        records += _records({f"{suite_name} {key}": panel for key, panel in panels.items()})
    if not figures:
        return Missing(name, *_SVHN)
    caption = (
        "Softmax confidence (top) and negative energy (bottom) of correct and incorrect test"
        " samples (left), and of test samples and SVHN (right)."
    )
    return PaperFigure(name, caption, figures, tuple(records))


def fig3(study: Study, name: str = "fig3") -> PaperFigure | Missing:
    """Return box plots of the negative energy by severity and of SVHN, with the accuracy."""
    panels = {}
    for suite_name, suite in study.suites.items():
        levels = [splits_at(suite, level) for level in _SEVERITIES]
        svhn = svhn_split(suite)
        if svhn is not None and all(levels):
            groups: dict[str, Any] = {}
            for level, splits in enumerate(levels):
                pooled = PooledSplit(splits)
                groups[str(level)] = (pooled.logits, pooled.y)
            groups["SVHN"] = (svhn.logits, None)
            panels[str(study.names[suite_name])] = EnergyDisplay.from_logits(groups)
    caption = (
        "Negative energy by severity (boxes: quartiles, whiskers: 5 % and 95 %, corruption types"
        " pooled) and of SVHN; line: accuracy."
    )
    return _grid(name, caption, panels, (f"{CONDITIONS}, and SVHN", _SVHN[1]))


def fig4(study: Study, name: str = "fig4") -> PaperFigure | Missing:
    """Return ECE by severity (figure 4), of vision transformers (figure 7)."""
    is_fig7 = name == "fig7"
    methods: Sequence[str] = study.shown_methods
    if is_fig7:
        methods = [m for m in methods if m in ("identity", "energy") or m not in PAPER_METHODS]
    panels, shown = {}, []
    for suite, results in study.each(only=is_transformer if is_fig7 else None):
        if results.has_severities(suite):
            curves = {
                method_title(m): [_mean_ece(results, suite, m, level) for level in _SEVERITIES]
                for m in methods
                if m not in results.suites[suite].failed
            }
            floors = results.average(suite, "energy", "ece").floors
            panels[str(study.names[suite])] = SeverityDisplay(curves, floors)
            shown.append(suite)
    networks = " of vision transformers" if is_fig7 else ""
    caption = f"ECE{networks} by severity, with 95 % intervals and the noise floor."
    needs = TRANSFORMER if is_fig7 else (CONDITIONS, EXTRACT)
    return _grid(name, caption, panels, needs, _pooled_note(study, shown))


def fig5(study: Study, name: str = "fig5") -> PaperFigure | Missing:
    """Return ECE by corruption at severity 5: dots for one suite, differences for several."""
    methods = study.with_and_without_ood if name == "fig8" else study.shown_methods
    found = {name: r for name, r in study.each() if r.select(suite=name, metric="ece", severity=5)}
    if not found:
        return Missing(name, "corrupted test splits of severity 5", EXTRACT)
    if len(found) == 1:
        ((suite, results),) = found.items()
        dots = DotsDisplay(_by_corruption(results, suite, methods), show_floor=True)
        figure = grid({str(study.names[suite]): dots}, n_columns=1, width=4.8)
        caption = "ECE by corruption at severity 5, with 95 % intervals and the noise floor."
        note = _pooled_note(study, [suite])
        return PaperFigure(name, caption, {name: figure}, _records({suite: dots}), note)
    columns = {
        str(study.names[suite]): _energy_minus_best(results, suite, methods)
        for suite, results in found.items()
        if not is_pooled(study.suites[suite])
    }
    if not columns:
        return Missing(name, "at least 200 samples in each condition", EXTRACT)
    heatmap = HeatmapDisplay(columns, "ECE of Energy minus the lowest other (points)")
    figure = grid({"": heatmap}, height=4.35)
    caption = (
        "ECE of Energy minus that of the best other method for each corruption at severity 5;"
        " in brackets: the 95 % interval contains 0."
    )
    left_out = study.pooled_names(found)
    note = (f"Left out, with fewer than 200 samples in a condition: {left_out}.",) * bool(left_out)
    return PaperFigure(name, caption, {name: figure}, _records({"": heatmap}), note)


def fig6(study: Study, name: str = "fig6") -> PaperFigure | Missing:
    """Return the mean confidence on Textures of methods calibrated with SVHN."""
    panels = {}
    for suite, results in study.each(ood="svhn"):
        series = {}
        for m in study.with_and_without_ood if name == "fig9" else study.shown_methods:
            # The confidences that the authors' ECE leaves out count here.
            fitted = COUNTED if m == "irovats" and study.authors else m
            e = results.estimate(suite, fitted, "textures-test", "ood_mean_confidence")
            if e is not None:
                series[method_title(m)] = {method_title(m): e}
        if series:
            panels[str(study.names[suite])] = DotsDisplay(series, "Mean confidence on Textures (%)")
    caption = "Mean confidence on Textures with 95 % intervals; lower is better."
    return _grid(name, caption, panels, TEXTURES)


def _mean_ece(results: BenchmarkResults, suite: str, method: str, severity: int) -> Estimate:
    """Return the mean ECE over the types of a severity, with its interval."""
    value, drawn = mean_over(results, suite, method, "ece", split_names(results, suite, severity))
    if drawn is None:
        return Estimate(value)
    return Estimate(value, *interval(METRICS["ece"], value, drawn, 0.95))


def _by_corruption(
    results: BenchmarkResults, suite: str, methods: Sequence[str]
) -> dict[str, dict[str, Estimate]]:
    """Return the ECE of each corruption by method; corruptions in the order of the first's ECE."""
    found = {}
    for method in methods:
        cells = results.select(suite=suite, method=method, metric="ece", severity=5)
        if cells:
            found[method_title(method)] = {_kind(m.corruption): m.estimate for m in cells}
    first = next(iter(found.values()))
    order = sorted(sorted(first), key=lambda kind: -first[kind].value)
    return {m: {kind: cells[kind] for kind in order} for m, cells in found.items()}


def _energy_minus_best(
    results: BenchmarkResults, suite: str, methods: Sequence[str]
) -> dict[str, Estimate]:
    """Return by corruption at severity 5 the ECE of energy minus the lowest of other methods."""
    fitted = [m.name for m in results.suites[suite].methods]
    others = [m for m in methods if m in fitted and m not in ("energy", WITHOUT_OOD)]
    found = {}
    for m in results.select(suite=suite, method="energy", metric="ece", severity=5):
        d = margin_of_energy(results, suite, [m.split], others)
        ends = () if d.interval is None else (-d.interval[1], -d.interval[0])
        found[_kind(m.corruption)] = Estimate(-d.value, *ends)
    return dict(sorted(found.items()))


def _kind(corruption: str | None) -> str:
    return str(corruption).replace("_", " ")


def _grid(
    name: str, caption: str, panels: Mapping[str, Display], needs: tuple[str, str],
    notes: tuple[str, ...] = (),
) -> PaperFigure | Missing:  # fmt: skip
    if not panels:
        return Missing(name, *needs)
    n = len(panels)
    width = COLUMN if n == 1 else PAGE
    figure = grid(panels, n_columns=1 if n == 1 else 2 if n in (2, 4) else 3, width=width)
    return PaperFigure(name, caption, {name: figure}, _records(panels), notes)


def _records(panels: Mapping[str, Display]) -> tuple[dict[str, Any], ...]:
    return tuple({"panel": title, **r} for title, d in panels.items() for r in d.records())


def _pooled_note(study: Study, suites: Sequence[str]) -> tuple[str, ...]:
    names = study.pooled_names(suites)
    return (f"Corruption types of a severity are pooled (few samples): {names}.",) if names else ()


FIGURES: Final = {
    **{"fig1": fig1, "fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6},
    **{"fig7": fig4, "fig8": fig5, "fig9": fig6},
}
"""Functions by the name of the figure, which they are called with."""
