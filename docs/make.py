"""Write the parts of the documentation that are made: numbers, help texts, the picture.

    python docs/make.py            rewrite them
    python docs/make.py --check    exit with 1 if any of them is not what the code produces

Numbers come from csv files, which benchmarks and studies write; nothing is measured here.

In a Markdown file, what stands between `<!-- made: NAME -->` and `<!-- end -->` is written here.
"""

import csv
import json
import re
import statistics
import sys
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import click
from click.testing import CliRunner

from wildcal import CALIBRATORS, DensityAware, Identity, suites
from wildcal.calibrators import WINDOW_METHODS, make_calibrator
from wildcal.cli.main import cli
from wildcal.core.calibrator import Calibrator
from wildcal.core.errors import CalibrationWarning
from wildcal.io.suite.summary import grouped, summarize
from wildcal.testing import make_suite

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "studies"))
sys.path.append(str(ROOT))
import accuracy_tables  # noqa: E402
import alarm_tables  # noqa: E402
import claims_tables  # noqa: E402
import context_belief_tables  # noqa: E402
import context_many_tables  # noqa: E402
import context_tables  # noqa: E402
import density_tables  # noqa: E402
import harm_tables  # noqa: E402
import peer_tables  # noqa: E402
import pseudocal_tables  # noqa: E402
import scale_tables  # noqa: E402
import streams_tables  # noqa: E402
import window_tables  # noqa: E402
from benchmarks.campaign import tables as reliability_tables  # noqa: E402

BENCHMARKS = ROOT / "benchmarks"


def lines_of(path: str) -> list[list[str]]:
    """Return the cells of a csv, the heads first."""
    with (BENCHMARKS / path).open(newline="") as file:
        return list(csv.reader(file))


def rows_of(path: str) -> list[dict[str, str]]:
    """Return the rows of a csv by head."""
    heads, *lines = lines_of(path)
    return [dict(zip(heads, line, strict=True)) for line in lines]


def table(lines: Iterable[Sequence[str]], n_words: int = 1) -> str:
    """Return lines of cells, the heads first, as a Markdown table; numbers follow some words."""
    heads, *rows = (f"| {' | '.join(line)} |" for line in lines)
    n_numbers = heads.count(" | ") + 1 - n_words
    return "\n".join([heads, "|" + "---|" * n_words + "--:|" * n_numbers, *rows])


def shipped(name: str, n_words: int = 2) -> str:
    """Return a table of benchmarks/studies/shipped.py."""
    return table(lines_of(f"studies/shipped/{name}.csv"), n_words)


def shipped_suites() -> str:
    """Return the networks of the shipped suites with their accuracy as a Markdown table."""
    lines = [
        "| suite | family | parameters | clean | 1 | 2 | 3 | 4 | 5 | clean confidence |",
        "|---|---|" + "--:|" * 8,
    ]
    for name in suites.names("cifar10"):
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


def other_suites() -> str:
    """Return what the shipped suites of other data hold, and the accuracy under each shift."""
    lines = [
        "| suite | classes | rows | tested on | accuracy | mean confidence |",
        "|---|--:|--:|---|--:|--:|",
    ]
    for name in (n for n in suites.names() if n not in suites.names("cifar10")):
        suite = suites.load(name)
        tests = [s for s in grouped(summarize(suite)) if s.role == "test"]
        shown = [f"`{name}`", str(suite.n_classes), f"{sum(s.rows for s in suite.splits):,}"]
        for s in tests:
            accuracy = "-" if s.accuracy is None else f"{100 * s.accuracy:.1f}"
            lines.append(
                f"| {' | '.join(shown)} | {s.name} | {accuracy} | {100 * s.mean_confidence:.1f} |"
            )
            shown = ["", "", ""]
    return "\n".join(lines)


PUBLISHED = {"resnet18": 69.8, "vit-tiny-16": 75.5, "efficientnet-lite0": 75.1}
"""Accuracy on all 50,000 validation images, in percent, where the weights come from."""


def imagenet_accuracy() -> str:
    """Return how often the shipped ImageNet networks are right on clean images."""
    lines = [["network", "clean images", "right", "standard error", "mean confidence", "published"]]
    for name in suites.names("imagenet"):
        suite = suites.load(name)
        clean = [s for s in summarize(suite) if s.shift == "none"]
        rows = sum(s.rows for s in clean)
        right = sum(s.rows * s.accuracy for s in clean) / rows
        sure = sum(s.rows * s.mean_confidence for s in clean) / rows
        shown = (right, (right * (1 - right) / rows) ** 0.5, sure)
        numbers = [f"{100 * value:.1f}" for value in shown]
        published = str(PUBLISHED[suite.network["name"]])
        lines.append([f"`{name}`", f"{rows:,}", *numbers, published])
    return table(lines)


def imagenet_cost() -> str:
    """Return what `wildcal extract` costs on ImageNet, by benchmarks/imagenet_cost.py."""
    heads = ["network", "read", "corrupt", "run", "together", "minutes for 20,000", "memory, MB"]
    lines = [heads]
    for row in rows_of("imagenet_cost.csv"):
        parts = [float(row[f"{part}_ms"]) for part in ("read", "corruption", "network")]
        minutes = 20_000 * sum(parts) / 60_000
        shown = [f"{ms:.1f}" for ms in (*parts, sum(parts))]
        lines.append([row["network"], *shown, f"{minutes:.0f}", row["memory_mb"]])
    return table(lines)


def corruption_strength() -> str:
    """Return how much corruptions change pictures, ours and the public package's."""
    rows = rows_of("corruption_strength.csv")
    lines = [["corruption", *"12345"]]
    for kind in dict.fromkeys(row["corruption"] for row in rows):
        mine = [row for row in rows if row["corruption"] == kind]
        pairs = [f"{float(r['wildcal']):.1f} / {float(r['imagecorruptions']):.1f}" for r in mine]
        lines.append([f"`{kind}`", *pairs])
    return table(lines)


def commands() -> str:
    """Return the help of every command."""
    parts = []
    lines = ["wildcal"]
    context = click.Context(cli)
    for name in sorted(cli.list_commands(context)):  # asked one by one: they are imported late
        lines.append(f"wildcal {name}")
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            inner = sorted(command.list_commands(click.Context(command)))
            lines += [f"wildcal {name} {word}" for word in inner]
    for words in lines:
        asked = [*words.split()[1:], "--help"]
        text = CliRunner().invoke(cli, asked, prog_name="wildcal", terminal_width=90).output
        parts.append(f"## {words}\n\n```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts)


def picture() -> str:
    """Return the reliability curves of benchmarks/studies/shipped.py as SVG."""
    rows, side = rows_of("studies/shipped/reliability.csv"), 155
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
        f" under {rows[0]['corruptions']} corruptions, none of them tuned on</text>\n</svg>\n"
    )


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
        # `context` accepts them, as its first form did, and leaves them out.
        ("OOD rows", kind.accepts_ood and kind.name != "context"),
        ("environments", "environment" in kind.reads),
        ("a test window", "window" in kind.reads),
    )
    return ", ".join(words for words, is_used in used if is_used)


def study(split: str) -> str:
    """Return one half of the csv of benchmarks/studies/choose.py as a Markdown table."""
    rows = [row for row in rows_of("studies/choose.csv") if row["split"] == split]
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
    rows = rows_of("speed.csv")
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


def corruptions() -> str:
    """Return what benchmarks/corruptions.py measured against the old package."""
    rows = rows_of("corruptions.csv")
    lines = [["corruption", "ms an image", "`imagecorruptions`, ms", "faster"]]
    lines += [[f"`{row['type']}`", row["ms"], row["peer"], f"{row['faster']}x"] for row in rows]
    mean = statistics.geometric_mean(float(row["faster"]) for row in rows)
    return table([*lines, ["geometric mean", "", "", f"{mean:.1f}x"]])


def startup() -> str:
    """Return what benchmarks/startup.py measured."""
    lines = [["in a fresh interpreter", "s"]]
    lines += [[f"`{row['what']}`", row["seconds"]] for row in rows_of("startup.csv")]
    return table(lines)


def steps() -> str:
    """Return what benchmarks/steps.py measured."""
    rows = rows_of("steps.csv")
    classes = list(dict.fromkeys(row["classes"] for row in rows))
    found = {(row["step"], row["classes"]): row["ns"] for row in rows}
    names = list(dict.fromkeys(step for step, _ in found if step != "exp in float64"))
    lines = [["step, ns an entry", *(f"K = {int(k):,}" for k in classes)]]
    lines += [[step, *(found.get((step, k), "") for k in classes)] for step in names]
    sums = (sum(float(found.get((step, k), 0)) for step in names) for k in classes)
    lines.append(["all of them", *(f"{total:.2f}" for total in sums)])
    lines.append(["exp in float64", *(found["exp in float64", k] for k in classes)])
    return table(lines)


def linear() -> str:
    """Return what benchmarks/linear.py measured."""
    lines = [["fit", "rows", "ns an entry", "of it the system", "passes", "ns an entry and pass"]]
    for row in rows_of("linear.csv"):
        numbers = [row[key] for key in ("ns", "system", "passes", "ns a pass")]
        lines.append([f"`{row['method']}`", f"{int(row['rows']):,}", *numbers])
    return table(lines)


def protocol_speed() -> str:
    """Return the stages of benchmarks/protocol.py as a Markdown table."""
    lines = [("stage", "our threads", "plain, s", "ours, s", "faster", "lowest", "highest")]
    for row in rows_of("protocol.csv"):
        seconds = [f"{float(row[key]):.3f}" for key in ("plain s", "ours s")]
        ratios = [f"{float(row[key]):.1f}x" for key in ("faster", "lowest", "highest")]
        lines.append((row["stage"], row["threads"], *seconds, *ratios))
    return table(lines)


def protocol_floor() -> str:
    """Return what benchmarks/protocol_floor.py measured, and the sum."""
    rows = rows_of("protocol-floor.csv")
    lines = [["bare call", "ms"], *([row["step"], row["ms"]] for row in rows)]
    lines.append(["all of them", f"{sum(float(row['ms']) for row in rows):.0f}"])
    return table(lines)


def protocol_agrees() -> str:
    """Return how far apart the two paths of benchmarks/protocol.py are as a Markdown table."""
    rows = rows_of("protocol-agree.csv")
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
    rows = rows_of("studies/sklearn_digits.csv")
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
    rows = rows_of("interop.csv")
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


def serve_speed() -> str:
    """Return what benchmarks/serve.py measured."""
    with (ROOT / "benchmarks" / "serve.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [
        "| model | rows | form | µs of a processor | share | half below, ms | 99 % below, ms |",
        "|---|--:|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        cost = f"{int(row['cpu_us']):,} | {float(row['share']):.2f}"
        times = f"{float(row['p50_ms']):.1f} | {float(row['p99_ms']):.1f}"
        lines.append(f"| `{row['model']}` | {row['rows']} | {row['form']} | {cost} | {times} |")
    return "\n".join(lines)


def stream_speed() -> str:
    """Return what benchmarks/stream.py measured."""
    with (BENCHMARKS / "stream.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [["method", "alarm", "rows a second, together", "µs of a row alone"]]
    for row in rows:
        speed = f"{float(row['rows_per_second']):,.0f}"
        lines.append([f"`{row['method']}`", f"`{row['alarm']}`", speed, row["one_row_us"]])
    return table(lines, 2)


_CAMPAIGN = {
    "kills": (
        "{kills} times `kill -9` under load, `--save-every {save_rows}`",
        "no broken file, the bits of an uninterrupted stream, at most {lost} answered rows lost",
    ),
    "clients": (
        "{clients} clients at once, {requests:,} requests each: {rows:,} rows",
        "no row lost, mixed or doubled in any window",
    ),
    "million": (
        "{rows:,} rows in one stream",
        "{before_mb} MB of memory before, {after_mb} MB after",
    ),
    "rude": (
        "{dropped:,} connections opened and dropped, some within a request, and {slow} that wait"
        " in the middle of one",
        "the next request was answered in {answered_ms:.0f} ms, of which the server worked"
        " {worked_ms:.0f} ms; before all that it took {before_ms:.0f} ms",
    ),
    "fuzz": (
        "{requests:,} requests with values or bytes changed",
        "no 5xx, no traceback, no hang; {right:,} were still right, {refused:,} were told why not",
    ),
    "schemathesis": (
        "{requests:,} requests that schemathesis made of `/openapi.json`",
        "no 5xx, no traceback, no hang",
    ),
}


def serve_campaign() -> str:
    """Return what benchmarks/serve_campaign.py and serve_fuzz.py found."""
    found = json.loads((BENCHMARKS / "serve_campaign.json").read_text())
    lines = [["what was done", "what came of it"]]
    for part, words in _CAMPAIGN.items():
        if part in found:
            lines.append([text.format(**found[part]) for text in words])
    return table(lines, 2)


MADE = {
    "serve-campaign": serve_campaign,
    "stream-speed": stream_speed,
    "serve-speed": serve_speed,
    **reliability_tables.TABLES,
    **scale_tables.TABLES,
    **pseudocal_tables.TABLES,
    **streams_tables.TABLES,
    **window_tables.TABLES,
    "exports": exports,
    "interop-speed": interop_speed,
    "sklearn-digits": sklearn_digits,
    "sklearn-checks": sklearn_checks,
    "networks": networks,
    "speed": speed,
    "peers": lambda: peer_tables.table(rows_of("peers.csv")),
    "peers-limits": lambda: peer_tables.limits(rows_of("peers.csv")),
    "peers-single": lambda: peer_tables.single(rows_of("peers.csv")),
    "corruptions": corruptions,
    "startup": startup,
    "steps": steps,
    "linear": linear,
    "protocol-speed": protocol_speed,
    "protocol-floor": protocol_floor,
    "protocol-agrees": protocol_agrees,
    "demo-table": lambda: shipped("demo"),
    "paper-table": lambda: shipped("paper"),
    "by-severity": lambda: shipped("severity"),
    "shipped-suites": shipped_suites,
    "other-suites": other_suites,
    "imagenet-accuracy": imagenet_accuracy,
    "imagenet-cost": imagenet_cost,
    "corruption-strength": corruption_strength,
    "commands": commands,
    "methods": methods,
    "stream": lambda: shipped("stream", 1),
    "alarm": lambda: alarm_tables.delays(alarm_tables.read()),
    "choose-clean": lambda: study("clean"),
    "choose-shifted": lambda: study("shifted"),
    "accuracy-estimators": accuracy_tables.estimators,
    "accuracy-whole": lambda: accuracy_tables.whole(accuracy_tables.read()),
    "accuracy-windows": lambda: accuracy_tables.windows(accuracy_tables.read()),
    "accuracy-clean": lambda: accuracy_tables.windows(accuracy_tables.read(), part="clean labels"),
    "accuracy-coverage": lambda: accuracy_tables.windows(accuracy_tables.read(), "coverage"),
    "accuracy-warned": lambda: accuracy_tables.warned(accuracy_tables.read()),
    "claims": claims_tables.claims,
    "claims-gaps": claims_tables.gaps,
    "claims-boxes": claims_tables.boxes,
    "density": lambda: density_tables.averages(density_tables.read()),
    "density-ends": lambda: density_tables.ends(density_tables.read()),
    "harm": lambda: harm_tables.harm(harm_tables.read()),
    "harm-confirming": lambda: harm_tables.harm(harm_tables.read(), ("confirming",)),
    "harm-ece": lambda: harm_tables.errors(harm_tables.read()),
    "harm-hindsight": lambda: harm_tables.hindsight(harm_tables.read()),
    "harm-models": lambda: harm_tables.models(harm_tables.read()),
    "context-networks": lambda: context_tables.per_network(context_rows()),
    "context-numbers": lambda: context_tables.numbers(context_rows()),
    "context-transforms": lambda: context_tables.numbers(context_rows(), context_tables.BOTH),
    "context-every": lambda: context_tables.every_network(context_rows()),
    "context-windows": lambda: context_tables.windows(context_rows()),
    "context-mixes": lambda: context_tables.class_mixes(context_rows()),
    "context-wanted": lambda: context_tables.wanted(context_rows()),
    "context-wanted-many": lambda: context_tables.wanted_of_many(
        context_tables.read(context_tables.MANY)
    ),
    "context-forms": lambda: context_tables.leave_out(context_rows()),
    "context-many": context_many_tables.accuracy,
    "context-many-slopes": context_many_tables.slopes,
    "context-belief": lambda: context_belief_tables.accuracy(context_belief_tables.read()),
    "context-belief-ece": lambda: context_belief_tables.scaling(context_belief_tables.read()),
    "context-belief-numbers": lambda: context_belief_tables.numbers(context_belief_tables.read()),
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
    wanted[ROOT / "docs" / "images" / "context.svg"] = context_tables.figure(context_rows())
    wanted[ROOT / "docs" / "images" / "peers.svg"] = peer_tables.figure(rows_of("peers.csv"))
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
