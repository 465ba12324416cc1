"""Every registered calibrator passes every check of the contract, and every check can fail."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

from wildcal import testing
from wildcal.core.arrays import softmax
from wildcal.core.calibrator import Calibrator, FitInfo, clone
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.core.registry import CALIBRATORS, get_calibrator
from wildcal.testing import CALIBRATOR_CHECKS, check_calibrator, make_suite


@pytest.mark.parametrize("check", CALIBRATOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CALIBRATORS)
def test_contract(name, check):
    check(get_calibrator(name))


@pytest.mark.parametrize("name", ["dac+ets", "dac+energy", "dac+irova"])
def test_wrapped_methods_keep_the_contract(name):
    check_calibrator(get_calibrator(name))


@pytest.mark.parametrize("name", CALIBRATORS)
def test_the_registered_name_is_that_of_the_instance(name):
    calibrator = get_calibrator(name)
    assert calibrator.name == name
    assert calibrator.title
    assert clone(calibrator).name == name


@dataclass(kw_only=True, eq=False, repr=False)
class Plain(Calibrator):
    """softmax(z / scale); classes below break one promise each."""

    name = title = "plain"
    preserves_accuracy = True
    scale: float = 1.0

    def _fit(self, data):
        return FitInfo()

    def formula(self, xp, z, *inputs):
        return softmax(xp, z, self.scale)


class TooSmall(Plain):
    def formula(self, xp, z, *inputs):
        return 0.9 * softmax(xp, z)


class Float64(Plain):
    def formula(self, xp, z, *inputs):
        return softmax(xp, z.astype(np.float64))


class Writes(Plain):
    def formula(self, xp, z, *inputs):
        z -= z.max(axis=1, keepdims=True)
        return softmax(xp, z)


class FitsScale(Plain):
    """Stores what `compute` returns as its scale."""

    def _fit(self, data):
        self.scale_ = float(self.compute(data))
        return FitInfo()

    def formula(self, xp, z, *inputs):
        return softmax(xp, z, self.scale_)


class Random(FitsScale):
    def compute(self, data):
        return np.random.default_rng().uniform(1, 2)


class FirstSample(FitsScale):
    def compute(self, data):
        return 1 + data.y[0] + data.logits[0].max() ** 2


class NoWeights(FitsScale):
    def compute(self, data):
        return data.logits.std()


class NaiveExp(Plain):
    def formula(self, xp, z, *inputs):
        with np.errstate(over="ignore", invalid="ignore"):
            e = np.exp(z)
            return e / e.sum(axis=1, keepdims=True)


class TwoSamples(FitsScale):
    def compute(self, data):
        return 1 + abs(data.logits[1, 0])


class Remembers(FitsScale):
    def compute(self, data):
        self.n_fits = getattr(self, "n_fits", 0) + 1
        return self.n_fits


class NotAField(FitsScale):
    def compute(self, data):
        return 2.0


class NoChecks(Plain):
    def predict_proba(self, X, *, knn_distances=None):
        return softmax(np, np.nan_to_num(X))


class OtherClass(Plain):
    def formula(self, xp, z, *inputs):
        return np.roll(softmax(xp, z), 1, axis=1)


class SaysOod(Plain):
    uses_ood = True


class Batch(Plain):
    preserves_accuracy = False

    def formula(self, xp, z, *inputs):
        p = softmax(xp, z)
        return 0.5 * p + 0.5 * p.mean(axis=0)


class Unmasked(Plain):
    def probabilities(self, xp, x, *inputs):
        return self.formula(xp, np.where(np.isneginf(x), x.max(axis=1, keepdims=True) - 1, x))


class Fitted(Plain):
    is_fitted = True


class FiveClasses(Plain):
    def formula(self, xp, z, *inputs):
        return softmax(xp, z + np.arange(5) * 1e-3 if z.shape[1] == 5 else z * np.nan)


BROKEN = [
    (TooSmall, "check_probabilities", "sums"),
    (Float64, "check_shape_and_dtype", "dtype float64 for logits of dtype f2"),
    (Writes, "check_inputs_not_modified", "read-only"),
    (Random, "check_same_data_same_fit", "a second fit"),
    (FirstSample, "check_sample_order", "shuffled samples"),
    (NoWeights, "check_weights_are_counts", "weights"),
    (NaiveExp, "check_large_logits", r"outside of \[0, 1\]"),
    (TwoSamples, "check_few_or_equal_samples", "index 1 is out of bounds"),
    (Remembers, "check_refit", "a fit after another one"),
    (NotAField, "check_save_and_load", "has no attribute 'scale_'"),
    (NoChecks, "check_invalid_input", "InputError not raised"),
    (OtherClass, "check_promises", "predict"),
    (SaysOod, "check_promises", "OOD samples do not change the fit"),
    (Batch, "check_sample_by_sample", "samples cut at"),
    (Unmasked, "check_masked_classes", "masked classes"),
    (Fitted, "check_params", "a copy by its options is fitted"),
    (FiveClasses, "check_input_kinds", "input='score'"),
]


@pytest.mark.parametrize(
    ("kind", "check", "message"), BROKEN, ids=[kind.__name__ for kind, *_ in BROKEN]
)
def test_checks_find_violations(kind, check, message, monkeypatch):
    monkeypatch.setitem(CALIBRATORS, "plain", (f"{__name__}:{kind.__name__}", {}))
    with pytest.raises(Exception, match=message):
        getattr(testing, check)(kind())


def test_every_check_has_a_violation():
    assert {check for _, check, _ in BROKEN} == {check.__name__ for check in CALIBRATOR_CHECKS}
    assert len(CALIBRATOR_CHECKS) == 16


def test_check_calibrator_names_the_check(monkeypatch):
    message = (
        r"^Batch\(scale=2\.0\) fails check_sample_by_sample \(Probabilities of a sample do not"
    )
    monkeypatch.setitem(CALIBRATORS, "plain", (f"{__name__}:Batch", {}))
    with pytest.raises(AssertionError, match=message):
        check_calibrator(Batch(scale=2.0))
    with pytest.raises(InputError, match="calibrator must be an instance, got <class"):
        check_calibrator(Batch)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_few_classes(name, k):
    """Two and three classes, and a class that is absent from y."""
    suite = make_suite(300, k, seed=3)
    keep = (suite.calibration.y >= 0) & ((suite.calibration.y != 2) | (suite.calibration.y == -1))
    data = testing._take(suite.calibration._asdict(), keep)
    calibrator = get_calibrator(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator.fit(data["logits"], data["y"], **testing._extra(calibrator, data["logits"]))
    testing._check_distribution(testing._proba(calibrator, suite.test.logits))


def test_suite():
    suite = make_suite(500, 4, seed=3)
    assert suite.calibration.logits.shape == (525, 4)
    assert suite.calibration.logits.dtype == np.float32
    assert (suite.calibration.y[500:] == -1).all()
    assert (suite.ood.y == -1).all()
    accuracy = [
        np.mean(split.logits.argmax(axis=1) == split.y) for split in (suite.test, suite.shifted)
    ]
    assert accuracy[0] > accuracy[1] + 0.1
    np.testing.assert_array_equal(make_suite(500, 4, seed=3).shifted.logits, suite.shifted.logits)
    assert not np.array_equal(make_suite(500, 4, seed=4).test.logits, suite.test.logits)
