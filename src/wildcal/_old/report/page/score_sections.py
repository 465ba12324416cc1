"""Sections about single rows: energy and confidence of the raw logits, temperatures."""

from wildcal._old.evaluation.protocol.observe import Scores
from wildcal._old.evaluation.protocol.tuning import ood_set
from wildcal._old.report.model import Panel
from wildcal._old.report.names import plain
from wildcal._old.report.page.charts import box_chart, histogram_chart, temperature_chart
from wildcal._old.report.page.content import Content, charts, figure, note, section
from wildcal._old.report.score_figures import box_panel, score_panels


def energy_section(content: Content) -> str:
    """Return histograms of confidence and energy, and energy by severity."""
    figures = [
        figure(panel.title.replace("\n", ": "), histogram_chart(panel))
        for panel in _histograms(content)
    ]
    groups = _groups(content)
    if len(groups) > 1:
        boxes = box_panel("", groups)
        caption = "Boxes: quartiles; lines: 5 % to 95 %; corruption types pooled."
        figures.append(figure("Negative energy and accuracy", box_chart(boxes), caption))
    if not figures:
        return ""
    text = (
        "Before any calibration. AUROC: how often a row of the first group has the higher score;"
        " 50 % is chance."
    )
    return section("What the raw logits tell", note(text), charts(*figures))


def _groups(content: Content) -> dict[str, list[Scores]]:
    """Return the splits of each severity, then each other set by its name."""
    groups: dict[str, list[Scores]] = {}
    for scores in content.seen.scores.values():
        split = scores.split
        other = plain(ood_set(split.name))
        other = f"set {other}" if other.isdigit() else other
        name = "0" if split.shift == "none" else other if not split.corruption else split.severity
        groups.setdefault(str(name), []).append(scores)
    return groups


def _histograms(content: Content) -> list[Panel]:
    """Return confidence and energy: right against wrong answers, known against other classes."""
    clean = content.seen.clean
    if clean is None:
        return []
    panels = score_panels("Clean rows", clean, None, ("correct", "incorrect"))
    for name, other in content.seen.ood.items():
        called = plain(ood_set(name))
        panels += score_panels(f"Clean rows and {called}", clean, other, ("clean rows", called))
    return panels


def temperature_section(content: Content) -> str:
    """Return temperature against energy of the methods that have one for every row."""
    kept = content.seen.temperatures
    curves = {m.name: kept[m.name] for m in content.order if m.name in kept}
    if not curves:
        return ""
    clean = content.seen.clean
    chart = temperature_chart(curves, content.marks, None if clean is None else -clean.energy)
    caption = (
        "Lines: medians of rows of about that energy, from all test splits; bands: 5 % to 95 %."
        " Shaded: nine tenths of the clean rows. Above 1, a method makes the network less sure."
    )
    text = "Methods that divide the logits of every row by a temperature."
    title = "Temperature against negative energy"
    return section(
        "Temperatures",
        note(text),
        content.marks.legend(curves),
        charts(figure(title, chart, caption)),
    )
