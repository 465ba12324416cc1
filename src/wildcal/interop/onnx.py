"""Export calibrators to ONNX: the formula is traced, no graph is written by hand."""

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.calibrator import Calibrator
from wildcal.core.conversion import ONE_COLUMN
from wildcal.core.exceptions import FileFormatError, InputError, WildcalError, needs_extra
from wildcal.io.atomic import atomic_write

with needs_extra("wildcal.interop.onnx", "onnx"):
    import ndonnx as ndx
    import onnx
    import onnxruntime
    import spox.opset.ai.onnx.v21 as operators
    from onnx import version_converter

PREFIX: Final = "calibrated_"
_NORMALIZING: Final = ("Softmax", "LogSoftmax")
_FLOATS: Final = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
# Operators whose inputs broadcast.
_ELEMENTWISE: Final = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "LessOrEqual", "Where")
# Float32 probabilities of two runtimes agree to this for nearly all samples.
_TOLERANCE: Final = 1e-5


def export(calibrator: Calibrator, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator as an ONNX file and compare it with NumPy in ONNX Runtime.

    The input has the name of the kind given to `fit` (such as `logits`), shape (n, n_classes), and
    `dac` also takes `knn_distances`. The outputs are `probabilities` and `confidence`, all float32.
    With ``input="confidence"`` the only output is `probabilities`, shape (n,).

    Examples
    --------
    >>> import onnxruntime, tempfile
    >>> import numpy as np
    >>> from wildcal.calibrators.temperature import TemperatureScaling
    >>> logits = np.array([[3.0, 0.0]] * 80, np.float32)
    >>> calibrator = TemperatureScaling().fit(logits, np.repeat([0, 0, 0, 1], 20))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export(calibrator, f"{folder}/calibrator.onnx")
    ...     session = onnxruntime.InferenceSession(f"{folder}/calibrator.onnx")
    >>> session.run(["confidence"], {"logits": logits[:1]})[0].round(6)
    array([0.75], dtype=float32)
    """
    model = as_model(calibrator)
    _compare(model, calibrator)
    _write(model, path)


def as_model(calibrator: Calibrator) -> onnx.ModelProto:
    """Return the ONNX model of a fitted calibrator."""
    calibrator.check_is_fitted()
    shape = ("n",) if calibrator.input_ in ONE_COLUMN else ("n", calibrator.n_classes_)
    inputs = {calibrator.input_: ndx.argument(shape=shape, dtype=ndx.float32)}
    if "knn_distances" in calibrator.requires:
        n_layers = getattr(calibrator, "n_layers", None)
        inputs["knn_distances"] = ndx.argument(shape=("n", n_layers), dtype=ndx.float32)
    x, *others = inputs.values()
    xp = _Namespace()
    p = calibrator.converted(xp, x).probabilities(xp, x, *others)
    outputs = {"probabilities": p}
    if calibrator.input_ != "confidence":
        outputs["confidence"] = xp.max(p, axis=-1)
    model = ndx.build(inputs, outputs)
    _reshape_constants(model)
    model.producer_name, model.doc_string = "wildcal", f"Calibrated by {calibrator!r}."
    return model


class _Namespace:
    """The functions of ndonnx, with one ONNX operator where it needs many or has none.

    `ndonnx.max` adds ten operators for empty arrays and NaN.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(ndx, name)

    def max(self, x: Any, *, axis: int, keepdims: bool = False) -> Any:
        axes = operators.const(np.array([axis]))
        return ndx.asarray(operators.reduce_max(x.unwrap_spox(), axes, keepdims=keepdims))

    def topk(self, x: Any, k: int, *, dim: int) -> tuple[Any, Any]:
        values, indices = operators.top_k(x.unwrap_spox(), operators.const([k]), axis=dim)
        return ndx.asarray(values), ndx.asarray(indices)


def _reshape_constants(model: onnx.ModelProto) -> None:
    """Give numbers that are combined with columns the shape (1, 1).

    ONNX Runtime adds one of shape () to a column of 1,000 samples in 6.6 us, this one in 0.4 us.
    """
    graph = onnx.shape_inference.infer_shapes(model).graph
    matrices = {v.name for v in graph.value_info if len(v.type.tensor_type.shape.dim) == 2}
    users: dict[str, list[bool]] = {}
    for node in model.graph.node:
        for name in node.input:
            is_elementwise = node.op_type in _ELEMENTWISE and node.output[0] in matrices
            users.setdefault(name, []).append(is_elementwise)
    for node in model.graph.node:
        if node.op_type == "Constant" and all(users[node.output[0]]):
            value = node.attribute[0].t
            value.dims[:] = value.dims or [1, 1]


def attach(
    classifier: str | os.PathLike[str],
    calibrator: Calibrator,
    path: str | os.PathLike[str],
    output: str | None = None,
) -> str:
    """Write an ONNX classifier with a calibrator behind its logits; return the value calibrated.

    The file has the inputs and outputs of the classifier and `calibrated_probabilities` and
    `calibrated_confidence`.

    Parameters
    ----------
    classifier
        An ONNX file.
    calibrator
        Fitted on the logits (or probabilities) of this classifier.
    path
        The file to write.
    output
        The output that the calibrator was fitted on. Default: the logits before a final softmax, or
        the only float output of shape (n, n_classes).
    """
    if "knn_distances" in calibrator.requires:
        raise InputError(
            f"{type(calibrator).__name__} needs knn_distances, which a classifier file does not"
            " give. Try export, and run it after the classifier.",
            "calibrator",
        )
    model, added = _read(Path(classifier)), as_model(calibrator)
    if any(out.name.startswith(PREFIX) for out in model.graph.output):
        raise InputError(
            f"classifier must be without a calibrator, got {classifier}, which has one.",
            "classifier",
        )
    value = _find_output(model, calibrator, output)
    opset = max(_opset(model), _opset(added))
    model, added = _converted(model, opset), _converted(added, opset)
    model.ir_version = max(model.ir_version, added.ir_version)
    graph = onnx.compose.add_prefix(added, PREFIX).graph
    # Of float32 this is no operation, and ONNX Runtime removes it.
    cast = onnx.helper.make_node("Cast", [value], [graph.input[0].name], to=onnx.TensorProto.FLOAT)
    model.graph.node.extend([cast, *graph.node])
    model.graph.initializer.extend(graph.initializer)
    model.graph.output.extend(graph.output)
    onnx.checker.check_model(model, full_check=True)
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    _write(model, path)
    return value


def _find_output(model: onnx.ModelProto, calibrator: Calibrator, name: str | None) -> str:
    """Return the value that the calibrator reads: a named output or the logits."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {v.name: v.type.tensor_type for v in (*graph.value_info, *graph.output)}
    n_columns = {
        n: t.shape.dim[1].dim_value for n, t in types.items() if len(t.shape.dim) == 2
    }  # 0 if unknown
    before_softmax = {
        node.output[0]: node.input[0]
        for node in graph.node
        if node.op_type in _NORMALIZING and calibrator.input_ == "logits"
    }
    outputs = [out.name for out in graph.output]
    if name is None:
        wanted = [n for n in outputs if types[n].elem_type in _FLOATS and n in n_columns]
        if len(wanted) > 1:
            wanted = [n for n in wanted if n_columns[n] in (calibrator.n_classes_, 0)]
        if "logits" in wanted:
            wanted = ["logits"]
        sources = {before_softmax.get(n, n) for n in wanted}
        if len(sources) != 1:
            raise InputError(
                f"output must be named: the classifier has the outputs {', '.join(outputs)}.",
                "output",
            )
        name = sources.pop()
    elif not any(name in node.output for node in graph.node):
        raise InputError(f"output must be one of {', '.join(outputs)}, got {name!r}.", "output")
    if name in before_softmax:
        raise InputError(
            f"output must be logits, got {name!r}, which is normalized. Try"
            f" output={before_softmax[name]!r}.",
            "output",
        )
    if n_columns.get(name, 0) not in (calibrator.n_classes_, 0):
        raise InputError(
            f"calibrator must be fitted for the {n_columns[name]} classes of {name!r}, got"
            f" {calibrator.n_classes_} classes.",
            "calibrator",
        )
    return name


def _opset(model: onnx.ModelProto) -> int:
    return next(int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx"))


def _converted(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Return a model of another version of the operators."""
    if _opset(model) == opset:
        return model
    try:
        return version_converter.convert_version(model, opset)
    except Exception as error:
        raise InputError(
            f"classifier must be convertible from opset {_opset(model)} to {opset}, got"
            f" {str(error).splitlines()[-1]:.200} Try exporting it with opset {opset}.",
            "classifier",
        ) from error


def _read(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(path)  # with weights in other files of its folder
        onnx.checker.check_model(model)
    except Exception as error:
        if isinstance(error, OSError):
            raise
        raise FileFormatError(f"{path} must be an ONNX model: {error!s:.200}") from error
    return model


def _write(model: onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    with atomic_write(path, "wb") as file:
        file.write(model.SerializeToString())


def _compare(model: onnx.ModelProto, calibrator: Calibrator) -> None:
    """Raise unless ONNX Runtime and NumPy agree on random samples."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for n in (1, 500):
        feed = _random_inputs(calibrator, n)
        found = session.run(["probabilities"], feed)[0]
        x, distances = feed[calibrator.input_], feed.get("knn_distances")
        expected = calibrator.predict_proba(x, knn_distances=distances)
        off = np.abs(found - expected).reshape(n, -1).max(axis=1)
        if not (off <= _TOLERANCE).mean() >= 0.99:  # steps of a table may fall on either side
            raise WildcalError(
                f"the exported {type(calibrator).__name__} differs from NumPy by {off.max():.2g}."
            )


def _random_inputs(calibrator: Calibrator, n: int) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    z = 3 * rng.standard_normal((n, calibrator.n_classes_))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    x = {"logits": z, "score": z, "log_proba": np.log(p)}.get(calibrator.input_, p)
    x = x[:, 1] if calibrator.input_ in ONE_COLUMN else x
    feed = {calibrator.input_: x.astype(np.float32)}
    if "knn_distances" in calibrator.requires:
        n_layers = getattr(calibrator, "n_layers", 1)
        feed["knn_distances"] = rng.random((n, n_layers), dtype=np.float32)
    return feed
