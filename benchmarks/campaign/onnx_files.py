"""Networks in ONNX files that nobody exported, attached to a calibrator or opened for extraction.

A trial runs in a child: ONNX Runtime is native code, and what it does to a process is its own. A
child that a signal ended there counts as a refusal; whatever Python says in it is looked at.
"""

import functools
import os
import pickle
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError
from benchmarks.campaign.mutants import broken_bytes

Rng = np.random.Generator
_CLASSES = 3
_ODD = (0, -1, 1, 2, 7, 10**6, 2**31 - 1, 2**40, -(2**63))
_PLACES = ("../x", "/etc/passwd", "/proc/kmsg", "", "x\0y", "weights.bin", "a" * 5000)


class CrashError(ValueError):
    """Native code of others ended the child."""


@functools.cache
def _network() -> bytes:
    """Return a network of one convolution and one matrix."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = {
        "kernel": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "matrix": rng.normal(size=(4, _CLASSES)).astype(np.float32),
        "offset": np.zeros(_CLASSES, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["images", "kernel"], ["maps"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["maps"], ["active"]),
        helper.make_node("GlobalAveragePool", ["active"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"], axis=1),
        helper.make_node("Gemm", ["features", "matrix", "offset"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", _CLASSES])],
        [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _odd_network(rng: Rng) -> bytes:
    """Return a network with one to three fields that are off."""
    import onnx

    model = onnx.load_model_from_string(_network())
    graph = model.graph
    for _ in range(int(rng.integers(1, 4))):
        if not (graph.node and graph.input and graph.output):
            break  # there is nothing left to be odd
        tensor = graph.initializer[int(rng.integers(len(graph.initializer)))]
        node = graph.node[int(rng.integers(len(graph.node)))]
        odd = int(rng.choice(_ODD))
        match int(rng.integers(9)):
            case 0:
                tensor.dims[int(rng.integers(len(tensor.dims)))] = odd
            case 1:
                tensor.data_location = onnx.TensorProto.EXTERNAL
                place = str(rng.choice(_PLACES))
                tensor.external_data.add(key="location", value=place)
                tensor.external_data.add(key="offset", value=str(odd))
            case 2:
                value = (*graph.input, *graph.output)[int(rng.integers(2))]
                dims = value.type.tensor_type.shape.dim
                dims[int(rng.integers(len(dims)))].dim_value = odd
            case 3:
                node.input[int(rng.integers(len(node.input)))] = "gone"
            case 4:
                node.op_type = str(rng.choice(["Softmax", "Loop", "If", "Gone", "Reshape"]))
            case 5:
                (*graph.input, *graph.output)[
                    int(rng.integers(2))
                ].type.tensor_type.elem_type = int(rng.integers(0, 20))
            case 6:
                model.opset_import[0].version = odd
            case 7:
                del (graph.output, graph.input, graph.node)[int(rng.integers(3))][:]
            case 8:
                tensor.raw_data = tensor.raw_data[: int(rng.integers(40))]
    return model.SerializeToString()


@functools.cache
def _calibrator() -> Any:
    from wildcal import make_calibrator

    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(200, _CLASSES))
    return make_calibrator("ts").fit(logits, (logits + rng.gumbel(size=logits.shape)).argmax(1))


def _attach(path: Path) -> None:
    from wildcal.interop.onnx import attach

    attach(path, _calibrator(), path.with_name("out.onnx"))


def _open(path: Path) -> None:
    from wildcal.vision.batches import Normalizer
    from wildcal.vision.classifiers.onnx import OnnxClassifier

    pixels = np.zeros((2, 8, 8, 3), np.uint8)
    logits = OnnxClassifier(path, Normalizer((0.5,) * 3, (0.5,) * 3)).logits(pixels)
    if logits.ndim != 2 or len(logits) != 2:
        raise FindingError(f"logits of shape {logits.shape}")


def _in_child(work: Callable[[], None]) -> None:
    """Do some work in a fork, and raise here what it raised there."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 2)
            signal.setitimer(signal.ITIMER_REAL, 0)
            said: tuple[str, str] | None = None
            try:
                work()
            except Exception as error:
                known = isinstance(error, ValueError | OSError | _ours())
                said = ("refused" if known else "finding", f"{type(error).__name__}: {error}")
            os.write(writer, pickle.dumps(said)[:60_000])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    if not answer:
        raise CrashError("native code ended the child")
    said = pickle.loads(answer)
    if said is not None:
        raise (ValueError if said[0] == "refused" else FindingError)(said[1])


def _ours() -> type[Exception]:
    from wildcal.core.errors import WildcalError

    return WildcalError


def _trial(use: Callable[[Path], None], rng: Rng) -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        return
    data = _odd_network(rng) if rng.integers(2) else broken_bytes(_network(), rng)
    _calibrator()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(data)
        _in_child(lambda: use(path))


ATTACKS = [
    Attack("files/onnx-attach", functools.partial(_trial, _attach), (ValueError,), batch=3),
    Attack("files/onnx-extract", functools.partial(_trial, _open), (ValueError,), batch=3),
]
