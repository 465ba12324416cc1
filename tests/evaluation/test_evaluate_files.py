"""`evaluate_files`: metrics equal those of arrays to 1e-6."""

import numpy as np
import pytest

from wildcal import TemperatureScaling, VectorScaling, evaluate, get_calibrator
from wildcal.evaluation.chunked import evaluate_files
from wildcal.io import formats
from wildcal.io.schema import Columns

N = 5000


def draw(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (N, n_classes))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((N, 1))).argmax(axis=1)
    y[rng.random(N) < 0.1] = -1
    country = rng.choice(["DE", "FR", "IN"], N)
    return 2 * z, y, country, rng.integers(1, 4, N)


def write(folder, z, y, country, weight):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {f"logit_{k}": z[:, k] for k in range(z.shape[1])}
    table = pyarrow.table({**columns, "label": y, "country": country, "w": weight})
    for i, start in enumerate(range(0, N, 2000)):
        parquet.write_table(table.slice(start, 2000), folder / f"{i}.parquet", row_group_size=700)
    return Columns(group_column="country", weight_column="w")


def same(found, expected):
    for name, estimate in found.estimates.items():
        wanted = expected[name]
        for end in ("value", "low", "high", "floor"):
            a, b = getattr(estimate, end), getattr(wanted, end)
            assert a == b or a == pytest.approx(b, rel=1e-4, abs=2e-6), (name, end)
    assert (found.n_samples, found.n_ood) == (expected.n_samples, expected.n_ood)
    assert set(expected) - set(found) <= {"classwise_ece"}


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("method", [None, "ts", "vector"])
def test_metrics_equal_those_of_arrays(tmp_path, monkeypatch, n_classes, method):
    monkeypatch.setattr(formats, "BATCH", 512)
    z, y, country, weight = draw(n_classes)
    columns = write(tmp_path, z, y, country, weight)
    calibrator = None if method is None else get_calibrator(method).fit(z[y >= 0], y[y >= 0])
    found = evaluate_files(tmp_path, columns, calibrator, n_bootstrap=20)
    shown = TemperatureScaling().fit(z[y >= 0], y[y >= 0])
    shown.temperature_ = 1.0
    expected = evaluate(
        y, logits=z, calibrator=calibrator or shown, groups=country, sample_weight=weight,
        n_bootstrap=20,
    )  # fmt: skip
    same(found, expected)
    assert list(found.groups) == ["DE", "FR", "IN"]
    for name, group in found.groups.items():
        same(group, expected.groups[name])
    if method == "vector":
        assert found.uncalibrated_accuracy == pytest.approx(expected.uncalibrated_accuracy)


def test_dask_scheduler(tmp_path, needs):
    needs("distributed")
    from functools import partial

    from wildcal.interop.dask import run_tasks

    z, y, country, weight = draw(4)
    columns = write(tmp_path, z, y, country, weight)
    calibrator = VectorScaling().fit(z[y >= 0], y[y >= 0])
    alone = evaluate_files(tmp_path, columns, calibrator)
    cluster = evaluate_files(
        tmp_path, columns, calibrator, run=partial(run_tasks, scheduler="local")
    )
    assert alone.to_dict() == cluster.to_dict()


def test_confidences(tmp_path):
    rng = np.random.default_rng(0)
    confidence = rng.beta(4, 2, 3000).round(3)
    correct = rng.random(3000) < confidence**2
    path = tmp_path / "verbal.csv"
    lines = [f"{100 * c:.1f},{r}" for c, r in zip(confidence, correct, strict=True)]
    path.write_text("\n".join(["stated,right", *lines]) + "\n")
    columns = Columns(
        input="confidence", score_columns=("stated",), correct_column="right", percent=True
    )
    found = evaluate_files(path, columns, n_bootstrap=20)
    same(found, evaluate(correct, confidence, n_bootstrap=20))
