"""What docs/reliability.md shows of the long run, of coverage and of faults put in on purpose."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[1]
ENOUGH = 90
"""Percent of lines and branches together, below which a file is listed."""


def _read(path: str) -> Any:
    return json.loads((BENCHMARKS / path).read_text())


def _table(heads: list[str], rows: list[list[str]]) -> str:
    rule = "|---|" + "--:|" * (len(heads) - 1)
    return "\n".join([f"| {' | '.join(heads)} |", rule, *(f"| {' | '.join(r)} |" for r in rows)])


def long_run() -> str:
    """Return when, with what and for how long the campaign ran, and the counts of each attack."""
    run = _read("campaign/long_run.json")
    tallies, guided = run["tallies"], run["guided"]
    every = [*tallies.values(), *guided.values()]
    trials, minutes = (sum(t[key] for t in every) for key in ("trials", "seconds"))
    found = sum(len(t["findings"]) for t in every)
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    seeds = ", ".join(map(str, run["seeds"]))
    words = (
        f"{run['date']}, {versions}, seeds {seeds}: {trials:,} trials in {minutes / 60:.0f} minutes"
        f" of processor time, {found} {'finding' if found == 1 else 'findings'}."
    )
    rows = [
        [f"`{name}`", f"{t['trials']:,}", f"{t['refused']:,}", str(len(t["findings"]))]
        for name, t in tallies.items()
    ]
    by_coverage = [
        [f"`{name}`", f"{t['trials']:,}", f"{t['edges']:,}", str(len(t["findings"]))]
        for name, t in guided.items()
    ]
    parts = [words, _table(["attack", "trials", "refused", "findings"], rows)]
    if by_coverage:
        parts.append("Guided by coverage (`python -m benchmarks.campaign.guided`):")
        parts.append(_table(["attack", "inputs", "edges reached", "findings"], by_coverage))
    return "\n\n".join(parts)


def _share(reached: int, of: int) -> str:
    return f"{100 * reached / of:.0f} %" if of else "-"


def covered() -> str:
    """Return the coverage of the rooms whose tests ran, and their files below `ENOUGH`."""
    run = _read("covered.json")
    ran = {room.removeprefix("tests/") for room in run["rooms"]}
    own = {path.name for path in (BENCHMARKS.parent / "tests").iterdir() if path.is_dir()}
    rooms: dict[str, Counter[str]] = {}
    low: list[list[str]] = []
    for name, counts in run["files"].items():
        inside = name.removeprefix("src/wildcal/")
        room = inside.partition("/")[0]
        # What has no tests by its name is asked by those of the others, and by its examples.
        if room not in ran if room in own else "src" not in ran:
            continue
        rooms.setdefault(room, Counter()).update(counts)
        reached = counts["lines_reached"] + counts["branches_reached"]
        if 100 * reached < ENOUGH * (counts["lines"] + counts["branches"]):
            low.append([f"`{inside}`", *_shares(counts)])
    total = sum(rooms.values(), Counter())
    shown = [[f"`{room}`", *_shares(counts)] for room, counts in sorted(rooms.items())]
    shown.append(["all of these", *_shares(total)])
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    heads = ["lines", "branches"]
    return "\n\n".join(
        [
            f"{run['date']}, {versions}. Tests that ran: {', '.join(run['rooms'])}. Folders of the"
            " package whose own tests are not among them are left out.",
            _table(["folder", *heads], shown),
            f"Files below {ENOUGH} % of lines and branches together:",
            _table(["file", *heads], low) if low else "none.",
        ]
    )


def _shares(counts: dict[str, int] | Counter[str]) -> list[str]:
    return [_share(counts[f"{what}_reached"], counts[what]) for what in ("lines", "branches")]


def mutation() -> str:
    """Return how many faults the tests found, and those they did not."""
    run = _read("mutation.json")
    tried: dict[str, bool] = run["tried"]
    mended = set(run["mended"])
    rooms: dict[str, list[str]] = {}
    for name in tried:
        rooms.setdefault(f"`{name.split('/')[1]}`", []).append(name)
    rows = []
    for room, names in [*sorted(rooms.items()), ("all", [*tried])]:
        found = sum(tried[name] for name in names)
        first = found - len(mended.intersection(names))
        rows.append([room, *map(str, (len(names), first, found)), _share(found, len(names))])
    left = [f"- `{name.removeprefix('wildcal/')}`" for name, found in tried.items() if not found]
    words = (
        f"{run['date']}, Python {run['Python']}, seed {run['seed']}:"
        f" {len(tried)} of {run['possible']:,} possible faults."
    )
    parts = [words, _table(["folder", "faults", "found at first", "found now", "share"], rows)]
    return "\n\n".join([*parts, "Not found:\n\n" + "\n".join(left)] if left else parts)


def interpreters() -> str:
    """Return how many of all tests passed on each interpreter, with the packages of that run."""
    rows = []
    for name, run in sorted(_read("interpreters.json").items(), key=lambda item: _parts(item[0])):
        versions = ", ".join(f"{package} {v}" for package, v in run["versions"].items())
        tests = run["tests"]
        words = ("passed", "skipped", "failed")
        numbers = (f"{tests[word]:,}" if word in tests else "-" for word in words)
        rows.append([name, run["date"], versions, *numbers])
    heads = ["Python", "date", "with", "passed", "skipped", "failed"]
    return _table(heads, rows)


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


TABLES = {
    "campaign": long_run,
    "covered": covered,
    "interpreters": interpreters,
    "mutation": mutation,
}
