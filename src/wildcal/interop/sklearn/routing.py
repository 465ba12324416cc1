"""Which arguments of the wrapper's `fit` go to the estimator, and which to the splitter."""

import warnings
from typing import Any

from sklearn import get_config
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import has_fit_parameter

from wildcal.core.arrays import FloatArray
from wildcal.core.errors import CalibrationWarning


def routing_enabled() -> bool:
    """Return whether the user has turned on scikit-learn's metadata routing."""
    return bool(get_config()["enable_metadata_routing"])


def route(owner: Any, estimator: Any, weight: FloatArray | None, fit_params: dict[str, Any]) -> Any:
    """Return arguments as `.estimator.fit` and `.splitter.split`.

    Without metadata routing, weights go to an estimator whose `fit` names them, and everything else
    goes to the estimator as it is.
    """
    if routing_enabled():
        return process_routing(owner, "fit", sample_weight=weight, **fit_params)
    params = dict(fit_params)
    if weight is not None:
        if has_fit_parameter(estimator, "sample_weight"):
            params["sample_weight"] = weight
        else:
            warnings.warn(
                f"{type(estimator).__name__}.fit takes no sample_weight, so the weights count in"
                " calibration only. Inside a Pipeline, metadata routing takes them further.",
                CalibrationWarning,
                stacklevel=3,
            )
    return Bunch(estimator=Bunch(fit=params), splitter=Bunch(split={}))
