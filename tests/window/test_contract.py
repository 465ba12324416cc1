"""Methods of the second registry keep every clause of the contract too."""

from dataclasses import fields

import pytest

from wildcal._old.accuracy import ESTIMATORS
from wildcal._old.calibrators import WINDOW_METHODS, make_calibrator
from wildcal._old.core.stored import kind_of
from wildcal._old.testing import CALIBRATOR_CHECKS
from wildcal._old.window import MATCHABLE

# One that counts, one that transports and one that learns from environments.
MATCHED = ("match+atc-ne", "match+cot", "match+context")
NAMES = [n for n in WINDOW_METHODS if not n.startswith("match+")] + list(MATCHED)


@pytest.mark.parametrize("check", CALIBRATOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_contract(name, check):
    check(lambda: make_calibrator(name))


def test_every_estimator_of_one_network_can_be_matched():
    matched = [n.removeprefix("match+") for n in WINDOW_METHODS if n.startswith("match+")]
    assert matched == list(MATCHABLE) == [n for n, k in ESTIMATORS.items() if not k.needs_second]


@pytest.mark.parametrize("name", WINDOW_METHODS)
def test_promises_are_data(name):
    method = make_calibrator(name)
    assert method.name == name
    for promise in ("preserves_accuracy", "shift_invariant", "accepts_ood"):
        assert isinstance(getattr(method, promise), bool)
    for words in ("title", "reference", "stores"):
        assert getattr(method, words)
    kind = type(method)
    assert kind.__doc__
    assert all(kind_of(field, name) for field in fields(kind))
