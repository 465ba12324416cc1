"""Whether ONNX Runtime says of a model what NumPy says of the calibrator."""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto, helper

from wildcal.core.calibrator import Calibrator
from wildcal.core.checks import ROWS_TO_JUDGE
from wildcal.core.convert import softmax
from wildcal.core.errors import MissingExtraError, WildcalError
from wildcal.interop.judge import no_probabilities, normalized
from wildcal.interop.maps import context_vector, map_of
from wildcal.interop.maps.base import CONFIDENCE, CONTEXT, DISTANCES, PROBABILITIES
from wildcal.interop.onnx.build import LOGITS
from wildcal.interop.onnx.graph import MUST_HAVE

TOLERANCE: Final = 1e-5
# Rows of each size of logits, and the sizes.
_ROWS: Final = 100
_SCALES: Final = (0.5, 3.0, 10.0)
# What probabilities that are made up have no less of.
_ZERO: Final = 1e-4
# Rows to run a whole network on, which may be slow.
_NETWORK_ROWS: Final = 64
# Numbers of an input that is made up, whatever batch the network claims: 512 MB.
_MOST_NUMBERS: Final = 1 << 26

Feed = dict[str, NDArray[Any]]


class DisagreementError(WildcalError):
    """A model that was made does not give the numbers of the calibrator."""


class CannotOpenError(WildcalError):
    """ONNX Runtime does not open a model, which need not be the fault of the model."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far apart the two were, on how many rows."""

    difference: float
    n_rows: int


def agreement(
    model: ModelProto,
    calibrator: Calibrator,
    *,
    logits: str = "logits",
    prefix: str = "",
    proba: str | None = None,
) -> Agreement | None:
    """Return the largest difference of probabilities and confidences on random rows.

    None if the inputs of a network cannot be made up, because their shape is open or claims more
    than a probe may take. A difference beyond 1e-5 is an error, and so are logits that are
    probabilities; where logits are made of `proba`, an output that holds none.
    """
    # Half logits are read in float32, and these are shown.
    shown = prefix + LOGITS if prefix + LOGITS in {v.name for v in model.graph.output} else logits
    session, names = _open(model, shown), [prefix + PROBABILITIES, prefix + CONFIDENCE]
    start = logits if proba is None else proba
    is_alone = start in {value.name for value in model.graph.input}
    theirs = [] if is_alone else _inputs(model, prefix)
    feed = _rows(model, calibrator, logits, proba) if is_alone else _made_up(theirs)
    if feed is None:
        return None
    beside, around = _beside(model, calibrator, prefix, len(feed[start]) if is_alone else 1)
    feed |= beside
    asked = [shown, *names, shown if is_alone else proba or shown]
    try:
        runs = [session.run(asked, feed)]
        # A network for a row at a time is asked again, till there are enough to judge by.
        while not is_alone and 0 < len(runs) * len(runs[0][0]) < ROWS_TO_JUDGE:
            more = feed | (_made_up(theirs, seed=len(runs)) or {})
            runs.append(session.run(asked, more))
        rows, found, sure, given = (np.concatenate(parts) for parts in zip(*runs, strict=True))
    except Exception as error:
        if is_alone:
            raise
        if MUST_HAVE in str(error):
            raise ValueError(
                f"{logits} must have shape (n, {calibrator.n_classes_}), but on random inputs it"
                " has not. Name the logits with logits_output=."
            ) from error
        return None  # the network wants numbers of another kind than random ones
    if not is_alone and not np.isfinite(rows).all():
        return None
    if not is_alone and len(rows):
        if proba is not None:
            _refuse_other_than_proba(given, proba)
        _refuse_normalized(rows, calibrator, logits)
    if DISTANCES in around:  # one row of distances stood for all images
        shape = (len(rows), around[DISTANCES].shape[1])
        around[DISTANCES] = np.broadcast_to(around[DISTANCES], shape)
    gaps = [
        np.abs(mine - ask(rows, **around)).max()
        for mine, ask in ((found, calibrator.predict_proba), (sure, calibrator.confidence))
    ]
    worst = float(np.max(gaps))
    if not worst <= TOLERANCE:  # NaN is no agreement
        raise DisagreementError(
            f"ONNX Runtime and NumPy differ by {worst:.2g} on random rows, more than"
            f" {TOLERANCE:g}; the file was not written."
        )
    return Agreement(worst, len(rows))


def _rows(model: ModelProto, calibrator: Calibrator, logits: str, proba: str | None) -> Feed:
    rows: NDArray[Any] = random_logits(calibrator.n_classes_)
    if proba is not None:
        rows = softmax(rows)
        rows[rows < _ZERO] = 0  # as a forest says it
    name = proba or logits
    return {name: rows.astype(_dtype(next(v for v in model.graph.input if v.name == name)))}


def _inputs(model: ModelProto, prefix: str) -> list[ValueInfoProto]:
    """Return the inputs of the network itself."""
    known = {tensor.name for tensor in model.graph.initializer}
    known |= {prefix + CONTEXT, prefix + DISTANCES}
    return [value for value in model.graph.input if value.name not in known]


def _refuse_normalized(rows: NDArray[Any], calibrator: Calibrator, logits: str) -> None:
    wide = rows.astype(np.float64)
    what = normalized(wide, log_proba_serves=calibrator.takes_log_proba)
    if what:
        raise ValueError(
            f"{logits} must hold logits, but on random inputs {what}. Name the scores before"
            " that with logits_output=."
        )


def _refuse_other_than_proba(rows: NDArray[Any], proba: str) -> None:
    what = no_probabilities(rows.astype(np.float64))
    if what:
        raise ValueError(
            f"{proba} must hold probabilities, as the calibrator was fitted on them, but on random"
            f" inputs {what}. Name an output that has them with logits_output=, or fit the"
            " calibrator on these scores."
        )


def _beside(
    model: ModelProto, calibrator: Calibrator, prefix: str, n: int
) -> tuple[Feed, dict[str, Any]]:
    """Return made-up inputs beside the logits: for the graph, and as the calibrator takes them."""
    kinds = {value.name: _dtype(value) for value in model.graph.input}
    feed: Feed = {}
    around: dict[str, Any] = {}
    rows = random_logits(calibrator.n_classes_)
    near: dict[str, Any] = {}
    if DISTANCES in calibrator.reads:
        name, layers = prefix + DISTANCES, map_of(calibrator).width(DISTANCES)
        made_up = np.random.default_rng(0).gamma(2.0, 0.1, (max(n, len(rows)), layers or 1))
        feed[name] = made_up[:n].astype(kinds[name])
        around[DISTANCES], near[DISTANCES] = feed[name], made_up[: len(rows)]
    if "window" in calibrator.reads:
        context = calibrator.context(rows, **near)
        feed[prefix + CONTEXT] = context_vector(context).astype(kinds[prefix + CONTEXT])
        around[CONTEXT] = context
    return feed, around


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
    try:
        return onnxruntime.InferenceSession(
            watched.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    # An operator that it does not know, or a newer operator set; its errors have no common base.
    except Exception as error:
        reason = " ".join(str(error).split())
        raise CannotOpenError(f"ONNX Runtime cannot open it: {reason:.200}") from error


def _dtype(value: ValueInfoProto) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _made_up(inputs: list[ValueInfoProto], seed: int = 0) -> Feed | None:
    """Return random floats for every input, or None where a shape is open or huge, or no float."""
    rng, feed = np.random.default_rng(seed), {}
    for value in inputs:
        kind = value.type.tensor_type
        dims = [
            d.dim_value or (_NETWORK_ROWS if i == 0 else 0) for i, d in enumerate(kind.shape.dim)
        ]
        floats = kind.elem_type in (
            onnx.TensorProto.FLOAT,
            onnx.TensorProto.FLOAT16,
            onnx.TensorProto.DOUBLE,
        )
        if not floats or not dims or min(dims) < 1 or math.prod(dims) > _MOST_NUMBERS:
            return None
        feed[value.name] = rng.standard_normal(dims).astype(_dtype(value))
    return feed
