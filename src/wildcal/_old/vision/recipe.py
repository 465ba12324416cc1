"""How a network is trained: every choice, and the learning rate they give."""

import math
from dataclasses import dataclass

from wildcal._old.core.checks import check_count


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Nesterov SGD over one cycle of the learning rate, random crops and flips.

    No label smoothing, no mixup and no choice of the best epoch: the network is to be as
    overconfident as those that people have.

    Parameters
    ----------
    small_crops
        Share of the epochs, at the start, that see 24 x 24 pixels of each image: 56 % of the work.
    warm_up
        Share of the steps in which the learning rate rises; it then falls to zero in a line.
    """

    epochs: int = 16
    batch_size: int = 128
    learning_rate: float = 0.2
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warm_up: float = 0.2
    small_crops: float = 0.4
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        check_count("batch_size", self.batch_size, least=2)
        for name in ("learning_rate", "momentum", "weight_decay", "warm_up", "small_crops"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must not be negative, got {value}.")
        for name in ("momentum", "warm_up", "small_crops"):
            if getattr(self, name) > 1:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}.")

    def crop(self, epoch: int) -> int:
        """Return the side of the squares that an epoch, counted from 0, sees."""
        return 24 if epoch < round(self.small_crops * self.epochs) else 32

    def rate(self, progress: float) -> float:
        """Return the learning rate at a share 0..1 of all steps."""
        rising = progress / self.warm_up if self.warm_up else 1.0
        falling = (1 - progress) / (1 - self.warm_up) if self.warm_up < 1 else 1.0
        return self.learning_rate * min(rising, falling)
