"""Dask data frames: predictions as added columns, metrics of all partitions."""

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")
frames = pytest.importorskip("dask.dataframe")

from wildcal import TemperatureScaling, WindowScaling, evaluate  # noqa: E402
from wildcal.core.exceptions import InputError  # noqa: E402
from wildcal.interop import dask  # noqa: E402

CLASSES = ["cat", "dog", "fish"]
DECLARED = {"score_columns": CLASSES, "label_column": "species"}


def draw(dtype=np.float64):
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (1000, 3)).astype(dtype)
    y = (z + rng.gumbel(size=z.shape) * 2).argmax(axis=1)
    frame = pandas.DataFrame(z, columns=CLASSES)
    frame.insert(0, "row_id", [f"{k:04d}" for k in range(1000)])
    frame["country"] = rng.choice(["DE", "FR"], 1000)
    frame["species"] = np.array(CLASSES)[y]
    return z, y, frame


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_predict_adds_columns(dtype):
    z, y, frame = draw(dtype)
    calibrator = TemperatureScaling().fit(z, y)
    parts = frames.from_pandas(frame, npartitions=7)
    parts = frames.concat([parts, parts.partitions[0].loc[[]]])  # an empty partition
    found = dask.predict(parts, calibrator, proba=True, class_names=CLASSES, **DECLARED)
    done = found.compute()
    assert found.dtypes.to_dict() == done.dtypes.to_dict()
    pandas.testing.assert_frame_equal(done[frame.columns], frame, check_dtype=False)
    p = calibrator.predict_proba(z)
    np.testing.assert_allclose(done["confidence"], p.max(axis=1), atol=1e-6)
    assert done["predicted"].tolist() == [CLASSES[k] for k in p.argmax(axis=1)]
    np.testing.assert_allclose(done[[f"proba_{c}" for c in CLASSES]], p, atol=1e-6)


def test_a_window_calibrator_adapts_to_all_partitions():
    z, y, frame = draw()
    domain = np.arange(1000) % 2
    calibrator = WindowScaling().fit(z, y, domain=domain)
    parts = frames.from_pandas(frame, npartitions=9)
    done = dask.predict(parts, calibrator, **DECLARED).compute()
    expected = calibrator.adapt(z).confidence(z)
    np.testing.assert_allclose(done["confidence"], expected, rtol=1e-9)
    found = dask.evaluate(parts, calibrator, n_bootstrap=0, **DECLARED)
    assert float(found.mean_confidence) == pytest.approx(expected.mean(), rel=1e-6)


def test_evaluate_all_partitions():
    z, y, frame = draw()
    calibrator = TemperatureScaling().fit(z, y)
    parts = frames.from_pandas(frame, npartitions=20)
    found = dask.evaluate(parts, calibrator, group_column="country", n_bootstrap=0, **DECLARED)
    expected = evaluate(y, logits=z, calibrator=calibrator, groups=frame["country"], n_bootstrap=0)
    for name, estimate in found.estimates.items():
        assert float(estimate) == pytest.approx(float(expected[name]), rel=1e-5, abs=2e-6)
    assert list(found.groups) == ["DE", "FR"]


def test_columns_are_declared_not_guessed():
    z, y, frame = draw()
    calibrator = TemperatureScaling().fit(z, y)
    with pytest.raises(InputError, match="score_columns must be given"):
        dask.predict(frames.from_pandas(frame, npartitions=2), calibrator)
    with pytest.raises(InputError, match="frame must be a Dask DataFrame, got DataFrame"):
        dask.predict(frame, calibrator, **DECLARED)
