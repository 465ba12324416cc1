"""Print the average ECE of every method on the shipped suites, as the paper's first table does.

python benchmarks/suites/table.py [--methods all] [--csv FILE]
"""

import argparse
import pathlib

from wildcal._old import suites
from wildcal._old.calibrators import PAPER_METHODS
from wildcal._old.evaluation.protocol import Results, choose_methods, run_protocol

from wildcal import CALIBRATORS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="paper", help="paper, all, or names with commas")
    parser.add_argument("--csv", type=pathlib.Path, help="write every record here")
    options = parser.parse_args()
    names = {"paper": [*PAPER_METHODS, "energy-no-ood"], "all": [*CALIBRATORS, "energy-no-ood"]}
    chosen = names.get(options.methods, options.methods.split(","))
    shipped = {name: suites.load(name) for name in suites.names("cifar10")}
    results = run_protocol(shipped, choose_methods(chosen), n_boot=200)
    print(table(results))
    if options.csv:
        options.csv.write_text(results.to_csv())


def table(results: Results) -> str:
    """Return Markdown: a row for each method, a column for each suite, 95 % intervals."""
    head = "| method | knew | " + " | ".join(results.suites) + " |"
    lines = [head, "|---|---|" + "--:|" * len(results.suites)]
    methods = {m.name: m.knew.words() for found in results.suites.values() for m in found.methods}
    for method, used in methods.items():
        cells = []
        for suite in results.suites:
            a = results.average(suite, method)
            levels = " ".join(f"{100 * level:.1f}" for level in a.levels)
            cells.append(f"{100 * a.value:.2f} ({100 * a.low:.2f} to {100 * a.high:.2f}; {levels})")
        lines.append(f"| {method} | {used} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
