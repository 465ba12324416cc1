"""A scikit-learn classifier with calibrated probabilities around any other classifier."""

from wildcal.core.errors import MissingExtraError

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        "wildcal.interop.sklearn needs scikit-learn."
        ' Install it with: pip install "wildcal[sklearn]"'
    ) from error

from wildcal.interop.sklearn.classifier import CalibratedClassifier
from wildcal.interop.sklearn.estimator_checks import expected_failed_checks
from wildcal.interop.sklearn.mlp import mlp_logits

__all__ = ["CalibratedClassifier", "expected_failed_checks", "mlp_logits"]
