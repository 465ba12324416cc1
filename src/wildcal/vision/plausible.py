"""Environments to tune on that may show something else than their labels say."""

from typing import Final

import numpy as np

from wildcal.io.suite import Suite, SuiteSplit

GAP: Final = 0.15
"""Accuracies that lie this far below all others are no matter of degree."""
FEW: Final = 1 / 3
"""At most this share of the environments can be the odd ones."""


def odd_environments(accuracy: dict[str, float], *, gap: float = GAP) -> dict[str, float]:
    """Return environments whose accuracy lies far below the others', with the distance to them.

    Corruptions have several strengths, so the accuracies of harmless environments come in small
    steps. Where the sorted accuracies jump by `gap` or more, what is below the jump is odd, if that
    is at most a third of all.

    Examples
    --------
    >>> from wildcal.vision.plausible import odd_environments
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


def plausibility_notes(suite: Suite) -> list[str]:
    """Return a sentence for each environment to tune on that may not keep the labels."""
    found = {
        split.name.removeprefix("validation-"): _accuracy(split)
        for split in suite.tune("covariate")
        if split.corruption is not None
    }
    return [
        f"{name}: {100 * found[name]:.0f} % right, {100 * apart:.0f} points below the next"
        " environment: does it change what the image shows? If so, leave it out of the transforms."
        for name, apart in odd_environments(found).items()
    ]


def _accuracy(split: SuiteSplit) -> float:
    return float(np.mean(split.logits.argmax(axis=1) == split.y))
