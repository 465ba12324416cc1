"""What tables call methods, data sets and networks, and which networks are relatives."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from wildcal._old.calibrators import PAPER_METHODS
from wildcal._old.io.suite import Suite

WITHOUT_OOD: Final = "energy-no-ood"
"""The energy method fitted on validation rows alone."""
METHOD_TITLES: Final = {
    "identity": "Uncal",
    "ts": "TS",
    "ets": "ETS",
    "irm": "IRM",
    "irova": "IROvA",
    "irovats": "IROvATS",
    "spline": "SPLINE",
    WITHOUT_OOD: "Energy w/o",
    "energy": "Energy",
    "dac+ets": "ETS+DAC",
    "dac+spline": "SPLINE+DAC",
    "dac+energy": "Energy+DAC",
}
WITH_BOTH: Final = (*PAPER_METHODS[:-1], WITHOUT_OOD, PAPER_METHODS[-1])
"""The paper's methods, and the energy method without out-of-distribution rows before the last."""
WITH_DAC: Final = ("identity", "ets", "dac+ets", "spline", "dac+spline", "energy", "dac+energy")
"""The columns of the paper's Table 2, in its order."""
KEEP_CLASSES: Final = ("identity", "ts", "ets", "irm", "spline", "energy")
"""Those that keep the predicted class."""
BASELINES: Final = tuple(m for m in PAPER_METHODS if m not in ("identity", "energy"))

DATA_TITLES: Final = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet": "ImageNet-1k"}
SET_TITLES: Final = {
    "svhn": "SVHN",
    "textures": "Textures",
    "imagenet-r": "ImageNet-R",
    "imagenet-a": "ImageNet-A",
    "imagenet-sketch": "ImageNet-Sketch",
}

# In this order: the names of some families hold those of others.
_FAMILIES: Final = (
    ("vitb32", "ViT-B/32"),
    ("vitb16", "ViT-B/16"),
    ("vit", "ViT"),
    ("swint", "Swin-T"),
    ("swin", "Swin"),
    ("seresnet", "SE-ResNet"),
    ("wideresnet", "WideResNet"),
    ("wrn", "WideResNet"),
    ("densenet", "DenseNet"),
    ("vgg", "VGG"),
    ("resnet", "ResNet"),
)


def plain(text: object) -> str:
    """Return text from a manifest short, on one line, and harmless to whoever shows it."""
    line = " ".join(str(text).split())[:60]
    return "".join(c if c.isprintable() else "?" for c in line) or "unnamed"


def data_name(suite: Suite) -> str:
    """Return the name of the data set that a suite's manifest gives."""
    return plain(suite.data.get("name", ""))


def network_name(suite: Suite) -> str:
    """Return the name of the network that a suite's manifest gives."""
    return plain(suite.network.get("name", ""))


def method_title(name: str) -> str:
    """Return what tables and figures call a method; the paper's have the paper's names.

    >>> method_title("energy"), method_title("hts"), method_title("_mine")
    ('Energy', 'hts', 'mine')
    """
    # matplotlib leaves a name that begins with an underscore out of its legends.
    return METHOD_TITLES.get(name) or plain(plain(name).lstrip("_"))


def set_title(name: str) -> str:
    """Return how tables write the name of a set."""
    return SET_TITLES.get(name, name)


def family(network: str) -> str | None:
    """Return the family that a network's name tells.

    >>> family("wrn-16-2"), family("WideResNet40"), family("se_resnet18"), family("lenet")
    ('WideResNet', 'WideResNet', 'SE-ResNet', None)
    """
    letters = re.sub(r"[^a-z0-9]", "", network.lower())
    return next((title for part, title in _FAMILIES if part in letters), None)


def is_transformer(suite: Suite) -> bool:
    """Return whether the name of a suite's network tells one of the vision transformers."""
    return (family(network_name(suite)) or "").startswith(("ViT", "Swin"))


def suite_labels(suites: Mapping[str, Suite]) -> dict[str, tuple[str, str]]:
    """Return the data set and the network of each suite, as tables show them.

    Two suites of one network are told apart by their own names.
    """
    labels = {
        name: (DATA_TITLES.get(data_name(suite), data_name(suite)), network_name(suite))
        for name, suite in suites.items()
    }
    count = Counter(labels.values())
    return {
        name: (data, network if count[data, network] == 1 else f"{network} ({name})")
        for name, (data, network) in labels.items()
    }


def in_paper_order(suites: Mapping[str, Suite]) -> dict[str, Suite]:
    """Return suites with those of a data set together, the paper's data sets first."""
    order = list(DATA_TITLES)
    names = {data_name(suite): None for suite in suites.values()}
    order += [name for name in names if name not in order]
    return dict(sorted(suites.items(), key=lambda item: order.index(data_name(item[1]))))
