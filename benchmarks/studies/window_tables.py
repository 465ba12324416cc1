"""The csv of window.py as Markdown tables; docs/make.py puts them into the docs."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import accuracy_tables

CSV = Path(__file__).with_name("window.csv")
LATER = Path(__file__).with_name("window_thousand.csv")
MORE = Path(__file__).with_name("window_hundred.csv")
MOBILE = Path(__file__).with_name("window_mobilenet.csv")
TEXTS = Path(__file__).with_name("window_texts.csv")
"""Of two networks on ImageNet with more rows, for fewer methods."""
ALL = "all networks"
Row = dict[str, str]
Found = dict[tuple[str, str, str], Row]
"""By method, setting and metric."""
SIZES = {
    "whole": "whole",
    "128 rows": "128",
    "32 rows": "32",
    "8 rows": "8",
    "1 row": "1",
}
MIXES = {
    "256 rows, Dirichlet(1)": "Dirichlet(1)",
    "256 rows, Dirichlet(0.3)": "Dirichlet(0.3)",
    "256 rows, three classes": "three classes",
    "512 rows, half clean": "half clean",
    "stream, 1/6 clean": "stream",
}
ORACLE = "labels of the window"
TIERS = ("clean labels", "+ window", "+ environments", "+ both", ORACLE)
SHOWN = ("ts", "energy", "match+atc-ne", "match+cott", "match+cot", "energy-all", "match+cot-map",
         "context", "oracle accuracy")  # fmt: skip
"""What README shows."""
OTHERS = {
    "pacs-resnet18": ("photos to art, cartoons, sketches, 7 classes", "7 classes"),
}
"""Networks whose shift is of another kind: what they are, and the name of their means."""
HUNDRED = {"cifar100-resnet20": ("ResNet-20 on CIFAR-100", "100 classes")}
"""And one of more classes."""
UNSEEN = {"cifar100-se-resnet20": ("SE-ResNet-20 on CIFAR-100", "100 classes")}
"""One that taught nothing, in a file of its own."""
INTENTS = {"banking77-minilm": ("intents of customers, 77 classes", "77 classes")}
UNSEEN_OF_MORE = {"imagenet-mobilenetv2": ("MobileNetV2 on ImageNet", "1000 classes")}
BOTH_OF_THEM = {"imagenet-resnet18": ("ResNet-18 and ViT-Tiny", "1000 classes")}
OTHER_SETTINGS = {
    "whole": "whole",
    "128 rows": "128",
    "32 rows": "32",
    "256 rows, Dirichlet(1)": "Dirichlet(1)",
    "256 rows, Dirichlet(0.3)": "Dirichlet(0.3)",
    "256 rows, three classes": "three classes",
    "stream, 1/6 clean": "stream",
}
IN_SAMPLE = (("tuning", "context@clean"), ("tuning", "context@clean (known mix)"))
"""Their coefficients were learned there, so they are not ranked there."""
PUBLISHED = {"ac": 11.91, "doc": 11.08, "im": 10.20, "gde": 6.55, "atc-mc": 4.25, "atc-ne": 3.87}
"""Table 1 of Garg et al., ICLR 2022: CIFAR-10, synthetic shifts, DenseNet-121, after scaling."""


def read(path: Path = CSV) -> list[Row]:
    """Return the rows of the csv."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def whole(rows: Sequence[Row], part: str) -> str:
    """Return what whole windows give, tier by tier, the best of each tier first."""
    found, methods = _found(rows, part), _methods(rows, part)
    has_clean = ("ts", "clean", "ece") in found
    header = ["tier", "method", "excess ECE", "of `energy`'s", "accuracy off by"]
    lines = []
    for tier in dict.fromkeys(methods.values()):
        mine = [method for method, its in methods.items() if its == tier]
        mine.sort(key=lambda method: _number(found, method, "whole", "excess_ece"))
        for method in mine:
            line = [tier, f"`{method}`" if tier != ORACLE else method]
            line += [_with_interval(found.get((method, "whole", metric)), scale, digits)
                     for metric, scale, digits in (("excess_ece", 100, 2), ("ratio", 1, 2),
                                                   ("accuracy_off", 100, 2))]  # fmt: skip
            if has_clean:
                line.append(_cell(found.get((method, "clean", "ece"))))
            lines.append(line)
            tier = "" if tier != ORACLE else tier
    return _markdown(header + ["clean ECE"] * has_clean, lines, 2)


def by_setting(rows: Sequence[Row], part: str, settings: dict[str, str], metric: str) -> str:
    """Return one number by setting, the best below the oracles in bold."""
    found, methods = _found(rows, part), _methods(rows, part)
    best = {}
    for setting in settings:
        some = [(_number(found, m, setting, metric), m) for m, t in methods.items() if t != ORACLE
                and (m, setting, metric) in found and (part, m) not in IN_SAMPLE]  # fmt: skip
        best[setting] = min(some, default=(0.0, ""))[1]
    lines = []
    for method, tier in methods.items():
        cells = [
            _cell(found.get((method, s, metric)), bold=best[s] == method) for s in settings
        ]  # fmt: skip
        lines.append([tier, f"`{method}`" if tier != ORACLE else method, *cells])
    return _markdown(["tier", "method", *settings.values()], lines, 2)


def short(rows: Sequence[Row], part: str) -> str:
    """Return the few lines that README shows."""
    found, methods = _found(rows, part), _methods(rows, part)
    settings = ("whole", "32 rows", "256 rows, Dirichlet(0.3)", "stream, 1/6 clean")
    lines = [
        [methods[m], f"`{m}`" if methods[m] != ORACLE else m,
         *(_with_interval(found.get((m, s, "excess_ece")), 100, 1) for s in settings)]
        for m in SHOWN
    ]  # fmt: skip
    header = ["knows", "method", "whole splits", "windows of 32", "other class mix", "mixed stream"]
    return _markdown(header, lines, 2)


def other(rows: Sequence[Row], chosen: dict[str, tuple[str, str]]) -> str:
    """Return the test of networks of other kinds: excess ECE by setting / accuracy off by."""
    names = {r["network"]: r for r in rows if r["part"] == "test" and r["network"] in chosen}
    lines = []
    for network, (words, together) in chosen.items():
        if network not in names:
            continue
        mine = [{**r, "network": ALL} for r in rows if r["network"] == together]
        found, methods = _found(mine, "test"), _methods(mine, "test")
        for method, tier in methods.items():
            cells = []
            for setting in OTHER_SETTINGS:
                excess, off = (
                    _cell(found.get((method, setting, m))) for m in ("excess_ece", "accuracy_off")
                )
                cells.append(f"{excess} / {off}" if excess and off else excess)
            lines.append([words, f"`{method}`" if tier != ORACLE else method, *cells])
            words = ""
    return _markdown(["network", "method", *OTHER_SETTINGS.values()], lines, 2)


def published(rows: Sequence[Row], tuning: Sequence[Row]) -> str:
    """Return the errors of accuracy estimates in ATC's paper beside ours, in points.

    `tuning` is the csv of accuracy.py. Matched confidence is the estimate, so where the test types
    have been looked at, its error on them is ours.
    """
    found = _found(rows, "test")
    ours = {
        r["estimator"]: f"{100 * float(r['mae']):.2f}"
        for r in tuning
        if (r["part"], r["network"], r["setting"]) == ("environments", ALL, "whole")
    }
    lines = [[f"`{name}`", f"{value:.2f}", ours[name]] for name, value in PUBLISHED.items()]
    header = ["estimate", "published", "here, tuning types"]
    if found:
        header.append("here, test types")
        for line, name in zip(lines, PUBLISHED, strict=True):
            line.append(_cell(found.get((f"match+{name}", "whole", "accuracy_off"))))
    return _markdown(header, lines, 1)


def shown_part(rows: Sequence[Row]) -> str:
    """Return the part that tables show: the test types, once they have been looked at."""
    return "test" if any(row["part"] == "test" for row in rows) else "tuning"


def which(rows: Sequence[Row]) -> str:
    """Return in words what was measured on what."""
    on = {
        "test": "fitted on clean validation rows and, where a method learns from environments, on"
        " the four validation corruptions; measured on the fifteen types that no fit saw, at five"
        " severities, 1,000 to 2,000 rows each.",
        "tuning": "fitted on clean validation rows and, where a method learns from environments, on"
        " three of the four validation corruptions; measured on the fourth, each left out in turn,"
        " at five severities, 1,000 rows each. The fifteen test types have not been looked at by"
        " this study.",
    }[shown_part(rows)]
    part = shown_part(rows)
    networks = {r["network"] for r in rows if r["part"] == part}
    shipped = sorted(name for name in networks if name.startswith("cifar10-"))
    names = ", ".join(f"`{name}`" for name in shipped)
    return f"Shipped networks of ten classes ({names}), {on}"


def _made(make: Callable[[Sequence[Row], str], str]) -> Callable[[], str]:
    def table() -> str:
        rows = read()
        return make(rows, shown_part(rows))

    return table


_OFF = {**SIZES, **dict(list(MIXES.items())[:4])}
TABLES: dict[str, Callable[[], str]] = {
    "window-part": lambda: which(read()),
    "window-whole": _made(whole),
    "window-sizes": _made(lambda rows, part: by_setting(rows, part, SIZES, "excess_ece")),
    "window-mixes": _made(lambda rows, part: by_setting(rows, part, MIXES, "excess_ece")),
    "window-off": _made(lambda rows, part: by_setting(rows, part, _OFF, "accuracy_off")),
    "window-tuning": lambda: by_setting(read(), "tuning", {**SIZES, **MIXES}, "excess_ece"),
    "window-other": lambda: other(read(), OTHERS),
    "window-hundred": lambda: other(read(), HUNDRED),
    "window-hundred-more": lambda: other(read(MORE), UNSEEN),
    "window-thousand-later": lambda: other(read(LATER), BOTH_OF_THEM),
    "window-texts": lambda: other(read(TEXTS), INTENTS),
    "window-thousand-unseen": lambda: other(read(MOBILE), UNSEEN_OF_MORE),
    "window-published": lambda: published(read(), accuracy_tables.read()),
    "window-short": _made(short),
}
"""The tables of docs/theory/window.md and README, by name."""


def _found(rows: Sequence[Row], part: str) -> Found:
    return {
        (r["method"], r["setting"], r["metric"]): r
        for r in rows
        if r["part"] == part and r["network"] == ALL
    }


def _methods(rows: Sequence[Row], part: str) -> dict[str, str]:
    mine = [r for r in rows if r["part"] == part and r["network"] == ALL]
    mine.sort(key=lambda r: TIERS.index(r["tier"]))
    return {r["method"]: r["tier"] for r in mine}


def _number(found: Found, method: str, setting: str, metric: str) -> float:
    return float(found[method, setting, metric]["value"])


def _cell(row: Row | None, *, bold: bool = False) -> str:
    if row is None:
        return ""
    text = f"{100 * float(row['value']):.2f}"
    return f"**{text}**" if bold else text


def _with_interval(row: Row | None, scale: float, digits: int) -> str:
    if row is None:
        return ""
    value, low, high = (scale * float(row[k]) for k in ("value", "low", "high"))
    low, high = min(value, low), max(value, high)  # an interval reaches to its value
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def _markdown(header: Sequence[str], lines: Sequence[Sequence[str]], words: int) -> str:
    rule = "---|" * words + "--:|" * (len(header) - words)
    table = [f"| {' | '.join(line)} |" for line in (header, *lines)]
    return "\n".join([table[0], f"|{rule}", *table[1:]])
