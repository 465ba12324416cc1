"""Write the parts of the documentation that are made: numbers, lists of methods, the picture.

    python docs/make.py            rewrite them
    python docs/make.py --check    exit with 1 if any of them is not what the code produces

Numbers come from csv files, which benchmarks and studies write; nothing is measured here.

In a Markdown file, what stands between `<!-- made: NAME -->` and `<!-- end -->` is written here.
"""

import csv
import re
import sys
from collections.abc import Callable, Container, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import softmax

from wildcal import (
    CALIBRATORS,
    Calibrator,
    Identity,
    Suite,
    WindowCalibrator,
    get_calibrator,
    suites,
)
from wildcal.io.suite import Split

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))
from benchmarks import tables  # noqa: E402
from benchmarks.leaderboard import report  # noqa: E402
from benchmarks.tables import markdown  # noqa: E402


def shipped(
    name: str, n_words: int, methods: Container[str] = (), skip: Container[str] = ()
) -> str:
    """Return a table of benchmarks/studies/shipped.py without intervals.

    Of all methods, or of some, and without the columns of `skip`.
    """
    with (ROOT / "benchmarks" / "studies" / "shipped" / f"{name}.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if not methods or row["method"] in methods]
    shown = [{k: v for k, v in row.items() if k not in skip} for row in rows]
    lines = [[re.sub(r" \(.*? to .*?\)", "", cell) for cell in row.values()] for row in shown]
    return markdown(list(shown[0]), lines, n_words)


def accuracy(splits: Iterable[Split]) -> str:
    """Return the accuracy of the logits on all samples of splits, in per cent."""
    right = np.concatenate([split.logits.argmax(axis=1) == split.y for split in splits])
    return f"{100 * right.mean():.1f}"


def severities(suite: Suite) -> dict[str, str]:
    """Return the accuracy at each severity; without severities, on each shifted domain."""
    groups: dict[str, list[Split]] = {}
    for split in suite.test:
        if split.is_shifted:
            groups.setdefault(str(split.severity or split.domain), []).append(split)
    return {name: accuracy(groups[name]) for name in sorted(groups)}


def cifar10_suites() -> str:
    """Return the installed networks of CIFAR-10 with their accuracy."""
    lines = []
    for name in suites.list("cifar10"):
        suite = suites.load(name)
        test = suite.split("test")
        size = f"{suite.model['n_parameters'] / 1e6:.2f} M"
        confidence = f"{100 * softmax(test.logits, axis=1).max(axis=1).mean():.1f}"
        cells = [accuracy([test]), *severities(suite).values(), confidence]
        lines.append([f"`{name}`", suite.model["family"], size, *cells])
    header = ["suite", "family", "parameters", "clean", *"12345", "clean confidence"]
    return markdown(header, lines, 2)


def other_suites() -> str:
    """Return the installed suites of other data with their accuracy, clean and shifted."""
    lines = []
    for name in sorted({*suites.list()} - {*suites.list("cifar10")}):
        suite = suites.load(name)
        shifted = ", ".join(f"{key}: {value}" for key, value in severities(suite).items())
        n_samples = f"{sum(split.n_samples for split in suite.splits):,}"
        cells = [str(suite.n_classes), n_samples, accuracy([suite.split("test")])]
        lines.append([f"`{name}`", shifted, *cells])
    header = ["suite", "accuracy by severity or shift", "classes", "samples", "clean"]
    return markdown(header, lines, 2)


def picture() -> str:
    """Return the reliability curves of benchmarks/studies/shipped.py as SVG."""
    rows, side = tables.read("studies/shipped/reliability"), 155
    marks = []
    for i, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
        own = [row for row in rows if row["method"] == method]
        title = "uncalibrated" if method == Identity.name else method
        x0, floor = 20 + 178 * i, 30 + side
        marks += [
            f'<line x1="{x0}" y1="{floor}" x2="{x0 + side}" y2="30" class="ideal"/>',
            f'<rect x="{x0}" y="30" width="{side}" height="{side}" class="frame"/>',
            f'<text x="{x0 + side / 2}" y="20" class="title">{title}:'
            f" ECE {100 * float(own[0]['ece']):.1f} %</text>",
        ]
        points = []
        for row in own:
            x = x0 + side * float(row["confidence"])
            y, top, bottom = (floor - side * float(row[k]) for k in ("accuracy", "high", "low"))
            points.append(f"{x:.1f},{y:.1f}")
            marks += [
                f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" class="bar"/>',
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="dot"/>',
            ]
        marks.append(f'<polyline points="{" ".join(points)}" class="curve"/>')
    style = (
        ".frame{fill:none;stroke:#888}.ideal{stroke:#888;stroke-dasharray:4 4}"
        ".curve{fill:none;stroke:#c2410c;stroke-width:2}"
        ".bar{stroke:#c2410c;stroke-opacity:.45;stroke-width:2}.dot{fill:#c2410c}"
        "text{font:13px sans-serif;fill:#777;text-anchor:middle}.title{font-weight:600}"
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 730 230" role="img"'
        ' aria-label="Reliability curves of corrupted images before and after calibration">\n'
        f"<style>{style}</style>\n" + "\n".join(marks) + "\n"
        '<text x="365" y="212">confidence (across) against accuracy (up): ResNet-20 on CIFAR-10'
        f" under {rows[0]['corruptions']} corruptions that no fit has used</text>\n</svg>\n"
    )


def methods() -> str:
    """Return every method with its class, promises and requirements."""
    lines = []
    for name in CALIBRATORS:
        method = get_calibrator(name)
        preserved = "yes" if method.preserves_accuracy else "no"
        row = [f"`{name}`", f"`{type(method).__name__}`", method.title, method.reference]
        lines.append([*row, preserved, ", ".join(_needs(method))])
    header = ["name", "class", "method", "reference", "accuracy preserved", "needs"]
    return markdown(header, lines, 6)


def _needs(method: Calibrator) -> list[str]:
    """Return what a method uses besides X and y."""
    needs = []
    if method.requires_raw_logits:
        needs.append("raw logits")
    if method.uses_ood:
        needs.append("OOD samples, if any")
    if "knn_distances" in method.requires:
        needs.append("k-nearest-neighbor distances")
    if isinstance(method, WindowCalibrator):
        needs.append("domains, a window" if method.name == "window" else "a window")
    return needs


def networks() -> str:
    """Return every network with its number of parameters."""
    import torch

    from wildcal.vision.networks import NETWORKS

    found = []
    for name, network in NETWORKS.items():
        with torch.device("meta"):  # shapes only, no memory
            model = network.make(n_classes=10)
        found.append(f"`{name}` {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M")
    return ", ".join(found) + "."


WINDOWS = ("source", "whole", "32", "dirichlet")
MADE: dict[str, Callable[[], str]] = {
    "accuracy-estimators": tables.estimators,
    "accuracy-errors": tables.estimator_errors,
    "accuracy-intervals": tables.interval_coverage,
    "by-severity": partial(
        shipped, "severity", 2, methods=("`identity`", "`ts`", "`energy`"), skip=("1", "2", "4")
    ),
    "corruptions": tables.corruptions,
    "methods": methods,
    "monitor": tables.monitoring,
    "networks": networks,
    "other-suites": other_suites,
    "paper-table": partial(shipped, "paper", 1, skip=("data used",)),
    "peers": tables.peers,
    "serve-speed": tables.serving,
    "window-natural": partial(tables.window_methods, WINDOWS[:2], "natural"),
    "window-cifar10": partial(tables.window_methods, WINDOWS, "suites", "cifar10-"),
    "window-large": partial(tables.window_methods, WINDOWS[1::2], "suites", "cifar100", "imagenet"),
    "shipped-suites": cifar10_suites,
    **report.MADE,
}


def fill(text: str) -> str:
    """Return a Markdown text with its computed parts written anew."""
    pattern = r"(<!-- made: ([\w-]+) -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda m: f"{m[1]}{MADE[m[2]]()}\n{m[3]}", text, flags=re.DOTALL)


def outdated() -> dict[Path, str]:
    """Return what pages and pictures should say, those that say something else."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    wanted = {page: fill(page.read_text("utf-8")) for page in pages}
    wanted[ROOT / "docs" / "images" / "reliability.svg"] = picture()
    return {
        page: text
        for page, text in wanted.items()
        if not page.exists() or page.read_text("utf-8") != text
    }


def main() -> None:
    """Rewrite, or compare."""
    found = outdated()
    if "--check" in sys.argv:
        for page in found:
            print(f"{page.relative_to(ROOT)} is not what the code produces; run docs/make.py")
        sys.exit(bool(found))
    for page, text in found.items():
        page.write_text(text, "utf-8")
        print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
