"""Names of methods, data sets and networks in the paper's tables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wildcal.io.suite import Suite

METHOD_TITLES: Final = {
    "identity": "Uncal",
    "ts": "TS",
    "ets": "ETS",
    "irm": "IRM",
    "irova": "IROvA",
    "irovats": "IROvATS",
    "spline": "SPLINE",
    "energy-no-ood": "Energy w/o",
    "energy": "Energy",
    "sota": "SoTA",
    "dac+ets": "ETS+DAC",
    "dac+spline": "SPLINE+DAC",
    "dac+energy": "Energy+DAC",
}
DATA_TITLES: Final = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet": "ImageNet-1k"}
SET_TITLES: Final = {
    "svhn": "SVHN",
    "textures": "Textures",
    "imagenet-r": "ImageNet-R",
    "imagenet-a": "ImageNet-A",
    "imagenet-sketch": "ImageNet-Sketch",
}
# In this order: the names of some families contain those of others.
_FAMILIES: Final = (
    *("ViT-B/32", "ViT-B/16", "ViT", "Swin-T", "Swin"),
    *("SE-ResNet", "WideResNet", "DenseNet", "VGG", "ResNet"),
)


@dataclass(frozen=True)
class SuiteNames:
    """How tables show a suite."""

    data: str
    network: str

    @classmethod
    def of(cls, suite: Suite, label: str | None = None) -> "SuiteNames":
        """Return the names in the manifest of a suite; `label` replaces that of the network."""
        data = plain(suite.data.get("name", "") or suite.name)
        network = label or plain(suite.model.get("name", "") or suite.name)
        return cls(DATA_TITLES.get(data, data), network)

    def __str__(self) -> str:
        return f"{self.data}, {self.network}"


def plain(text: Any) -> str:
    """Return text from a file shortened to one line without control characters."""
    line = " ".join(str(text).split())[:60]
    return "".join(c if c.isprintable() else "?" for c in line)


def method_title(name: str) -> str:
    """Return the name of a method in tables and figures.

    >>> method_title("energy"), method_title("hts")
    ('Energy', 'hts')
    """
    return METHOD_TITLES.get(name, name)


def family(network: str) -> str | None:
    """Return the family of a network, by its name.

    >>> family("wrn-16-2"), family("WideResNet40"), family("se_resnet18"), family("lenet")
    ('WideResNet', 'WideResNet', 'SE-ResNet', None)
    """
    name = _letters(network).replace("wrn", "wideresnet")
    return next((family for family in _FAMILIES if _letters(family) in name), None)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_transformer(suite: Suite) -> bool:
    """Return whether the network of a suite is a vision transformer, by its name."""
    return (family(str(suite.model.get("name", ""))) or "").startswith(("ViT", "Swin"))


def in_paper_order(suites: Mapping[str, Suite]) -> dict[str, Suite]:
    """Return suites with those of a data set together, the paper's data sets first."""
    data = {name: str(suite.data.get("name", "")) for name, suite in suites.items()}
    order = [*DATA_TITLES, *data.values()]
    return {name: suites[name] for name in sorted(data, key=lambda name: order.index(data[name]))}
