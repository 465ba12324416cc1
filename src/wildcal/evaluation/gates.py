"""Gates: conditions on an evaluation that make a job fail."""

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from wildcal.core.exceptions import InputError
from wildcal.evaluation.results import Evaluation
from wildcal.metrics.registry import get_metric

_GATE: Final = re.compile(
    r"\s*(?P<group>worst_group\.)?(?P<metric>\w+?)(?:\.(?P<part>low|high))?"
    r"\s*(?P<op><=|>=|<|>)\s*(?P<limit>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
)
_COMPARE: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Gate:
    """A condition such as ``ece > 0.05`` or ``worst_group.excess_ece.low > 0.02``.

    Examples
    --------
    >>> parse_gate("worst_group.ece > 0.1")
    Gate(metric='ece', op='>', limit=0.1, part='value', worst_group=True)
    """

    metric: str
    op: str
    limit: float
    part: Literal["value", "low", "high"] = "value"
    """The number, or an end of its interval."""
    worst_group: bool = False
    """Whether the condition is about the group with the worst value of this metric. Of metrics
    without a better side, ``<`` is about the lowest value and ``>`` about the highest."""

    @property
    def number(self) -> str:
        """The metric, and the end of its interval if the condition is about one."""
        return self.metric if self.part == "value" else f"{self.metric}.{self.part}"

    def __str__(self) -> str:
        group = "worst_group." if self.worst_group else ""
        return f"{group}{self.number} {self.op} {self.limit:g}"

    def violation(self, evaluation: Evaluation) -> str | None:
        """Return one line if the condition holds, None if it does not."""
        where = ""
        if self.worst_group:
            if not evaluation.groups:
                raise InputError(f"gate {str(self)!r} needs groups.", "gate")
            name = evaluation.worst_group_by(self.metric, lowest="<" in self.op)
            evaluation, where = evaluation.groups[name], f" in group {name!r}"
        if self.metric not in evaluation:
            raise InputError(f"gate {str(self)!r}: {self.metric} was not computed.", "gate")
        value = getattr(evaluation[self.metric], self.part)
        if value is None:
            raise InputError(f"gate {str(self)!r} needs intervals. Try n_bootstrap=200.", "gate")
        holds = _COMPARE[self.op](value, self.limit)
        return f"{self.number}{where} is {value:.4g}: {self}" if holds else None


def parse_gate(text: str) -> Gate:
    """Return the gate of ``[worst_group.]metric[.low|.high] (<|<=|>|>=) number``."""
    found = _GATE.fullmatch(text)
    if found is None:
        raise InputError(
            f"gate must be [worst_group.]METRIC[.low|.high] and a comparison, got {text!r}. Try"
            " 'ece > 0.05'.",
            "gate",
        )
    metric, limit = get_metric(found["metric"]), float(found["limit"])
    if metric.is_percent and abs(limit) > 1:
        raise InputError(
            f"gate {text!r} must compare with a fraction. Try {limit / 100:g} for {limit:g} %.",
            "gate",
        )
    part: Literal["value", "low", "high"] = found["part"] or "value"  # type: ignore[assignment]
    return Gate(metric.name, found["op"], limit, part, bool(found["group"]))


def check_gates(evaluation: Evaluation, gates: Iterable[Gate | str]) -> list[str]:
    """Return one line for each condition that holds; an empty list means that all passed.

    Examples
    --------
    >>> import numpy as np
    >>> from wildcal import evaluate
    >>> result = evaluate(np.array([True, False]), np.array([0.9, 0.9]), n_bootstrap=0)
    >>> check_gates(result, ["ece > 0.05", "accuracy < 0.4"])
    ['ece is 0.4: ece > 0.05']
    """
    parsed = [parse_gate(gate) if isinstance(gate, str) else gate for gate in gates]
    lines = [gate.violation(evaluation) for gate in parsed]
    return [line for line in lines if line is not None]
