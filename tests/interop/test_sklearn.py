"""CalibratedClassifier: what it fits and predicts, where scores come from, and its errors."""

import subprocess
import sys

import joblib
import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array
from scipy.special import expit, softmax
from sklearn import model_selection as ms
from sklearn.base import clone
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from wildcal.calibrators.energy import EnergyScaling
from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.core.registry import CALIBRATORS, get_calibrator
from wildcal.interop.sklearn import CalibratedClassifier, mlp_logits

pytestmark = pytest.mark.filterwarnings(
    "ignore::wildcal.core.exceptions.CalibrationWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)
LR = LogisticRegression(tol=1e-10, max_iter=1000)
FOREST = RandomForestClassifier(10, random_state=0)
NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(1200, 8, n_informative=5, n_classes=3, flip_y=0.2, random_state=0)
    return X[:400], y[:400], X[400:800], y[400:800], X[800:], y[800:]


def test_balanced_class_weights():
    X, y = make_classification(8000, 10, weights=[0.92], flip_y=0.05, random_state=0)
    model = CalibratedClassifier(LogisticRegression(class_weight="balanced"))
    proba = model.fit(X[:4000], y[:4000]).predict_proba(X[4000:])[:, 1]
    raw = model.estimator_.predict_proba(X[4000:])[:, 1]
    assert raw.mean() > y[4000:].mean() + 0.08
    assert abs(proba.mean() - y[4000:].mean()) < 0.015


def test_prefit_is_the_calibrator_on_the_scores(data):
    X, y, X_held, y_held, X_test, _ = data
    inner, ood = LogisticRegression().fit(X, y), 0.1 * X_test[:40]
    weight = np.linspace(1, 3, 400)
    model = CalibratedClassifier(inner, "energy", cv="prefit").fit(X_held, y_held, weight, ood)
    scores = inner.decision_function(np.r_[X_held, ood])
    by_hand = EnergyScaling().fit(
        scores, np.r_[y_held, np.full(40, -1)], sample_weight=np.r_[weight, np.ones(40)]
    )
    expected = by_hand.predict_proba(inner.decision_function(X_test))
    assert model.estimator_ is inner
    assert np.array_equal(model.predict_proba(X_test), expected)
    frozen = clone(model).set_params(estimator=FrozenEstimator(inner), cv=5)
    frozen.fit(X_held, y_held, weight, ood)
    assert np.array_equal(frozen.predict_proba(X_test), expected)


def test_folds_are_the_calibrator_on_out_of_fold_scores(data):
    X, y = data[:2]
    model = CalibratedClassifier(LR, "ts", cv=4).fit(X, y)
    by_hand = TemperatureScaling()
    by_hand.fit(ms.cross_val_predict(LR, X, y, cv=4, method="decision_function"), y)
    assert model.calibrator_.temperature_ == pytest.approx(by_hand.temperature_, rel=1e-9)
    assert np.array_equal(model.estimator_.coef_, clone(LR).fit(X, y).coef_)
    assert not hasattr(LR, "coef_")
    # Splits need not be a partition, and may be masks.
    splitter = ms.ShuffleSplit(1, test_size=0.3, random_state=0)
    model = CalibratedClassifier(LR, "ts", cv=splitter).fit(X, y)
    assert model.calibrator_.fit_info_.n_samples == 120
    masks = [tuple(np.isin(np.arange(400), part) for part in s) for s in splitter.split(X)]
    again = CalibratedClassifier(LR, "ts", cv=masks).fit(X, y)
    assert again.calibrator_.temperature_ == pytest.approx(model.calibrator_.temperature_)


def test_prefit_classes_in_any_order(data):
    X, y, X_held, y_held, X_test, _ = data
    some = y_held < 2  # the estimator has more classes than y
    inner = LogisticRegression().fit(X, NAMES[y])
    model = CalibratedClassifier(inner, "ts", cv="prefit").fit(X_held[some], NAMES[y_held[some]])
    proba, predicted = model.predict_proba(X_test), model.predict(X_test)
    for name in ("classes_", "coef_", "intercept_"):
        setattr(inner, name, getattr(inner, name)[::-1])
    model.fit(X_held[some], NAMES[y_held[some]])
    np.testing.assert_allclose(model.predict_proba(X_test), proba[:, ::-1], atol=1e-9)
    assert np.array_equal(model.predict(X_test), predicted)


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([7, -3]), np.array([0.0, 1])])
def test_labels_of_any_type(data, labels):
    X, y, X_test = data[0], labels[data[1] % 2], data[4]
    model = CalibratedClassifier(LR, "ts", cv=3).fit(X, y)
    assert list(model.classes_) == sorted(labels)
    assert model.calibrator_.input_ == "score"
    assert model.predict(X_test).dtype == labels.dtype
    assert np.array_equal(model.predict(X_test), model.estimator_.predict(X_test))


@pytest.mark.parametrize(
    "method", sorted(set(CALIBRATORS) - {"dac", "window", "match", "label-shift"})
)
@pytest.mark.parametrize("inner", [LR, FOREST], ids=["lr", "forest"])
def test_every_method(data, method, inner):
    X, y, X_test = data[0], NAMES[data[1]], data[4]
    model = CalibratedClassifier(inner, method, cv=3)
    if inner is not LR and get_calibrator(method).requires_raw_logits:
        with pytest.raises(InputError, match="raw scores for Energy.*, got predict_proba"):
            model.fit(X, y)
        return
    proba = model.fit(X, y).predict_proba(X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    assert np.array_equal(model.predict(X_test), model.classes_[proba.argmax(axis=1)])
    assert np.array_equal(model.confidence(X_test), proba.max(axis=1))
    if model.calibrator_.preserves_accuracy and inner is LR:
        assert np.array_equal(model.predict(X_test), model.estimator_.predict(X_test))


@pytest.mark.parametrize(
    ("inner", "n_classes", "response", "kind"),
    [
        (HistGradientBoostingClassifier(max_iter=3), 3, "decision_function", "logits"),
        (make_pipeline(StandardScaler(), MLPClassifier((5,), max_iter=5)), 3, mlp_logits, "logits"),
        (MLPClassifier((5,), max_iter=5), 2, mlp_logits, "score"),
        (GaussianNB(), 3, "predict_proba", "proba"),
        (StackingClassifier([("nb", GaussianNB())], FOREST, cv=3), 3, "predict_proba", "proba"),
        (FOREST, 2, "predict_proba", "proba"),
    ],
)
def test_automatic_response(data, inner, n_classes, response, kind):
    X, y, X_test = data[0], data[1] % n_classes, data[4]
    model = CalibratedClassifier(inner, "ts", cv=3).fit(X, y)
    assert (model.response_method_, model.calibrator_.input_) == (response, kind)
    assert np.isfinite(model.predict_proba(X_test)).all()


def test_response_methods_agree(data):
    X, y, X_test = data[0], data[1], data[4]
    of_scores, of_log, of_proba = (
        CalibratedClassifier(LR, "ts", response_method=name).fit(X, y).predict_proba(X_test)
        for name in ("decision_function", "predict_log_proba", "predict_proba")
    )
    np.testing.assert_allclose(of_log, of_scores, atol=1e-6)
    # Probabilities below those of the calibration set are raised.
    np.testing.assert_allclose(of_proba, of_scores, atol=3e-3)
    model = CalibratedClassifier(LR, "ts").fit(X, y)
    model.set_params(response_method=lambda e, X: 2 * e.decision_function(X).astype("f4"))
    assert np.array_equal(model.predict_proba(X_test), of_scores)  # a change waits for fit
    model.fit(X, y)
    assert model.predict_proba(X_test).dtype == np.float32
    np.testing.assert_allclose(model.predict_proba(X_test), of_scores, atol=1e-5)
    joint = CalibratedClassifier(GaussianNB(), "energy", response_method="predict_joint_log_proba")
    assert np.ptp(joint.fit(X, y).calibrator_.temperatures(joint.calibrator_input(X_test))) > 0


@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
def test_softmax_of_mlp_logits_is_predict_proba(data, activation):
    X, y, X_test = data[0], data[1], data[4]
    network = MLPClassifier((6, 5), activation=activation, max_iter=20, random_state=0).fit(X, y)
    before, expected = vars(network).copy(), network.predict_proba(X_test)
    logits = mlp_logits(network, X_test)
    np.testing.assert_allclose(softmax(logits, axis=1), expected, atol=1e-12)
    assert vars(network) == before
    pipeline = make_pipeline(StandardScaler(), network).fit(X, y > 0)
    score = mlp_logits(FrozenEstimator(pipeline), X_test)
    np.testing.assert_allclose(expit(score), pipeline.predict_proba(X_test)[:, 1], atol=1e-12)
    with pytest.raises(InputError, match="must be an MLPClassifier, got LogisticRegression"):
        mlp_logits(LR, X_test)


def test_ood_samples_lower_the_confidence():
    X, y = load_digits(return_X_y=True)
    known, eights, nines = (X[part] / 16 for part in (y < 8, y == 8, y == 9))
    model = CalibratedClassifier(LinearSVC(random_state=0), EnergyScaling(ood_weight="count"))
    plain, one, taught, sparse = (
        clone(model).fit(known, y[y < 8], X_ood=ood)
        for ood in (eights[:0], eights[:1], eights, csr_array(eights))
    )
    n_ood = [m.calibrator_.fit_info_.n_ood for m in (plain, one, taught, sparse)]
    assert n_ood == [0, 1, len(eights), len(eights)]
    assert taught.confidence(nines).mean() < plain.confidence(nines).mean() - 0.05
    assert np.array_equal(taught.estimator_.coef_, plain.estimator_.coef_)
    np.testing.assert_allclose(sparse.predict_proba(nines), taught.predict_proba(nines), atol=1e-9)


@pytest.mark.parametrize("method", ["ts", "auto"])
def test_weights_count_samples_in_estimator_and_calibrator(data, method):
    X, y = data[:2]
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    splits = list(ms.StratifiedKFold(3).split(X, y))
    repeated = np.repeat(np.arange(len(y)), weight)
    places = [[np.flatnonzero(np.isin(repeated, part)) for part in pair] for pair in splits]
    weighted = CalibratedClassifier(LR, method, cv=splits).fit(X, y, sample_weight=weight)
    longer = CalibratedClassifier(LR, method, cv=places).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(weighted.predict_proba(X), longer.predict_proba(X), atol=1e-5)
    with pytest.warns(CalibrationWarning, match="Pipeline.fit takes no sample_weight"):
        CalibratedClassifier(make_pipeline(LR), method).fit(X, y, sample_weight=weight)


@pytest.mark.slow
def test_model_selection(data):
    X, y, X_test, y_test = data[0], NAMES[data[1]], data[4], NAMES[data[5]]
    grid = [
        {"method": ["identity", "ts"], "estimator__C": [1e-4, 1.0]},
        {"method": [TemperatureScaling()], "method__bounds": [(50.0, 100.0), (0.01, 100.0)]},
    ]
    search = ms.GridSearchCV(CalibratedClassifier(LR, cv=3), grid, scoring="neg_log_loss", cv=3)
    scores = search.fit(X, y).cv_results_["mean_test_score"]
    # A small C and a large temperature give nearly equal probabilities.
    assert scores[[0, 4]] == pytest.approx(-np.log(3), abs=0.05)
    assert search.score(X_test, y_test) > -np.log(3) + 0.2
    outside = make_pipeline(StandardScaler(), CalibratedClassifier(LR, cv=3))
    assert ms.cross_validate(outside, X, y, cv=3)["test_score"].min() > 0.5
    tuned = ms.TunedThresholdClassifierCV(CalibratedClassifier(LR, cv=3)).fit(X, y == "ant")
    assert 0 < tuned.best_threshold_ < 1
    assert CalibrationDisplay.from_estimator(tuned.estimator_, X, y == "ant").prob_true.size


def test_inputs_belong_to_the_estimator(data):
    pd = pytest.importorskip("pandas")
    X, y, X_test = data[0], data[1], data[4]
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = CalibratedClassifier(LR, "ts").fit(frame, pd.Series(NAMES[y]))
    assert list(model.feature_names_in_) == list("abcdefgh")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("hgfedcba")])
    texts = ["wave fish", "tree moss", "wave salt", "moss deer", "fish tree", "deer wave"] * 20
    inner = make_pipeline(CountVectorizer(), LinearSVC())
    assert not hasattr(model.set_params(estimator=inner).fit(texts, y[:120]), "n_features_in_")
    linear = CalibratedClassifier(SVC(kernel="linear"), "energy").fit(X, y, X_ood=X_test[:20])
    kernel = CalibratedClassifier(SVC(kernel="precomputed"), "energy")
    kernel.fit(X @ X.T, y, X_ood=X_test[:20] @ X.T)
    np.testing.assert_allclose(kernel.predict_proba(X @ X.T), linear.predict_proba(X), atol=1e-5)


def test_clone_and_joblib(data, tmp_path):
    X, y, X_test = data[0], data[1], data[4]
    model = CalibratedClassifier(LR, TemperatureScaling(bounds=(0.1, 10.0)), cv=3)
    twin = clone(model.fit(X, y)).set_params(n_jobs=2)
    assert twin.get_params()["method__bounds"] == (0.1, 10.0)
    assert not model.method.is_fitted
    with joblib.parallel_config("threading"):
        twin.fit(X, y)
    joblib.dump(twin, tmp_path / "model.joblib")
    loaded = joblib.load(tmp_path / "model.joblib")
    assert np.array_equal(loaded.predict_proba(X_test), model.predict_proba(X_test))


def test_metadata_routing(data):
    X, y = data[:2]
    weight, groups = np.linspace(0, 2, len(y)), np.arange(len(y)) % 6
    with sklearn.config_context(enable_metadata_routing=True):
        inner = clone(LR).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), inner)
        model = CalibratedClassifier(pipeline, cv=ms.GroupKFold(3))
        model.fit(X, y, sample_weight=weight, groups=groups)
        splits = list(ms.GroupKFold(3).split(X, y, groups))
        same = CalibratedClassifier(pipeline, cv=splits).fit(X, y, sample_weight=weight)
        ood = CalibratedClassifier(LR, "energy").set_fit_request(X_ood=True)
        outside = make_pipeline(StandardScaler(), ood).fit(X, y, X_ood=X[:50])
    assert np.array_equal(model.predict_proba(X), same.predict_proba(X))
    by_hand = clone(LR).fit(StandardScaler().fit_transform(X), y, weight)
    assert np.array_equal(model.estimator_[-1].coef_, by_hand.coef_)
    assert outside[-1].calibrator_.fit_info_.n_ood == 50


@pytest.mark.parametrize(
    ("inner", "options", "message"),
    [
        (LR, {"method": "tss"}, "Unknown method 'tss'. Did you mean 'ts'"),
        (LR, {"method": "window"}, "must not depend on a window, got WindowScaling.* adapt first"),
        (LR, {"method": "dac"}, "got DensityAware.*, which requires knn_distances"),
        (LR, {"cv": ms.KFold(3)}, "all classes in each training set, .* got a fold with"),
        (LinearRegression(), {}, "LinearRegression has no decision_function or predict_proba"),
        (LR, {"response_method": "margins"}, "got 'margins'; LogisticRegression has no margins"),
        (LR, {"response_method": lambda e, X: X}, r"must return shape \(n_samples, 3\), got"),
        (LR, {"response_method": lambda e, X: e.predict_proba(X)}, "must be logits, got values"),
        (LR, {"cv": [(range(400), range(9))]}, "cv must not test on training samples"),
        (SVC(decision_function_shape="ovo"), {}, "one-vs-one.* decision_function_shape='ovr'"),
    ],
)
def test_bad_options(data, inner, options, message):
    X, y, order = data[0], data[1], np.argsort(data[1], kind="stable")
    with pytest.raises(ValueError, match=message) as caught:
        CalibratedClassifier(inner, **options).fit(X[order], y[order])
    assert "\n" not in str(caught.value)


def test_bad_samples(data):
    X, y = data[:2]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CalibratedClassifier(LR).fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(InputError, match="X_ood must be None: TemperatureScaling"):
        CalibratedClassifier(LR, "ts").fit(X, y, X_ood=X)
    prefit = CalibratedClassifier(LogisticRegression(), "ts", cv="prefit")
    with pytest.raises(ValueError, match="got LogisticRegression. Try a FrozenEstimator"):
        prefit.fit(X, y)
    prefit.estimator.fit(X[y < 2], NAMES[y[y < 2]])
    with pytest.raises(InputError, match=r"\(ant, bee\), got 'cat'. Try X_ood"):
        prefit.fit(X, NAMES[y])


def test_missing_scikit_learn():
    script = "import sys; sys.modules['sklearn'] = None; import wildcal.interop.sklearn"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "MissingExtraError: wildcal.interop.sklearn needs" in done.stderr
    assert 'pip install "wildcal[sklearn]"' in done.stderr
