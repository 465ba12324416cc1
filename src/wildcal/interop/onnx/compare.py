"""The comparison with NumPy that stands before every file."""

from onnx import ModelProto

from wildcal.core.calibrator import Calibrator
from wildcal.core.errors import MissingExtraError
from wildcal.interop.onnx.agreement import CannotOpenError, agreement


def compare(
    model: ModelProto,
    calibrator: Calibrator,
    *,
    logits: str = "logits",
    prefix: str = "",
    proba: str | None = None,
) -> str:
    """Return a sentence on how ONNX Runtime and NumPy agree, or on why they were not asked.

    Raises a DisagreementError where they do not, and a ValueError where what a network gives on
    random inputs are not logits, or no probabilities where they should be.
    """
    try:
        found = agreement(model, calibrator, logits=logits, prefix=prefix, proba=proba)
    except (MissingExtraError, CannotOpenError) as error:
        return f"Not compared: {error}"
    if found is None:
        return "Not compared with NumPy: what the network takes cannot be made up."
    return (
        f"ONNX Runtime and NumPy differ by at most {found.difference:.1e} on {found.n_rows} random"
        " rows."
    )
