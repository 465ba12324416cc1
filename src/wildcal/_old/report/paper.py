"""The numbers that the paper published, beside ours: same data, network of the same family."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from wildcal._old.report.model import Published, TableArtifact
from wildcal._old.report.names import DATA_TITLES, family

# How the paper writes what our tables call by another name.
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
# Rows that cannot be right, as (table, data set, network), with their place in `known_errors`.
_ERRORS: Final = {
    ("table5", "CIFAR-10", "DenseNet201"): 0,
    ("table8", DATA_TITLES["imagenet"], "ResNet18"): 1,
    **{("table2", data, network): 2 for _, data, network in _WITH_DAC},
}

Labels = tuple[str, ...]


def beside_paper(table: TableArtifact) -> TableArtifact:
    """Return a table whose rows carry the paper's, where it has one of the same kind."""
    published = list(_rows(table.name))
    rows = []
    for row in table.rows:
        data, network, *more = row.labels
        relatives = [
            values
            for labels, values in published
            if (labels[0], *labels[2:]) == (data, *more)
            and family(labels[1]) is not None
            and family(labels[1]) == family(network)
        ]
        rows.append(replace(row, published=relatives[0] if relatives else None))
    found = [row.published for row in rows if row.published is not None]
    notes = ["Rows marked (paper) are the paper's, of its network of the same family."]
    if not found:
        notes = ["The paper has no row of the same data set and family of networks."]
    errors = dict.fromkeys(p.error for p in found if p.error)
    notes += [f"† Known error in the paper: {error}." for error in errors]
    return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))


def _rows(name: str) -> Iterator[tuple[Labels, Published]]:
    """Yield the labels and values of a published table."""
    for labels, values in _values(name):
        place = _ERRORS.get((name, labels[0], labels[1]))
        error = None if place is None else _tables()["known_errors"][place]
        # The paper calls energy scaling its own; here that could be a method of this package.
        named = {method.replace("Ours", "Energy"): value for method, value in values.items()}
        yield labels, Published(labels[1], named, error)


def _values(name: str) -> Iterator[tuple[Labels, dict[str, float]]]:
    tables = _tables()
    if name in _AVERAGES:
        for row in tables[_AVERAGES[name]]:
            words = {"Ours_wo": "Ours w/o"}
            values = {
                words.get(key, key): value
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
    text = (files("wildcal._old.report") / "paper_tables.json").read_text("utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables
