"""CalibratedClassifier: what it learns, what it predicts, and where scikit-learn uses it."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, make_classification
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import (
    GridSearchCV,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags

import wildcal
from wildcal import CALIBRATORS, EnergyScaling, IsotonicOneVsAll, TemperatureScaling
from wildcal.core.calibrator import TemperatureMap
from wildcal.core.errors import CalibrationWarning
from wildcal.interop.sklearn import CalibratedClassifier
from wildcal.interop.sklearn.method import usable_methods
from wildcal.metrics import ece


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def noisy():
    """Three classes that overlap, as train, held-out and test rows."""
    X, y = make_classification(
        1200, 8, n_informative=5, n_classes=3, class_sep=0.8, flip_y=0.1, random_state=0
    )
    return X[:400], y[:400], X[400:800], y[400:800], X[800:], y[800:]


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(600, 6, flip_y=0.15, random_state=1)
    return X[:300], y[:300], X[300:], y[300:]


def test_calibrates_a_linear_svm(digits):
    X, X_test, y, y_test = digits
    raw = CalibratedClassifier(LinearSVC(random_state=0), "identity").fit(X, y)
    model = CalibratedClassifier(LinearSVC(random_state=0)).fit(X, y)
    assert ece(y_test, raw.predict_proba(X_test)) > 0.15
    assert ece(y_test, model.predict_proba(X_test)) < 0.03
    assert model.score(X_test, y_test) == raw.score(X_test, y_test) > 0.9


def test_prefit_is_the_calibrator_on_the_scores(noisy):
    X, y, X_held, y_held, X_test, _ = noisy
    inner = LogisticRegression().fit(X, y)
    model = CalibratedClassifier(inner, cv="prefit").fit(X_held, y_held)
    by_hand = EnergyScaling().fit(inner.decision_function(X_held), y_held)
    scores = inner.decision_function(X_test)
    assert model.estimator_ is inner
    assert np.array_equal(model.predict_proba(X_test), by_hand.predict_proba(scores))
    assert np.array_equal(model.temperature(X_test), by_hand.temperature(scores))
    assert np.array_equal(model.decision_function(X_test), scores)
    assert np.array_equal(model.predict(X_test), inner.predict(X_test))


def test_folds_are_the_calibrator_on_out_of_fold_scores(noisy):
    X, y = noisy[:2]
    inner = LogisticRegression()
    model = CalibratedClassifier(inner, "ts", cv=4).fit(X, y)
    scores = cross_val_predict(inner, X, y, cv=4, method="decision_function")
    by_hand = TemperatureScaling().fit(scores, y)
    assert model.calibrator_.temperature_ == pytest.approx(by_hand.temperature_, rel=1e-9)
    # The estimator that predicts has seen all rows; the one that was given has seen none.
    assert np.array_equal(model.estimator_.coef_, clone(inner).fit(X, y).coef_)
    assert not hasattr(inner, "coef_")


def test_frozen_estimator_is_prefit(noisy):
    X, y, X_held, y_held, X_test, _ = noisy
    inner = LogisticRegression().fit(X, y)
    prefit = CalibratedClassifier(inner, cv="prefit").fit(X_held, y_held)
    frozen = clone(CalibratedClassifier(FrozenEstimator(inner))).fit(X_held, y_held)
    assert np.array_equal(prefit.predict_proba(X_test), frozen.predict_proba(X_test))


def test_prefit_may_see_fewer_classes_than_the_estimator(noisy):
    X, y, X_held, y_held, X_test, _ = noisy
    names = np.array(["ant", "bee", "cat"])
    inner = LogisticRegression().fit(X, names[y])
    some = y_held < 2
    model = CalibratedClassifier(inner, "ts", cv="prefit").fit(X_held[some], names[y_held[some]])
    assert list(model.classes_) == list(names)
    assert model.predict_proba(X_test).shape == (400, 3)


def test_a_splitter_need_not_be_a_partition(noisy):
    X, y = noisy[:2]
    splitter = ShuffleSplit(1, test_size=0.3, random_state=0)
    model = CalibratedClassifier(LogisticRegression(), cv=splitter).fit(X, y)
    assert model.calibrator_.fit_.n_rows == 120
    pairs = list(splitter.split(X))
    again = CalibratedClassifier(LogisticRegression(), cv=pairs).fit(X, y)
    assert again.calibrator_.temperature_ == model.calibrator_.temperature_


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([7, -3]), np.array([0.0, 1])])
def test_labels_of_any_type(binary, labels):
    X, y, X_test, _ = binary
    model = CalibratedClassifier(LogisticRegression()).fit(X, labels[y])
    assert list(model.classes_) == sorted(labels)
    assert set(model.predict(X_test)) == set(labels)
    assert model.predict(X_test).dtype == labels.dtype


def test_lists_will_do(noisy):
    X, y, X_test = noisy[0][:60], noisy[1][:60], noisy[4]
    names = np.array(["a", "b", "c"])[y]
    model = CalibratedClassifier(LogisticRegression(), "ts", cv=3)
    first = model.fit(X, names).predict_proba(X_test)
    assert np.array_equal(model.fit(X.tolist(), names.tolist()).predict_proba(X_test), first)


def test_two_classes_are_treated_alike(binary):
    """Swapping the names of the classes swaps the columns, where the energy is read as well."""
    X, y, X_test, _ = binary
    inner = LogisticRegression(tol=1e-10, max_iter=1000)
    one = CalibratedClassifier(inner).fit(X, y)
    two = CalibratedClassifier(inner).fit(X, 1 - y)
    assert one.calibrator_.theta_correct_ + one.calibrator_.theta_incorrect_ > 0
    np.testing.assert_allclose(
        one.predict_proba(X_test), two.predict_proba(X_test)[:, ::-1], atol=1e-6
    )
    assert one.decision_function(X_test).shape == (300,)
    np.testing.assert_allclose(
        one.decision_function(X_test), one.estimator_.decision_function(X_test), rtol=1e-12
    )


@pytest.mark.parametrize("method", usable_methods())
@pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning")
def test_every_method_gives_distributions(noisy, method):
    X, y, X_test = noisy[0], noisy[1], noisy[4]
    model = CalibratedClassifier(LogisticRegression(), method, cv=3).fit(X, y)
    proba = model.predict_proba(X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    assert (proba >= 0).all()
    column = model.predict(X_test)  # labels are 0, 1, 2
    assert np.array_equal(column, model.decision_function(X_test).argmax(axis=1))
    assert np.array_equal(model.confidence(X_test), proba[np.arange(400), column])
    with np.errstate(divide="ignore"):
        assert np.array_equal(model.predict_log_proba(X_test), np.log(proba))
    assert hasattr(model, "temperature") == issubclass(CALIBRATORS[method], TemperatureMap)
    if CALIBRATORS[method]().preserves_accuracy:
        assert np.array_equal(column, proba.argmax(axis=1))


def test_rows_of_published_options_are_normalized(noisy):
    X, y, X_test = noisy[0], noisy[1], noisy[4]
    option = IsotonicOneVsAll(normalize="none")
    model = CalibratedClassifier(LogisticRegression(), option).fit(X, y)
    raw = model.calibrator_.predict_proba(model.decision_function(X_test))
    assert np.abs(raw.sum(axis=1) - 1).max() > 0.05
    proba = model.predict_proba(X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(proba, raw / raw.sum(axis=1, keepdims=True), atol=1e-12)
    assert not option.is_fitted


def test_precision_of_the_scores_is_kept(noisy):
    def single(estimator, X):
        return estimator.decision_function(X).astype(np.float32)

    X, y, X_test = noisy[0], noisy[1], noisy[4]
    model = CalibratedClassifier(LogisticRegression(), logits=single).fit(X, y)
    assert model.predict_proba(X_test).dtype == np.float32
    assert model.temperature(X_test).dtype == np.float32


def test_rows_of_other_classes_are_doubted(digits):
    X, X_test, y, y_test = digits
    inner = LinearSVC(random_state=0)
    known = y < 8
    ood = X[y == 8]
    by_number = EnergyScaling(ood_share="rows")
    plain = CalibratedClassifier(inner, by_number).fit(X[known], y[known])
    taught = CalibratedClassifier(inner, by_number).fit(X[known], y[known], X_ood=ood)
    assert taught.calibrator_.fit_.n_ood == len(ood)
    assert taught.calibrator_.fit_.n_rows == known.sum() + len(ood)
    nines = X_test[y_test == 9]
    assert taught.confidence(nines).mean() < plain.confidence(nines).mean() - 0.05
    assert np.array_equal(taught.estimator_.coef_, plain.estimator_.coef_)


def test_prefit_rows_of_other_classes(noisy):
    X, y, X_held, y_held, X_test, _ = noisy
    inner = LogisticRegression().fit(X, y)
    ood = 0.1 * X_test[:50]
    model = CalibratedClassifier(inner, cv="prefit").fit(X_held, y_held, X_ood=ood)
    by_hand = EnergyScaling().fit(
        inner.decision_function(np.r_[X_held, ood]), np.r_[y_held, np.full(50, -1)]
    )
    assert np.array_equal(
        model.predict_proba(X_test), by_hand.predict_proba(inner.decision_function(X_test))
    )


def test_fewer_ood_rows_than_folds(noisy):
    X, y, ood = noisy[0], noisy[1], noisy[4][:2]
    model = CalibratedClassifier(LogisticRegression(), cv=5).fit(X, y, X_ood=ood)
    assert model.calibrator_.fit_.n_ood == 2


@pytest.mark.parametrize("cv", [3, "prefit"])
@pytest.mark.parametrize("kind", [np.asarray, csr_array, np.ndarray.tolist])
def test_no_ood_rows_at_all(cv, kind, noisy):
    """X_ood of no rows is as if it were left out."""
    X, y, X_held, y_held, X_test, _ = noisy
    inner = LogisticRegression().fit(X, y)
    plain = CalibratedClassifier(inner, cv=cv).fit(X_held, y_held)
    model = CalibratedClassifier(inner, cv=cv).fit(X_held, y_held, X_ood=kind(X_test[:0]))
    assert model.calibrator_.fit_.n_ood == 0
    assert np.array_equal(model.predict_proba(X_test), plain.predict_proba(X_test))


def test_weights_count_rows_in_estimator_and_calibrator(noisy):
    X, y, X_test = noisy[0], noisy[1], noisy[4]
    inner = LogisticRegression(tol=1e-10, max_iter=1000)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    splits = list(StratifiedKFold(3).split(X, y))
    repeated = np.repeat(np.arange(len(y)), weight)
    places = [[np.flatnonzero(np.isin(repeated, part)) for part in pair] for pair in splits]
    weighted = CalibratedClassifier(inner, cv=splits).fit(X, y, sample_weight=weight)
    longer = CalibratedClassifier(inner, cv=places).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(
        weighted.predict_proba(X_test), longer.predict_proba(X_test), atol=1e-5
    )
    plain = CalibratedClassifier(inner, cv=splits).fit(X, y)
    assert np.abs(weighted.predict_proba(X_test) - plain.predict_proba(X_test)).max() > 1e-3


def test_ood_rows_have_weight_one(noisy):
    X, y, X_held, y_held, X_test, _ = noisy
    inner, ood = LogisticRegression().fit(X, y), 0.1 * X_test[:40]
    weight = np.linspace(1, 9, len(y_held))
    model = CalibratedClassifier(inner, cv="prefit").fit(X_held, y_held, weight, ood)
    by_hand = EnergyScaling().fit(
        inner.decision_function(np.r_[X_held, ood]),
        np.r_[y_held, np.full(40, -1)],
        sample_weight=np.r_[weight, np.ones(40)],
    )
    assert model.calibrator_.incorrect_mean_ == by_hand.incorrect_mean_
    assert model.calibrator_.temperature_ == by_hand.temperature_


def test_an_estimator_without_weights_says_so(noisy):
    X, y = noisy[:2]
    weight = np.linspace(1, 2, len(y))
    model = CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()), "ts")
    with pytest.warns(CalibrationWarning, match="Pipeline.fit takes no sample_weight"):
        model.fit(X, y, sample_weight=weight)
    plain = make_pipeline(StandardScaler(), LogisticRegression())
    assert np.array_equal(model.estimator_[-1].coef_, plain.fit(X, y)[-1].coef_)


def test_arguments_of_fit_are_cut_to_the_fold(noisy):
    class Recorder(ClassifierMixin, BaseEstimator):
        def fit(self, X, y, tags=None, note=None):
            assert len(tags) == len(X)
            assert np.array_equal(X[:, 0], tags)
            assert note == "as it is"
            self.inner_ = LogisticRegression().fit(X, y)
            self.classes_ = self.inner_.classes_
            return self

        def decision_function(self, X):
            return self.inner_.decision_function(X)

    X, y = noisy[:2]
    CalibratedClassifier(Recorder(), "ts").fit(X, y, tags=X[:, 0], note="as it is")
    CalibratedClassifier(Recorder(), "ts").fit(X, y, tags=X[:, 0].tolist(), note="as it is")


def test_clone_and_nested_parameters():
    method = TemperatureScaling(bounds=(0.1, 10.0))
    model = CalibratedClassifier(LogisticRegression(C=3), method, cv=4, n_jobs=1)
    twin = clone(model)
    assert twin.get_params()["estimator__C"] == 3
    assert twin.method is not method
    assert twin.method.bounds == (0.1, 10.0)
    twin.set_params(estimator__C=5, method="ets")
    assert (model.estimator.C, twin.estimator.C, twin.method) == (3, 5, "ets")


def test_grid_search_over_method_and_estimator(noisy):
    X, y, X_test, y_test = noisy[0], noisy[1], noisy[4], noisy[5]
    grid = {
        "method": ["identity", "ts", EnergyScaling(box="free")],
        "estimator__C": [1e-4, 1.0],
    }
    search = GridSearchCV(
        CalibratedClassifier(LogisticRegression(), cv=3), grid, scoring="neg_log_loss", cv=3
    ).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    uncalibrated = [p["method"] == "identity" for p in search.cv_results_["params"]]
    # With C this small all scores are near zero: uncalibrated means near uniform.
    assert scores[np.logical_and(uncalibrated, search.cv_results_["param_estimator__C"] == 1e-4)][
        0
    ] == pytest.approx(-np.log(3), abs=0.05)
    assert search.best_params_["method"] != "identity"
    assert search.score(X_test, y_test) > -np.log(3) + 0.2


def test_pipelines_inside_and_outside(noisy):
    X, y, X_test = noisy[0], noisy[1], noisy[4]
    inside = CalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
    outside = make_pipeline(StandardScaler(), CalibratedClassifier(LogisticRegression()))
    a, b = (model.fit(X, y).predict_proba(X_test) for model in (inside, outside))
    # The scaler inside is fitted fold by fold.
    np.testing.assert_allclose(a, b, atol=0.02)
    assert inside.n_features_in_ == 8
    assert cross_val_score(outside, X, y, cv=3).min() > 0.5


def test_sparse_rows_reach_the_estimator(noisy):
    X, y, X_test = noisy[0], noisy[1], noisy[4]
    model = CalibratedClassifier(LogisticRegression(tol=1e-10, max_iter=1000))
    dense = model.fit(X, y, X_ood=X_test[:30]).predict_proba(X_test)
    sparse = model.fit(csr_array(X), y, X_ood=csr_array(X_test[:30])).predict_proba(
        csr_array(X_test)
    )
    np.testing.assert_allclose(dense, sparse, atol=1e-5)


def test_what_rows_may_be_is_up_to_the_estimator():
    for inner in (KNeighborsClassifier(), KNeighborsClassifier(metric="precomputed"), SVC()):
        model = CalibratedClassifier(inner, "ts")
        assert get_tags(model).input_tags == get_tags(inner).input_tags
    assert get_tags(model).input_tags.sparse
    assert get_tags(CalibratedClassifier(object())).input_tags.two_d_array  # without tags


def test_rows_may_be_texts():
    words = {"sea": "wave salt fish boat", "wood": "tree leaf moss deer"}
    rng = np.random.default_rng(0)
    everything = " ".join(words.values()).split()
    y = np.array(["sea", "wood"] * 60)
    X = [" ".join([*rng.choice(words[c].split(), 2), *rng.choice(everything, 3)]) for c in y]
    model = CalibratedClassifier(make_pipeline(CountVectorizer(), LinearSVC(random_state=0)), "ts")
    model.fit(X, y)
    assert list(model.predict(["wave wave fish", "moss deer"])) == ["sea", "wood"]
    assert not hasattr(model, "n_features_in_")


def test_precomputed_kernels_are_cut_both_ways(noisy):
    X, y, X_test = noisy[0], noisy[1], noisy[4]
    linear = CalibratedClassifier(SVC(kernel="linear")).fit(X, y, X_ood=X_test[:20])
    kernel = CalibratedClassifier(SVC(kernel="precomputed"))
    kernel.fit(X @ X.T, y, X_ood=X_test[:20] @ X.T)
    np.testing.assert_allclose(
        linear.predict_proba(X_test), kernel.predict_proba(X_test @ X.T), atol=1e-6
    )


def test_pickled_and_saved(noisy, tmp_path):
    X, y, X_test = noisy[0], noisy[1], noisy[4]
    model = CalibratedClassifier(LogisticRegression()).fit(X, y)
    proba = model.predict_proba(X_test)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X_test), proba)
    wildcal.save(model.calibrator_, tmp_path / "energy.json")
    loaded = wildcal.load(tmp_path / "energy.json")
    assert np.array_equal(loaded.predict_proba(model.decision_function(X_test)), proba)


def test_folds_in_parallel_give_the_same(noisy):
    X, y, X_test = noisy[0], noisy[1], noisy[4]
    one, two = (
        CalibratedClassifier(LogisticRegression(), n_jobs=n, cv=3).fit(X, y, X_ood=X_test[:10])
        for n in (None, 2)
    )
    assert np.array_equal(one.predict_proba(X_test), two.predict_proba(X_test))


def test_fitting_again_forgets(noisy, binary):
    model = CalibratedClassifier(LogisticRegression()).fit(*noisy[:2])
    model.set_params(method="ts").fit(*binary[:2])
    fresh = CalibratedClassifier(LogisticRegression(), "ts").fit(*binary[:2])
    assert np.array_equal(model.predict_proba(binary[2]), fresh.predict_proba(binary[2]))
    assert model.n_features_in_ == 6


def test_parameters_set_after_fit_wait_for_the_next_one(noisy):
    X, y, X_test = noisy[0], noisy[1], noisy[4]
    model = CalibratedClassifier(LogisticRegression()).fit(X, y)
    before = model.predict_proba(X_test)
    model.set_params(logits="predict_proba", cv=2)
    assert np.array_equal(model.predict_proba(X_test), before)
    model.set_params(method="vector")
    assert model.temperature(X_test).shape == (400,)


def test_accuracy_is_that_of_predict(noisy):
    X, y, X_test, y_test = noisy[0], noisy[1], noisy[4], noisy[5]
    model = CalibratedClassifier(LogisticRegression(), "vector").fit(X, y)
    assert model.score(X_test, y_test) == accuracy_score(y_test, model.predict(X_test))
