"""What distances to training images and tuning under noise add to other methods.

Every method of the study is fitted on the shipped suites that hold what it needs and measured as in
the paper's Table 1; a method with DAC or under noise stands beside the same method without, on the
same resampled images. Writes density.csv beside this file, which docs/density.md shows.

Example
-------
    python benchmarks/studies/density.py
"""

import argparse
import csv
from pathlib import Path

from wildcal import suites
from wildcal.evaluation.protocol import Results, choose_methods, run_protocol

HERE = Path(__file__).parent
BASES = ("ts", "ets", "spline", "energy", "context")
METHODS = ("identity", "dac", *(m for b in BASES for m in (b, f"dac+{b}", f"{b}-p")))
"""All of them; `context-p` does not exist, because noise is no environment."""
COLUMNS = (
    *("suite", "method", "used", "average", "low", "high", "noise_floor"),
    *("clean", "severity_5", "textures_confidence"),
    *("beside", "difference", "difference_low", "difference_high"),
)


def beside(method: str) -> str:
    """Return the method that differs in one thing: no distances, or no noise."""
    if method == "dac":
        return "ts"  # one temperature for all rows, instead of one by their distances
    return method.removeprefix("dac+").removesuffix("-p")


def rows(results: Results, suite: str) -> list[dict[str, object]]:
    found = []
    for method in results.suites[suite].methods:
        average = results.average(suite, method.name)
        row: dict[str, object] = {
            "suite": suite,
            "method": method.name,
            "used": method.knew.words(),
            "average": average.value,
            "low": average.low,
            "high": average.high,
            "noise_floor": average.floor,
            "clean": average.levels[0],
            "severity_5": average.levels[5],
            "textures_confidence": results.record(
                suite, method.name, "textures-test", "mean_confidence"
            ).value,
        }
        other = beside(method.name)
        if other != method.name:
            difference = results.difference(suite, method.name, other)
            row |= {
                "beside": other,
                "difference": difference.value,
                "difference_low": difference.low,
                "difference_high": difference.high,
            }
        found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bootstrap", type=int, default=1000)
    parser.add_argument("--output", type=Path, default=HERE / "density.csv")
    options = parser.parse_args()
    methods = choose_methods([m for m in METHODS if m != "context-p"])
    shipped = {name: suites.load(name) for name in suites.names("cifar10")}
    results = run_protocol(
        shipped,
        methods,
        metrics=("ece", "mean_confidence"),
        n_boot=options.bootstrap,
        progress=lambda doing, _: print(doing, flush=True) if "fitting" in doing else None,
    )
    for name, suite in results.suites.items():
        for method, reason in suite.failed.items():
            print(f"{name}, {method}: {reason}")
    with options.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for name in results.suites:
            writer.writerows(rows(results, name))
    print(f"Wrote {options.output}.")


if __name__ == "__main__":
    main()
