"""Rows that are read piece by piece: the same errors at the door as for arrays."""

from dataclasses import dataclass

import numpy as np
import pytest

from wildcal import TemperatureScaling
from wildcal.core.rows import check_rows
from wildcal.testing import make_suite

Z, Y = make_suite(5, n_classes=4, n_tuning=90, n_ood_tuning=0, n_test=10).tuning
N = len(Y)


@dataclass(frozen=True)
class Read:
    """Logits that are cut by slices and are no array."""

    values: np.ndarray
    portable = False

    @property
    def shape(self):
        return self.values.shape

    @property
    def dtype(self):
        return self.values.dtype

    def __len__(self):
        return len(self.values)

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        return self.values[rows]


def half(value, other):
    return np.where(np.arange(N) % 2, value, other)


@pytest.mark.parametrize(
    ("logits", "columns", "said"),
    [
        (Z.astype(int), {}, "must be floating-point numbers, got dtype int64"),
        (Z[:0], {"y": Y[:0]}, r"at least one row, got shape \(0, 4\)"),
        (Z, {"y": Y[1:]}, f"y must have one value per row: {N} rows, {N - 1} values"),
        (Z, {"y": np.full(N, -1)}, "some in-distribution rows, got -1 everywhere"),
        (Z, {"weight": np.zeros(N)}, "must not be zero on every row"),
        (Z, {"weight": np.full(N, np.nan)}, "sample_weight must"),
        (Z, {"weight": np.full(N, -1.0)}, "sample_weight must"),
        (
            Z,
            {"y": half(-1, 1), "weight": half(1.0, 0.0)},
            "must not be zero on every in-distribution row",
        ),
        (Z, {"environment": half(1, 2)}, "environment"),
    ],
)
def test_what_no_fit_can_use(logits, columns, said):
    columns = {"y": Y, **columns}
    with pytest.raises(ValueError, match=said):
        check_rows(Read(logits), accepts_ood=True, who="it", **columns)


def test_as_many_classes_as_before():
    fitted = TemperatureScaling().fit(Z, Y)
    with pytest.raises(ValueError, match="logits must have 4 columns, as in fit, got 3"):
        check_rows(Read(Z[:, :3]), n_classes=fitted.n_classes_)
    assert check_rows(Read(Z), n_classes=fitted.n_classes_).logits.shape == Z.shape


@pytest.mark.parametrize("largest", [1.0, 1e200])
def test_weights_and_environments_are_those_of_arrays(largest):
    weight, environment = largest * half(1.0, 0.25), half(0, 7)
    columns = {"y": Y, "weight": weight, "environment": environment}
    read = check_rows(Read(Z), who="it", **columns)
    np.testing.assert_array_equal(read.environment[:], half(0, 1))
    np.testing.assert_array_equal(read.weight[:], half(1.0, 0.25))
