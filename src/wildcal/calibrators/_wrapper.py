"""Base class of calibrators that contain another one."""

from abc import abstractmethod
from typing import Any

from wildcal.core.calibrator import Calibrator


def _of_inner(name: str) -> Any:
    return property(lambda self: getattr(self._inner(), name))


class Wrapper(Calibrator):
    """Has the promises and the inputs of the calibrator that it contains."""

    preserves_accuracy = _of_inner("preserves_accuracy")
    uses_ood = _of_inner("uses_ood")
    requires = _of_inner("requires")
    requires_raw_logits = _of_inner("requires_raw_logits")

    @property
    def n_layers(self) -> int | None:
        """Number of layers of `knn_distances`, None without them."""
        return getattr(self._inner(), "n_layers", None)

    @abstractmethod
    def _inner(self) -> Calibrator:
        """Return that calibrator."""
