"""Find out what the scikit-learn wrapper does for two classifiers of handwritten digits.

    python benchmarks/studies/sklearn_digits.py     some minutes; writes sklearn_digits.csv

The digits 0 to 7 of scikit-learn's own data are split in two halves, for `fit` and for the test,
anew for every seed. The test rows are measured as they are and with Gaussian noise of a quarter of
the range; nines are a class that nobody has seen, and some eights stand for X_ood. Values are
means over seeds in percent, with the 95 % interval of that mean. docs/sklearn.md is made from the
csv.
"""

import argparse
import csv
import platform
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from rich.console import Console
from rich.progress import Progress
from scipy.stats import t as student
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from wildcal import __version__
from wildcal.interop.sklearn import CalibratedClassifier
from wildcal.metrics import ece, noise_floor

HERE = Path(__file__).parent
NOISE = 0.25
N_EIGHTS = 30
METHODS = (
    "uncalibrated",
    "ts",
    "energy",
    "energy, X_ood",
    "sklearn temperature",
    "sklearn sigmoid",
)


def commit() -> str:
    """Return the short hash of the code that runs."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True).stdout.strip() or "unknown"


def estimators(seed: int) -> dict[str, Any]:
    """Return the two classifiers."""
    return {
        "LinearSVC": LinearSVC(random_state=seed),
        "MLPClassifier": MLPClassifier(
            64, max_iter=400, learning_rate_init=0.01, random_state=seed
        ),
    }


def fitted(method: str, estimator: Any, X: Any, y: Any, eights: Any) -> Any:
    """Return a classifier with probabilities, calibrated in five folds where it is."""
    if method.startswith("sklearn"):
        return CalibratedClassifierCV(estimator, method=method.split()[1]).fit(X, y)
    if method == "uncalibrated":  # the scores alone: how they are split does not matter
        return CalibratedClassifier(estimator, "identity", cv=2).fit(X, y)
    name, *ood = method.split(", ")
    return CalibratedClassifier(estimator, name).fit(X, y, X_ood=eights if ood else None)


def measure(seed: int) -> dict[tuple[str, str, str], float]:
    """Return the values of one split: (estimator, method, what) -> percent."""
    X, y = load_digits(return_X_y=True)
    X, known = X / 16, y < 8
    X_fit, X_test, y_fit, y_test = train_test_split(
        X[known], y[known], test_size=0.5, random_state=seed, stratify=y[known]
    )
    rng = np.random.default_rng(seed)
    eights = rng.permutation(X[y == 8])[:N_EIGHTS]
    noisy = X_test + rng.normal(0, NOISE, X_test.shape)
    found = {}
    for name, estimator in estimators(seed).items():
        for method in METHODS:
            model = fitted(method, estimator, X_fit, y_fit, eights)
            proba = model.predict_proba(X_test)
            values = {
                "accuracy": np.mean(model.predict(X_test) == y_test),
                "ece": ece(y_test, proba),
                "floor": noise_floor(proba.max(axis=1)),
                "noisy ece": ece(y_test, model.predict_proba(noisy)),
                "nines": model.predict_proba(X[y == 9]).max(axis=1).mean(),
            }
            found |= {(name, method, what): 100 * float(v) for what, v in values.items()}
    return found


def main() -> None:
    """Run the study and write its csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "sklearn_digits.csv")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    code = commit()  # now, before the csv itself makes the checkout dirty
    with Progress(console=Console(stderr=True)) as progress:
        runs = [measure(seed) for seed in progress.track(range(options.seeds))]
    versions = f"scikit-learn {sklearn.__version__}, python {platform.python_version()}"
    with options.output.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("estimator", "method", "what", "mean", "low", "high", "seeds", "wildcal",
                         "commit", "versions"))  # fmt: skip
        for key in runs[0]:
            values = [run[key] for run in runs]
            error = np.std(values, ddof=1) / np.sqrt(len(values))
            mean, half = np.mean(values), student.ppf(0.975, len(values) - 1) * error
            numbers = (f"{mean:.3f}", f"{mean - half:.3f}", f"{mean + half:.3f}")
            writer.writerow((*key, *numbers, len(values), __version__, code, versions))
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
