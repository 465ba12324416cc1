"""Write the parts of the documentation that are computed: numbers, help texts, the picture.

    python docs/make.py            rewrite them
    python docs/make.py --check    exit with 1 if any of them is not what the code produces

In a Markdown file, what stands between `<!-- made: NAME -->` and `<!-- end -->` is written here.
"""

import csv
import re
import sys
import warnings
from functools import cache
from pathlib import Path

import click
import numpy as np
from click.testing import CliRunner

from wildcal import CALIBRATORS, ContextScaling, DensityAware, Identity, Stream, suites
from wildcal.calibrators import WINDOW_METHODS, make_calibrator
from wildcal.cli.demo import FIRST, demo_splits
from wildcal.cli.main import cli
from wildcal.core.calibrator import Calibrator
from wildcal.core.errors import CalibrationWarning
from wildcal.evaluation import METRICS, Evaluation, environments, evaluate_calibrator
from wildcal.evaluation.protocol import Results, choose_methods, run_protocol
from wildcal.evaluation.suite_table import suite_table
from wildcal.io.suite.summary import grouped, summarize
from wildcal.metrics import TopLabelAccumulator
from wildcal.tables import Cell, Column, Table, markdown, number
from wildcal.testing import make_suite

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "studies"))
import accuracy_tables  # noqa: E402
import context_tables  # noqa: E402
import density_tables  # noqa: E402
import harm_tables  # noqa: E402

SHOWN = ("accuracy", "mean_confidence", "ece", "noise_floor", "nll", "brier", "ood_mean_confidence")
METHODS = ("identity", "ts", "energy")
PICTURED = (*METHODS, "context")


@cache
def evaluations() -> dict[str, dict[str, Evaluation]]:
    """Return what `make demo` computes in its second part: split -> method -> evaluation."""
    rows = demo_splits(suites.load(FIRST))

    def join(*names: str) -> tuple[np.ndarray, np.ndarray]:
        return tuple(np.concatenate([rows[name][i] for name in names]) for i in (0, 1))

    fitted = {
        name: CALIBRATORS[name]().fit(*join(*(["val", "svhn"] if name == "energy" else ["val"])))
        for name in METHODS
    }
    splits = {"clean": join("clean"), "shifted": join("shifted", "textures")}
    return {
        split: {name: evaluate_calibrator(c, *data) for name, c in fitted.items()}
        for split, data in splits.items()
    }


@cache
def protocol() -> Results:
    """Return what `make demo` computes in its first part."""
    shipped = {name: suites.load(name) for name in suites.names()}
    return run_protocol(
        shipped,
        choose_methods(),
        metrics=("accuracy", "mean_confidence", "ece", "ood_auroc"),
        n_boot=200,
    )


def paper_table() -> str:
    """Return the average ECE of every method on the shipped suites, the best in bold."""
    results = protocol()
    names = list(results.suites)
    methods = {m.name: m.knew.words() for m in results.ranked(names[0])}
    rows = []
    for method, knew in methods.items():
        cells = []
        for name in names:
            average = results.average(name, method)
            cell = number(average.value, average.interval)
            best = results.ranked(name)[0].name == method
            cells.append(Cell(str(cell), rank=1 if best else None))
        shown = "uncalibrated" if method == "identity" else f"`{method}`"
        rows.append((Cell(shown), Cell(knew), *cells))
    words = (Column("method", is_number=False), Column("knew", is_number=False))
    table = Table("", (*words, *map(Column, names)), tuple(rows))
    return markdown.render(table, marked=True)


def by_severity() -> str:
    """Return the ECE at each severity, and what becomes of unseen classes, for every suite."""
    results = protocol()
    lines = [
        "| network | method | clean | 1 | 2 | 3 | 4 | 5 | confidence on Textures | AUROC |",
        "|---|---|" + "--:|" * 8,
    ]
    for name in results.suites:
        table = suite_table(results, name)
        levels = [table.heads.index(str(level)) for level in range(6)]
        others = [i for i, head in enumerate(table.heads) if head.endswith("textures-test")]
        for row in table.rows:
            cells = [row[i].text for i in levels]
            cells += [number(row[i].value, digits=1).text for i in others]
            lines.append(f"| {name} | `{row[0].text}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def shipped_suites() -> str:
    """Return the networks of the shipped suites with their accuracy as a Markdown table."""
    lines = [
        "| suite | family | parameters | clean | 1 | 2 | 3 | 4 | 5 | clean confidence |",
        "|---|---|" + "--:|" * 8,
    ]
    for name in suites.names():
        suite = suites.load(name)
        tests = [s for s in grouped(summarize(suite)) if s.role == "test" and s.accuracy]
        clean = next(s for s in tests if s.shift == "none")
        levels = [s for s in tests if s.severity]
        cells = [f"{100 * s.accuracy:.1f}" for s in [clean, *levels]]
        size = f"{suite.network['n_parameters'] / 1e6:.2f} M"
        lines.append(
            f"| `{name}` | {suite.network['family']} | {size} | {' | '.join(cells)}"
            f" | {100 * clean.mean_confidence:.1f} |"
        )
    return "\n".join(lines)


def demo_table() -> str:
    """Return the main numbers of `make demo` as a Markdown table."""
    results = evaluations()
    lines = ["| rows | metric | uncalibrated | `ts` | `energy` |", "|---|---|--:|--:|--:|"]
    for split, by_method in results.items():
        for metric in SHOWN:
            found = [by_method[m].estimates.get(metric) for m in METHODS]
            if found[0] is None:
                continue
            percent = METRICS[metric].percent
            digits = 1 if percent else 3
            texts = [
                str(number(e.value, e.interval, percent=percent, digits=digits)) for e in found
            ]
            lines.append(f"| {split} | {METRICS[metric].title.strip()} | {' | '.join(texts)} |")
    return "\n".join(lines)


def commands() -> str:
    """Return the help of every command."""
    parts = []
    lines = ["wildcal"]
    for name, command in sorted(cli.commands.items()):
        lines.append(f"wildcal {name}")
        if isinstance(command, click.Group):
            lines += [f"wildcal {name} {inner}" for inner in sorted(command.commands)]
    for words in lines:
        asked = [*words.split()[1:], "--help"]
        text = CliRunner().invoke(cli, asked, prog_name="wildcal", terminal_width=90).output
        parts.append(f"## {words}\n\n```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts)


def picture() -> str:
    """Return reliability curves under corruptions that no method was tuned on, as SVG."""
    suite, side = suites.load(FIRST), 155
    found = run_protocol({FIRST: suite}, choose_methods(PICTURED), observe=True).suites[FIRST]
    methods, kept = found.methods, found.observed.cells
    tuned_on = {split.corruption for split in suite.tune("covariate")}
    cells = [s for s in suite.tests("covariate", severity=3) if s.corruption not in tuned_on]
    seen = [TopLabelAccumulator() for _ in methods]
    for split in cells:
        for table, new in zip(
            seen, kept[f"{split.corruption.replace('_', ' ')}, severity 3"], strict=True
        ):
            table.merge(new)
    panels = []
    for i, (method, table) in enumerate(zip(methods, seen, strict=True)):
        curve = table.reliability()
        title = "uncalibrated" if method.name == Identity.name else method.name
        x0, floor = 20 + 178 * i, 30 + side
        marks = [
            f'<line x1="{x0}" y1="{floor}" x2="{x0 + side}" y2="30" class="ideal"/>',
            f'<rect x="{x0}" y="30" width="{side}" height="{side}" class="frame"/>',
            f'<text x="{x0 + side / 2}" y="20" class="title">{title}:'
            f" ECE {100 * table.ece():.1f} %</text>",
        ]
        points = []
        for confidence, accuracy, low, high, count in zip(
            curve.confidence, curve.accuracy, curve.low, curve.high, curve.count, strict=True
        ):
            if count < 20:
                continue
            x = x0 + side * confidence
            y, top, bottom = (floor - side * v for v in (accuracy, high, low))
            points.append(f"{x:.1f},{y:.1f}")
            marks.append(
                f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" class="bar"/>'
            )
            marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="dot"/>')
        marks.append(f'<polyline points="{" ".join(points)}" class="curve"/>')
        panels.append("\n".join(marks))
    style = (
        ".frame{fill:none;stroke:#888}.ideal{stroke:#888;stroke-dasharray:4 4}"
        ".curve{fill:none;stroke:#c2410c;stroke-width:2}"
        ".bar{stroke:#c2410c;stroke-opacity:.45;stroke-width:2}.dot{fill:#c2410c}"
        "text{font:13px sans-serif;fill:#777;text-anchor:middle}.title{font-weight:600}"
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 730 230" role="img"'
        ' aria-label="Reliability curves of corrupted images before and after calibration">\n'
        f"<style>{style}</style>\n" + "\n".join(panels) + "\n"
        '<text x="365" y="212">confidence (across) against accuracy (up): ResNet-20 on CIFAR-10'
        f" under {len(cells)} corruptions, none of them tuned on</text>\n</svg>\n"
    )


def stream_table() -> str:
    """Return what streams say of windows of 256 rows, by severity, on corruptions not tuned on."""
    windows: dict[int, list[list[float]]] = {}
    for name in suites.names():
        suite = suites.load(name)
        rows = environments(suite)
        fitted = ContextScaling().fit(rows.logits, rows.y, environment=rows.environment)
        seen = {split.corruption for split in suite.tune("covariate")}
        for split in suite.splits:
            if (
                split.role != "test"
                or split.shift == "semantic"
                or split.corruption in seen - {None}
            ):
                continue
            read = Stream(fitted).read(split.logits)
            right = read.pred == split.y
            for end in range(256, len(right) + 1, 256):
                accuracy, last = right[end - 256 : end].mean(), end - 1
                held = read.accuracy_low[last] <= accuracy <= read.accuracy_high[last]
                error = abs(read.accuracy[last] - accuracy)
                windows.setdefault(split.severity or 0, []).append([error, held, read.alarm[last]])
    means = {level: 100 * np.mean(values, axis=0) for level, values in sorted(windows.items())}
    heads = ["clean", *(str(level) for level in means if level)]
    lines = [f"| severity | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for i, label in enumerate(("error, in points", "interval held, in %", "alarm, in %")):
        lines.append(f"| {label} | {' | '.join(f'{m[i]:.1f}' for m in means.values())} |")
    return "\n".join(lines)


NUMBER = re.compile(r"\d+\.\d+")


def same(old: str, new: str) -> bool:
    """Return whether two texts agree, up to white space and one unit in a number's last digit.

    Processors round the exponential differently in the last bit, which can tip a printed digit.
    """
    if [" ".join(t.split()) for t in NUMBER.split(old)] != [
        " ".join(t.split()) for t in NUMBER.split(new)
    ]:
        return False
    pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
    return all(abs(float(a) - float(b)) < 1.5 * 10.0 ** -len(b.split(".")[1]) for a, b in pairs)


def methods() -> str:
    """Return every method as a row of a Markdown table."""
    lines = [
        "| name | class | method | also uses | keeps the class | stores | reference |",
        "|---|---|---|---|---|---|---|",
    ]
    match = make_calibrator("match+cot")
    others = [make_calibrator(n) for n in WINDOW_METHODS if not n.startswith("match+")]
    for kind in (*(make() for make in CALIBRATORS.values()), DensityAware(), match, *others):
        cells = (
            "`match+ESTIMATOR`" if kind is match else f"`{kind.name}`",
            f"`{type(kind).__name__}`",
            "one temperature matched to an estimated accuracy" if kind is match else kind.title,
            _also_uses(kind),
            "yes" if kind.preserves_accuracy else "no",
            kind.stores,
            kind.reference,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _also_uses(kind: Calibrator) -> str:
    """Return what a method can use beside labeled rows."""
    if "distances" in kind.reads:
        return "distances to training rows"
    used = (
        ("OOD rows", kind.accepts_ood),
        ("environments", "environment" in kind.reads),
        ("a test window", "window" in kind.reads),
    )
    return ", ".join(words for words, is_used in used if is_used)


def study(split: str) -> str:
    """Return one half of the csv of benchmarks/studies/choose.py as a Markdown table."""
    with (ROOT / "benchmarks" / "studies" / "choose.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == split]
    sizes = list(dict.fromkeys((row["classes"], row["tuning_rows"]) for row in rows))
    header = [f"K = {k}, n = {int(n):,}" for k, n in sizes]
    lines = [f"| method | {' | '.join(header)} |", "|---|" + "--:|" * len(sizes)]
    found = {(row["method"], row["classes"], row["tuning_rows"]): row for row in rows}
    best = {
        size: min(float(row["excess_ece"]) for key, row in found.items() if key[1:] == size)
        for size in sizes
    }
    for name in [name for name in CALIBRATORS if any(key[0] == name for key in found)]:
        cells = []
        for size in sizes:
            row = found.get((name, *size))
            if row is None:
                cells.append("")
                continue
            half = (float(row["high"]) - float(row["low"])) / 2
            text = f"{float(row['excess_ece']):.1f} ± {half:.1f}"
            cells.append(f"**{text}**" if float(row["excess_ece"]) == best[size] else text)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


@cache
def context_rows() -> list[context_tables.Row]:
    """Return the csv of benchmarks/studies/context.py."""
    return context_tables.read()


def speed() -> str:
    """Return the csv of `make bench` as a Markdown table."""
    with (ROOT / "benchmarks" / "speed.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [
        "| job | K | 1 thread, s | all threads, s | extra MB | limit | peer | peer, s | faster |"
        " less memory |",
        "|---|--:|--:|--:|--:|--:|---|--:|--:|--:|",
    ]

    def number(text: str, form: str, unit: str = "") -> str:
        return f"{float(text):{form}}{unit}" if text else ""

    for row in rows:
        cells = (
            row["job"],
            row["K"],
            number(row["1 thread s"], ".4f"),
            number(row["all threads s"], ".4f"),
            number(row["extra MB"], ".1f"),
            number(row["limit"], ".2f"),
            row["peer"],
            number(row["peer s"], ".2f"),
            number(row["faster"], ".1f", "x"),
            number(row["memory"], ".1f", "x"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def protocol_speed() -> str:
    """Return the stages of benchmarks/protocol.py as a Markdown table."""
    lines = [
        "| stage | our threads | plain, s | ours, s | faster | lowest | highest |",
        "|---|" + "--:|" * 6,
    ]
    with (ROOT / "benchmarks" / "protocol.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            seconds = [f"{float(row[key]):.3f}" for key in ("plain s", "ours s")]
            ratios = [f"{float(row[key]):.1f}x" for key in ("faster", "lowest", "highest")]
            cells = (row["stage"], row["threads"], *seconds, *ratios)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def protocol_agrees() -> str:
    """Return how far apart the two paths of benchmarks/protocol.py are as a Markdown table."""
    with (ROOT / "benchmarks" / "protocol-agree.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = " | ".join(f"`{row['method']}`" for row in rows)
    gaps = " | ".join(f"{100 * float(row['largest difference']):.4f}" for row in rows)
    return f"| | {names} |\n|---|{'--:|' * len(rows)}\n| largest difference of a cell, % | {gaps} |"


def networks() -> str:
    """Return every network with its size as a row of a Markdown table."""
    import torch
    from torch import nn

    from wildcal.vision.networks import NETWORKS

    lines = ["| name | family | parameters | multiplications |", "|---|---|--:|--:|"]
    for name, network in NETWORKS.items():
        with torch.device("meta"):  # shapes only, no memory
            model = network.make(n_classes=10).eval()
        counts: list[int] = []

        def count(module: nn.Module, _: object, out: torch.Tensor, counts: list[int] = counts):
            if isinstance(module, nn.Conv2d | nn.Linear):
                counts.append(out.numel() * module.weight[0].numel())

        for module in model.modules():
            module.register_forward_hook(count)
        model(torch.zeros(1, 3, 32, 32, device="meta"))
        size = f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M"
        lines.append(f"| `{name}` | {network.family} | {size} | {sum(counts) / 1e9:.2f} G |")
    return "\n".join(lines)


def sklearn_digits() -> str:
    """Return the csv of benchmarks/studies/sklearn_digits.py as a Markdown table."""
    with (ROOT / "benchmarks" / "studies" / "sklearn_digits.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [
        "| estimator | method | accuracy | ECE | its floor | ECE, noisy | confidence on nines |",
        "|---|---|" + "--:|" * 5,
    ]
    found = {(row["estimator"], row["method"], row["what"]): row for row in rows}
    for estimator, method in dict.fromkeys(key[:2] for key in found):
        cells = []
        for what in ("accuracy", "ece", "floor", "noisy ece", "nines"):
            row = found[estimator, method, what]
            half = (float(row["high"]) - float(row["low"])) / 2
            cells.append(f"{float(row['mean']):.1f} ± {half:.1f}")
        lines.append(f"| `{estimator}` | {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def sklearn_checks() -> str:
    """Return the checks of scikit-learn that the wrapper fails by design."""
    from wildcal.interop.sklearn.estimator_checks import EXPECTED_FAILED_CHECKS

    lines = ["| when | check | why |", "|---|---|---|"]
    for when, checks in EXPECTED_FAILED_CHECKS.items():
        lines += [f"| {when} | `{check}` | {why} |" for check, why in checks.items()]
    return "\n".join(lines)


def exports() -> str:
    """Return what the file of every method takes and gives as a Markdown table."""
    from wildcal.interop.maps import map_of

    suite = make_suite(0, n_classes=3, n_tuning=300, n_ood_tuning=30, n_test=10)
    known = suite.tuning.y >= 0
    lines = ["| method | inputs | outputs |", "|---|---|---|"]
    for name, kind in CALIBRATORS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            fitted = map_of(kind().fit(suite.tuning.logits[known], suite.tuning.y[known]))
        cells = (", ".join(f"`{n}`" for n in names) for names in (fitted.reads, fitted.outputs))
        takes, gives = cells
        lines.append(f"| `{name}` | `logits`{', ' if takes else ''}{takes} | {gives} |")
    return "\n".join(lines)


def interop_speed() -> str:
    """Return the csv of benchmarks/interop.py as a Markdown table."""
    with (ROOT / "benchmarks" / "interop.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    backends = list(dict.fromkeys(row["backend"] for row in rows))
    head = " | ".join(f"{b}, µs" for b in backends)
    ratios = " | ".join(f"{b} / {backends[0]}" for b in backends[1:])
    lines = [
        f"| rows x K | method | {head} | {ratios} |",
        "|---|---|" + "--:|" * (2 * len(backends) - 1),
    ]
    jobs = {}
    for row in rows:
        jobs.setdefault((int(row["rows"]), row["K"], row["method"]), []).append(row)
    for (n, k, method), found in jobs.items():
        times = " | ".join(f"{float(row['microseconds']):,.0f}" for row in found)
        shares = " | ".join(f"{float(row['times NumPy']):.1f}x" for row in found[1:])
        lines.append(f"| {n:,} x {k} | `{method}` | {times} | {shares} |")
    return "\n".join(lines)


MADE = {
    "exports": exports,
    "interop-speed": interop_speed,
    "sklearn-digits": sklearn_digits,
    "sklearn-checks": sklearn_checks,
    "networks": networks,
    "speed": speed,
    "protocol-speed": protocol_speed,
    "protocol-agrees": protocol_agrees,
    "demo-table": demo_table,
    "paper-table": paper_table,
    "by-severity": by_severity,
    "shipped-suites": shipped_suites,
    "commands": commands,
    "methods": methods,
    "stream": stream_table,
    "choose-clean": lambda: study("clean"),
    "choose-shifted": lambda: study("shifted"),
    "accuracy-estimators": accuracy_tables.estimators,
    "accuracy-whole": lambda: accuracy_tables.whole(accuracy_tables.read()),
    "accuracy-windows": lambda: accuracy_tables.windows(accuracy_tables.read()),
    "accuracy-coverage": lambda: accuracy_tables.windows(accuracy_tables.read(), "coverage"),
    "accuracy-warned": lambda: accuracy_tables.warned(accuracy_tables.read()),
    "density": lambda: density_tables.averages(density_tables.read()),
    "density-ends": lambda: density_tables.ends(density_tables.read()),
    "harm": lambda: harm_tables.harm(harm_tables.read()),
    "harm-ece": lambda: harm_tables.errors(harm_tables.read()),
    "harm-hindsight": lambda: harm_tables.hindsight(harm_tables.read()),
    "harm-models": lambda: harm_tables.models(harm_tables.read()),
    "context-networks": lambda: context_tables.per_network(context_rows()),
    "context-numbers": lambda: context_tables.numbers(context_rows()),
    "context-transforms": lambda: context_tables.numbers(context_rows(), context_tables.BOTH),
    "context-every": lambda: context_tables.every_network(context_rows()),
    "context-windows": lambda: context_tables.windows(context_rows()),
    "context-wanted": lambda: context_tables.wanted(context_rows()),
    "context-forms": lambda: context_tables.leave_out(context_rows()),
}


def fill(text: str) -> str:
    """Return a Markdown text with its computed parts written anew."""
    pattern = r"(<!-- made: ([\w-]+) -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda m: f"{m[1]}{MADE[m[2]]()}\n{m[3]}", text, flags=re.DOTALL)


def main() -> None:
    """Rewrite, or compare."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    wanted = {page: fill(page.read_text("utf-8")) for page in pages}
    wanted[ROOT / "docs" / "images" / "reliability.svg"] = picture()
    wanted[ROOT / "docs" / "images" / "context.svg"] = context_tables.figure(context_rows())
    old = [
        page
        for page, text in wanted.items()
        if not page.exists() or not same(page.read_text("utf-8"), text)
    ]
    if "--check" in sys.argv:
        for page in old:
            print(f"{page.relative_to(ROOT)} is not what the code produces; run docs/make.py")
        sys.exit(bool(old))
    for page in old:
        page.write_text(wanted[page], "utf-8")
        print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
