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
    """Labelled samples of the source domain."""
    n_ood: int = 0
    """OOD samples."""
    ood_set: str | None = None
    n_layers: int = 0
    """Layers with distances to training samples."""
    n_shifted: int = 0
    """Labelled samples of shifted domains."""
    n_domains: int = 0
    """Number of shifted domains."""
    window: bool = False
    """Unlabelled test samples."""
    lacked: tuple[str, ...] = ()
    """Data that the method could have used, such as "shifted domains"."""

    def __str__(self) -> str:
        ood_set = f" ({self.ood_set})" if self.ood_set else ""
        domains = f"{self.n_domains} shifted domain{'s' * (self.n_domains > 1)}"
        used = {
            f"{self.n_labels:,} labels": self.n_labels,
            f"{self.n_ood:,} OOD samples{ood_set}": self.n_ood,
            f"distances in {self.n_layers} layers": self.n_layers,
            f"{self.n_shifted:,} labels of {domains}": self.n_shifted,
            "unlabelled test samples": self.window,
        }
        parts = [text for text, is_used in used.items() if is_used]
        return ", ".join([*parts, *(f"no {name}" for name in self.lacked)]) or "nothing"

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
    used: dict[str, Any] = {"n_labels": n_labels}
    if hasattr(calibrator, "adapt"):
        used = {"n_labels": n_source, "n_shifted": n_labels - n_source, "window": True}
        used["n_domains"] = info.n_domains - 1
        used["lacked"] = ("shifted domains",) if info.n_domains < 2 else ()
    if info.n_ood:
        used |= {"n_ood": info.n_ood, "ood_set": ood_set}
    return InformationUsed(n_layers=getattr(calibrator, "n_layers", None) or 0, **used)
