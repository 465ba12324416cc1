"""Where the scores come from, and what is refused there."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from scipy.special import expit, softmax
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from wildcal import TemperatureScaling, logits_from_proba
from wildcal.core.errors import CalibrationWarning
from wildcal.interop.sklearn import CalibratedClassifier, mlp_logits
from wildcal.interop.sklearn.scores import as_columns
from wildcal.metrics import ece

# The networks here are stopped early on purpose, and what is calibrated is not always worth it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::wildcal.core.errors.CalibrationWarning"),
]


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(
        400, 8, n_informative=5, n_classes=4, flip_y=0.2, n_clusters_per_class=1, random_state=0
    )
    return X[:200], y[:200], X[200:], y[200:]


@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
@pytest.mark.parametrize("hidden", [(), (7,), (6, 5)])
def test_softmax_of_mlp_logits_is_predict_proba(rows, activation, hidden):
    X, y, X_test, _ = rows
    network = MLPClassifier(hidden, activation=activation, max_iter=20, random_state=0).fit(X, y)
    logits = mlp_logits(network, X_test)
    np.testing.assert_allclose(
        softmax(logits, axis=1), network.predict_proba(X_test), rtol=1e-9, atol=1e-15
    )
    np.testing.assert_allclose(mlp_logits(network, csr_array(X_test)), logits, atol=1e-10)
    single = network.fit(X.astype(np.float32), y)
    assert mlp_logits(single, X_test.astype(np.float32)).dtype == np.float32


def test_mlp_logits_of_two_classes(rows):
    X, y, X_test, _ = rows
    network = MLPClassifier((7,), max_iter=20, random_state=0).fit(X, y > 1)
    logits = mlp_logits(network, X_test)
    assert logits.shape == (200,)
    np.testing.assert_allclose(expit(logits), network.predict_proba(X_test)[:, 1], rtol=1e-9)
    model = CalibratedClassifier(network, "identity", cv="prefit").fit(X_test, rows[3] > 1)
    np.testing.assert_allclose(
        model.predict_proba(X_test), network.predict_proba(X_test), atol=1e-12
    )


def test_mlp_logits_in_a_pipeline_and_frozen(rows):
    X, y, X_test, y_test = rows
    pipeline = make_pipeline(StandardScaler(), MLPClassifier((7,), max_iter=20, random_state=0))
    pipeline.fit(X, y)
    logits = mlp_logits(FrozenEstimator(pipeline), X_test)
    np.testing.assert_allclose(softmax(logits, axis=1), pipeline.predict_proba(X_test), atol=1e-12)
    model = CalibratedClassifier(FrozenEstimator(pipeline)).fit(X_test, y_test)
    assert model.source_.name == "mlp_logits"
    assert np.array_equal(model.decision_function(X_test), logits)


def test_mlp_logits_refuses_others(rows):
    X, y, X_test, _ = rows
    with pytest.raises(ValueError, match="reads an MLPClassifier, got LogisticRegression"):
        mlp_logits(LogisticRegression().fit(X, y), X_test)
    several = MLPClassifier((3,), max_iter=5).fit(X, np.stack([y > 0, y > 1], axis=1))
    with pytest.raises(ValueError, match="one label per row"):
        mlp_logits(several, X_test)
    single = MLPClassifier((3,), max_iter=5).fit(X, y)
    with pytest.raises(ValueError, match="8 features"):
        mlp_logits(single, X_test[:, :3])


@pytest.mark.parametrize(
    ("estimator", "source"),
    [
        (LogisticRegression(), "decision_function"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "decision_function"),
        (HistGradientBoostingClassifier(max_iter=3), "decision_function"),
        (MLPClassifier((5,), max_iter=5), "mlp_logits"),
        (GaussianNB(), "predict_log_proba"),
        (RandomForestClassifier(5, random_state=0), "predict_log_proba"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_auto(rows, estimator, source):
    X, y, X_test, _ = rows
    model = CalibratedClassifier(estimator, "ts", cv=3).fit(X, y)
    assert model.source_.name == source
    assert np.isfinite(model.decision_function(X_test)).all()


@pytest.mark.parametrize(
    "estimator",
    [RandomForestClassifier(20, random_state=0), LogisticRegression()],
    ids=lambda value: type(value).__name__,
)
def test_the_safe_mixture_takes_any_classifier(rows, estimator):
    """It reads the energy where there is one, and does without where there is none."""
    X, y, X_test, _ = rows
    model = CalibratedClassifier(estimator, "auto", cv=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X_test).sum(axis=1), 1)
    np.testing.assert_array_equal(
        model.predict(X_test), model.classes_[model.predict_proba(X_test).argmax(axis=1)]
    )
    assert model.source_.normalized == isinstance(estimator, RandomForestClassifier)


def test_temperature_scaling_is_exact_on_log_probabilities(rows):
    X, y, X_test, _ = rows
    inner = LogisticRegression()
    of_scores, *others = (
        CalibratedClassifier(inner, "ts", logits=logits).fit(X, y).predict_proba(X_test)
        for logits in ("decision_function", "predict_log_proba", "predict_proba")
    )
    for proba in others:
        np.testing.assert_allclose(proba, of_scores, atol=1e-7)


def test_probabilities_of_zero_become_half_a_step(rows):
    X, y, X_test, _ = rows
    forest = RandomForestClassifier(3, random_state=0)
    proba = forest.fit(X, y).predict_proba(X_test)
    assert (proba == 0).any()
    for logits in ("predict_proba", "predict_log_proba"):
        model = CalibratedClassifier(forest, "ts", logits=logits).fit(X, y)
        floor = model.source_.floor
        assert floor == pytest.approx(min(1 / 6, 0.1 / proba.shape[1]))
        expected = logits_from_proba(proba, floor=floor)
        np.testing.assert_allclose(model.decision_function(X_test), expected)
        one_by_one = [model.decision_function(X_test[i : i + 1])[0] for i in range(5)]
        np.testing.assert_array_equal(one_by_one, model.decision_function(X_test)[:5])


def test_zeros_of_a_forest_do_not_decide_the_fit():
    """Rare positives of which a few have no tree: the temperature must not drown the others."""
    X, y = make_classification(
        4000, 20, n_informative=8, weights=[0.95], flip_y=0.05, random_state=0
    )
    forest = RandomForestClassifier(20, random_state=0).fit(X[:1500], y[:1500])
    raw = forest.predict_proba(X[2000:])
    model = CalibratedClassifier(forest, "ts", cv="prefit").fit(X[1500:2000], y[1500:2000])
    zeros = logits_from_proba(forest.predict_proba(X[1500:2000]))[np.arange(500), y[1500:2000]]
    assert (zeros == np.log(model.source_.floor)).any(), "no true class has a zero: nothing tested"
    assert ece(y[2000:], model.predict_proba(X[2000:])) < ece(y[2000:], raw) + 0.01


def test_named_methods_and_functions_supply_true_energies(rows):
    X, y, X_test, _ = rows
    joint = CalibratedClassifier(GaussianNB(), logits="predict_joint_log_proba").fit(X, y)
    scores = joint.estimator_.predict_joint_log_proba(X_test)
    assert np.array_equal(joint.decision_function(X_test), scores)
    assert np.ptp(joint.calibrator_.energy(scores)) > 1

    def doubled(estimator, X):
        return 2 * estimator.decision_function(X)

    plain = CalibratedClassifier(LogisticRegression(), "ts").fit(X, y)
    twice = CalibratedClassifier(LogisticRegression(), "ts", logits=doubled).fit(X, y)
    assert twice.source_.name == "doubled"
    assert twice.calibrator_.temperature_ == pytest.approx(2 * plain.calibrator_.temperature_)


# As wide as float32: half of the smallest float64 is not a float64.
@given(arrays(float, st.integers(1, 20), elements=st.floats(-1e6, 1e6, width=32)))
def test_one_score_becomes_two_columns(d):
    z = as_columns(d, 2, "scores")
    assert z.shape == (len(d), 2)
    assert np.array_equal(z[:, 1] - z[:, 0], d)
    assert np.array_equal(as_columns(-d, 2, "scores"), z[:, ::-1])
    assert np.array_equal(as_columns(d[:, None], 2, "scores"), z)
    assert np.array_equal(z.argmax(axis=1) == 1, d > 0)


@pytest.mark.parametrize("n_classes", [3, 4])
def test_one_vs_one_scores_are_refused(rows, n_classes):
    X, y = rows[0], rows[1] % n_classes
    svm = SVC(decision_function_shape="ovo")
    for estimator in (svm, make_pipeline(StandardScaler(), svm)):
        with pytest.raises(ValueError, match="one-vs-one.* Set decision_function_shape='ovr'"):
            CalibratedClassifier(estimator, cv=3).fit(X, y)
    CalibratedClassifier(svm, cv=3).fit(X, y % 2)  # two classes have one pair
    CalibratedClassifier(SVC(), cv=3).fit(X, y)


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        (GaussianNB(), {}, "Use logits='predict_joint_log_proba', or a method .* method='ts'"),
        (RandomForestClassifier(), {}, "a function.estimator, X. that returns raw scores"),
        (
            LogisticRegression(),
            {"logits": "predict_log_proba"},
            "EnergyScaling reads the energy .* predict_log_proba has lost it.*'decision_function'",
        ),
        (
            MLPClassifier(),
            {"logits": "predict_proba", "method": "energy-linear"},
            "EnergyLinear reads the energy .*logits=wildcal.interop.sklearn.mlp_logits",
        ),
        (GaussianNB(), {"method": "vector"}, "VectorScaling needs the scores from before"),
        (LinearRegression(), {"method": "ts"}, "neither decision_function nor predict_proba"),
        (GaussianNB(), {"logits": "margins"}, "logits='margins', but GaussianNB has no such"),
        (GaussianNB(), {"logits": 3}, "'auto', the name of a method, or a function"),
        (
            GaussianNB(),
            {"logits": lambda e, X: np.zeros((len(X), 3))},
            "must return one score per class, shape .n_samples, 4., got .50, 3.",
        ),
        (
            GaussianNB(),
            {"logits": lambda e, X: e.predict_proba(X)},
            "these are probabilities",
        ),
    ],
)
def test_refusals(rows, estimator, options, message):
    X, y = rows[:2]
    with pytest.raises(ValueError, match=message) as caught:
        CalibratedClassifier(estimator, cv=4, **options).fit(X, y)
    assert "\n" not in str(caught.value)


def test_vector_scaling_of_log_probabilities_may_be_asked_for(rows):
    X, y, X_test, _ = rows
    model = CalibratedClassifier(GaussianNB(), "vector", logits="predict_log_proba").fit(X, y)
    assert model.predict_proba(X_test).shape == (200, 4)


def test_a_function_of_log_probabilities_is_noticed(rows):
    X, y = rows[:2]
    model = CalibratedClassifier(GaussianNB(), logits=lambda e, X: e.predict_log_proba(X))
    with pytest.warns(CalibrationWarning, match="fell back to temperature scaling"):
        model.fit(X, y)
    alone = CalibratedClassifier(GaussianNB(), TemperatureScaling()).fit(X, y)
    assert model.calibrator_.temperature_ == pytest.approx(alone.calibrator_.temperature_)
