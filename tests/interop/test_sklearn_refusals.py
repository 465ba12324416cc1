"""Input that cannot work gets one line that says why, and metadata goes where it is asked for."""

import subprocess
import sys

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from wildcal import ContextScaling, TemperatureScaling
from wildcal.calibrators.density import DensityAware
from wildcal.interop.sklearn import CalibratedClassifier
from wildcal.interop.sklearn.labels import encode

_BLOCKED = """
import sys
sys.modules["sklearn"] = None
import wildcal
try:
    import wildcal.interop.sklearn
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    return X, y


def test_missing_scikit_learn():
    done = subprocess.run([sys.executable, "-c", _BLOCKED], capture_output=True, text=True)
    assert done.stdout.startswith("MissingExtraError wildcal.interop.sklearn needs scikit-learn.")
    assert 'pip install "wildcal[sklearn]"' in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "platt"}, "one of 'identity', 'auto', 'ts', .* got 'platt'"),
        ({"method": TemperatureScaling}, "a calibrator such as EnergyScaling.., or one of"),
        ({"method": "context"}, "ContextScaling learns from environments.*method='energy'"),
        ({"method": ContextScaling()}, "ContextScaling learns from environments"),
        ({"method": DensityAware()}, "DensityAware reads the distances .*method='energy'"),
        ({"method": TemperatureScaling(bounds=(3, 1))}, "bounds must be a pair"),
        ({"cv": 1}, "cv must be at least 2 folds, got 1"),
        ({"cv": "frozen"}, "cv must be 'prefit', a number of folds.* got 'frozen'"),
        ({"cv": True}, "cv must be 'prefit'"),
        ({"cv": []}, "at least one split"),
        ({"cv": [(np.arange(200), np.arange(190, 300))]}, "row 190 is on both sides"),
        ({"cv": [(np.arange(300), [])]}, "cv must test on some rows"),
        ({"cv": KFold(3)}, "class 0 is in none of the 200 training rows .*StratifiedKFold"),
    ],
)
def test_bad_options(rows, options, message):
    X, y = rows
    order = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match=message) as caught:
        CalibratedClassifier(LogisticRegression(), **options).fit(X[order], y[order])
    assert "\n" not in str(caught.value)


def test_bad_rows(rows):
    X, y = rows
    model = CalibratedClassifier(LogisticRegression())
    with pytest.raises(ValueError, match="at least two classes, got one class: 1"):
        model.fit(X, np.ones(len(X), int))
    few = np.r_[np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:3]]
    with pytest.raises(ValueError, match="cv=5 needs 5 rows of each class, but class 2 has 3"):
        model.fit(X[few], y[few])
    with pytest.raises(ValueError, match="cv=7 needs 7 rows of each class, but class 2 has 3"):
        CalibratedClassifier(cv=StratifiedKFold(7)).fit(X[few], y[few])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="sample_weight must have shape"):
        model.fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="finite and not negative"):
        model.fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        model.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="target y is None"):
        model.fit(X, None)


def test_bad_prefit(rows):
    X, y = rows
    with pytest.raises(NotFittedError, match="LogisticRegression is not. Fit it first"):
        CalibratedClassifier(LogisticRegression(), cv="prefit").fit(X, y)
    fitted = LogisticRegression().fit(X, y)
    with pytest.raises(NotFittedError, match="put it in a FrozenEstimator"):
        clone(CalibratedClassifier(fitted, cv="prefit")).fit(X, y)
    names = np.array(["a", "b", "c"])
    by_name = LogisticRegression().fit(X, names[y])
    strange = names[y].copy()
    strange[4] = "z"
    with pytest.raises(ValueError, match="but row 4 is z. Rows of other classes go into X_ood"):
        CalibratedClassifier(by_name, cv="prefit").fit(X, strange)
    del fitted.classes_
    with pytest.raises(ValueError, match="must have classes_, and LogisticRegression has not"):
        CalibratedClassifier(fitted, "ts", cv="prefit").fit(X, y)
    with pytest.raises(ValueError, match="is not fitted again.* got groups, note"):
        CalibratedClassifier(fitted, cv="prefit").fit(X, y, groups=y, note=1)


@given(st.lists(st.text(max_size=3), min_size=2, max_size=6, unique=True), st.data())
def test_labels_become_their_column(names, data):
    classes = np.array(names)  # in any order
    columns = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1))
    assert encode(classes[columns], classes).tolist() == columns
    with pytest.raises(ValueError, match="row 1 is"):
        encode(np.array([names[0], "a stranger"]), classes)


def test_columns_are_in_the_order_of_the_estimator(rows):
    class Backwards(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.inner_ = LogisticRegression().fit(X, y)
            self.classes_ = self.inner_.classes_[::-1]
            return self

        def decision_function(self, X):
            return self.inner_.decision_function(X)[:, ::-1]

    X, y = rows
    inner = Backwards().fit(X, y)
    there = CalibratedClassifier(inner, "ts", cv="prefit").fit(X, y)
    back = CalibratedClassifier(inner.inner_, "ts", cv="prefit").fit(X, y)
    np.testing.assert_allclose(there.predict_proba(X), back.predict_proba(X)[:, ::-1], atol=1e-12)
    assert np.array_equal(there.predict(X), back.predict(X))
    with pytest.raises(ValueError, match="Backwards.classes_ must be the sorted labels"):
        CalibratedClassifier(Backwards(), "ts").fit(X, y)


def test_ood_rows_need_a_method_that_uses_them(rows):
    X, y = rows
    with pytest.raises(ValueError, match="TemperatureScaling does not use rows of other classes"):
        CalibratedClassifier(LogisticRegression(), "ts").fit(X, y, X_ood=X)


def test_not_fitted_yet(rows):
    model = CalibratedClassifier(LogisticRegression())
    for ask in (model.predict, model.predict_proba, model.confidence, model.temperature):
        with pytest.raises(NotFittedError):
            ask(rows[0])
    assert not hasattr(CalibratedClassifier(method="vector"), "temperature")


def test_a_wrong_number_of_columns_is_the_estimators_word(rows):
    X, y = rows
    model = CalibratedClassifier(LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="6 features"):
        model.predict_proba(X[:, :2])


def test_metadata_goes_where_it_is_asked_for(rows):
    X, y = rows
    weight = np.linspace(0, 2, len(y))
    groups = np.arange(len(y)) % 6
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, inner)
        model = CalibratedClassifier(pipeline, cv=GroupKFold(3))
        model.fit(X, y, sample_weight=weight, groups=groups)
        default = CalibratedClassifier().fit(X, y, sample_weight=weight)
    by_hand = make_pipeline(StandardScaler(), LogisticRegression())
    by_hand.fit(X, y, logisticregression__sample_weight=weight)
    assert np.array_equal(model.estimator_[-1].coef_, by_hand[-1].coef_)
    splits = list(GroupKFold(3).split(X, y, groups))
    with sklearn.config_context(enable_metadata_routing=True):
        same = CalibratedClassifier(pipeline, cv=splits).fit(X, y, sample_weight=weight)
    assert np.array_equal(model.predict_proba(X), same.predict_proba(X))
    plain = CalibratedClassifier().fit(X, y)
    assert not np.allclose(default.estimator_.coef_, plain.estimator_.coef_)


def test_metadata_reaches_the_wrapper_through_others(rows):
    X, y = rows
    ood = 0.2 * X[:50]
    with sklearn.config_context(enable_metadata_routing=True):
        model = CalibratedClassifier(LogisticRegression()).set_fit_request(X_ood=True)
        outside = make_pipeline(StandardScaler(), model).fit(X, y, X_ood=ood)
        assert outside[-1].calibrator_.fit_.n_ood == 50
        scores = cross_val_score(model, X, y, cv=3, params={"X_ood": ood})
    assert len(scores) == 3


def test_feature_names_are_those_of_the_estimator(rows):
    class Named(LogisticRegression):
        def fit(self, X, y):
            super().fit(X, y)
            self.feature_names_in_ = np.array(list("abcdef"), object)
            return self

        def decision_function(self, X):
            return X @ self.coef_.T + self.intercept_

    model = CalibratedClassifier(Named(), "ts").fit(*rows)
    assert list(model.feature_names_in_) == list("abcdef")
    model.set_params(estimator=LogisticRegression()).fit(*rows)
    assert not hasattr(model, "feature_names_in_")
