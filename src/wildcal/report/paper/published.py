"""The numbers of the paper, beside those of suites with the same data and family of networks."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from wildcal.report.paper.names import DATA_TITLES, family

# Names of the paper that differ from those of our tables.
_DATA: Final = {"CIFAR10": "CIFAR-10", "CIFAR100": "CIFAR-100", "ImageNet": "ImageNet-1k"}
_AVERAGES: Final = {
    "table1": "table1_ece",
    "table4": "table4_kde_ece",
    "table5": "table5_sce",
    "table9": "table9_ece_with_wo",
}
_WITH_DAC: Final = (
    ("CIFAR10-C (VGG19)", DATA_TITLES["cifar10"], "VGG19"),
    ("CIFAR100-C (VGG19)", DATA_TITLES["cifar100"], "VGG19"),
    ("ImageNet-C (DenseNet201)", DATA_TITLES["imagenet"], "DenseNet201"),
)
# Rows that cannot be right, as (table, data set, network), with their index in `known_errors`.
_ERRORS: Final = {
    ("table5", "CIFAR-10", "DenseNet201"): 0,
    ("table8", DATA_TITLES["imagenet"], "ResNet18"): 1,
    **{("table2", data, network): 2 for _, data, network in _WITH_DAC},
}


@dataclass(frozen=True)
class Published:
    """A row of the paper, in per cent."""

    labels: tuple[str, ...]
    """Data set, network and, in some tables, metric or OOD set."""
    values: dict[str, float]
    """By the title of the method."""
    error: str | None = None
    """A known error of the row."""


def published_row(table: str, labels: tuple[str, ...]) -> Published | None:
    """Return the paper's row for a data set, a network of the same family, and other labels."""
    data, network, *more = labels
    for row in _rows(table):
        same_data = (row.labels[0], *row.labels[2:]) == (data, *more)
        if same_data and family(network) is not None and family(row.labels[1]) == family(network):
            return row
    return None


def _rows(name: str) -> Iterator[Published]:
    for labels, values in _values(name):
        index = _ERRORS.get((name, labels[0], labels[1]))
        error = None if index is None else _tables()["known_errors"][index]
        # The paper calls energy scaling its own.
        named = {method.replace("Ours", "Energy"): value for method, value in values.items()}
        yield Published(labels, named, error)


def _values(name: str) -> Iterator[tuple[tuple[str, ...], dict[str, float]]]:
    tables = _tables()
    if name in _AVERAGES:
        for row in tables[_AVERAGES[name]]:
            titles = {"Ours_wo": "Ours w/o"}
            values = {
                titles.get(key, key): value
                for key, value in row.items()
                if key not in ("dataset", "network")
            }
            yield (_DATA.get(row["dataset"], row["dataset"]), row["network"]), values
    elif name == "table2":
        table = tables["table2_dac_ece"]
        for title, data, network in _WITH_DAC:
            yield (data, network), dict(zip(table["columns"], table[title], strict=True))
    elif name == "table3":
        table = tables["table3_ood_detection"]
        for data in ("CIFAR100/Texture", "ImageNet/Texture"):
            for i, metric in enumerate(table["columns"]):
                values = {method: numbers[i] for method, numbers in table[data].items()}
                yield (_DATA[data.removesuffix("/Texture")], "DenseNet201", metric), values
    elif name == "table6":
        table = tables["table6_vit"]
        for network in table["Uncal"]:
            for i, metric in enumerate(table["columns"]):
                values = {method: table[method][network][i] for method in ("Uncal", "Ours")}
                yield (_DATA["ImageNet"], network, metric), values
    elif name == "table7":
        table = tables["table7_extra_covariate_ece"]
        for data in ("ImageNet-R", "ImageNet-A", "ImageNet-Sketch"):
            for network, numbers in table[data].items():
                yield (data, network), dict(zip(table["columns"], numbers, strict=True))
    elif name == "table8":
        table = tables["table8_ood_type"]
        for data in ("CIFAR10", "CIFAR100", "ImageNet (ResNet18 row)"):
            network = "ResNet18" if "ResNet18" in data else "DenseNet201"
            for ood, numbers in table[data].items():
                labels = (_DATA[data.split()[0]], network, {"Texture": "Textures"}.get(ood, ood))
                yield labels, dict(zip(table["columns"], numbers, strict=True))


@cache
def _tables() -> dict[str, Any]:
    text = (files("wildcal.report.paper") / "paper_tables.json").read_text("utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables
