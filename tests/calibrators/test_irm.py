"""IRM: exact at any size, classes in their order, rows that are distributions."""

import json

import numpy as np
import pytest

from wildcal.calibrators import IsotonicMultiClass
from wildcal.core.convert import softmax
from wildcal.core.parallel import use_threads
from wildcal.io.artifact import load, save
from wildcal.io.sealed import digest
from wildcal.testing import make_suite

SUITE = make_suite(0, n_ood_tuning=0)


def pooled(logits, y):
    proba = softmax(logits.astype(np.float64))
    return proba, np.eye(proba.shape[1])[y]


@pytest.mark.parametrize(("n_classes", "n"), [(2, 500), (10, 3000), (100, 1000)])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn_on_all_pairs(needs, n_classes, n, weighted):
    needs("sklearn")
    from sklearn.isotonic import IsotonicRegression

    suite = make_suite(3, n_classes=n_classes, n_tuning=n, n_ood_tuning=0, n_test=200)
    logits, y = suite.tuning.logits.astype(np.float64), suite.tuning.y
    weight = np.random.default_rng(0).integers(0, 4, n) / 2 if weighted else None
    proba, target = pooled(logits, y)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(
        proba.ravel(),
        target.ravel(),
        sample_weight=None if weight is None else np.repeat(weight, n_classes),
    )
    ours = IsotonicMultiClass(normalize="none").fit(logits, y, sample_weight=weight)
    test = suite.shifted.logits.astype(np.float64)
    p = softmax(test)
    f = theirs.predict(p.ravel()).reshape(p.shape)
    np.testing.assert_allclose(ours.predict_proba(test), np.minimum(f + 1e-9 * p, 1), atol=1e-12)
    whole = IsotonicMultiClass().fit(logits, y, sample_weight=weight).predict_proba(test)
    np.testing.assert_allclose(whole, f / f.sum(axis=1, keepdims=True), atol=1e-7)


def test_chunks_and_threads_do_not_matter(monkeypatch):
    logits, y = SUITE.tuning
    weight = np.random.default_rng(0).random(len(y))
    expected = IsotonicMultiClass().fit(logits, y)
    by_weight = IsotonicMultiClass().fit(logits, y, sample_weight=weight)
    monkeypatch.setattr("wildcal.calibrators.pairs.CHUNK_ELEMENTS", 1)
    with use_threads(3):
        pieces = IsotonicMultiClass().fit(logits, y)
        other = IsotonicMultiClass().fit(logits, y, sample_weight=weight)
    np.testing.assert_array_equal(pieces.thresholds_, expected.thresholds_)
    np.testing.assert_array_equal(pieces.values_, expected.values_)
    np.testing.assert_allclose(other.values_, by_weight.values_, rtol=1e-12)


@pytest.mark.parametrize("normalize", ["row", "none"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_logit_stays_first_on_plateaus_too(normalize, dtype):
    """Few rows make wide plateaus; in float32 the 1e-9 of the published method is lost there."""
    few = SUITE.tuning.logits[:40].astype(dtype)
    fitted = IsotonicMultiClass(normalize=normalize).fit(few, SUITE.tuning.y[:40])
    test = np.concatenate([SUITE.shifted.logits, SUITE.ood.logits]).astype(dtype)
    proba = fitted.predict_proba(test)
    np.testing.assert_array_equal(proba.argmax(axis=1), test.argmax(axis=1))
    assert proba.max() <= 1
    np.testing.assert_array_equal(fitted.confidence(test), proba.max(axis=1))


def test_many_rows_and_few_give_the_same_bits():
    fitted = IsotonicMultiClass().fit(*SUITE.tuning)
    many = np.tile(SUITE.shifted.logits, (8, 1))
    whole, parts = fitted.predict_proba(many), fitted.predict_proba(SUITE.shifted.logits)
    np.testing.assert_array_equal(whole, np.tile(parts, (8, 1)))
    np.testing.assert_array_equal(fitted.confidence(many), whole.max(axis=1))


def test_recovers_a_known_map():
    """Labels drawn from softmax(z), logits tripled: f must undo the tripling."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, (40_000, 4))
    truth = softmax(z)
    y = (rng.random((len(z), 1)) > truth.cumsum(axis=1)).sum(axis=1)
    fitted = IsotonicMultiClass().fit(3 * z[:30_000], y[:30_000])
    got, before = fitted.predict_proba(3 * z[30_000:]), softmax(3 * z[30_000:])
    error = np.abs(got - truth[30_000:]).mean()
    assert error < 0.35 * np.abs(before - truth[30_000:]).mean()


@pytest.mark.filterwarnings("ignore:.*no held-out row is classified wrongly")
def test_all_rows_right_gives_a_plateau_at_one():
    logits = SUITE.tuning.logits[:300]
    fitted = IsotonicMultiClass(normalize="none").fit(logits, logits.argmax(axis=1))
    sure = softmax(logits).max(axis=1) > 0.5  # no wrong class of any row reaches this
    np.testing.assert_array_equal(fitted.confidence(logits)[sure], 1.0)
    assert fitted.values_[-1] == 1.0


@pytest.mark.filterwarnings("ignore:.*no held-out row is classified wrongly")
def test_a_row_of_zeros_becomes_uniform():
    logits = np.array([[9.0, 0, 0], [8.0, 0, 0]])
    fitted = IsotonicMultiClass().fit(logits, np.array([0, 0]))
    np.testing.assert_allclose(fitted.predict_proba(np.zeros((1, 3))), 1 / 3, atol=1e-6)


def test_two_classes_pool_p_and_one_minus_p():
    logits = SUITE.tuning.logits[:500, :2].astype(np.float64)
    proba = IsotonicMultiClass().fit(logits, SUITE.tuning.y[:500] % 2).predict_proba(logits)
    mirrored = IsotonicMultiClass().fit(logits[:, ::-1], 1 - SUITE.tuning.y[:500] % 2)
    np.testing.assert_allclose(mirrored.predict_proba(logits[:, ::-1])[:, ::-1], proba, atol=1e-9)


def test_equal_logits_are_one_point():
    fitted = IsotonicMultiClass().fit(np.full((20, 4), 2.0), np.arange(20) % 4)
    assert fitted.thresholds_.tolist() == [0.25]
    assert fitted.values_.tolist() == [0.25]


def test_memory_stays_small():
    """Sorting the pairs would take 5 million numbers and their targets; we keep thousands."""
    import tracemalloc

    suite = make_suite(0, n_classes=1000, n_tuning=5000, n_ood_tuning=0, n_test=5)
    tracemalloc.start()
    with use_threads(1):
        IsotonicMultiClass().fit(*suite.tuning)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.75 * suite.tuning.logits.nbytes


def test_unknown_option():
    with pytest.raises(ValueError, match="normalize must be one of 'row', 'none'"):
        IsotonicMultiClass(normalize="both").fit(*SUITE.tuning)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"thresholds_": [0.5, 0.5]}, "must increase"),
        ({"thresholds_": [0.5, 1.5]}, "must increase within"),
        ({"values_": [0.9, 0.1]}, "not decrease"),
        ({"values_": [0.1, 1.1]}, "lie in"),
        ({"values_": [0.1]}, "one length"),
    ],
)
def test_a_file_cannot_break_the_promise(tmp_path, change, message):
    fitted = IsotonicMultiClass().fit(*SUITE.tuning)
    fitted.thresholds_, fitted.values_ = np.array([0.2, 0.8]), np.array([0.1, 0.9])
    path = tmp_path / "irm.json"
    save(fitted, path)
    document = json.loads(path.read_text())
    document.pop("sha256")
    for name, values in change.items():
        document["fitted"][name]["values"] = values
    document["sha256"] = digest(document)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        load(path)
