"""Fitted calibrators of every method, and their inputs."""

import warnings
from functools import cache

import numpy as np
import pytest

from wildcal.core.exceptions import CalibrationWarning
from wildcal.core.registry import get_calibrator
from wildcal.testing import join, make_suite

SUITE = make_suite(600, 5, seed=3)


def _distances(x):
    """Return made-up distances to training samples, shape (n_samples, 2)."""
    z = np.where(np.isfinite(x), x, 0.0).reshape(len(x), -1)
    return 1 + np.sin(np.column_stack([z.max(axis=1), z.sum(axis=1)])) / 2


def _as_kind(z, kind):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return {
        "logits": z,
        "proba": p,
        "log_proba": np.log(p),
        "score": z[:, 1] - z[:, 0],
        "confidence": p.max(axis=1),
    }[kind]


@cache
def _fit(name, kind):
    calibrator, split = get_calibrator(name), SUITE.calibration
    known = len(SUITE.test.y)
    if not calibrator.uses_ood:
        split = type(split)(split.logits[:known], split.y[:known])
    more = {}
    if name == "window":
        split = join(split, SUITE.shifted)
        more["domain"] = np.r_[np.zeros(known, int), np.repeat(np.arange(1, 6), known // 5)]
    z, y = split.logits.astype(np.float64), split.y
    y = {"score": np.minimum(y, 1), "confidence": z.argmax(axis=1) == y}.get(kind, y)
    x = _as_kind(z, kind)
    if calibrator.requires:
        more["knn_distances"] = _distances(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(x, y, input=kind, **more)
    return calibrator


@pytest.fixture(scope="session")
def fitted():
    """A method fitted on 600 samples of 5 classes; those for windows are adapted to one."""

    def get(name, kind="logits"):
        calibrator = _fit(name, kind)
        if not hasattr(calibrator, "adapt"):
            return calibrator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            return calibrator.adapt(_as_kind(SUITE.shifted.logits.astype(np.float64), kind))

    return get


@pytest.fixture(scope="session")
def samples():
    """Inputs of a calibrator: n test, shifted and OOD samples, and knn_distances if required."""
    z = join(SUITE.test, SUITE.shifted, SUITE.ood).logits

    def get(calibrator, n=1320, dtype=np.float32, kind="logits"):
        # Copies of the samples differ a little, so that each is another sample.
        logits = np.resize(z, (n, z.shape[1])).astype(np.float64)
        logits[len(z) :] *= 1 + 0.1 * np.sin(np.arange(max(0, n - len(z))))[:, None]
        x = _as_kind(logits, kind).astype(dtype)
        return (x, _distances(x).astype(dtype)) if calibrator.requires else (x,)

    return get
