"""Add up the states of several runs into what the documentation shows.

    python -m benchmarks.campaign.summary STATE... --guided STATE

Writes benchmarks/campaign/long_run.json, from which the tables of docs/reliability.md are made. A
file of that kind, of an earlier run, may be among the states; a state must not be in it already.
"""

import argparse
import json
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).with_name("long_run.json")


def added(states: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the tallies of several states as one, by attack.

    Edges that one run reached another may have reached as well: the most of them are kept.

    >>> one = {"tallies": {"a": {"trials": 2, "edges": 7, "findings": [], "seconds": 0.5}}}
    >>> added([one, one])
    {'a': {'trials': 4, 'edges': 7, 'findings': [], 'seconds': 1.0}}
    """
    total: dict[str, dict[str, Any]] = {}
    for state in states:
        for name, tally in state["tallies"].items():
            so_far = total.setdefault(name, {key: type(value)() for key, value in tally.items()})
            for key, value in tally.items():
                so_far[key] = max(so_far[key], value) if key == "edges" else so_far[key] + value
    return {name: total[name] for name in sorted(total)}


def seeds(state: dict[str, Any]) -> list[int]:
    """Return the seeds of a state, or of several that were added up before.

    >>> seeds({"seed": 3}), seeds({"seeds": [1, 2]})
    ([3], [1, 2])
    """
    return list(state["seeds"] if "seeds" in state else [state["seed"]])


def main() -> None:
    parser = argparse.ArgumentParser("summary", description=__doc__)
    parser.add_argument("states", nargs="+", type=Path)
    parser.add_argument("--guided", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    states = [json.loads(path.read_text()) for path in options.states]
    guided = [json.loads(path.read_text()) for path in options.guided]
    guided += [{"tallies": state.get("guided", {})} for state in states]
    document = {
        "date": max(state["date"] for state in states),
        "seeds": sorted({seed for state in states for seed in seeds(state)}),
        "versions": max(states, key=lambda state: str(state["date"]))["versions"],
        "tallies": added(states),
        "guided": added(guided),
    }
    OUTPUT.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
