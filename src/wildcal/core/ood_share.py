"""How much out-of-distribution rows weigh in a fit, whatever their number."""

from dataclasses import replace
from typing import Final, Literal, TypeAlias

import numpy as np

from wildcal.core.arrays import OOD_LABEL, FloatArray, Labels
from wildcal.core.columns import derived, equal_weights, map_columns
from wildcal.core.rows import Rows

OodShare: TypeAlias = float | Literal["paper", "rows"]
"""Weight of all such rows together as a part of the labeled ones; "paper" is that of the energy
paper, which depends on the number of classes, "rows" counts every row as one."""
# The energy paper tunes with 100 : 5,000, 400 : 5,000 and 3,500 : 12,500 rows.
_PAPER: Final = ((10, 100 / 5000), (100, 400 / 5000))
_MANY: Final = 3500 / 12500


def check_ood_share(share: object) -> None:
    """Raise unless a share is a positive number or one of the two words."""
    number = isinstance(share, int | float) and not isinstance(share, bool)
    good = (number and 0 < share <= 10) or share in ("paper", "rows")  # type: ignore[operator]
    if not good:
        raise ValueError(
            "ood_share must be a number above 0 and at most 10, 'paper' or 'rows', got"
            f" {share!r:.40}."
        )


def paper_share(n_classes: int) -> float:
    """Return the share of the energy paper for data sets of this size.

    >>> paper_share(10), paper_share(100), paper_share(1000)
    (0.02, 0.08, 0.28)
    """
    return next((share for most, share in _PAPER if n_classes <= most), _MANY)


def shared(rows: Rows, share: OodShare) -> Rows:
    """Return the rows with out-of-distribution ones weighing their share of the labeled ones.

    So more of them give a better idea of what they look like, and not a heavier pull.

    >>> rows = Rows(np.zeros((6, 2)), np.array([0, 1, 0, 1, -1, -1]))
    >>> shared(rows, 0.5).weight
    array([1., 1., 1., 1., 1., 1.])
    """
    if share == "rows" or not rows.n_ood:
        return rows
    part = paper_share(rows.n_classes) if share == "paper" else float(share)
    weight = equal_weights(rows.labels, rows.weight)

    def sums(y: Labels, w: FloatArray) -> tuple[float, float]:
        ood = y == OOD_LABEL
        return float(w[ood].sum()), float(w[~ood].sum())

    others, known = map_columns(sums, rows.labels, weight)
    if others > 0:
        factor = part * known / others
        weight = derived(lambda w, y: np.where(y == OOD_LABEL, w * factor, w), weight, rows.labels)
    return replace(rows, weight=weight)
