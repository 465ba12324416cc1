"""The paper's numbers stand beside rows of the same data and family of networks."""

import json
from importlib.resources import files

import pytest

from wildcal._old.report import TableArtifact, beside_paper
from wildcal._old.report.model import Cell, Row


def table(name, *labels):
    row = Row("s", labels, (Cell(0.1),))
    return TableArtifact(name, "T", ("word",) * len(labels), ("Uncal",), (row,), ("note",))


def published(name, *labels):
    return beside_paper(table(name, *labels)).rows[0].published


@pytest.mark.parametrize(
    ("name", "labels", "network", "column", "value"),
    [
        ("table1", ("CIFAR-10", "vgg11-half"), "VGG19", "Energy", 5.78),
        ("table1", ("CIFAR-100", "se-resnet18"), "SE-ResNet101", "IRM", 10.17),
        ("table1", ("ImageNet-1k", "resnet18"), "ResNet18", "TS", 5.57),
        ("table3", ("CIFAR-100", "densenet-small", "AUPR-IN"), "DenseNet201", "IRM", 69.57),
        ("table4", ("CIFAR-10", "wrn-16-2"), "WideResNet40", "Uncal", 12.03),
        ("table6", ("ImageNet-1k", "swin_t", "KDE-ECE"), "Swin-T", "Energy", 8.89),
        ("table7", ("ImageNet-A", "vgg16"), "VGG16", "Energy", 17.32),
        ("table8", ("CIFAR-10", "densenet201", "Textures"), "DenseNet201", "Energy", 4.51),
        ("table9", ("CIFAR-10", "vgg19"), "VGG19", "Energy w/o", 6.53),
    ],
)
def test_rows_of_relatives(name, labels, network, column, value):
    found = published(name, *labels)
    assert (found.network, found.values[column], found.error) == (network, value, None)


@pytest.mark.parametrize(
    "labels",
    [("CIFAR-10", "resnet20"), ("flowers", "vgg19"), ("CIFAR-10", "lenet"), ("CIFAR-10", "vit")],
)
def test_no_relative(labels):
    assert published("table1", *labels) is None
    assert "no row of the same data set" in beside_paper(table("table1", *labels)).notes[-1]


@pytest.mark.parametrize(
    ("name", "labels", "words"),
    [
        ("table5", ("CIFAR-10", "densenet201"), "duplicates CIFAR100 WideResNet40"),
        ("table8", ("ImageNet-1k", "resnet18", "SVHN"), "ImageNet columns are ResNet18"),
        ("table2", ("CIFAR-10", "vgg11-half"), "baselines disagree with table1"),
    ],
)
def test_known_errors_are_marked(name, labels, words):
    made = beside_paper(table(name, *labels))
    assert words in made.rows[0].published.error
    assert made.notes[0] == "note"
    assert made.notes[-1].startswith("† Known error in the paper: ")


def test_every_known_error_has_its_place():
    tables = json.loads((files("wildcal._old.report") / "paper_tables.json").read_text("utf-8"))
    assert [error.split()[0] for error in tables["known_errors"]] == [
        "table5_sce",
        "table8",
        "table2",
    ]
