"""The slopes of `ContextScaling` for many classes: their fit, and what it is worth.

    python benchmarks/studies/context_many.py changes/c100-*.npz --suites imagenet/*    one minute

Reads files of context_changes.py of networks with a hundred classes, the tuning splits of the
shipped one, and those of further suites; draws windows of all kinds from them (context_windows.py),
mixtures of all kinds and windows of three classes among them; and looks for the slopes with the
least mean absolute error of the estimated accuracy, and as much again of the mean error of windows
of one network, regime and fold, which is what calibration suffers from. Errors weigh 1 / (0.3 +
gap), validation corruptions twice; of windows that are right less than three tenths as often as
clean ones whole ones are a regime of their own, and others left out. Printed, and kept in
context_many.csv, are

- what is fitted beside what is shipped, and the same without each network; then for those who know
  that classes keep their shares;
- the error of the accuracy in points, by regime: of the form for few classes, fitted to such
  windows before, of what is shipped without the count of unsure rows and with it, and refitted
  without the kinds or without the networks that it is tested on; beside it `match+atc-ne`, which
  learns nothing of shift. Slopes are fitted to what the signs say alone.
"""

import argparse
import csv
import platform
from pathlib import Path

import numpy as np
import scipy
from context import commit
from context_belief_fit import SIGNS
from context_windows import (
    CLEAN,
    CORRUPTIONS,
    FOLDS,
    LEAST_ACCURATE,
    NARROW,
    OTHERS,
    WEIGHTS,
    WIDE,
    Seen,
    Source,
    draw,
    fold_of,
    look,
    narrow_windows,
    read_changes,
    read_tuning,
    wide_streams,
)
from scipy.optimize import minimize

from wildcal import __version__, suites
from wildcal.calibrators.context.constants import KNOWN_MIX, SHIPPED
from wildcal.calibrators.context.gap import GapModel
from wildcal.io.suite import Suite

HERE = Path(__file__).parent
CSV = HERE / "context_many.csv"
FIELDS = ("part", "classes", "shifts", "method", "regime", "metric", "value",
          "wildcal", "commit", "versions")  # fmt: skip
READ_AS_FEW = {
    100: GapModel(1.31, 1.05, 0.76, 2.06, belief=SIGNS),
    1000: GapModel(1.22, 0.13, 0.07, 0.15, belief=SIGNS),
}
"""What was shipped for so many classes while they were read as ten are."""
SLOPES = ("beta_p", "beta_2", "beta_g")
RUINED = "whole, ruined"
MIXED_WEIGHTS = WEIGHTS | {
    "whole": 5.0,
    "32 rows": 3.0,
    "Dirichlet(1)": 0.7,
    "Dirichlet(0.3)": 0.7,
    "few classes": 0.7,
    NARROW: 0.0,  # rows of three classes come repeatedly: tested, not fitted to
    WIDE: 3.0,
    RUINED: 1.3,
}
LEAST_ROWS = 150
"""Of a cell, for windows of another class mix: of fewer, the same rows would come again."""
SMOOTH = 0.01
EASY = 0.3


class Windows:
    """What windows say and what is true of them, as the fit wants it."""

    def __init__(self, sources: list[Source], networks: dict[str, str], k: int) -> None:
        kinds = {kind for source in sources for kind in source.kinds}
        folds, drawn = fold_of(kinds), {}
        for source in sources:
            rng = np.random.default_rng(0)
            drawn[source.name] = [*draw(source, folds, rng), *wide_streams(source, rng)]
            drawn[source.name] += narrow_windows(source, folds, rng)

        def seen(known: GapModel) -> Seen:
            parts = [look(s, networks[s.name], drawn[s.name], known) for s in sources]
            return Seen.joined(parts)

        told, few = KNOWN_MIX[k], READ_AS_FEW[k]
        self.seen, knows = seen(SHIPPED[k]), seen(told)
        as_few = seen(few)
        self.as_few = as_few.confidence - few.gap(as_few.statistics)
        self.columns, self.known_mix = (
            np.stack([of.price, np.square(np.maximum(of.fall, 0.0)), of.warm_fall], axis=1)
            for of in (self.seen.statistics, knows.statistics)
        )
        self.most = self.seen.statistics.most
        self.counted = SHIPPED[k].weight_of_counts(self.seen.statistics)
        self.second = SHIPPED[k].second(self.seen.statistics)
        self.gap = self.seen.confidence - self.seen.accuracy
        clean = {
            s.name: np.mean(s.logits[s.cell == 0].argmax(axis=1) == s.y[s.cell == 0])
            for s in sources
        }
        rows = {s.name: min(np.bincount(s.cell)[1:]) for s in sources}
        usual = np.array([clean[name] for name in self.seen.source])
        enough = np.array([rows[name] >= LEAST_ROWS for name in self.seen.source])
        self.other_mix = np.char.find(self.seen.regime, "Dirichlet") >= 0
        self.other_mix |= np.isin(self.seen.regime, ["few classes", NARROW])
        is_clean = self.seen.shifts == CLEAN
        is_ruined = self.seen.accuracy < LEAST_ACCURATE * usual
        whole = self.seen.regime == "whole"
        self.regime = np.where(is_ruined & whole, RUINED, self.seen.regime)
        self.usable = (~is_ruined | whole) & (enough | is_clean | ~self.other_mix)

    def weights(self) -> np.ndarray:
        """Return what each window weighs: regimes as above, each source alike."""
        seen, weight = self.seen, np.zeros(len(self.gap))
        for source in np.unique(seen.source):
            for regime, part in MIXED_WEIGHTS.items():
                mine = (seen.source == source) & (self.regime == regime)
                weight[mine] = part / max(mine.sum(), 1)
        weight *= 1 + (seen.shifts == CORRUPTIONS)
        return weight * self.usable / (EASY + np.abs(self.gap))

    def fit(self, some: np.ndarray, start: GapModel, *, known_mix: bool = False) -> np.ndarray:
        """Return the slopes with the least loss on some of the windows."""
        columns = self.known_mix if known_mix else self.columns
        some = some & ~self.other_mix if known_mix else some  # what was told is true
        weight, seen = self.weights() * some, self.seen
        weight /= weight.sum()
        names = [seen.source, self.regime, seen.shifts, seen.fold.astype(str)]
        _, group = np.unique(np.stack(names), axis=1, return_inverse=True)
        of_group = np.bincount(group, weight)

        def loss(slopes: np.ndarray) -> tuple[float, np.ndarray]:
            gap = columns @ slopes
            inside = gap < self.most
            error = np.where(inside, gap, self.most) - self.gap
            size = np.sqrt(error * error + SMOOTH * SMOOTH)
            mean = np.bincount(group, weight * error) / np.maximum(of_group, 1e-12)
            of_mean = np.sqrt(mean * mean + SMOOTH * SMOOTH)
            pull = weight * (error / size + (mean / of_mean)[group])
            return float(weight @ size + of_group @ of_mean), columns.T @ (pull * inside)

        begin = np.array(start.numbers()[:3])
        found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * 3)
        return np.asarray(found.x)

    def estimate(self, slopes: np.ndarray, *, signs_alone: bool = False) -> np.ndarray:
        """Return the estimated accuracy of windows."""
        gap = self.columns @ slopes
        if not signs_alone:
            gap = gap + self.counted * (self.second - gap)
        return self.seen.confidence - np.minimum(gap, self.most)

    def errors(self, told: np.ndarray, shifts: str) -> dict[str, float]:
        """Return the mean absolute error of the accuracy by regime, sources alike."""
        found, seen = {}, self.seen
        for regime in MIXED_WEIGHTS:
            parts = []
            for source in np.unique(seen.source):
                mine = (seen.source == source) & (self.regime == regime) & (seen.shifts == shifts)
                if (mine & self.usable).any():
                    parts.append(np.abs(told - seen.accuracy)[mine & self.usable].mean())
            if parts and np.isfinite(parts).all():
                found[regime] = float(np.mean(parts))
        return found


def study(windows: Windows, k: int) -> list[tuple[str, ...]]:
    """Fit, print and return all of one number of classes."""
    seen, everything, lines = windows.seen, np.ones(len(windows.gap), bool), []
    start = SHIPPED[k]
    fits = {
        "shipped": np.array(start.numbers()[:3]),
        "fitted": windows.fit(everything, start),
    }
    networks = np.unique(seen.network)
    for network in networks:
        fits[f"without {network}"] = windows.fit(seen.network != network, start)
    fits["shipped, known mix"] = np.array(KNOWN_MIX[k].numbers()[:3])
    fits["fitted, known mix"] = windows.fit(everything, KNOWN_MIX[k], known_mix=True)
    for label, slopes in fits.items():
        print(f"{k:4} {label:40}", *(f"{n} {v:.3f}" for n, v in zip(SLOPES, slopes, strict=True)))
        for name, value in zip(SLOPES, slopes, strict=True):
            lines.append(("fit", str(k), "", label, "", name, f"{value:.5f}"))
    kinds, others = (np.full(len(windows.gap), np.nan) for _ in range(2))
    for fold in range(FOLDS):
        mine = seen.fold == fold
        kinds[mine] = windows.estimate(windows.fit(~mine, start))[mine]
    for network in networks:
        mine = seen.network == network
        others[mine] = windows.estimate(fits[f"without {network}"])[mine]
    told = {
        "read as few classes": windows.as_few,
        "signs alone": windows.estimate(fits["shipped"], signs_alone=True),
        "shipped slopes": windows.estimate(fits["shipped"]),
        "kinds left out": kinds,
        "networks left out": others,
        "match+atc-ne": seen.thresholded,
    }
    for shifts in (CORRUPTIONS, OTHERS, CLEAN):
        print(f"\n{k} classes, {shifts}: error of the accuracy, points")
        for method, values in told.items():
            by_regime = windows.errors(values, shifts)
            for regime, value in by_regime.items():
                names = ("accuracy", str(k), shifts, method, regime, "accuracy_error")
                lines.append((*names, f"{value:.5f}"))
            shown = "  ".join(f"{regime} {100 * v:.2f}" for regime, v in by_regime.items())
            print(f"{method:20}", shown, flush=True)
    return lines


def network_names(sources: list[Source]) -> dict[str, str]:
    """Return the network of each source: the name of the first source that has it."""
    return {
        source.name: next(o.name for o in sources if source.is_same_network(o))
        for source in sources
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="of context_changes.py")
    parser.add_argument("--suites", nargs="*", type=Path, default=[], help="tuning splits of more")
    parser.add_argument("-o", "--output", type=Path, default=CSV)
    args = parser.parse_args()
    versions = f"numpy {np.__version__}, scipy {scipy.__version__}"
    company = __version__, commit(), f"{versions}, python {platform.python_version()}"
    sources = [read_changes(path) for path in args.files]
    sources += [read_tuning(p.name.removesuffix(".npz"), Suite.open(p)) for p in args.suites]
    sources += [read_tuning(name, suites.load(name)) for name in suites.names("cifar100")]
    networks, lines = network_names(sources), []
    for k in KNOWN_MIX:
        mine = [source for source in sources if source.n_classes == k]
        if mine:
            lines += study(Windows(mine, networks, k), k)
    with args.output.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([FIELDS, *((*line, *company) for line in lines)])


if __name__ == "__main__":
    main()
