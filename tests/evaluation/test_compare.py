"""Comparing methods: the same rows for all, honest about what each one knew."""

import numpy as np
import pytest

from wildcal import (
    EnergyScaling,
    Identity,
    TemperatureScaling,
    get_calibrator,
)
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.evaluation import Knew, compare, evaluate_calibrator
from wildcal._old.testing import join, make_suite

SUITE = make_suite(0, n_tuning=1500, n_ood_tuning=100, n_test=1500)
TEST = join(SUITE.shifted, SUITE.ood)


def methods():
    return {"identity": Identity(), "ts": TemperatureScaling(), "energy": EnergyScaling()}


def test_sorted_by_ece_and_equal_to_evaluate():
    result = compare(methods(), SUITE.tuning, TEST, n_boot=50)
    eces = [m.evaluation["ece"] for m in result.methods]
    assert eces == sorted(eces)
    assert result["ts"].ece == result["ts"]["ece"] == result["ts"].evaluation.ece
    known = SUITE.tuning.y >= 0
    alone = TemperatureScaling().fit(SUITE.tuning.logits[known], SUITE.tuning.y[known])
    assert result["ts"].evaluation["ece"] == evaluate_calibrator(alone, *TEST, n_boot=0)["ece"]


def test_says_what_each_method_knew():
    with_ood = compare(methods(), SUITE.tuning, TEST, n_boot=0)
    assert {m.name: str(m.knew) for m in with_ood.methods} == {
        "identity": "nothing",
        "ts": "1,500 labels",
        "energy": "1,500 labels, 100 OOD rows",
    }
    known = SUITE.tuning.y >= 0
    tuning = SUITE.tuning.logits[known], SUITE.tuning.y[known]
    without = compare(methods(), tuning, TEST, n_boot=0)
    assert without["energy"].knew == Knew(labels=1500)


def test_differences_from_the_best_are_paired():
    result = compare(methods(), SUITE.tuning, SUITE.shifted, n_boot=200)
    assert [m.name for m in result.methods if m.behind.value == 0] == ["energy"]
    behind = result["identity"].behind.interval
    gap = result["identity"].evaluation["ece"] - result["energy"].evaluation["ece"]
    assert behind.value == pytest.approx(gap, abs=1e-6)
    assert 0 < behind.low < behind.high
    alone = result["identity"].evaluation.estimate("ece")
    assert behind.high - behind.low < 2 * (alone.high - alone.low)


def test_changed_classes_are_counted():
    chosen = {name: get_calibrator(name) for name in ("ts", "irova")}
    result = compare(chosen, SUITE.tuning, TEST, n_boot=0)
    assert result["ts"].class_changes == 0
    fitted = chosen["irova"]
    z = TEST.logits
    changed = (fitted.predict_proba(z).argmax(axis=1) != z.argmax(axis=1)).mean()
    assert changed > 0
    assert result["irova"].class_changes == pytest.approx(changed)


def test_a_method_that_fails_does_not_stop_the_others():
    chosen = {"good": TemperatureScaling(), "bad": TemperatureScaling(loss="hinge")}
    seen = []
    result = compare(chosen, SUITE.tuning, TEST, n_boot=0, progress=seen.append)
    assert seen == ["good", "bad"]
    assert [m.name for m in result.methods] == ["good"]
    assert "loss must be one of" in result.failed["bad"]
    assert compare({"bad": chosen["bad"]}, SUITE.tuning, TEST).methods == ()


def test_warnings_of_a_fit_become_notes():
    z = SUITE.clean.logits
    result = compare(methods(), (z, z.argmax(axis=1)), SUITE.shifted, n_boot=0)
    assert "at its bound" in " ".join(result["ts"].notes)


def test_plain_dict():
    document = compare(methods(), SUITE.tuning, TEST, n_boot=20).to_dict()
    assert set(document["methods"]) == {"identity", "ts", "energy"}
    assert document["methods"]["identity"]["behind_best_interval"]["low"] > 0
    assert document["methods"]["identity"]["converged"] is True
    assert document["failed"] == {}


def test_bad_rows_are_refused_before_any_fit():
    spoiled = TEST.logits.copy()
    spoiled[5, 1] = np.nan
    with pytest.raises(ValueError, match="row 5 holds NaN"):
        compare(methods(), (spoiled, TEST.y), TEST)
    with pytest.raises(ValueError, match="10 columns"):
        compare(methods(), SUITE.tuning, (TEST.logits[:, :5], TEST.y))


def test_behaves_like_a_mapping():
    result = compare(methods(), SUITE.tuning, TEST, n_boot=0)
    assert "ts" in result
    assert set(result) == {"identity", "ts", "energy"}
    assert len(result) == 3
    with pytest.raises(KeyError, match="magic"):
        result["magic"]


def test_without_bootstrap_one_method_is_best():
    result = compare(methods(), SUITE.tuning, SUITE.shifted, n_boot=0)
    assert [m.behind.value == 0 for m in result.methods] == [True, False, False]


def test_nothing_known_is_said_once():
    nowhere = (TEST.logits, np.full(len(TEST.y), -1))
    for tuning, test in ((nowhere, TEST), (SUITE.tuning, nowhere)):
        with pytest.raises(ValueError, match="some in-distribution rows"):
            compare(methods(), tuning, test)


def test_environments_reach_the_method_that_reads_them():
    z, y = join(SUITE.tuning, SUITE.shifted)
    environment = np.r_[np.where(SUITE.tuning.y < 0, 9, 0), 3 + np.arange(1500) % 2]
    chosen = {"ts": TemperatureScaling(), "context": ContextScaling()}
    result = compare(chosen, (z, y), TEST, environment=environment, n_boot=0)
    expected = ContextScaling().fit(z, y, environment=environment)
    assert chosen["context"].beta_g_ == expected.beta_g_
    assert str(result["context"].knew) == (
        "1,500 labels, 100 OOD rows, 2 shifted sets of 750 labels, no test window"
    )
    assert str(result["ts"].knew) == "3,000 labels"
    with pytest.raises(ValueError, match="environment 0, the clean one"):
        compare(chosen, (z, y), TEST, environment=environment + 1)


def test_without_environments_context_says_what_it_is():
    result = compare({"context": ContextScaling()}, SUITE.tuning, TEST, n_boot=0)
    assert str(result["context"].knew) == (
        "1,500 labels, 100 OOD rows, no shifted sets, no test window"
    )
