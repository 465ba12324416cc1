"""Whether a value of a graph is a softmax, or other scores that a constant was taken from.

Exporters write a softmax in many ways, so what a value is follows from what it is made of. What is
not recognized here may still be by its numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from onnx import GraphProto, NodeProto

PROBABILITIES: Final = "probabilities"
LOG_PROBABILITIES: Final = "log probabilities"
_INDEPENDENT: Final = "probabilities of independent classes"
_LARGEST_TAKEN: Final = "scores minus the largest of the row"

_NORMALIZING: Final = {
    "Softmax": PROBABILITIES,
    "LogSoftmax": LOG_PROBABILITIES,
    "Sigmoid": _INDEPENDENT,
    "Hardmax": "one-hot rows",
}
# Operators of classical models that end in a softmax of their own, if told so.
_TRANSFORMING: Final = {"LinearClassifier", "TreeEnsembleClassifier", "SVMClassifier"}
# What may stand behind a softmax without changing what the numbers are.
_SAME: Final = {"Identity", "Cast", "Dropout"}
_PASSING: Final = _SAME | {
    "Squeeze",
    "Unsqueeze",
    "Reshape",
    "Flatten",
    "Transpose",
    "Slice",
    "Gather",
}
# With one number as the other input, which is the second one of these.
_NUMBER_SECOND: Final = {"Sub", "Div"}
_WITH_A_NUMBER: Final = _NUMBER_SECOND | {"Add", "Mul", "Max", "Min"}
# No softmax stands behind more nodes than this.
_DEEPEST: Final = 50
_SUMS: Final = {"ReduceSum", "ReduceL1"}


@dataclass(frozen=True, slots=True)
class Normalized:
    """What a value is, instead of logits."""

    what: str
    node: str
    """The operator that made it so."""
    before: str | None
    """The value that held the scores, where it is known."""

    @property
    def is_shifted(self) -> bool:
        """Whether only a constant was taken from each row, which some methods do not mind."""
        return self.what in (LOG_PROBABILITIES, _LARGEST_TAKEN)


class Values:
    """What the values of a graph are made of."""

    def __init__(self, graph: GraphProto) -> None:
        self._makers = {output: node for node in graph.node for output in node.output}
        self._fixed = {tensor.name: tensor for tensor in graph.initializer}
        self._known: dict[str, Normalized | None] = {}
        self._depth = 0

    def normalized(self, name: str) -> Normalized | None:
        """Return what a value is if it is not logits; its `before` is then something that is."""
        found = self._look(name)
        while found is not None and found.before is not None:
            inner = self._look(found.before)
            if inner is None:
                break
            found = replace(found, before=inner.before)
        return found

    def _look(self, name: str) -> Normalized | None:
        if name not in self._known:
            if self._depth == _DEEPEST:
                return None
            self._depth += 1
            self._known[name] = self._find(name)
            self._depth -= 1
        return self._known[name]

    def _find(self, name: str) -> Normalized | None:
        node = self._makers.get(name)
        if node is None or not node.input:
            return None
        op = node.op_type
        if op in _NORMALIZING:
            return Normalized(_NORMALIZING[op], op, node.input[0])
        if op in _PASSING:
            return self._look(node.input[0])
        if op in _TRANSFORMING:
            words = [a.s.decode() for a in node.attribute if a.name == "post_transform"]
            is_plain = not words or words[0] in ("NONE", "")
            return None if is_plain else Normalized(PROBABILITIES, op, None)
        found = self._quotient(node) or self._difference(node)
        if found is not None:
            return found
        if op in ("Add", "Mean", "Sum"):
            parts = map(self._look, node.input)
            if all(part is not None and part.what == PROBABILITIES for part in parts):
                return Normalized(PROBABILITIES, op, None)
        if op in ("Exp", "Log", "Clip") or op in _WITH_A_NUMBER:
            return self._one_to_one(node)
        return None

    def _one_to_one(self, node: NodeProto) -> Normalized | None:
        """Return what comes of normalized numbers that were clipped, scaled or put through a log.

        Not of independent classes: ten times a sigmoid may be meant as scores.
        """
        moved = [part for part in node.input if not self._is_number(part)] or [""]
        if node.op_type in _WITH_A_NUMBER and len(moved) != 1:
            return None
        if node.op_type in _NUMBER_SECOND and moved[0] != node.input[0]:
            return None
        found = self._look(moved[0])
        if found is None or found.what not in (PROBABILITIES, LOG_PROBABILITIES):
            return None
        needed = {"Exp": LOG_PROBABILITIES, "Log": PROBABILITIES}.get(node.op_type)
        if needed is None:
            return found
        other = PROBABILITIES if needed == LOG_PROBABILITIES else LOG_PROBABILITIES
        return replace(found, what=other, node=node.op_type) if found.what == needed else None

    def _quotient(self, node: NodeProto) -> Normalized | None:
        """Recognize exp(x) / sum(exp(x))."""
        for part, total in self._ratios(node):
            sums = self._source(total)
            if sums is not None and sums.op_type in _SUMS and sums.input[0] == part:
                power = self._source(part)
                scores = power.input[0] if power is not None and power.op_type == "Exp" else None
                return Normalized(PROBABILITIES, node.op_type, scores)
        return None

    def _ratios(self, node: NodeProto) -> Iterator[tuple[str, str]]:
        """Yield a and b where a node is a / b, or a times one over b."""
        if node.op_type == "Div":
            yield node.input[0], node.input[1]
        if node.op_type == "Mul":
            for part, other in (node.input, reversed(node.input)):
                inverse = self._source(other)
                if inverse is not None and inverse.op_type in ("Div", "Reciprocal"):
                    yield part, inverse.input[-1]

    def _difference(self, node: NodeProto) -> Normalized | None:
        """Recognize x - max(x) and x - log(sum(exp(x)))."""
        if node.op_type != "Sub":
            return None
        scores, taken = node.input
        what = {"max": _LARGEST_TAKEN, "logsumexp": LOG_PROBABILITIES}.get(
            self._statistic(taken, scores) or ""
        )
        return None if what is None else Normalized(what, node.op_type, scores)

    def _statistic(self, name: str, scores: str) -> str | None:
        """Return whether a value is the largest of some scores, or the log of their exp's sum."""
        node = self._source(name)
        if node is None:
            return None
        direct = {"ReduceMax": "max", "ReduceLogSumExp": "logsumexp"}.get(node.op_type)
        if direct is not None:
            return direct if node.input[0] == scores else None
        if node.op_type == "Log":
            sums = self._source(node.input[0])
            power = self._source(sums.input[0]) if sums and sums.op_type in _SUMS else None
            whole = power is not None and power.op_type == "Exp" and power.input[0] == scores
            return "logsumexp" if whole else None
        if node.op_type == "Add":  # max(x) + log(sum(exp(x - max(x))))
            for one, other in (node.input, reversed(node.input)):
                if self._statistic(one, scores) == "max" and self._is_rest(other, scores):
                    return "logsumexp"
        return None

    def _is_rest(self, name: str, scores: str) -> bool:
        """Return whether a value is the log of the sum of exp(x - max(x))."""
        log = self._source(name)
        sums = self._source(log.input[0]) if log and log.op_type == "Log" else None
        power = self._source(sums.input[0]) if sums and sums.op_type in _SUMS else None
        if power is None or power.op_type != "Exp":
            return False
        inner = self._makers.get(power.input[0])
        found = None if inner is None else self._difference(inner)
        return found is not None and found.what == _LARGEST_TAKEN and found.before == scores

    def _source(self, name: str) -> NodeProto | None:
        """Return the node that makes a value, not counting changes of type, shape and limits."""
        node = self._makers.get(name)
        while node is not None and node.op_type in (*_SAME, "Clip", "Expand", "Unsqueeze"):
            node = self._makers.get(node.input[0])
        return node

    def _is_number(self, name: str) -> bool:
        """Return whether a value is one fixed number."""
        if name in self._fixed:
            return bool(prod(self._fixed[name].dims) == 1)
        node = self._source(name)
        if node is None or node.op_type != "Constant":
            return False
        given = node.attribute[0]
        if given.name == "value":
            return bool(prod(given.t.dims) == 1)
        return given.name in ("value_float", "value_int")
