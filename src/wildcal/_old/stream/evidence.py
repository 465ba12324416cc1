"""What the bets of a sequential alarm have made so far, and how it is kept in a file."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from wildcal._old.core.arrays import FloatArray

BLOCK: Final = 8
"""Rows between two looks."""
BETS: Final = 32
"""Eight directions of the features, at four stakes each."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the bets have made so far; a new one replaces it as a whole."""

    stakes: FloatArray
    """M of each bet at the last look."""
    pending: FloatArray
    """The product of the rows since then."""
    count: int
    """How many these are, fewer than a block."""
    since: int
    """Rows since the limit was last passed, or since the beginning."""
    alarm: bool

    @classmethod
    def none(cls) -> "Evidence":
        """Return the evidence before the first row."""
        return cls(np.zeros(BETS), np.ones(BETS), 0, 0, False)


def to_dict(evidence: Evidence) -> dict[str, Any]:
    """Return the evidence as plain numbers, for the state of a stream."""
    return {
        "stakes": evidence.stakes.tolist(),
        "pending": evidence.pending.tolist(),
        "count": evidence.count,
        "since": evidence.since,
        "alarm": evidence.alarm,
    }


def from_dict(document: Any) -> Evidence:
    """Return the evidence that `to_dict` described; raise a ValueError if it cannot be one."""
    stakes, pending = (
        _stakes(document[name], f"{name} of the alarm") for name in ("stakes", "pending")
    )
    count, since, alarm = document["count"], document["since"], document["alarm"]
    if type(count) is not int or not 0 <= count < BLOCK:
        raise ValueError(f"count of the alarm must be 0 to {BLOCK - 1}.")
    if type(since) is not int or not 0 <= since < 1 << 60 or type(alarm) is not bool:
        raise ValueError("since and alarm of the alarm must be a whole number and true or false.")
    return Evidence(stakes, pending, count, since, alarm)


def _stakes(values: Any, name: str) -> FloatArray:
    if not isinstance(values, list) or len(values) != BETS:
        raise ValueError(f"{name} must be a list of {BETS}.")
    if not all(type(value) is float and 0 <= value < 1e300 for value in values):
        raise ValueError(f"{name} must be numbers of at least 0.")
    return np.array(values)
