"""The attacks on bytes with a coverage-guided fuzzer: python -m benchmarks.campaign.guided NAME...

Needs atheris (``pip install atheris``), which has builds for Linux and macOS. Every name of an
attack that has a target is taken; without names, all of them, each for its share of the minutes.
Bytes that are a finding are kept in the folder of --found, and what reached something new beside
them, so that with --state a run goes on where another was. Exit 1 if there are any findings.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_KINDS = ("crash-", "timeout-", "oom-")
"""How the names of inputs begin that libFuzzer keeps."""


def main() -> int:
    """Run the targets one after the other, each in a process of its own."""
    options = _options()
    if options.one:
        return _fuzz(options.one, Path(options.found), options.seconds, options.seed)
    from benchmarks.campaign.__main__ import ATTACKS

    named = [a.name for a in ATTACKS if a.target is not None]
    chosen = [n for n in named if any(n.startswith(word) for word in options.names or [""])]
    seconds = max(1, int(60 * options.minutes / max(1, len(chosen))))
    state = Path(options.state) if options.state else None
    tallies: dict[str, Any] = {}
    if state is not None and state.exists():
        tallies = json.loads(state.read_text())["tallies"]
    for name in sorted(chosen, key=lambda n: tallies.get(n, {}).get("seconds", 0)):
        folder = Path(options.found) / name.replace("/", "-")
        (folder / "corpus").mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", "benchmarks.campaign.guided", "--one", name]
        words += ["--seconds", str(seconds), "--seed", str(options.seed), "--found", str(folder)]
        start = sum(os.times()[:4])
        code, said = _said(words, 3 * seconds + 600)
        counts = _counts(said)
        findings = sorted(f.name for f in folder.iterdir() if f.name.startswith(_KINDS))
        if code != 0 and not findings:
            raise SystemExit(f"{name} did not run: {said[-2000:]}")
        counts |= {"findings": findings, "seconds": sum(os.times()[:4]) - start}
        tallies[name] = gone_on(tallies.get(name, {}), counts)
        print(f"{name:28}{counts['trials']:>10,} inputs, {counts['edges']:>6,} edges,", end=" ")
        print(f"{len(findings)} findings", flush=True)
        if state is not None:
            state.write_text(json.dumps({"seed": options.seed, "tallies": tallies}))
    return 1 if any(tally["findings"] for tally in tallies.values()) else 0


def _said(words: list[str], seconds: int) -> tuple[int, str]:
    """Return how a process ended, and what it said.

    libFuzzer ends a process with Python's lock held. Threads of pyarrow may wait for it, and the
    process for them: one that has said how much it did is stopped, and did it.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said)
        late = False
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            late = True
        said.seek(0)
        text = said.read()
    return 0 if late and "\nDone " in text else process.returncode, text


def gone_on(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of a run that went on: findings and edges are all that were found so far.

    >>> before = {"trials": 2, "edges": 9, "seconds": 1.0}
    >>> gone_on(before, {"trials": 3, "edges": 8, "seconds": 1.0})
    {'trials': 5, 'edges': 9, 'seconds': 2.0}
    """
    added = {key: before.get(key, 0) + more[key] for key in ("trials", "seconds")}
    return more | added | {"edges": max(before.get("edges", 0), more["edges"])}


def _counts(said: str) -> dict[str, int]:
    """Return how many inputs libFuzzer says it tried, and how many edges they reached."""
    trials = edges = 0
    for line in said.splitlines():
        words = line.split()
        if line.startswith("#") and "cov:" in words:
            trials, edges = int(words[0][1:]), int(words[words.index("cov:") + 1])
        elif line.startswith("Done "):
            trials = int(words[1])
    return {"trials": trials, "edges": edges}


def _fuzz(name: str, found: Path, seconds: int, seed: int) -> int:
    """Hand one target to atheris, which ends the process."""
    import atheris

    with atheris.instrument_imports(include=["wildcal"]):
        from benchmarks.campaign.__main__ import ATTACKS

        attack = next(a for a in ATTACKS if a.name == name)
        target = attack.target
        assert target is not None
        try:  # so that what it imports late is watched as well
            target.read(target.whole())
        except attack.expected:
            pass

    def once(data: bytes) -> None:
        try:
            target.read(data)
        except attack.expected:
            pass

    corpus = found / "corpus"
    (corpus / "whole").write_bytes(target.whole())
    limits = [f"-max_total_time={seconds}", f"-seed={seed + 1}", "-timeout=60"]
    more = ["-rss_limit_mb=6000", "-max_len=20000", f"-artifact_prefix={found}/"]
    atheris.Setup([sys.argv[0], *limits, *more, str(corpus)], once)
    atheris.Fuzz()
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("guided", description=__doc__)
    parser.add_argument("names", nargs="*", help="attacks whose names begin so")
    parser.add_argument("--minutes", type=float, default=2.0, help="for all of them together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", default="campaign-found", help="where findings are kept")
    parser.add_argument("--state", help="a file for the counts")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=int, default=60, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
