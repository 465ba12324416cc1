"""How far the predicted classes of a window are believed: now, and in files of earlier versions."""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """How far class counts are believed: numbers that are the same for every network."""

    each_class: bool = False
    """Whether each class is judged by itself. Then no number below is read: the price is believed
    as it is, and the fall of confidence counts beside it."""
    explained: float = 0.0
    """Of the change of classes that usually comes with such a fall of confidence, the part from
    which on more is another class mix, unless it is within the width of the next three."""
    usual: float = 0.0
    allowed: float = 0.0
    by_chance: float = 0.0
    alike: float = 0.0
    """Where the surplus rows became less sure by this part of what rows of shrunken classes did,
    and by the number below, the change of classes is half put down to shift, however large."""
    alike_least: float = 0.0
    alike_moved: float = 0.0
    """The same in the change of classes that usually comes with such a fall."""
    mixed: float = 0.0
    """Where classes moved by this part of what is usual, they are believed half: such a window may
    be a mixture of conditions, in which they cancel."""
    sharp: bool = True
    """Whether belief ends soon, or fades."""
    above_guessing: bool = True
    """Whether no window is taken to be less accurate than guessing."""
    counts_unsure: bool = False
    """Whether there is a second opinion, which counts unsure rows."""


# Fitted to windows of all kinds under sixty changes of images.
_FITTED: Final = Belief(
    explained=0.6, usual=0.43, allowed=0.01, by_chance=1.2, alike_moved=0.17, mixed=1.35
)
_EACH: Final = Belief(each_class=True)
# Chosen by hand before that.
_CHOSEN: Final = Belief(
    explained=1.0,
    usual=0.3,
    allowed=0.05,
    by_chance=0.5,
    alike=0.6,
    alike_least=0.05,
    mixed=0.8,
    above_guessing=False,
)
BELIEFS: Final = (
    replace(_CHOSEN, sharp=False),
    _CHOSEN,
    _FITTED,
    _EACH,
    replace(_FITTED, counts_unsure=True),
    replace(_EACH, counts_unsure=True),
)
"""Files say which by its place. The last two are the present ones, the others of earlier versions.
"""
FEW_CLASSES: Final = 4
MANY_CLASSES: Final = 5
