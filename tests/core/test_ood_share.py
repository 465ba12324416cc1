"""Out-of-distribution rows weigh their share, whatever their number."""

import warnings

import numpy as np
import pytest

import wildcal
from wildcal.core.errors import CalibrationWarning
from wildcal.core.ood_share import check_ood_share, shared
from wildcal.core.rows import Rows
from wildcal.metrics import ece
from wildcal.testing import make_suite

SUITE = make_suite(3, n_tuning=700, n_ood_tuning=400, n_test=4000)
KNOWN = SUITE.tuning.y >= 0
Z, Y = SUITE.tuning.logits[KNOWN], SUITE.tuning.y[KNOWN]
OOD = SUITE.tuning.logits[~KNOWN]


def fitted(n, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return wildcal.EnergyScaling(**options).fit(
            np.concatenate([Z, OOD[:n]]), np.append(Y, np.full(n, -1))
        )


def test_weights_by_hand():
    rows = Rows(np.zeros((5, 3)), np.array([0, 1, -1, -1, 2]), np.array([1.0, 2.0, 3.0, 1.0, 1.0]))
    # Labeled rows weigh 4, so a share of 0.5 is 2, in the proportions 3 : 1.
    np.testing.assert_allclose(shared(rows, 0.5).weight, [1.0, 2.0, 1.5, 0.5, 1.0])
    assert shared(rows, "rows") is rows
    known = Rows(np.zeros((2, 3)), np.array([0, 1]))
    assert shared(known, 0.5) is known


def test_what_a_share_may_be():
    for share in (1e-3, 0.5, 1, 10, "paper", "rows"):
        check_ood_share(share)
    for share in (0, -1, 10.5, True, None, "all"):
        with pytest.raises(ValueError, match="ood_share must be a number above 0 and at most 10"):
            check_ood_share(share)


def test_the_papers_own_counts_weigh_one():
    y = np.append(np.zeros(5000, int), np.full(100, -1))
    assert (shared(Rows(np.zeros((5100, 10)), y), "paper").weight == 1).all()


def test_more_rows_are_no_heavier_pull():
    """Counted by number, 400 rows beside 700 labels ruin clean calibration; weighed they do not."""
    clean = SUITE.clean
    found = {
        share: [
            ece(clean.y, fitted(n, ood_share=share).predict_proba(clean.logits))
            for n in (20, 100, 400)
        ]
        for share in ("paper", "rows")
    }
    assert np.ptp(found["paper"]) < 0.005
    assert found["rows"][-1] > found["paper"][-1] + 0.01


@pytest.mark.parametrize("share", [0, -1, 11, "half", None, True, float("nan")])
def test_wrong_shares_are_refused(share):
    with pytest.raises(ValueError, match="ood_share must be a number (above 0|or text)"):
        wildcal.EnergyScaling(ood_share=share).fit(Z, Y)
