"""Record what probmetrics makes of the reference data, for test_structured_vectors.py.

Made with Python 3.11, probmetrics 1.3.0, torch 2.13.0+cpu, NumPy 2.4.6, in an environment of its
own:

    python3 -m venv /tmp/peer2
    /tmp/peer2/bin/pip install torch==2.13.0 && /tmp/peer2/bin/pip install probmetrics numba
    /tmp/peer2/bin/python tests/reference/recorded/make_probmetrics.py

Its default solver ("bfgs", float32) stops within about 3e-4 of the minimum; its SAGA solver, in
float64 and with a small tolerance, comes nearer. Both are recorded.
"""

import json
from pathlib import Path

import numpy as np
import torch
from probmetrics.calibrators import (
    MixtureCalibrator,
    SMSCalibrator,
    SVSCalibrator,
    TemperatureScalingCalibrator,
)

HERE = Path(__file__).parent


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main():
    data = json.loads((HERE.parent / "vectors" / "data.json").read_text())["datasets"]
    tight = {"opt": "saga", "tol": 1e-12, "max_iter": 20_000, "print_init_info": False}
    methods = {
        "tsmix": lambda: MixtureCalibrator(TemperatureScalingCalibrator()),
        "svs_bfgs": lambda: SVSCalibrator(print_init_info=False),
        "svs_saga": lambda: SVSCalibrator(**tight),
        "sms_bfgs": lambda: SMSCalibrator(print_init_info=False),
        "sms_saga": lambda: SMSCalibrator(**tight),
    }
    record = {}
    for name in ("k10", "k3"):
        proba, y = softmax(np.array(data[name]["val_logits"])), np.array(data[name]["val_labels"])
        test = softmax(np.array(data[name]["test_logits"][:5]))
        record[name] = {}
        for method, make in methods.items():
            torch.manual_seed(0)
            np.random.seed(0)  # noqa: NPY002  # its SAGA draws from the global generator
            fitted = make()
            fitted.fit(proba, y)
            entry = {"proba": np.asarray(fitted.predict_proba(test), float).tolist()}
            if hasattr(fitted, "W_"):
                entry["matrix_and_intercept"] = np.asarray(fitted.W_, float).tolist()
            elif hasattr(fitted, "v_"):
                entry["scale"] = np.asarray(fitted.v_, float).tolist()
                entry["intercept"] = np.asarray(fitted.b_, float).tolist()
            record[name][method] = entry
    (HERE / "probmetrics.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
