"""A fitted calibrator as an ONNX file of its own."""

from pathlib import Path
from typing import Final

import onnx
from onnx import NodeProto, TensorProto, helper

from wildcal.core.calibrator import Calibrator
from wildcal.interop.maps import Map, map_of
from wildcal.interop.onnx.build import LOGITS, build, check_opset, working_type
from wildcal.interop.onnx.compare import compare
from wildcal.interop.onnx.files import check_target, write
from wildcal.interop.onnx.from_proba import log_nodes
from wildcal.interop.onnx.graph import DEFAULT_OPSET
from wildcal.version import __version__

DTYPES: Final = {
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
}
PROBA: Final = "proba"
"""The input of a model of a calibrator that was fitted on probabilities."""


def export(
    calibrator: Calibrator,
    path: str | Path,
    *,
    dtype: str = "float32",
    opset: int = DEFAULT_OPSET,
    check: bool = True,
) -> None:
    """Write a fitted calibrator as an ONNX file.

    The input is `logits`, (n, K), for the method `context` also `context`, (1 or n, 5 + 3 K); for
    `dac` also `distances`, (n, layers). The outputs are `probabilities` (n, K), `confidence` (n,),
    `temperature` (n,) where the method has one, `energy` (n,), and for `context` also `statistics`
    (n, 5 + 3 K). n is free.

    Parameters
    ----------
    calibrator
        Fitted, or loaded from a file.
    path
        A name that ends in .onnx.
    dtype
        That of the logits: "float32" (default), "float16" or "float64". The outputs are float32,
        or float64 for float64 logits.
    opset
        The operator set, 13 to 25. No operator from outside it is used.
    check
        Compare the model with NumPy on random rows, where ONNX Runtime is installed. Where they
        differ, an error is raised and nothing is written.

    Examples
    --------
    >>> import onnxruntime, tempfile
    >>> import numpy as np
    >>> from wildcal import TemperatureScaling
    >>> logits = np.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0], [3.0, 0.0]], np.float32)
    >>> calibrator = TemperatureScaling().fit(logits, [0, 0, 0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(calibrator, f"{folder}/cal.onnx")
    ...     session = onnxruntime.InferenceSession(f"{folder}/cal.onnx")
    >>> session.run(["confidence"], {"logits": logits[:1]})[0].round(6)
    array([0.75], dtype=float32)
    """
    path = check_target(path)
    model = as_model(map_of(calibrator), dtype=dtype, opset=opset)
    if check:
        compare(model, calibrator)
    write(model, path)


def as_model(
    fitted: Map,
    *,
    dtype: str = "float32",
    opset: int = DEFAULT_OPSET,
    floor: float | None = None,
) -> onnx.ModelProto:
    """Return the ONNX model of a map.

    With a floor it takes probabilities, `proba`, whose zeros are read as that; inside, `log_proba`
    has the logits.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}.")
    check_opset(opset, "opset")
    element, before, numbers = DTYPES[dtype], list[NodeProto](), list[TensorProto]()
    if floor is None:
        parts = build(fitted, LOGITS, element, opset=opset)
    else:
        wide = working_type(element)
        before, least, logits = log_nodes(PROBA, floor, "", wide)
        numbers = [least]
        parts = build(fitted, logits, helper.np_dtype_to_tensor_dtype(wide), opset=opset)
    scores = helper.make_tensor_value_info(
        LOGITS if floor is None else PROBA, element, ["n", fitted.n_classes]
    )
    graph = helper.make_graph(
        [*before, *parts.nodes],
        f"wildcal_{fitted.name}",
        [scores, *parts.inputs],
        parts.outputs,
        [*numbers, *parts.initializers],
        doc_string=f"Calibrated probabilities by the method {fitted.name}.",
    )
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(
        graph,
        opset_imports=opsets,
        producer_name="wildcal",
        producer_version=__version__,
        # The oldest that will do, for the sake of older runtimes.
        ir_version=helper.find_min_ir_version_for(opsets),
    )
    onnx.checker.check_model(model, full_check=True)
    return model
