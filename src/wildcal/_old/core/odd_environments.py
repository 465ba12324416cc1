"""Environments to tune on that may show something else than their labels say."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.arrays import OOD_LABEL
from wildcal._old.core.block import Block
from wildcal._old.core.blocks import map_blocks
from wildcal._old.core.columns import added_counts
from wildcal._old.core.rows import Rows

GAP: Final = 0.15
"""Accuracies that lie this far below all others are no matter of degree."""
WIDE_GAP: Final = 0.3
"""The same, where nothing is known of the environments: their strengths may be far apart."""
FEW: Final = 1 / 3
"""At most this share of the environments can be the odd ones."""


def odd_environments(accuracy: dict[str, float], *, gap: float = GAP) -> dict[str, float]:
    """Return environments whose accuracy lies far below the others', with the distance to them.

    Corruptions have several strengths, so the accuracies of harmless environments come in small
    steps. Where the sorted accuracies jump by `gap` or more, what is below the jump is odd, if that
    is at most a third of all.

    Examples
    --------
    >>> from wildcal._old.core.odd_environments import odd_environments
    >>> found = {"gamma-1": 0.93, "gray-1": 0.9, "noise-5": 0.84, "vertical_flip-1": 0.4}
    >>> odd_environments(found)
    {'vertical_flip-1': 0.44}
    """
    names = sorted(accuracy, key=accuracy.__getitem__)
    values = [accuracy[name] for name in names]
    for count in range(int(len(names) * FEW), 0, -1):
        if values[count] - values[count - 1] >= gap:
            return {name: round(values[count] - accuracy[name], 9) for name in names[:count]}
    return {}


def in_words(accuracy: dict[str, float], advice: str, *, gap: float = GAP) -> list[str]:
    """Return a sentence for each odd environment."""
    return [
        f"{name}: {100 * accuracy[name]:.0f} % right, {100 * apart:.0f} points below the next"
        f" environment: {advice}"
        for name, apart in odd_environments(accuracy, gap=gap).items()
    ]


def environment_notes(rows: Rows) -> tuple[str, ...]:
    """Return a sentence for each labeled environment of a fit that may not keep the labels."""
    if rows.environment is None:
        return ()
    environment, labels = rows.environment, rows.labels

    def counts(block: Block) -> NDArray[np.int64]:
        y, number = labels[block.rows], environment[block.rows]
        known = y != OOD_LABEL
        right = known & (block.pred() == y)
        width = int(number.max()) + 1
        return np.stack([np.bincount(number[some], minlength=width) for some in (known, right)])

    found = {
        f"environment {i}": float(right / n)
        for i, (n, right) in enumerate(map_blocks(rows.logits, counts, added_counts).T)
        if n
    }
    advice = "do its rows still show what their labels say? If not, leave it out."
    return tuple(in_words(found, advice, gap=WIDE_GAP))
