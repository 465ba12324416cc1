"""Logits near the end of their type: a fit is finite and says finite things, or it is refused."""

import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from wildcal import load, make_calibrator, save
from wildcal.calibrators import CALIBRATORS

HUGE = [(np.float32, 1e19), (np.float32, 1e37), (np.float64, 1e154), (np.float64, 4e307)]


@pytest.mark.parametrize(("dtype", "size"), HUGE)
@pytest.mark.parametrize("name", CALIBRATORS)
def test_huge_logits_never_make_a_broken_calibrator(
    name: str, dtype: type, size: float, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    plain = 3 * rng.normal(size=(200, 4))
    y = (plain + rng.gumbel(size=plain.shape)).argmax(axis=1)
    end = np.finfo(dtype).max
    logits = np.clip(plain, -end / size, end / size).astype(dtype) * dtype(size)
    calibrator = make_calibrator(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with suppress(ValueError):
            calibrator.fit(logits, y)
        if not calibrator.is_fitted:
            with pytest.raises(ValueError, match="divide logits this large"):
                calibrator.fit(logits, y)
            return
        proba = calibrator.predict_proba(logits)
    assert np.isfinite(proba).all()
    assert np.allclose(proba.sum(axis=1), 1, atol=1e-4)
    save(calibrator, tmp_path / "calibrator.json")
    assert load(tmp_path / "calibrator.json").fit_ == calibrator.fit_


def test_a_refused_fit_says_how_large_the_logits_are() -> None:
    rng = np.random.default_rng(1)
    logits = (rng.normal(size=(100, 3)) * 1e30).astype(np.float32)
    with pytest.raises(ValueError, match=r"VectorScaling .*logit is \d.*e\+30"):
        make_calibrator("vector").fit(logits, rng.integers(0, 3, 100))


def test_where_logits_are_small_the_weights_are_named() -> None:
    rng = np.random.default_rng(1)
    logits, y = 3 * rng.normal(size=(100, 3)), rng.integers(0, 3, 100)
    with pytest.raises(
        ValueError, match=r"logit is \d\.\d+, and their weights add up to 1e-298\.$"
    ):
        make_calibrator("svs").fit(logits, y, sample_weight=np.full(100, 1e-300))
