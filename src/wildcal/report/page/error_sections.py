"""Sections about calibration error: the table, by shift, reliability, other classes."""

import numpy as np

from wildcal.evaluation.protocol.results import LEVELS
from wildcal.evaluation.protocol.tuning import ood_set
from wildcal.report.names import plain
from wildcal.report.page.charts import bar_chart, severity_chart, type_chart
from wildcal.report.page.content import Content, charts, figure, note, section
from wildcal.report.page.marks import shown
from wildcal.report.page.markup import script_json, tag, words
from wildcal.report.page.observe import CLEAN
from wildcal.report.page.reliability import diagram, reliability_data
from wildcal.report.page.results_table import results_table, semantic_sets
from wildcal.report.page.verdict import interval_level


def methods_section(content: Content) -> str:
    """Return the table of all methods."""
    interval = interval_level(content.results, content.name)
    resampled = (
        f", with its {interval} bootstrap interval over images, which allows for the upward bias of"
        " the ECE, so a value may lie above its own. Behind: the difference on the same resampled"
        " images"
    )
    return section(
        "Methods",
        results_table(content.results, content.name, content.order),
        note(
            "ECE in percent, least average first; press a head to sort. Clean: the clean test rows."
            " Severity 1 to 5: the mean over corruption types. Average: the mean of these"
            f" six{resampled if interval else ''}. Noise floor: the ECE that a perfectly calibrated"
            " model would show on as many rows. Confidence: the mean on images of other classes,"
            " where lower is better; AUROC: how well it tells them from clean rows."
        ),
    )


def shift_section(content: Content) -> str:
    """Return ECE by severity and by corruption; nothing where no corrupted cell was measured."""
    cells = [r for r in content.results.select(suite=content.name, metric="ece") if r.corruption]
    if not cells:
        return ""
    curves = {
        method.name: [100 * v for v in content.results.average(content.name, method.name).levels]
        for method in content.order
    }
    chart = severity_chart(curves, _floor(content), content.marks)
    caption = f"Dashed: noise floor of {shown(content.order[0].name)}."
    return section(
        "Calibration error under shift",
        content.marks.legend(),
        charts(figure("ECE by severity", chart, caption), _by_type(content)),
    )


def _floor(content: Content) -> list[float]:
    """Return the noise floor of the best method by severity, in percent."""
    best = content.order[0].name
    mine = content.results.select(suite=content.name, method=best, metric="ece")
    groups = [[r for r in mine if r.shift == "none"]]
    groups += [[r for r in mine if r.corruption and r.severity == level] for level in LEVELS]
    floors = [[r.noise_floor for r in group if r.noise_floor is not None] for group in groups]
    return [100 * float(np.mean(values)) if values else float("nan") for values in floors]


def _by_type(content: Content) -> str:
    cells = {
        (record.method, str(record.corruption), record.severity): 100 * record.value
        for record in content.results.select(suite=content.name, metric="ece")
        if record.corruption
    }
    kinds = list(dict.fromkeys(kind for _, kind, _ in cells))
    levels = sorted({level for _, _, level in cells if level is not None}, reverse=True)
    pictures = []
    for level in levels:
        values = {
            method.name: [cells.get((method.name, kind, level), float("nan")) for kind in kinds]
            for method in content.order
        }
        pictures.append(tag("div", type_chart(kinds, values, max(cells.values()), content.marks)))
    options = [tag("option", words(f"severity {level}")) for level in levels]
    return tag(
        "figure",
        tag("h3", "ECE by corruption"),
        tag("label", "At ", tag("select", *options, data_shows="by-type")),
        tag("div", *pictures, id="by-type"),
    )


def reliability_section(content: Content) -> str:
    """Return two reliability diagrams, each for any method, both for any condition."""
    tables, methods = content.seen.tables, [method.name for method in content.order]
    if not tables:
        return ""
    conditions = sorted(tables, key=lambda name: (name != CLEAN, "all corruptions" not in name))
    middle = next((name for name in conditions if name.startswith("severity 3")), conditions[0])
    options = [
        tag("option", words(name), selected="" if name == middle else None) for name in conditions
    ]
    text = (
        "Dots: share of right answers among rows of about that confidence, with 95 % Wilson"
        " intervals. On the dashed line confidence means what it says; below it the method is too"
        " sure. Orange: the gap. Blue: how many rows."
    )
    if content.seen.pooled_only:
        text += " There are too many combinations for one page: only pooled corruptions are here."
    before = "identity" if "identity" in methods else methods[-1]
    return section(
        "Reliability",
        tag("p", tag("label", "Condition ", tag("select", *options, id="condition"))),
        charts(
            diagram(content.n_bins, methods, before, "before"),
            diagram(content.n_bins, methods, methods[0], "after"),
        ),
        note(text),
        tag("noscript", note("A script draws these diagrams, and scripts are switched off.")),
        tag(
            "script",
            script_json(reliability_data(tables, conditions)),
            type="application/json",
            id="reliability-data",
        ),
    )


def strangers_section(content: Content) -> str:
    """Return the mean confidence on images of other classes."""
    figures = []
    for split in semantic_sets(content.results, content.name):
        found = content.results.select(suite=content.name, split=split, metric="mean_confidence")
        by_method = {record.method: 100 * record.value for record in found}
        values = {m.name: by_method[m.name] for m in content.order if m.name in by_method}
        chart = bar_chart(values, "mean confidence (%)", content.marks)
        figures.append(figure(f"Mean confidence on {plain(ood_set(split))}", chart))
    if not figures:
        return ""
    text = "No answer is right here: lower is better. The set that tuned the methods is not shown."
    return section("Images of other classes", note(text), charts(*figures))
