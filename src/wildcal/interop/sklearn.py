"""A scikit-learn classifier with calibrated probabilities around any other classifier."""

from collections.abc import Callable
from copy import copy
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray, IntArray
from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError, needs_extra
from wildcal.core.labels import OOD_LABEL, few
from wildcal.core.registry import get_calibrator
from wildcal.core.validation import warn
from wildcal.window.base import WindowCalibrator

with needs_extra("wildcal.interop.sklearn", "sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import check_cv
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.svm import LinearSVC
    from sklearn.utils import Bunch, _safe_indexing, column_or_1d, get_tags, indexable
    from sklearn.utils import metadata_routing as routing
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.parallel import Parallel, delayed
    from sklearn.utils.validation import (
        _check_method_params,
        _num_samples,
        assert_all_finite,
        check_is_fitted,
        has_fit_parameter,
    )

__all__ = ["CalibratedClassifier", "mlp_logits"]

Response: TypeAlias = str | Callable[[Any, Any], Any]

# Input kinds of methods that return probabilities; other methods return logits or a binary score.
_PROBA_KINDS: Final = {"predict_proba": "proba", "predict_log_proba": "log_proba"}


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier with calibrated probabilities.

    A calibrator is fitted on the scores of held-out samples. One estimator, fitted on all samples,
    and one calibrator predict.

    Parameters
    ----------
    estimator
        The classifier. Default: LinearSVC.
    method
        Name of a calibrator (see `wildcal.CALIBRATORS`) or a calibrator, which is cloned.
    cv
        Held-out samples: a number of folds (stratified), a splitter or a list of splits. Clones are
        fitted on the training samples of each fold; the calibrator is fitted on the scores of all
        test samples together. "prefit": the estimator is fitted already, and `fit` takes samples
        that it has not seen. A FrozenEstimator is always taken as fitted.
    response_method
        Where the scores come from. "auto": `decision_function` if there is one, `mlp_logits` for an
        MLPClassifier, else `predict_proba`. Or the name of a method of the estimator, or a
        function(estimator, X). Other methods than `predict_proba` and `predict_log_proba`, and
        functions, return logits of shape (n_samples, n_classes), or one binary score per sample.
    n_jobs
        Number of folds that are fitted in parallel.

    Attributes
    ----------
    classes_
        The labels, in the order of the columns.
    estimator_
        The fitted classifier.
    calibrator_
        The fitted calibrator; `calibrator_.input_` is the kind of scores.
    response_method_
        Name of the method, or the function, that returns the scores.
    n_features_in_, feature_names_in_
        Those of the fitted classifier, if it has them.

    Notes
    -----
    `predict` returns the class with the largest probability. Calibrators that do not preserve
    accuracy, such as "auto" and "vector", may predict another class than the estimator.

    A calibrator that must be adapted to a window, and one that requires distances, cannot be used.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CalibratedClassifier().fit(X[:600], y[:600])
    >>> model.predict_proba(X[600:602]).shape
    (2, 10)
    """

    def __init__(
        self,
        estimator: Any = None,
        method: str | Calibrator = "auto",
        *,
        cv: Any = 5,
        response_method: Response = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.response_method = response_method
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, X_ood: Any = None, **fit_params: Any
    ) -> Self:
        """Fit the estimator and its calibrator, and return self.

        Parameters
        ----------
        X
            Input of the estimator; with cv="prefit", samples that it has not seen.
        y
            Labels of any type, shape (n_samples,).
        sample_weight
            Weights for the calibrator, and for the estimator if its `fit` takes them.
        X_ood
            OOD samples for calibrators that use them, such as "energy", each with a weight of 1.
            The estimator is not trained on them.
        **fit_params
            Arguments of the `fit` of the estimator.
        """
        if y is None:
            raise InputError("requires y to be passed, but the target y is None.", "y")
        assert_all_finite(np.asarray(y), input_name="y")
        check_classification_targets(y)
        X, y, weight = indexable(X, np.asarray(column_or_1d(y, warn=True)), sample_weight)
        weight = None if weight is None else np.asarray(weight)
        (X_ood,) = indexable(X_ood)
        estimator, calibrator = self._get_estimator(), _make_calibrator(self.method)
        if X_ood is not None and not calibrator.uses_ood:
            who = type(calibrator).__name__
            raise InputError(
                f"X_ood must be None: {who} does not use OOD samples. Try method='energy'.", "X_ood"
            )
        if isinstance(estimator, FrozenEstimator) or self.cv == "prefit":
            classes, tested = _classes_of_fitted(estimator, fit_params), np.arange(len(y))
            response = _find_response(self.response_method, estimator, calibrator)
            parts = [[_scores(response, estimator, each) for each in (X, *_split_ood(X_ood, 1))]]
        else:
            classes = np.unique(y)
            if len(classes) < 2:
                got = f"{len(classes)} class: {few(list(classes))}"
                raise InputError(f"y must have two classes or more, got {got}.", "y")
            routed = self._route(estimator, weight, fit_params)
            splitter = check_cv(self.cv, y, classifier=True)
            splits = list(splitter.split(X, y, **routed.splitter.split))
            tested = np.concatenate([np.arange(len(y))[test] for _, test in splits])
            unfitted, estimator = estimator, clone(estimator).fit(X, y, **routed.estimator.fit)
            # A StackingClassifier has methods of its last estimator, once it is fitted.
            response = _find_response(self.response_method, estimator, calibrator)
            parts = Parallel(n_jobs=self.n_jobs)(
                delayed(_score_fold)(
                    clone(unfitted), response, X, y, split, ood, routed.estimator.fit
                )
                for split, ood in zip(splits, _split_ood(X_ood, len(splits)), strict=True)
            )
        known, ood = ([s for s in column if s is not None] for column in zip(*parts, strict=True))
        scores = np.concatenate([*known, *ood])
        n_ood = len(scores) - len(tested)
        calibrator.fit(
            scores,
            np.r_[_encode(y, classes)[tested], np.full(n_ood, OOD_LABEL)],
            input=_input_kind(scores, response, estimator, len(classes)),
            sample_weight=None if weight is None else np.r_[weight[tested], np.ones(n_ood)],
        )
        self.classes_, self.response_method_ = classes, response
        self.estimator_, self.calibrator_ = estimator, calibrator
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return calibrated probabilities, shape (n_samples, n_classes)."""
        scores = self.calibrator_input(X)
        return np.asarray(self.calibrator_.predict_proba(scores))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest probability, shape (n_samples,)."""
        columns = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[columns])

    def confidence(self, X: Any) -> FloatArray:
        """Return the probability of the predicted class, shape (n_samples,)."""
        return np.asarray(self.predict_proba(X).max(axis=1))

    def calibrator_input(self, X: Any) -> NDArray[Any]:
        """Return the scores of the estimator, which are the input of `calibrator_`."""
        check_is_fitted(self, "calibrator_")
        return np.asarray(_scores(self.response_method_, self.estimator_, X))

    def get_metadata_routing(self) -> routing.MetadataRouter:
        """Return which arguments of `fit` go to the estimator and to the splitter."""
        fit = routing.MethodMapping().add(caller="fit", callee="fit")
        split = routing.MethodMapping().add(caller="fit", callee="split")
        router = routing.MetadataRouter(owner=type(self).__name__).add_self_request(self)
        router.add(estimator=self._get_estimator(), method_mapping=fit)
        return router.add(splitter=self.cv, method_mapping=split)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator = self._get_estimator()
        if hasattr(estimator, "__sklearn_tags__"):
            inner = get_tags(estimator)
            tags.input_tags = copy(inner.input_tags)
            tags.non_deterministic = inner.non_deterministic
            if inner.classifier_tags is not None:
                tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    def _get_estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        default = LinearSVC(random_state=0)
        return (
            default.set_fit_request(sample_weight=True) if routing._routing_enabled() else default
        )

    def _route(self, estimator: Any, weight: Any, fit_params: dict[str, Any]) -> Any:
        """Return arguments as `.estimator.fit` and `.splitter.split`."""
        if routing._routing_enabled():
            return routing.process_routing(self, "fit", sample_weight=weight, **fit_params)
        if weight is not None and has_fit_parameter(estimator, "sample_weight"):
            fit_params = {**fit_params, "sample_weight": weight}
        elif weight is not None:
            warn(
                f"{type(estimator).__name__}.fit takes no sample_weight, so only the calibrator is"
                " weighted. Try sklearn.set_config(enable_metadata_routing=True) for a Pipeline.",
                level=4,
            )
        return Bunch(estimator=Bunch(fit=fit_params), splitter=Bunch(split={}))


def mlp_logits(estimator: Any, X: Any) -> NDArray[Any]:
    """Return the output of a fitted MLPClassifier before its softmax.

    Parameters
    ----------
    estimator
        An MLPClassifier, alone, as the last step of a Pipeline, or in a FrozenEstimator.
    X
        Input of its `predict_proba`.

    Returns
    -------
    logits
        Shape (n_samples, n_classes); for two classes the score of the second, (n_samples,).
    """
    estimator, X = _last_step(estimator, X)
    if not isinstance(estimator, MLPClassifier):
        raise InputError(
            f"estimator must be an MLPClassifier, got {type(estimator).__name__}. Try"
            " response_method=function(estimator, X).",
            "estimator",
        )
    check_is_fitted(estimator)
    linear = copy(estimator)
    linear.out_activation_ = "identity"
    logits = np.asarray(linear.predict_proba(X))
    # With one output s, the columns are 1 - s and s.
    return logits[:, 1] if estimator.n_outputs_ == 1 else logits


def _make_calibrator(method: Any) -> Calibrator:
    """Return an unfitted calibrator that needs no more than scores and labels."""
    if not isinstance(method, str | Calibrator):
        raise InputError(
            f"method must be a calibrator or its name, got {method!r:.80}. Try 'auto'.", "method"
        )
    calibrator: Calibrator = get_calibrator(method) if isinstance(method, str) else clone(method)
    who = type(calibrator).__name__
    if isinstance(calibrator, WindowCalibrator):
        raise InputError(
            f"method must not depend on a window, got {who}. Try fitting {who} to the scores of the"
            " estimator, and adapt first: calibrator.adapt(window).",
            "method",
        )
    if calibrator.requires:
        needs = ", ".join(calibrator.requires)
        raise InputError(
            f"method must need scores only, got {who}, which requires {needs}. Try 'auto'.",
            "method",
        )
    return calibrator


def _find_response(option: Any, estimator: Any, calibrator: Calibrator) -> Response:
    """Return the method or function of the option `response_method`."""
    if option == "auto" and isinstance(_last_step(estimator)[0], MLPClassifier):
        return mlp_logits
    if callable(option):
        function: Response = option
        return function
    names = ["decision_function", "predict_proba"] if option == "auto" else [option]
    name = next((n for n in names if isinstance(n, str) and hasattr(estimator, n)), None)
    if name is None:
        raise InputError(
            "response_method must be a method of the estimator or a function(estimator, X), got"
            f" {option!r:.80}; {type(estimator).__name__} has no {' or '.join(map(str, names))}.",
            "response_method",
        )
    if name in _PROBA_KINDS and calibrator.requires_raw_logits:
        raise InputError(
            f"response_method must return raw scores for {type(calibrator).__name__}, got {name} of"
            f" {type(estimator).__name__}. Try method='auto', or a function(estimator, X).",
            "response_method",
        )
    return name


def _last_step(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the estimator in a FrozenEstimator or at the end of a Pipeline, and its input."""
    if isinstance(estimator, FrozenEstimator):
        return _last_step(estimator.estimator, X)
    if isinstance(estimator, Pipeline):
        transformers = estimator[:-1]
        X = X if X is None or not len(transformers) else transformers.transform(X)
        return _last_step(estimator[-1], X)
    return estimator, X


def _scores(response: Response, estimator: Any, X: Any) -> Any:
    """Return the scores as an array, None for None."""
    if X is None:
        return None
    return np.asarray(
        response(estimator, X) if callable(response) else getattr(estimator, response)(X)
    )


def _input_kind(scores: NDArray[Any], response: Response, estimator: Any, n_classes: int) -> str:
    """Return the kind of scores, for `Calibrator.fit`."""
    name = response if isinstance(response, str) else getattr(response, "__name__", "function")
    kind = "logits" if callable(response) else _PROBA_KINDS.get(response, "logits")
    shape = scores.shape[1:]
    if kind == "logits" and n_classes == 2 and shape in ((), (1,)):
        return "score"
    is_ovo = n_classes > 3 and shape == (n_classes * (n_classes - 1) // 2,)
    if n_classes == 3 and name == "decision_function":  # three classes have three pairs
        inner = _last_step(estimator)[0]
        params = inner.get_params() if hasattr(inner, "get_params") else {}
        is_ovo = any(k.endswith("decision_function_shape") and params[k] == "ovo" for k in params)
    if is_ovo:
        raise InputError(
            f"{name} must return one score per class, got one per pair of classes (one-vs-one). Try"
            " decision_function_shape='ovr' in the estimator.",
            "estimator",
        )
    if shape != (n_classes,):
        raise InputError(
            f"{name} must return shape (n_samples, {n_classes}), got {scores.shape}.",
            "response_method",
        )
    return kind


def _classes_of_fitted(estimator: Any, fit_params: dict[str, Any]) -> NDArray[Any]:
    if fit_params:
        names = ", ".join(fit_params)
        raise InputError(f"fit_params must be empty for a fitted estimator, got {names}.", names)
    hint = "Try a FrozenEstimator where estimators are cloned, as in GridSearchCV."
    check_is_fitted(estimator, msg=f"cv='prefit' needs a fitted estimator, got %(name)s. {hint}")
    if not hasattr(estimator, "classes_"):
        raise InputError(
            f"estimator must have classes_, which {type(estimator).__name__} has not.", "estimator"
        )
    return np.asarray(estimator.classes_)


def _encode(y: NDArray[Any], classes: NDArray[Any]) -> IntArray:
    """Return the column of each label; classes may be in any order."""
    columns = {label: column for column, label in enumerate(classes.tolist())}
    try:
        return np.array([columns[label] for label in y.tolist()], dtype=np.int64)
    except KeyError as error:
        raise InputError(
            f"y must contain classes of the estimator ({few(list(classes))}), got"
            f" {error.args[0]!r}. Try X_ood for samples of other classes.",
            "y",
        ) from None


def _split_ood(X_ood: Any, n_folds: int) -> list[Any]:
    """Return OOD samples for each fold, so that all scores come from the same estimators."""
    n = 0 if X_ood is None else _num_samples(X_ood)
    rows = [np.arange(fold, n, n_folds) for fold in range(n_folds)]
    return [_safe_indexing(X_ood, part) if len(part) else None for part in rows]


def _score_fold(
    estimator: Any, response: Response, X: Any, y: NDArray[Any], split: Any, X_ood: Any, params: Any
) -> tuple[Any, Any]:
    """Return the scores of test and OOD samples by the estimator fitted on training samples."""
    train, test = (np.arange(len(y))[part] for part in split)  # also of masks
    if np.isin(test, train).any():
        raise InputError("cv must not test on training samples, got a split that does.", "cv")
    X_train, X_test = _safe_indexing(X, train), _safe_indexing(X, test)
    if hasattr(estimator, "__sklearn_tags__") and get_tags(estimator).input_tags.pairwise:
        kernels = (X_train, X_test, X_ood)
        X_train, X_test, X_ood = (
            K if K is None else _safe_indexing(K, train, axis=1) for K in kernels
        )
    estimator.fit(X_train, y[train], **_check_method_params(X, params, indices=train))
    found = getattr(estimator, "classes_", np.unique(y[train]))
    if not np.array_equal(found, np.unique(y)):
        raise InputError(
            "cv must have all classes in each training set, in sorted order, got a fold with"
            f" {few(list(found))}. Try StratifiedKFold or fewer folds.",
            "cv",
        )
    return _scores(response, estimator, X_test), _scores(response, estimator, X_ood)
