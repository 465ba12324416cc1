"""CalibratedClassifier: a scikit-learn classifier whose probabilities are calibrated."""

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from wildcal.core.arrays import Logits, Proba
from wildcal.core.calibrator import Calibrator, TemperatureMap
from wildcal.core.checks import check_weight
from wildcal.interop.sklearn.distributions import as_distributions
from wildcal.interop.sklearn.folds import Held, held_out, make_splitter, out_of_fold
from wildcal.interop.sklearn.labels import check_target, classes_of
from wildcal.interop.sklearn.method import fresh_calibrator
from wildcal.interop.sklearn.routing import route, routing_enabled
from wildcal.interop.sklearn.scores import ScoreSource, find_source, predicted


def _has_temperature(self: "CalibratedClassifier") -> bool:
    fitted = getattr(self, "calibrator_", None)
    return isinstance(fitted or fresh_calibrator(self.method), TemperatureMap)


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Any classifier, with probabilities that mean what they say.

    The scores of held-out rows teach a calibrator; one estimator and one calibrator predict.

    Parameters
    ----------
    estimator
        The classifier; by default a LinearSVC.
    method
        Short name of a calibrator in `wildcal.CALIBRATORS`, or a calibrator with options of its
        own, which is copied.
    cv
        Where held-out rows come from. A number of folds (stratified), a splitter or a list of
        splits: clones are fitted on the training rows of each fold, the calibrator on the scores of
        all test rows together, and at last the estimator on all rows. "prefit": the estimator is
        fitted already, and `fit` gets rows that it has not seen; an estimator in a FrozenEstimator
        is always taken so.
    logits
        Where the scores come from. "auto": `decision_function`; for an MLPClassifier `mlp_logits`;
        else log probabilities, where the method is shift invariant. Or the name of a method of the
        estimator, or a function(estimator, X). Scores have one column per class; two classes may
        have one score in all.
    n_jobs
        Folds fitted at the same time, as everywhere in scikit-learn.

    Attributes
    ----------
    classes_
        The labels, in the order of the columns.
    estimator_
        The fitted classifier.
    calibrator_
        The fitted calibrator; `wildcal.save` writes it to a file.
    source_
        Where the scores were read.
    n_features_in_, feature_names_in_
        Those of the fitted classifier, if it has them.

    Notes
    -----
    `predict` returns the class with the largest score, and `confidence` the probability of that
    class. With a method that does not preserve accuracy, another class may have a larger
    probability. Rows of `predict_proba` always sum to one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CalibratedClassifier(method="ts").fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    """

    def __init__(
        self,
        estimator: Any = None,
        method: str | Calibrator = "energy",
        *,
        cv: Any = 5,
        logits: Any = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.logits = logits
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, X_ood: Any = None, **fit_params: Any
    ) -> Self:
        """Fit the estimator and its calibrator, and return self.

        Parameters
        ----------
        X
            What the estimator takes, of shape (n_samples, n_features); with cv="prefit", rows it
            has not seen.
        y
            Labels of any type, shape (n_samples,).
        sample_weight
            Weight of each row, for the calibrator and for an estimator that takes weights.
        X_ood
            Rows of classes other than those of y, which the method learns to doubt, each of weight
            1; for methods with `accepts_ood`, such as "energy". The estimator is not trained on
            them.
        **fit_params
            More arguments for the `fit` of the estimator.
        """
        labels = check_target(y, type(self).__name__)
        X, labels = indexable(X, labels)
        (X_ood,) = indexable(X_ood)
        weight = check_weight(sample_weight, len(labels))
        estimator, calibrator = self._inner(), fresh_calibrator(self.method)
        if X_ood is not None and not calibrator.accepts_ood:
            raise ValueError(
                f"{type(calibrator).__name__} does not use rows of other classes. Leave X_ood out,"
                " or use method='energy'."
            )
        source = find_source(self.logits, estimator, calibrator)
        if self._is_prefit(estimator):
            _refuse_arguments(fit_params)
            classes, held = self._score_prefit(estimator, source, X, labels, X_ood)
        else:
            classes = classes_of(labels)
            routed = route(self, estimator, weight, fit_params)
            splits = make_splitter(self.cv, labels).split(X, labels, **routed.splitter.split)
            held = out_of_fold(
                estimator,
                source,
                X,
                labels,
                classes,
                splits,
                X_ood=X_ood,
                fit_params=routed.estimator.fit,
                n_jobs=self.n_jobs,
            )
            estimator = clone(estimator).fit(X, labels, **routed.estimator.fit)
        source, logits = source.settle(held.logits)
        calibrator.fit(logits, held.y, sample_weight=held.weights(weight))
        self.classes_, self.source_ = classes, source
        self.estimator_, self.calibrator_ = estimator, calibrator
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
        return self

    def decision_function(self, X: Any) -> Logits:
        """Return the scores before calibration.

        Shape (n_samples, n_classes), or (n_samples,) for two classes: larger means the second one.
        """
        z = self._logits(X)
        return np.asarray(z[:, 1] - z[:, 0]) if len(self.classes_) == 2 else z

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest score, shape (n_samples,)."""
        column = predicted(self._logits(X))
        return np.asarray(self.classes_[column])

    def predict_proba(self, X: Any) -> Proba:
        """Return calibrated probabilities, shape (n_samples, n_classes), rows summing to one."""
        return self._proba(self._logits(X))

    def predict_log_proba(self, X: Any) -> Proba:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def confidence(self, X: Any) -> Proba:
        """Return the calibrated probability of the predicted class, shape (n_samples,)."""
        z = self._logits(X)
        return np.take_along_axis(self._proba(z), predicted(z)[:, None], axis=1)[:, 0]

    @available_if(_has_temperature)  # type: ignore[untyped-decorator]
    def temperature(self, X: Any) -> Proba:
        """Return what the scores of each row are divided by, shape (n_samples,)."""
        z = self._logits(X)
        return np.asarray(self.calibrator_.temperature(z))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which arguments of `fit` go to the estimator and to the splitter."""
        here = MethodMapping().add(caller="fit", callee="fit")
        split = MethodMapping().add(caller="fit", callee="split")
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self._inner(), method_mapping=here)
            .add(splitter=self.cv, method_mapping=split)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator = self._inner()
        if hasattr(estimator, "__sklearn_tags__"):
            inner = get_tags(estimator)
            tags.input_tags = copy(inner.input_tags)
            tags.non_deterministic = inner.non_deterministic
            if inner.classifier_tags is not None:
                tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    def _inner(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        default = LinearSVC(random_state=0)
        return default.set_fit_request(sample_weight=True) if routing_enabled() else default

    def _is_prefit(self, estimator: Any) -> bool:
        return isinstance(estimator, FrozenEstimator) or (
            isinstance(self.cv, str) and self.cv == "prefit"
        )

    def _score_prefit(
        self, estimator: Any, source: ScoreSource, X: Any, y: NDArray[Any], X_ood: Any
    ) -> tuple[NDArray[Any], Held]:
        try:
            check_is_fitted(estimator)
        except NotFittedError as error:
            raise NotFittedError(
                f"cv='prefit' needs a fitted estimator, but {type(estimator).__name__} is not. Fit"
                " it first; where it is cloned, as in a grid search, put it in a FrozenEstimator."
            ) from error
        if not hasattr(estimator, "classes_"):
            raise ValueError(
                f"a fitted estimator must have classes_, and {type(estimator).__name__} has not."
                " Set them to the labels, in the order of its scores."
            )
        classes = np.asarray(estimator.classes_)
        return classes, held_out(estimator, source, X, y, classes, X_ood)

    def _logits(self, X: Any) -> Logits:
        check_is_fitted(self, "calibrator_")
        return self.source_.logits(self.estimator_, X, len(self.classes_))

    def _proba(self, logits: Logits) -> Proba:
        return as_distributions(self.calibrator_.predict_proba(logits))


def _refuse_arguments(fit_params: dict[str, Any]) -> None:
    if fit_params:
        raise ValueError(
            "a fitted estimator is not fitted again, so fit takes no arguments for it, got"
            f" {', '.join(fit_params)}."
        )
