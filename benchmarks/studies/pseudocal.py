"""Compare PseudoCal, which needs the network and its images, with what reads logits alone.

    python benchmarks/studies/pseudocal.py DATA            about half an hour on one core
    python benchmarks/studies/pseudocal.py DATA --network cifar10-densenet-45 --add

DATA has CIFAR-10 and CIFAR-100 as `wildcal extract` reads them. Networks are those whose weights
come with wildcal. Windows and the other methods are those of window.py, part "test". The images of
a window are made again, mixed up in pairs and shown to the network once more; temperature scaling
on that is the temperature of the window. Running it is a look at the test types, which
docs/theory/looks.md counts. Nothing is tuned.
"""

import argparse
import csv
import os
import platform
import warnings
from pathlib import Path
from zlib import crc32

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import scipy
from rich.progress import track
from window import (
    ORACLE,
    STREAM,
    TIERS,
    TUNED_ON,
    Found,
    Window,
    commit,
    confidences,
    excess,
    kind_of,
    measure,
    run_network,
    stream_of,
    windows_of,
)

from wildcal import __version__, suites
from wildcal.calibrators.temperature import fit_temperature
from wildcal.core.errors import CalibrationWarning
from wildcal.vision.classifiers import Classifier, open_classifier
from wildcal.vision.mixup import mixed_up
from wildcal.vision.sizes import Sizes
from wildcal.vision.sources import make_plan
from wildcal.vision.training_data import NORMALIZERS

CSV = Path(__file__).with_name("pseudocal.csv")
NETWORKS = ("cifar10-densenet-45", "cifar10-se-resnet20", "cifar100-resnet20")
METHOD, KNEW = "pseudocal", "unlabeled test window, its images and the network"
OTHERS = ("ts", "energy", "match+atc-ne", "match+cott", "context@clean", "context", *TIERS[ORACLE])
ASKED = ("whole", "32 rows", "256 rows, Dirichlet(0.3)")
"""Windows that are asked for here; and the stream."""
FARTHEST = 0.1
"""Of logits that are computed anew from those of the suite, which are rounded."""
FIELDS = (
    "network",
    "setting",
    "method",
    "knew",
    "metric",
    "value",
    "wildcal",
    "commit",
    "versions",
)


class Images:
    """The images of every test split of a suite, and the network that its logits are of."""

    def __init__(self, network: str, suite, data: Path) -> None:
        dataset = network.split("-")[0]
        self.classifier: Classifier = open_classifier(f"wildcal:{network}", NORMALIZERS[dataset])
        splits = {s.name: s for s in (*suite.tests("none"), *suite.tests("covariate"))}
        sizes = Sizes(corrupted=suite.data["sizes"]["corrupted"])
        plan = make_plan(
            dataset, data, ood={}, extra={}, corrupted=None, sizes=sizes, seed=suite.seed
        )
        cells = [
            c for c in plan.cells if c.name in splits and kind_of(splits[c.name]) not in TUNED_ON
        ]
        self.of: dict[str, np.ndarray] = {}
        for cell in track(cells, f"{network}: images"):
            rows = cell.rows[: splits[cell.name].rows]  # a shipped sample has the first ones
            images = cell.pixels(cell.source(), rows, plan.seed)
            self._check(images[:64], splits[cell.name])
            self.of[cell.name] = images

    def _check(self, images: np.ndarray, split) -> None:
        """Raise unless these are the images that the first rows of a split were computed from."""
        found = self.classifier.logits(images)
        apart = np.abs(found - split.logits[: len(images)].astype(np.float32)).max()
        if apart > FARTHEST:
            raise SystemExit(f"{split.name}: the logits of these images are {apart:.2g} off.")

    def temperature(self, window: Window) -> float:
        """Return PseudoCal's temperature of a window; 1 where no pair can be mixed."""
        images = np.concatenate([self.of[name][rows] for name, rows in window.parts])
        words = " ".join(f"{name} {rows[:8]}" for name, rows in window.parts)
        rng = np.random.default_rng(crc32(f"{window.setting} {words}".encode()))
        try:
            logits, y = mixed_up(self.classifier, images, rng)
        except ValueError:
            return 1.0
        return fit_temperature(logits, y).temperature


def run(network: str, data: Path) -> list[dict[str, str]]:
    """Return the lines of one network."""
    suite = suites.load(network)
    results = {name: Found() for name in OTHERS}
    pseudo = Found(knew=KNEW)
    with suite.opened(), warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        run_network("test", network, suite, results, quick=False)
        images = Images(network, suite, data)
        splits = [s for s in suite.tests("covariate") if kind_of(s) not in TUNED_ON]
        clean = suite.tests("none")[0]
        for kind in track(sorted({kind_of(s) for s in splits}), f"{network}: windows"):
            windows = windows_of([s for s in splits if kind_of(s) == kind], clean)
            mine = [w for w in windows if w.setting in ASKED]
            measure(images.temperature, mine, pseudo, network, kind)
        pseudo.stream[network] = confidences(images.temperature, stream_of(splits, clean))
    return summary(network, results | {METHOD: pseudo})


def summary(network: str, results: dict[str, Found]) -> list[dict[str, str]]:
    """Return the mean over types of each method and setting."""
    versions = (
        f"numpy {np.__version__}, scipy {scipy.__version__}, python {platform.python_version()}"
    )
    company = __version__, commit(), versions
    out = []
    for method, found in results.items():
        for setting in ASKED:
            for metric, table in (("excess_ece", found.excess), ("accuracy_off", found.off)):
                each = [value for (_, s, _), value in table.items() if s == setting]
                if each:
                    row = network, setting, method, found.knew, metric, f"{np.mean(each):.5f}"
                    out.append(dict(zip(FIELDS, (*row, *company), strict=True)))
        row = network, STREAM, method, found.knew, "excess_ece"
        value = f"{excess(*found.stream[network]):.5f}"
        out.append(dict(zip(FIELDS, (*row, value, *company), strict=True)))
    return out


def main() -> None:
    """Run the networks that were asked for, and write the csv after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--network", action="append", choices=NETWORKS)
    parser.add_argument("--add", action="store_true", help="keep the lines of other networks")
    parser.add_argument("-o", "--output", type=Path, default=CSV)
    arguments = parser.parse_args()
    chosen = arguments.network or NETWORKS
    rows: list[dict[str, str]] = []
    if arguments.add and arguments.output.exists():
        with arguments.output.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["network"] not in chosen]
    for network in chosen:
        rows += run(network, arguments.data)
        with arguments.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
