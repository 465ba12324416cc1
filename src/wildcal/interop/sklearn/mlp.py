"""The logits of scikit-learn's MLPClassifier, which itself shows only their softmax."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

_HIDDEN: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "logistic": expit,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}


def mlp_logits(estimator: Any, X: Any) -> NDArray[np.floating[Any]]:
    """Return what the output layer of a fitted MLPClassifier computes before its softmax.

    Parameters
    ----------
    estimator
        An MLPClassifier, alone, at the end of a Pipeline, or in a FrozenEstimator.
    X
        What its `predict_proba` takes, of shape (n_samples, n_features).

    Returns
    -------
    logits
        Shape (n_samples, n_classes); for two classes the network has one output: (n_samples,).
    """
    if isinstance(estimator, FrozenEstimator):
        return mlp_logits(estimator.estimator, X)
    if isinstance(estimator, Pipeline):
        before = estimator[:-1]
        return mlp_logits(estimator[-1], before.transform(X) if len(before) else X)
    if not isinstance(estimator, MLPClassifier):
        raise ValueError(
            f"mlp_logits reads an MLPClassifier, got {type(estimator).__name__}. Pass a function of"
            " your own, logits=function(estimator, X)."
        )
    check_is_fitted(estimator)
    if estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1:
        raise ValueError("mlp_logits needs one label per row, but this network has several.")
    # The dtypes that the network itself keeps.
    values = validate_data(
        estimator, X, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], reset=False
    )
    hidden = _HIDDEN[estimator.activation]
    *inner, last = zip(estimator.coefs_, estimator.intercepts_, strict=True)
    for weight, bias in inner:
        values = hidden(values @ weight + bias)
    logits = np.asarray(values @ last[0] + last[1])
    return logits[:, 0] if logits.shape[1] == 1 else logits


def ends_in_mlp(estimator: Any) -> bool:
    """Return whether `mlp_logits` can read the estimator once it is fitted."""
    if isinstance(estimator, FrozenEstimator):
        return ends_in_mlp(estimator.estimator)
    if isinstance(estimator, Pipeline):
        return ends_in_mlp(estimator.steps[-1][1])
    return isinstance(estimator, MLPClassifier)
