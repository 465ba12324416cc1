"""How far `ContextScaling` believes class counts: the fit of those numbers, and what it is worth.

    python benchmarks/studies/context_belief.py changes/*.npz               about five minutes

Reads files of context_changes.py, and the tuning splits of the shipped suites with 10 and with 100
classes, these as if they were few; draws windows of all kinds from them (context_windows.py); and
looks for the belief and the slopes with the least mean absolute error of the estimated accuracy:
all numbers from networks with 10 classes, then the slopes for 100 with that belief. Printed are

- what is fitted beside what is shipped, and the same without each network;
- the error of the accuracy in points, by regime: of what was shipped before, of what is shipped,
  which has seen all of these changes, and refitted without the kinds or without the networks that
  it is tested on; beside it `match+atc-ne`, which learns nothing of shift;
- excess ECE and accuracy off by of `ContextScaling` itself (context_belief_ece.py).

All of it is kept in context_belief.csv.
"""

import argparse
import csv
import platform
from pathlib import Path

import numpy as np
import scipy
from context import commit
from context_belief_ece import LEFT_OUT, measure
from context_belief_fit import (
    FORMER,
    OF_BELIEF,
    SHIPPED,
    SLOPES,
    Fitted,
    fit,
    fit_slopes,
    numbers,
)
from context_windows import (
    CLEAN,
    CORRUPTIONS,
    FOLDS,
    OTHERS,
    WEIGHTS,
    Seen,
    Source,
    draw,
    fold_of,
    look,
    read_changes,
    read_tuning,
)

from wildcal import __version__, suites

HERE = Path(__file__).parent
CSV = HERE / "context_belief.csv"
FAMILIES = {10: "cifar10", 100: "cifar100"}
FIELDS = ("part", "classes", "shifts", "method", "regime", "metric", "value",
          "wildcal", "commit", "versions")  # fmt: skip
NETWORKS_OUT = "networks left out"


class Table:
    """The rows of the csv."""

    def __init__(self) -> None:
        versions = f"numpy {np.__version__}, scipy {scipy.__version__}"
        # The commit now, before the csv itself makes the checkout dirty.
        self.company = __version__, commit(), f"{versions}, python {platform.python_version()}"
        self.rows: list[tuple[str, ...]] = []

    def add(self, part: str, k: int, shifts: str, method: str, regime: str, metric: str,
            value: float) -> None:  # fmt: skip
        line = (part, k, shifts, method, regime, metric, f"{value:.5f}", *self.company)
        self.rows.append(tuple(map(str, line)))

    def write(self, path: Path) -> None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([FIELDS, *self.rows])


def network_names(sources: list[Source]) -> list[str]:
    """Return the network of each source: the name of the first source that has it."""
    return [
        next(other.name for other in sources if source.is_same_network(other)) for source in sources
    ]


def without_kinds(seen: dict[int, Seen], fold: int) -> Fitted:
    """Return what windows teach without the kinds of a fold."""
    kept = {k: of.where(of.fold != fold) for k, of in seen.items()}
    return fit(kept[10], kept[100])


def without_network(seen: dict[int, Seen], network: str, belief: Fitted) -> Fitted:
    """Return what windows teach without a network; `belief` is that of all of ten classes."""
    kept = {k: of.where(of.network != network) for k, of in seen.items()}
    if len(kept[100].regime) == len(seen[100].regime):
        return fit(kept[10], kept[100])
    if not len(kept[100].regime):
        return Fitted({})
    found = belief.models[10]
    return Fitted({10: found, 100: fit_slopes(kept[100], SHIPPED[100], found.belief)})


def estimates(
    seen: dict[int, Seen], by_fold: list[Fitted], by_network: dict[str, Fitted], k: int
) -> dict[str, np.ndarray]:
    """Return the estimated accuracy of each window of k classes, by method."""
    of = seen[k]
    kinds, networks = (np.full(len(of.regime), np.nan) for _ in range(2))
    for fold, one in enumerate(by_fold):
        mine = of.fold == fold
        kinds[mine] = one.estimate(of.where(mine), k)
    for network, one in by_network.items():
        mine = of.network == network
        if k in one.models and mine.any():
            networks[mine] = one.estimate(of.where(mine), k)
    return {
        "former numbers": Fitted(FORMER).estimate(of, k),
        "shipped numbers": Fitted(SHIPPED).estimate(of, k),
        LEFT_OUT: kinds,
        NETWORKS_OUT: networks,
        "match+atc-ne": of.thresholded,
    }


def errors(of: Seen, told: np.ndarray, shifts: str) -> dict[str, float]:
    """Return the mean absolute error of the accuracy by regime, sources alike."""
    found = {}
    for regime in WEIGHTS:
        parts = []
        for source in np.unique(of.source):
            mine = (of.source == source) & (of.regime == regime) & (of.shifts == shifts)
            if mine.any():
                parts.append(np.abs(told - of.accuracy)[mine].mean())
        if parts and np.isfinite(parts).all():
            found[regime] = float(np.mean(parts))
    return found


def report_fit(table: Table, fits: dict[str, Fitted]) -> None:
    """Print and keep what was fitted beside what is shipped."""
    for k, names in ((10, (*OF_BELIEF, *SLOPES)), (100, SLOPES)):
        print(f"\n{k} classes{'':32}", "  ".join(f"{name:>11}" for name in names))
        for label, one in fits.items():
            if k in one.models:
                values = numbers(one.models[k], names)
                print(f"{label:42}", "  ".join(f"{value:11.3f}" for value in values.values()))
                for name, value in values.items():
                    table.add("fit", k, "", label, "", name, value)


def report_accuracy(table: Table, of: Seen, told: dict[str, np.ndarray], k: int) -> None:
    """Print and keep the error of the accuracy by regime."""
    for shifts in (CORRUPTIONS, OTHERS, CLEAN):
        print(f"\n{k} classes, {shifts}: error of the accuracy, points")
        for method, values in told.items():
            by_regime = errors(of, values, shifts)
            for regime, value in by_regime.items():
                table.add("accuracy", k, shifts, method, regime, "accuracy_error", value)
            shown = "  ".join(f"{regime} {100 * v:.2f}" for regime, v in by_regime.items())
            print(f"{method:18}", shown, flush=True)


def report_ece(
    table: Table, sources: list[Source], folds: dict[str, int], by_fold: list[Fitted], k: int
) -> None:
    """Print and keep excess ECE and accuracy off by of the calibrator, the mean over sources."""
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for source in sources:
        for *names, excess, off in measure(source, folds, by_fold):
            found.setdefault(tuple(names), []).append((excess, off))
    print(f"\n{k} classes: excess ECE / accuracy off by, percent")
    for (method, shifts, regime), pairs in found.items():
        excess, off = np.mean(pairs, axis=0)
        table.add("scaling", k, shifts, method, regime, "excess_ece", excess)
        table.add("scaling", k, shifts, method, regime, "accuracy_off", off)
        print(f"{method:30} {shifts:24} {regime:18} {100 * excess:5.2f} / {100 * off:5.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="of context_changes.py")
    parser.add_argument("-o", "--output", type=Path, default=CSV)
    args = parser.parse_args()
    table, sources = Table(), [read_changes(path) for path in args.files]
    for family in FAMILIES.values():
        sources += [read_tuning(name, suites.load(name)) for name in suites.names(family)]
    folds = fold_of({kind for source in sources for kind in source.kinds})
    networks = dict(zip([s.name for s in sources], network_names(sources), strict=True))
    print("networks:", ", ".join(f"{name} ({network})" for name, network in networks.items()))
    mine = {k: [s for s in sources if s.n_classes == k] for k in FAMILIES}
    seen = {
        k: Seen.joined(
            [look(s, networks[s.name], list(draw(s, folds, np.random.default_rng(0)))) for s in of]
        )
        for k, of in mine.items()
    }
    everything = fit(seen[10], seen[100])
    by_fold = [without_kinds(seen, fold) for fold in range(FOLDS)]
    by_network = {
        network: without_network(seen, network, everything)
        for network in dict.fromkeys(networks.values())
    }
    fits = {"former": Fitted(FORMER), "shipped": Fitted(SHIPPED), "fitted": everything}
    fits |= {f"without {network}": one for network, one in by_network.items()}
    report_fit(table, fits)
    for k in FAMILIES:
        report_accuracy(table, seen[k], estimates(seen, by_fold, by_network, k), k)
    table.write(args.output)
    for k, of in mine.items():
        report_ece(table, of, folds, by_fold, k)
        table.write(args.output)


if __name__ == "__main__":
    main()
