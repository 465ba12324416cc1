"""The data that the fit of a method used."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class InformationUsed:
    """Numbers of samples and other data that a method used; 0 and None where it did not.

    Examples
    --------
    >>> print(InformationUsed(n_labels=800, n_ood=100, ood_set="svhn"))
    800 labels, 100 OOD samples (svhn)
    """

    n_labels: int = 0
    """Labeled samples of the source domain."""
    n_ood: int = 0
    """OOD samples."""
    ood_set: str | None = None
    n_layers: int = 0
    """Layers with distances to training samples."""
    shifted: tuple[int, ...] = ()
    """Labeled samples of each shifted domain."""
    window: bool = False
    """Unlabeled test samples."""
    lacked: tuple[str, ...] = ()
    """What the method could have used: "OOD samples", "shifted domains"."""

    def __str__(self) -> str:
        parts = []
        if self.n_labels:
            parts.append(f"{self.n_labels:,} labels")
        if self.n_ood:
            name = f" ({self.ood_set})" if self.ood_set else ""
            parts.append(f"{self.n_ood:,} OOD samples{name}")
        if self.n_layers:
            parts.append(f"distances in {self.n_layers} layers")
        if self.shifted:
            domains = f"{len(self.shifted)} shifted domain{'s' * (len(self.shifted) > 1)}"
            parts.append(f"{sum(self.shifted):,} labels of {domains}")
        if self.window:
            parts.append("unlabeled test samples")
        parts += [f"no {name}" for name in self.lacked]
        return ", ".join(parts) or "nothing"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "shifted": list(self.shifted), "lacked": list(self.lacked)}
