"""Every metric of the registry on rows drawn several times: that of the rows repeated so often."""

from dataclasses import replace

import numpy as np
import pytest

from wildcal._old.metrics.classwise import ClasswiseAccumulator
from wildcal._old.metrics.registry import METRICS, choose_metrics
from wildcal._old.metrics.seen import Counts, Seen
from wildcal._old.metrics.top_label import TopLabelAccumulator

N, K, OTHERS = 300, 4, 120


def rows(seed=0, *, ties=False, n=N):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(K, 0.5), n)
    if ties:
        proba = np.round(proba * 8 + 0.25) / 8
        proba[:, 0] = np.maximum(1 - proba[:, 1:].sum(axis=1), 0)
    y = np.array([rng.choice(K, p=p / p.sum()) for p in proba])
    return y, proba, rng.beta(3, 2, OTHERS).round(1 if ties else 9)


def seen(y, proba, others, repeats=None, n_bins=15):
    """What a pass collects of rows, each repeated so often; straightforwardly."""
    if repeats is not None:
        known, strange = (np.repeat(np.arange(len(r)), r.astype(int)) for r in repeats)
        y, proba, others = y[known], proba[known], others[strange]
    pred = proba.argmax(axis=1)
    correct, confidence = pred == y, np.minimum(proba.max(axis=1), 1)
    return Seen(
        correct,
        confidence,
        TopLabelAccumulator(n_bins).update(correct, confidence),
        0.01,
        {m.name: m.rows(y, proba, pred) for m in METRICS.values() if m.rows},
        {"sce": ClasswiseAccumulator(K, n_bins).update(y, proba)},
        others,
        again=lambda look: [
            look(y[i : i + 70], proba[i : i + 70], slice(i, i + 70)) for i in range(0, len(y), 70)
        ],
    )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", [n for n, m in METRICS.items() if m.drawn])
def test_drawn_is_the_value_of_repeated_rows(name, ties):
    metric = METRICS[name]
    data = rows(ties=ties)
    rng = np.random.default_rng(1)
    counts = Counts(
        rng.multinomial(N, np.full(N, 1 / N), size=6).T.astype(float),
        rng.multinomial(OTHERS, np.full(OTHERS, 1 / OTHERS), size=6).T.astype(float),
    )
    sets = [seen(*data), seen(*rows(2, ties=ties))]
    drawn = metric.drawn(sets, counts)
    assert drawn.shape == (2, 6)
    for b in range(6):
        again = metric.value(seen(*data, repeats=(counts.known[:, b], counts.ood[:, b])))
        # The resampled kernel error keeps the bandwidth, on a coarser grid.
        close = {"abs": 1e-2 if ties else 3e-3} if name == "kde_ece" else {"abs": 1e-12}
        assert drawn[0, b] == pytest.approx(again, **close)


@pytest.mark.parametrize("name", [n for n, m in METRICS.items() if m.drawn])
def test_drawing_every_row_once_changes_nothing(name):
    metric, data = METRICS[name], seen(*rows(3))
    once = Counts(np.ones((N, 1)), np.ones((OTHERS, 1)))
    close = {"abs": 2e-4} if name == "kde_ece" else {"abs": 1e-12}
    assert metric.drawn([data], once)[0, 0] == pytest.approx(metric.value(data), **close)


def test_one_bin_more_bins_than_rows_and_one_kind():
    y, proba, others = rows(4, n=5)
    few = seen(y, proba, others, n_bins=9)
    counts = Counts(np.array([[2.0, 5, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1],
                              [0, 0, 5, 1]]), np.ones((OTHERS, 4)))  # fmt: skip
    for name in ("equal_mass_ece", "mce", "ks_error", "aurc"):
        drawn = METRICS[name].drawn([few], counts)[0]
        for b in range(4):
            repeats = (counts.known[:, b], counts.ood[:, b])
            again = METRICS[name].value(seen(y, proba, others, repeats, n_bins=9))
            assert drawn[b] == pytest.approx(again, abs=1e-12)
    flags = few.correct.copy()
    few.correct = np.ones_like(flags)
    assert np.isnan(METRICS["misclassification_auroc"].value(few))
    assert np.isnan(METRICS["misclassification_auroc"].drawn([few], counts)).all()


def test_names():
    assert [m.name for m in choose_metrics()] == list(METRICS)
    assert [m.name for m in choose_metrics(["nll", "nll", "ece"])] == ["nll", "ece"]
    with pytest.raises(ValueError, match="metrics must be one of"):
        choose_metrics(["eces"])
    for metric in METRICS.values():
        assert (metric.rows is None and metric.sums is None) or metric.needs == "proba"


def test_the_interval_of_an_error_ends_within_zero_and_one():
    # Reflected, the values drawn lie from 0.91 to 1.2 and from -0.19 to 0.1.
    for value, drawn, ends in ((0.95, (0.7, 0.99), (0.91, 1)), (0.05, (0.0, 0.29), (0, 0.1))):
        low, high = METRICS["ece"].interval(value, np.linspace(*drawn, 1001), 0.9999)
        assert (low, high) == pytest.approx(ends, abs=1e-3)
        assert 0 <= low
        assert high <= 1


def test_metrics_that_read_the_noise_floor_say_so():
    """Where none of the chosen does, the floor is not worked out at all."""
    data = rows()
    low, high = seen(*data), replace(seen(*data), floor=0.02)
    counts = Counts(np.ones((N, 1)), np.ones((OTHERS, 1)))
    for metric in METRICS.values():
        moved = metric.value(low) != metric.value(high)
        if metric.drawn is not None:
            moved |= (metric.drawn([low], counts) != metric.drawn([high], counts)).any()
        # Beside the ECE the floor is shown.
        assert metric.floored == (moved or metric.name == "ece"), metric.name


def test_what_is_known_of_each_metric():
    """Few rows make an error larger, not a mean; some are numbers of their own, not percent."""

    def those(flag, value=True):
        return sorted(name for name, metric in METRICS.items() if getattr(metric, flag) is value)

    assert those("biased", False) == [
        "accuracy",
        "brier",
        "calibration_intercept",
        "calibration_slope",
        "mean_confidence",
        "nll",
        "ood_mean_confidence",
        "top_label_brier",
    ]
    assert those("percent", False) == [
        "brier",
        "calibration_intercept",
        "calibration_slope",
        "nll",
        "spiegelhalter_z",
        "top_label_brier",
    ]
    assert those("costly") == [
        "aurc",
        "calibration_intercept",
        "calibration_slope",
        "equal_mass_ece",
        "kde_ece",
        "ks_error",
        "mce",
        "misclassification_auroc",
        "ood_aupr_in",
        "ood_aupr_out",
        "ood_auroc",
        "ood_fpr95",
        "sce",
    ]
    assert those("floored") == ["ece", "excess_ece", "noise_floor"]
    assert those("beyond_floor") == ["excess_ece"]
