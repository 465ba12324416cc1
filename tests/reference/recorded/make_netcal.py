"""Record what netcal makes of a seeded sample, for test_binary_vectors.py.

Made with Python 3.11, netcal 1.4.0, NumPy 2.4.6, torch 2.13.0 in an environment of its own:

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install torch==2.13.0 netcal==1.4.0
    /tmp/peer/bin/python tests/reference/recorded/make_netcal.py
"""

import json
from pathlib import Path

import numpy as np


def main():
    from netcal.binning import BBQ, HistogramBinning

    rng = np.random.default_rng(7)
    score = np.round(rng.beta(5, 1.2, 600), 6)
    correct = (rng.random(600) < score**1.8).astype(int)
    grid = np.round(np.linspace(0.3, 1.0, 71) - 0.0005, 4)
    record = {"score": score.tolist(), "correct": correct.tolist(), "grid": grid.tolist()}
    histogram = HistogramBinning(bins=15).fit(score, correct)
    record["histogram"] = np.ravel(histogram.transform(grid)).tolist()
    for rule in ("BIC", "AIC"):
        fitted = BBQ(score_function=rule).fit(score, correct)
        record[f"bbq_{rule}"] = np.ravel(fitted.transform(grid)).tolist()
    Path(__file__).with_name("netcal.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
