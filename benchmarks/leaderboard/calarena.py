"""Published results of the CalArena benchmark, for comparison.

Harm rates are computed anew from its result files. One of its experiments, a DenseNet-40 on
CIFAR-10, is run with our calibrators: its logits were published by others.
"""

import csv
import io
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.leaderboard import published
from benchmarks.leaderboard.contestants import OURS, NotForThisData, calibrate
from benchmarks.leaderboard.run import HARM, score, uncalibrated

GROUPS: Final = {
    "tables, two classes": ("tabrepo-binary", "tabarena-binary"),
    "tables, more classes": ("tabrepo-multiclass", "tabarena-multiclass"),
    "images": ("cv-binary", "cv-multiclass", "imagenet-multiclass"),
}
EXPERIMENT: Final = ("c10", "densenet40")
BASE: Final = "Base-model"


def harm_rates(folder: Path | None) -> list[dict[str, Any]]:
    """Return the share of experiments in which a calibrator made the log loss worse."""
    repository = published.find(folder, published.CALARENA)
    if repository is None:
        return []
    changes: dict[tuple[str, str], list[float]] = {}
    for group, benchmarks in GROUPS.items():
        for benchmark in benchmarks:
            names = [Path(n).stem for n in repository.names(f"results/{benchmark}")]
            before = _losses(repository, benchmark, BASE)
            for name in names:
                if name != BASE:
                    after = _losses(repository, benchmark, name)
                    changes.setdefault((group, name), []).extend(
                        after[key] / before[key] - 1 for key in after if before.get(key, 0) > 0
                    )
    rows = []
    for (group, name), values in changes.items():
        found = np.array(values)
        row = {"data": group, "calibrator": name, "experiments": len(found)}
        row["harm"] = f"{np.mean(found > HARM):.4f}"
        row["worse"] = f"{np.mean(found > 0):.4f}"
        row["failed"] = f"{np.mean(np.isnan(found)):.4f}"
        row["median_change"] = f"{np.nanmedian(found):.4f}"
        rows.append(row)
    return rows


def _losses(
    repository: published.Repository, benchmark: str, name: str
) -> dict[tuple[str, str], float]:
    text = repository.read(f"results/{benchmark}/{name}.csv").decode()
    return {
        (row["dataset"], row["model"]): float(row[f"{name}_logloss"] or "nan")
        for row in csv.DictReader(io.StringIO(text))
    }


def densenet(folder: Path | None) -> list[dict[str, Any]]:
    """Return the log loss of our calibrators in one of the experiments, and the published ones."""
    logits = published.find(folder, published.DENSENET)
    results = published.find(folder, published.CALARENA)
    if logits is None or results is None:
        return []
    predictions = published.densenet(logits)
    scores, y = uncalibrated(predictions), predictions.y
    is_test = predictions.domain == 1
    rows = []
    for name in OURS:
        try:
            proba = calibrate(name, scores[~is_test], y[~is_test], scores[is_test])
        except NotForThisData:
            continue
        rows.append({"who": "wildcal", "calibrator": name, "nll": score(y[is_test], proba)["nll"]})
    for path in results.names("results/cv-multiclass"):
        name = Path(path).stem
        nll = _losses(results, "cv-multiclass", name)[EXPERIMENT]
        rows.append({"who": "CalArena", "calibrator": name, "nll": f"{nll:.6f}"})
    return sorted(rows, key=lambda row: float(row["nll"]))
