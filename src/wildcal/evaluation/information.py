"""The data that the fit of a method used."""

from dataclasses import asdict, dataclass
from typing import Any

from wildcal.core.calibrator import Calibrator


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
    n_shifted: int = 0
    """Labeled samples of shifted domains."""
    n_domains: int = 0
    """Number of shifted domains."""
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
        if self.n_shifted:
            plural = "s" * (self.n_domains > 1)
            parts.append(f"{self.n_shifted:,} labels of {self.n_domains} shifted domain{plural}")
        if self.window:
            parts.append("unlabeled test samples")
        parts += [f"no {name}" for name in self.lacked]
        return ", ".join(parts) or "nothing"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "lacked": list(self.lacked)}


def information_used(calibrator: Calibrator, ood_set: str | None = None) -> InformationUsed:
    """Return the data that a fitted calibrator used.

    `ood_set` is the name of the set that its OOD samples are from.
    """
    if calibrator.name == "identity":
        return InformationUsed()
    info = calibrator.fit_info_
    n_labels = info.n_samples - info.n_ood
    n_source = calibrator.profile_.n_samples if calibrator.profile_ else n_labels
    adapts = hasattr(calibrator, "adapt")
    return InformationUsed(
        n_labels=n_source if adapts else n_labels,
        n_ood=info.n_ood,
        ood_set=ood_set if info.n_ood else None,
        n_layers=getattr(calibrator, "n_layers", None) or 0,
        n_shifted=n_labels - n_source if adapts else 0,
        n_domains=info.n_domains - 1 if adapts else 0,
        window=adapts,
        lacked=("shifted domains",) if adapts and info.n_domains < 2 else (),
    )
