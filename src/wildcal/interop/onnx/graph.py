"""The operations of maps in ONNX: each writes a node of a graph down.

Values know their type, because ONNX never converts by itself: adding a float32 to a float64 is an
error when the graph is made, not when it is run.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.defs import onnx_opset_version

from wildcal.interop.maps.base import Map

Number = float | int

OPSETS: Final = (13, min(25, onnx_opset_version()))
"""The oldest and the newest operator set that graphs are written for."""
DEFAULT_OPSET: Final = 17
"""Read by ONNX Runtime 1.12 and later."""

# In the names of nodes that fail where a shape is not what it must be.
MUST_HAVE: Final = "must_have"
# From this operator set on, ReduceMax and ReduceMin take their axes as an input.
_AXES_AS_INPUT: Final = 18
# Below this, log(1 + x) is taken from its series, whose next term is x**4 / 4.
_SERIES: Final = 1e-4


class Value:
    """A value of the graph: its name, its type and, of a fixed one, its numbers."""

    def __init__(
        self, graph: "Graph", name: str, dtype: np.dtype[Any], array: NDArray[Any] | None = None
    ) -> None:
        self._graph, self._name = graph, name
        self.dtype, self.array = dtype, array

    @property
    def name(self) -> str:
        """Its name; a fixed value enters the graph when it is first used."""
        if self.array is not None:
            self._graph.initialize(self._name, self.array)
        return self._name

    def __add__(self, other: "Value | Number") -> "Value":
        return self._graph.binary("Add", self, other)

    def __sub__(self, other: "Value | Number") -> "Value":
        return self._graph.binary("Sub", self, other)

    def __mul__(self, other: "Value | Number") -> "Value":
        return self._graph.binary("Mul", self, other)

    def __truediv__(self, other: "Value | Number") -> "Value":
        return self._graph.binary("Div", self, other)

    def __rtruediv__(self, other: Number) -> "Value":
        return self._graph.binary("Div", other, self)


class Graph:
    """Nodes and initializers, as the operations of a map wrote them; keeps `maps.ops.Ops`.

    Parameters
    ----------
    fitted
        Whose numbers become initializers.
    dtype
        The precision to work in: float32 or float64.
    opset
        The operator set that the nodes are written for.
    prefix
        Of every name.
    """

    def __init__(self, fitted: Map, dtype: np.dtype[Any], opset: int, prefix: str) -> None:
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}
        self._parameters, self._dtype = fitted.parameters, dtype
        self._opset, self._prefix = opset, prefix
        limits = np.finfo(dtype)
        self.lowest, self.tiny = float(limits.min), float(limits.tiny)
        self.eps = float(limits.eps)

    def input(self, name: str, dtype: np.dtype[Any]) -> Value:
        """Return a value that comes from outside."""
        return Value(self, name, dtype)

    def initialize(self, name: str, array: NDArray[Any]) -> None:
        """Keep fixed numbers under a name."""
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)

    def output(self, value: Value, name: str) -> None:
        """Give a value the name of an output."""
        self.nodes.append(helper.make_node("Identity", [value.name], [name]))

    def _node(
        self,
        op: str,
        inputs: list[Value],
        dtype: np.dtype[Any] | None = None,
        label: str | None = None,
        **attributes: Any,
    ) -> Value:
        name = f"{self._prefix}{op.lower()}_{len(self.nodes)}"
        outputs = [name] if op != "TopK" else [name, f"{name}_positions"]
        # A runtime names the node that fails.
        title = name if label is None else f"{inputs[0].name}_{label}"
        node = helper.make_node(op, [v.name for v in inputs], outputs, name=title, **attributes)
        self.nodes.append(node)
        return Value(self, name, inputs[0].dtype if dtype is None else dtype)

    def _fixed(self, value: Number | list[int], dtype: np.dtype[Any]) -> Value:
        array = _as_matrix(np.array(value, dtype))
        text = "_".join(map(str, ["list", *value])) if isinstance(value, list) else repr(value)
        return Value(self, f"{self._prefix}{dtype.name}_{text}", dtype, array)

    def _same_type(self, *values: Value | Number) -> list[Value]:
        dtypes = {v.dtype for v in values if isinstance(v, Value)}
        if len(dtypes) != 1:
            raise TypeError(f"values of one operation must have one type, got {dtypes}")
        (dtype,) = dtypes
        return [v if isinstance(v, Value) else self._fixed(v, dtype) for v in values]

    def binary(
        self, op: str, x: Value | Number, y: Value | Number, dtype: np.dtype[Any] | None = None
    ) -> Value:
        """Return the value of a node with two inputs of one type."""
        return self._node(op, self._same_type(x, y), dtype)

    def cast(self, x: Value, dtype: np.dtype[Any]) -> Value:
        """Return x in another type; fixed numbers are converted now."""
        if x.dtype == dtype:
            return x
        if x.array is not None:
            return Value(self, f"{x._name}_{dtype.name}", dtype, x.array.astype(dtype))
        return self._node("Cast", [x], dtype, to=helper.np_dtype_to_tensor_dtype(dtype))

    def working(self, logits: Value) -> Value:
        """Return logits in the precision to work in."""
        return self.cast(logits, self._dtype)

    def wide(self, x: Value) -> Value:
        """Return x in float64."""
        return self.cast(x, np.dtype(np.float64))

    def narrow(self, x: Value) -> Value:
        """Return x in the precision to work in."""
        return self.cast(x, self._dtype)

    def with_columns(self, x: Value, width: int) -> Value:
        """Return x, which must have so many columns when the graph runs."""
        # A zero is the number of rows that are there.
        shape = self._fixed([0, width], np.dtype(np.int64))
        return self._node("Reshape", [x, shape], label=f"{MUST_HAVE}_{width}_classes")

    def matching_rows(self, x: Value, logits: Value, width: int) -> Value:
        """Return x, which must have one row or as many as the logits when the graph runs.

        Else one row of logits would be repeated for each row of x.
        """
        integer = np.dtype(np.int64)
        here, there = (self._node("Shape", [v], integer) for v in (x, logits))
        # The width is always right, so only the number of rows can be that of the logits. (With a
        # Concat of the two, ONNX Runtime would put -1 for the rows, which fits always.)
        one_row = self.equal(here, self._fixed([1, width], integer))
        shape = self.where(one_row, here, there)
        return self._node("Reshape", [x, shape], label=f"{MUST_HAVE}_1_row_or_those_of_the_logits")

    def parameter(self, name: str) -> Value:
        """Return a fitted value."""
        array = _as_matrix(self._parameters[name])
        return Value(self, self._prefix + name, array.dtype, array)

    def constant(self, values: NDArray[Any]) -> Value:
        """Return fixed numbers that are not fitted."""
        text = "_".join(map(str, values.shape))
        name = f"{self._prefix}constant_{text}_from_{values.flat[0]}"
        return Value(self, name, values.dtype, values)

    def length(self, table: Value) -> int:
        """Return the length of a fitted value."""
        assert table.array is not None  # only fitted values are asked for theirs
        return int(table.array.shape[-1])

    def exp(self, x: Value) -> Value:
        """Return exp(x)."""
        return self._node("Exp", [x])

    def softmax(self, x: Value) -> Value:
        """Return exp(x) divided by its sum in each row."""
        return self._node("Softmax", [x], axis=1)

    def log(self, x: Value) -> Value:
        """Return the natural logarithm."""
        return self._node("Log", [x])

    def log1p(self, x: Value) -> Value:
        """Return log(1 + x), for x >= 0 only; ONNX has no such operation."""
        series = (x * (x * (1 / 3) - 0.5) + 1.0) * x
        return self.where(self.less(x, _SERIES), series, self.log(x + 1.0))

    def sqrt(self, x: Value) -> Value:
        """Return the square root."""
        return self._node("Sqrt", [x])

    def softplus(self, x: Value) -> Value:
        """Return log(1 + exp(x)); ONNX Runtime has it for float32 alone."""
        small = self.exp(self._node("Abs", [x]) * -1.0)
        return self.maximum(x, 0.0) + self.log1p(small)

    def tanh(self, x: Value) -> Value:
        """Return tanh(x)."""
        return self._node("Tanh", [x])

    def maximum(self, x: Value, y: Value | Number) -> Value:
        """Return the larger one, entry by entry."""
        return self.binary("Max", x, y)

    def minimum(self, x: Value, y: Value | Number) -> Value:
        """Return the smaller one, entry by entry."""
        return self.binary("Min", x, y)

    def less(self, x: Value | Number, y: Value | Number) -> Value:
        """Return x < y."""
        return self.binary("Less", x, y, np.dtype(np.bool_))

    def less_equal(self, x: Value | Number, y: Value | Number) -> Value:
        """Return x <= y."""
        return self.binary("LessOrEqual", x, y, np.dtype(np.bool_))

    def equal(self, x: Value, y: Value | Number) -> Value:
        """Return x == y."""
        return self.binary("Equal", x, y, np.dtype(np.bool_))

    def where(self, condition: Value, x: Value | Number, y: Value | Number) -> Value:
        """Return x where the condition holds, else y."""
        x, y = self._same_type(x, y)
        return self._node("Where", [condition, x, y], x.dtype)

    def _reduce(self, op: str, x: Value) -> Value:
        if op == "ReduceSum" or self._opset >= _AXES_AS_INPUT:
            return self._node(op, [x, self._fixed([1], np.dtype(np.int64))], keepdims=1)
        return self._node(op, [x], axes=[1], keepdims=1)

    def row_max(self, x: Value) -> Value:
        """Return the largest entry of each row."""
        return self._reduce("ReduceMax", x)

    def row_min(self, x: Value) -> Value:
        """Return the smallest entry of each row."""
        return self._reduce("ReduceMin", x)

    def row_sum(self, x: Value) -> Value:
        """Return the sum of each row."""
        return self._reduce("ReduceSum", x)

    def argmax(self, x: Value) -> Value:
        """Return the position of the largest entry of each row, the first on ties."""
        return self._node("ArgMax", [x], np.dtype(np.int64), axis=1, keepdims=1)

    def largest(self, x: Value, k: int) -> Value:
        """Return the k largest entries of each row in descending order."""
        return self._node("TopK", [x, self._fixed([k], np.dtype(np.int64))], axis=1)

    def pick(self, x: Value, position: Value) -> Value:
        """Return the entry at one position of each row."""
        return self._node("GatherElements", [x, position], axis=1)

    def take(self, table: Value, position: Value) -> Value:
        """Return the entries of a table at many positions."""
        return self._node("Gather", [table, position], axis=0)

    def matmul(self, x: Value, matrix: Value) -> Value:
        """Return the matrix product."""
        return self.binary("MatMul", x, matrix)

    def finite(self, x: Value) -> Value:
        """Return x as it is: a graph is not differentiated, and exp(-inf) is zero."""
        return x

    def columns(self, x: Value, start: int, stop: int) -> Value:
        """Return columns start to stop."""
        integer = np.dtype(np.int64)
        return self._node("Slice", [x, *(self._fixed([v], integer) for v in (start, stop, 1))])

    def side_by_side(self, parts: list[Value]) -> Value:
        """Return matrices of the same rows as one."""
        self._same_type(*parts)
        return self._node("Concat", parts, axis=1)

    def flat(self, x: Value) -> Value:
        """Return (n, 1) as (n,)."""
        return self._node("Reshape", [x, self._fixed([-1], np.dtype(np.int64))])


def _as_matrix(array: NDArray[Any]) -> NDArray[Any]:
    """Return a single number as a matrix of one.

    To add (n, 1) and a number of another rank, ONNX Runtime goes entry by entry, which takes 25
    times as long.
    """
    return array.reshape(1, 1) if array.ndim == 0 else array
