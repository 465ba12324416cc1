"""Run the attacks by turns until the minutes are over; exit 1 if any of them found something."""

import argparse
import json
import platform
import re
import sys
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path

import numpy as np
import scipy
from benchmarks.campaign import (
    alarms,
    calibrator_files,
    cluster,
    dataset_files,
    image_files,
    kills,
    long_sums,
    number_checks,
    odd_options,
    onnx_files,
    optima,
    server_requests,
    stream_files,
    table_files,
    threads,
    torn,
)
from benchmarks.campaign.attack import Attack, Tally, limit_memory, run_trial

from wildcal.version import __version__

VERSIONS = {
    "wildcal": __version__,
    "Python": platform.python_version(),
    "NumPy": np.__version__,
    "SciPy": scipy.__version__,
}
LONG = 10
"""Minutes from which a run has room for attacks whose trials are long."""

_MODULES = (
    calibrator_files,
    stream_files,
    table_files,
    image_files,
    dataset_files,
    onnx_files,
    server_requests,
    number_checks,
    odd_options,
    optima,
    long_sums,
    threads,
    alarms,
    kills,
    torn,
    cluster,
)
ATTACKS: list[Attack] = [attack for module in _MODULES for attack in module.ATTACKS]


def main() -> int:
    """Run the campaign and print its table."""
    options = _options()
    wanted = options.only or [""]
    chosen = [a for a in ATTACKS if any(a.name.startswith(word) for word in wanted)]
    if options.minutes < LONG:
        chosen = [a for a in chosen if not a.long or a.name in wanted]
    if options.replay:
        name, _, number = options.replay.partition("#")
        tally = Tally()
        attack = next(a for a in ATTACKS if a.name == name)
        run_trial(Attack(name, attack.trial), options.seed, int(number), tally)
        print(tally)
        return 1 if tally.findings else 0
    tallies = _resumed(options.state, options.seed)
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        attack = least_tried(chosen, tallies, options.trials)
        if attack is None:
            break
        tally = tallies.setdefault(attack.name, Tally())
        limit_memory(attack)
        left = options.trials - tally.trials if options.trials else attack.batch
        for _ in range(min(attack.batch, left)):
            run_trial(attack, options.seed, tally.trials, tally)
        _keep(options.state, options.seed, tallies)
    return _report(tallies, options.seed)


def least_tried(attacks: list[Attack], tallies: dict[str, Tally], trials: int = 0) -> Attack | None:
    """Return the attack that had least processor time, None if all have had their trials.

    By time, not by turns: else the few attacks with long trials would take most of it. A trial
    counts as a millisecond at least, or one that does nothing would hold the others up.
    """
    so_far = {attack: tallies.get(attack.name, Tally()) for attack in attacks}
    ready = [attack for attack, tally in so_far.items() if not trials or tally.trials < trials]
    by_time = {a: max(so_far[a].seconds, 1e-3 * so_far[a].trials) for a in ready}
    return min(by_time, key=by_time.__getitem__, default=None)


def _report(tallies: dict[str, Tally], seed: int) -> int:
    print(f"{', '.join(f'{name} {v}' for name, v in VERSIONS.items())}, seed {seed}")
    minutes = sum(tally.seconds for tally in tallies.values()) / 60
    print(f"{minutes:.1f} minutes of processor time\n")
    print(f"{'attack':28}{'trials':>10}{'refused':>10}{'findings':>10}{'minutes':>10}")
    for name, tally in sorted(tallies.items()):
        counts = f"{tally.trials:>10,}{tally.refused:>10,}{len(tally.findings):>10,}"
        print(f"{name:28}{counts}{tally.seconds / 60:>10.1f}")
    alike: dict[str, list[str]] = {}
    for text in (text for tally in tallies.values() for text in tally.findings):
        trial, _, said = text.partition(": ")
        alike.setdefault(
            trial.partition("#")[0] + ": " + re.sub(r"[0-9.e+-]+", "9", said), []
        ).append(text)
    for texts in alike.values():
        print(f"{len(texts)} like {texts[0]}", file=sys.stderr)
    return 1 if alike else 0


def _resumed(path: Path | None, seed: int) -> dict[str, Tally]:
    if path is None or not path.exists():
        return {}
    kept = json.loads(path.read_text())
    if kept["seed"] != seed:
        raise SystemExit(f"{path} is of seed {kept['seed']}; give that one, or another file.")
    return {name: Tally(**tally) for name, tally in kept["tallies"].items()}


def _keep(path: Path | None, seed: int, tallies: dict[str, Tally]) -> None:
    if path is not None:
        beside = path.with_name(path.name + ".new")
        beside.write_text(
            json.dumps(
                {
                    "seed": seed,
                    "date": date.today().isoformat(),
                    "versions": VERSIONS,
                    "tallies": {k: asdict(v) for k, v in tallies.items()},
                }
            )
        )
        beside.replace(path)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("campaign", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to go on")
    parser.add_argument("--trials", type=int, default=0, help="at most so many of each attack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="attacks whose names begin so, such as files/")
    parser.add_argument("--replay", metavar="NAME#N", help="one trial again, its error raised")
    parser.add_argument("--state", type=Path, help="a file to go on from, and to keep counts in")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
