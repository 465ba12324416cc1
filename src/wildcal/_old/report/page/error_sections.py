"""Sections about calibration error: the table, by shift, reliability, other classes."""

from dataclasses import replace

import numpy as np

from wildcal._old.evaluation.protocol.observe import CLEAN
from wildcal._old.evaluation.protocol.tuning import ood_set
from wildcal._old.evaluation.results import LEVELS
from wildcal._old.evaluation.suite_table import caption, suite_table
from wildcal._old.report.names import plain
from wildcal._old.report.page.charts import bar_chart, severity_chart, type_chart
from wildcal._old.report.page.content import Content, charts, figure, note, section
from wildcal._old.report.page.marks import shown
from wildcal._old.report.page.markup import script_json, tag, words
from wildcal._old.report.page.reliability import diagram, reliability_data
from wildcal._old.tables.html import render_sortable
from wildcal._old.tables.model import Table

_MOST_TABLES_BINS = 60_000


def methods_section(content: Content) -> str:
    """Return the table of all methods."""
    table = _spelled_out(suite_table(content.results, content.name, called=shown, ends=True))
    notes = caption(content.results, content.name)
    text = (
        " Press a head to sort. Confidence: the mean on rows of other classes, where lower is"
        " better; AUROC: how well it tells them from clean rows."
    )
    return section(
        "Methods",
        render_sortable(table, [method.name for method in content.order]),
        note(" ".join(notes) + text),
    )


def _spelled_out(table: Table) -> Table:
    """Return the table with heads in words, and without the small bars: a chart stands below."""
    heads = {"0": "clean"} | {str(level): f"severity {level}" for level in LEVELS}
    kept = [i for i, c in enumerate(table.columns) if c.head != "by severity"]
    columns = [table.columns[i] for i in kept]
    return replace(
        table,
        columns=tuple(replace(c, head=heads.get(c.head, c.head)) for c in columns),
        rows=tuple(tuple(row[i] for i in kept) for row in table.rows),
    )


def shift_section(content: Content) -> str:
    """Return ECE by severity and by corruption, or by named shift; nothing without shifts."""
    if not content.results.has_levels(content.name):
        return _named_shifts(content)
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


def _named_shifts(content: Content) -> str:
    """Return ECE on clean rows and on each shift; nothing where there is no shift."""
    names = list(content.results.conditions(content.name))
    if len(names) == 1:
        return ""
    values = {
        method.name: [100 * v for v in content.results.average(content.name, method.name).levels]
        for method in content.order
    }
    largest = max((v for found in values.values() for v in found if not np.isnan(v)), default=1.0)
    chart = type_chart(names, values, largest, content.marks)
    legend = content.marks.legend()
    return section("Calibration error under shift", legend, charts(figure("ECE by shift", chart)))


def _floor(content: Content) -> list[float]:
    """Return the noise floor of the best method by severity, in percent."""
    best = content.order[0].name
    mine = content.results.select(suite=content.name, method=best, metric="ece")
    groups = [[r for r in mine if r.shift == "none"]]
    groups += [[r for r in mine if r.corruption and r.severity == level] for level in LEVELS]
    floors = [[r.floor for r in group if r.floor is not None] for group in groups]
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
    tables, methods = dict(content.seen.tables), [method.name for method in content.order]
    if not tables:
        return ""
    cells = content.seen.cells
    # Tables of every method and condition must leave the page small enough to send.
    pooled_only = (len(tables) + len(cells)) * len(methods) * content.n_bins > _MOST_TABLES_BINS
    tables |= {} if pooled_only else cells
    tables = {name: [found[i] for i in content.places] for name, found in tables.items()}
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
    if pooled_only:
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


def ood_section(content: Content) -> str:
    """Return the mean confidence on rows of other classes."""
    figures = []
    for split in content.results.ood_splits(content.name):
        found = content.results.select(suite=content.name, split=split, metric="mean_confidence")
        by_method = {record.method: 100 * record.value for record in found}
        values = {m.name: by_method[m.name] for m in content.order if m.name in by_method}
        chart = bar_chart(values, "mean confidence (%)", content.marks)
        figures.append(figure(f"Mean confidence on {plain(ood_set(split))}", chart))
    if not figures:
        return ""
    text = "No answer is right here: lower is better. The set that tuned the methods is not shown."
    title = "Rows of other classes"
    return section(title, note(text), charts(*figures))
