"""Record what betacal makes of a seeded sample, for test_binary_vectors.py.

Made with Python 3.11, betacal 1.1.0, NumPy 2.4.6, scikit-learn 1.9.1 in an environment of its own:

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install betacal==1.1.0
    /tmp/peer/bin/python tests/reference/recorded/make_betacal.py
"""

import json
from pathlib import Path

import numpy as np


def sample(case, n=400):
    """Scores and outcomes. "bound" falls at the top, so that its free maximum has b < 0."""
    rng = np.random.default_rng(5)
    score = np.round(rng.beta(4, 1.5, n), 6)
    fall = 2.25 * np.maximum(score - 0.8, 0)
    truth = score**1.6 if case == "free" else 0.25 + 0.55 * score - fall
    return score, (rng.random(n) < truth).astype(int)


def main():
    from betacal import BetaCalibration

    grid = [0.01, 0.2, 0.4, 0.6, 0.8, 0.95, 0.999]
    record = {}
    for case in ("free", "bound"):
        score, correct = sample(case)
        entry = {"score": score.tolist(), "correct": correct.tolist(), "grid": grid}
        for parameters in ("abm", "am", "ab"):
            fitted = BetaCalibration(parameters=parameters).fit(score.reshape(-1, 1), correct)
            entry[parameters] = {
                "a_b_m": [float(v) for v in fitted.calibrator_.map_],
                "proba": fitted.predict(np.array(grid)).tolist(),
            }
        record[case] = entry
    Path(__file__).with_name("betacal.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
