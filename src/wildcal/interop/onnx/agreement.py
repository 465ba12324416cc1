"""Whether ONNX Runtime says of a model what NumPy says of the calibrator."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto, helper

from wildcal.calibrators import ContextScaling
from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import looks_like_proba
from wildcal.core.convert import softmax
from wildcal.core.errors import MissingExtraError, WildcalError
from wildcal.interop.maps.base import CONFIDENCE, CONTEXT, PROBABILITIES
from wildcal.interop.maps.context import context_vector

TOLERANCE: Final = 1e-5
# Rows of each size of logits, and the sizes.
_ROWS: Final = 100
_SCALES: Final = (0.5, 3.0, 10.0)
# Rows to run a whole network on, which may be slow.
_FEW_ROWS: Final = 4
# A map as steep as an isotonic step multiplies the rounding of its input, which two programs never
# share; this many times what one unit in the last place of the logits changes is still agreement.
_ROUNDINGS: Final = 4

Feed = dict[str, NDArray[Any]]
Rows = Callable[[NDArray[Any]], NDArray[Any]]


class DisagreementError(WildcalError):
    """A model that was made does not give the numbers of the calibrator."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far apart the two were, on how many rows."""

    difference: float
    n_rows: int


def agreement(
    model: ModelProto, calibrator: Calibrator, *, logits: str = "logits", prefix: str = ""
) -> Agreement | None:
    """Return the largest difference of probabilities and confidences on random rows.

    None if the inputs of a network cannot be made up, because their shape is open. A difference
    beyond 1e-5 and rounding is an error, and so are logits that are probabilities.
    """
    session, names = _open(model, logits), [prefix + PROBABILITIES, prefix + CONFIDENCE]
    is_alone = logits in {value.name for value in model.graph.input}
    if is_alone:
        dtype = _dtype(next(v for v in model.graph.input if v.name == logits))
        rows = random_logits(calibrator.n_classes_).astype(dtype)
        feed: Feed | None = {logits: rows}
    else:
        initialised = {tensor.name for tensor in model.graph.initializer}
        theirs = [
            value
            for value in model.graph.input
            if value.name != prefix + CONTEXT and value.name not in initialised
        ]
        feed = _made_up(theirs)
    if feed is None:
        return None
    around: dict[str, Any] = {}
    if isinstance(calibrator, ContextScaling):
        n_classes = calibrator.n_classes_
        context = calibrator.context(random_logits(n_classes))
        kind = next(v for v in model.graph.input if v.name == prefix + CONTEXT)
        feed[prefix + CONTEXT] = context_vector(context).astype(_dtype(kind))
        around["context"] = context
    try:
        rows, proba, confidence = session.run([logits, *names], feed)
    except Exception:
        if is_alone:
            raise
        return None  # the network wants numbers of another kind than random ones
    if not is_alone and not np.isfinite(rows).all():
        return None
    if not is_alone and len(rows) and looks_like_proba(rows.astype(np.float64)).all():
        raise ValueError(
            f"{logits} must hold logits, but on random inputs every row lies in [0, 1] and sums to"
            " 1: these are probabilities. Name the scores before the softmax with --logits-output."
        )
    worst = 0.0
    for found, ask in ((proba, calibrator.predict_proba), (confidence, calibrator.confidence)):
        expected: Rows = partial(ask, **around)
        aim = expected(rows)
        gap = np.abs(found - aim)
        worst = max(worst, float(gap.max()))
        if not (gap <= TOLERANCE + _ROUNDINGS * rounding(expected, rows, aim)).all():
            raise DisagreementError(
                f"ONNX Runtime and NumPy differ by {worst:.2g} on random rows, more than"
                f" {TOLERANCE:g}; the file was not written."
            )
    return Agreement(worst, len(rows))


def rounding(expected: Rows, rows: NDArray[Any], aim: NDArray[Any]) -> NDArray[Any]:
    """Return how far NumPy's own numbers move when what they come from moves by its rounding.

    Every logit moves by a unit in its last place, up or down; or the largest one by so much that
    its softmax probability does, for which near 1 it takes more.
    """
    rng = np.random.default_rng(1)
    z = rows.astype(np.float64 if rows.dtype == np.float64 else np.float32)
    eps = np.finfo(np.float64 if z.dtype == np.float64 else np.float32).eps.item()
    up = rng.random(z.shape) < 0.5
    near = [np.nextafter(z, np.where(side, np.inf, -np.inf).astype(z.dtype)) for side in (up, ~up)]
    others = np.maximum(1 - softmax(z).max(axis=1), 2 * eps)
    for step in (eps, -eps):
        moved = z.copy()
        moved[np.arange(len(z)), z.argmax(axis=1)] += np.clip(step / others, -0.5, 0.5)
        near.append(moved)
    return np.asarray(np.max([np.abs(expected(moved) - aim) for moved in near], axis=0))


def random_logits(n_classes: int) -> NDArray[np.float32]:
    """Return rows of several sizes, one of them with ties."""
    rng = np.random.default_rng(0)
    parts = [scale * rng.standard_normal((_ROWS, n_classes)) for scale in _SCALES]
    return np.concatenate([*parts, np.ones((1, n_classes))]).astype(np.float32)


def _open(model: ModelProto, logits: str) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError(
            'comparing with NumPy needs ONNX Runtime. Install it with: pip install "wildcal[onnx]"'
        ) from error
    # The logits may be a value inside the network, or its input.
    watched = ModelProto()
    watched.CopyFrom(model)
    if logits not in {value.name for value in model.graph.output}:
        watched.graph.output.append(helper.make_empty_tensor_value_info(logits))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; they are raised as well
    return onnxruntime.InferenceSession(
        watched.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _dtype(value: ValueInfoProto) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _made_up(inputs: list[ValueInfoProto]) -> Feed | None:
    """Return random floats for every input, or None where a shape or type is not known."""
    rng, feed = np.random.default_rng(0), {}
    for value in inputs:
        kind = value.type.tensor_type
        dims = [d.dim_value or (_FEW_ROWS if i == 0 else 0) for i, d in enumerate(kind.shape.dim)]
        floats = kind.elem_type in (
            onnx.TensorProto.FLOAT,
            onnx.TensorProto.FLOAT16,
            onnx.TensorProto.DOUBLE,
        )
        if not floats or not dims or 0 in dims:
            return None
        feed[value.name] = rng.standard_normal(dims).astype(_dtype(value))
    return feed
