"""Every artifact is made from a suite that has what it needs, or answers what that is."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from wildcal._old import suites as shipped
from wildcal._old.cli.extract import extract
from wildcal._old.evaluation.protocol import choose_methods, run_protocol
from wildcal._old.io.suite import Suite
from wildcal._old.metrics import auroc
from wildcal._old.report import (
    ARTIFACTS,
    FigureArtifact,
    MissingInputs,
    TableArtifact,
    choose_artifacts,
    plan,
)
from wildcal._old.report.names import family, is_transformer, suite_labels

METHODS = ("identity", "ts", "ets", "irm", "irova", "irovats", "spline", "energy")


def made(study, name):
    return ARTIFACTS[name].make(study)


def row(table, *labels):
    (found,) = [r for r in table.rows if r.labels == labels]
    return found


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_artifact_is_made(study, name):
    artifact = made(study, name)
    kind = TableArtifact if name.startswith("table") else FigureArtifact
    assert isinstance(artifact, kind)
    assert artifact.name == name
    assert artifact.title.startswith(("Table", "Figure"))
    assert artifact.notes
    if kind is TableArtifact:
        assert artifact.rows
        for line in artifact.rows:
            assert len(line.labels) == len(artifact.words)
            assert len(line.cells) == len(artifact.columns)
            assert all(np.isfinite(cell.value) for cell in line.cells)
    else:
        assert all(panel.series for panel in artifact.panels)


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_artifact_answers_what_it_needs(bare, name):
    study = plan(choose_artifacts(["all"]), {"bare": bare})
    answer = made(study, name)
    assert isinstance(answer, MissingInputs)
    assert str(answer).startswith(f"{name} needs ")
    program, command, *words = shlex.split(answer.command)
    assert (program, command) == ("wildcal", "extract")
    extract.make_context("extract", words)  # raises for an option that is not there


def test_table2_is_with_and_without_distances(study, suites):
    table = made(study, "table2")
    assert table.columns == (
        *("Uncal", "ETS", "ETS+DAC", "SPLINE", "SPLINE+DAC", "Energy", "Energy+DAC"),
    )
    assert [r.suite for r in table.rows] == ["vgg"]
    assert "No distances, so left out: vit." in table.notes
    methods = ("identity", "ets", "dac+ets", "spline", "dac+spline", "energy", "dac+energy")
    results = run_protocol({"vgg": suites["vgg"]}, choose_methods(methods), ood="svhn")
    expected = [results.average("vgg", method).value for method in methods]
    np.testing.assert_allclose([cell.value for cell in table.rows[0].cells], expected, atol=1e-12)
    assert "distances to training images in 2 layers" in " ".join(table.notes)
    # Other tables have their own columns only.
    assert len(made(study, "table1").columns) == 8


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table2", "distances to training images in inner layers"),
        ("table3", "test rows of Textures"),
        ("table6", "a network with vit or swin in its name"),
        ("table7", "imagenet-r, imagenet-a or imagenet-sketch"),
        ("table8", "tuning rows of both SVHN and Textures"),
        ("fig1", "test rows of SVHN"),
        ("fig5", "severity 5"),
        ("fig7", "a network with vit or swin in its name"),
    ],
)
def test_missing_inputs_are_named(bare, name, words):
    assert words in str(made(plan(choose_artifacts([name]), {"bare": bare}), name))


def test_table1_has_the_averages(study, suites):
    table = made(study, "table1")
    assert table.columns == ("Uncal", "TS", "ETS", "IRM", "IROvA", "IROvATS", "SPLINE", "Energy")
    assert [r.labels for r in table.rows] == [
        ("CIFAR-10", "vgg11-half"),
        ("ImageNet-1k", "vit_b_16"),
    ]
    for suite, ood, line in zip(("vgg", "vit"), ("svhn", "textures"), table.rows, strict=True):
        plain = run_protocol({suite: suites[suite]}, metrics=["ece"], ood=ood, n_boot=20)
        for method, cell in zip(METHODS, line.cells, strict=True):
            average = plain.average(suite, method)
            assert (cell.value, cell.low, cell.high) == (average.value, average.low, average.high)
            assert cell.floor == average.floor
    assert "Energy: 400 labels, 100 rows of svhn" in " ".join(table.notes)
    assert "Energy: 400 labels, 100 rows of textures" in " ".join(table.notes)
    assert "CIFAR-100" in table.notes[-1]


@pytest.mark.parametrize(("name", "metric"), [("table4", "kde_ece"), ("table5", "sce")])
def test_other_averages(study, suites, name, metric):
    plain = run_protocol({"s": suites["vgg"]}, choose_methods(["ts"]), metrics=[metric], ood="svhn")
    line = row(made(study, name), "CIFAR-10", "vgg11-half")
    assert line.cells[1].value == plain.average("s", "ts", metric).value
    assert line.cells[1].low < line.cells[1].value <= line.cells[1].high


def test_table9_has_both_energy_methods(study):
    table = made(study, "table9")
    assert table.columns[-2:] == ("Energy w/o", "Energy")
    assert [cell.knew for cell in table.rows[0].cells[-2:]] == [
        "400 labels",
        "400 labels, 100 rows of svhn",
    ]


def test_table3_never_tunes_with_textures(study, suites):
    table = made(study, "table3")
    assert {cell.knew for r in table.rows for cell in r.cells if "rows" in cell.knew} == {
        "400 labels, 100 rows of svhn"
    }
    assert all(r.higher_is_better for r in table.rows)
    plain = run_protocol(
        {"s": suites["vit"]}, choose_methods(["ts"]), metrics=["ood_aupr_in"], ood="svhn"
    )
    line = row(table, "ImageNet-1k", "vit_b_16", "AUPR-IN")
    assert line.cells[1].value == plain.record("s", "ts", "textures-test", "ood_aupr_in").value


def test_table6_has_transformers_only(study):
    table = made(study, "table6")
    assert [r.labels[1:] for r in table.rows] == [("vit_b_16", "ECE"), ("vit_b_16", "KDE-ECE")]


def test_table7_has_a_row_for_each_set(study):
    table = made(study, "table7")
    assert [r.labels[0] for r in table.rows] == ["ImageNet-R", "ImageNet-Sketch"]
    assert "No suite has ImageNet-A" in table.notes[-1]


def test_table8_tunes_with_either_set(study):
    table = made(study, "table8")
    baselines = made(study, "table1").rows[0].cells[1:-1]
    for ood in ("SVHN", "Textures"):
        uncal, best, ours = row(table, "CIFAR-10", "vgg11-half", ood).cells
        assert uncal.knew == "nothing"
        assert best.value == min(cell.value for cell in baselines)
        assert ours.knew == f"400 labels, 100 rows of {ood.lower()}"


def test_fig1_histograms(study, suites):
    figure = made(study, "fig1")
    assert len(figure.panels) == 8
    energies = figure.panels[1]
    for series in energies.series:
        assert np.dot(series.y[:-1], np.diff(series.x)) == pytest.approx(1)
    clean = suites["vgg"].split("test")
    correct = clean.logits.argmax(1) == clean.y
    negative = np.log(np.exp(clean.logits.astype(float)).sum(axis=1))
    assert energies.title.endswith(f"AUROC {100 * auroc(correct, negative):.1f} %")


def test_fig3_quantiles(study, suites):
    panel = made(study, "fig3").panels[0]
    series = {s.name: dict(zip(s.x, s.y, strict=True)) for s in panel.series}
    pooled = [suites["vgg"].split(f"{kind}-4") for kind in ("fog", "snow")]
    z, y = (np.concatenate([getattr(s, key) for s in pooled]) for key in ("logits", "y"))
    negative = np.log(np.exp(z.astype(float)).sum(axis=1))
    assert series["75 %"]["4"] == pytest.approx(np.quantile(negative, 0.75), abs=1e-5)
    assert series["accuracy"]["4"] == pytest.approx(100 * (z.argmax(1) == y).mean())
    assert np.isnan(series["accuracy"]["SVHN"])


def test_error_figures_show_the_tables_numbers(study):
    by_severity = made(study, "fig4").panels[0].series[-1]
    average = made(study, "table1").rows[0].cells[-1].value
    assert by_severity.name == "Energy"
    assert np.mean(by_severity.y) == pytest.approx(100 * average)
    by_type = made(study, "fig5").panels[0].series[-1]
    assert by_type.x == ("fog", "snow")
    assert np.mean(by_type.y) == pytest.approx(by_severity.y[5])
    assert [s.name for s in made(study, "fig8").panels[0].series][-2:] == ["Energy w/o", "Energy"]
    assert [s.name for s in made(study, "fig7").panels[0].series] == ["Uncal", "Energy"]


def test_mean_confidence_on_textures(study, suites):
    plain = run_protocol({"s": suites["vit"]}, choose_methods(["energy"]), ood="svhn")
    (series,) = made(study, "fig6").panels[1].series
    expected = plain.record("s", "energy", "textures-test", "mean_confidence").value
    assert dict(zip(series.x, series.y, strict=True))["Energy"] == 100 * expected
    assert made(study, "fig9").panels[0].series[0].x[-2:] == ("Energy w/o", "Energy")


def test_damage_is_noted_and_the_rest_made(suites, write_suite, tmp_path):
    write_suite(tmp_path / "s", data="cifar10", network="vgg11")
    path = tmp_path / "s" / "fog-2.logits.npy"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    damaged = Suite.open(tmp_path / "s")
    study = plan(choose_artifacts(["table1", "fig3"]), {"bad": damaged, "good": suites["vgg"]})
    table = made(study, "table1")
    assert [r.suite for r in table.rows] == ["good"]
    assert "bad is left out: the average needs" in " ".join(table.notes)
    assert any("fog-2" in note for note in made(study, "fig3").notes)


def test_nothing_is_run_for_suites_that_do_not_matter(suites):
    told = []
    chosen = choose_artifacts(["table6", "table7", "fig7"])
    study = plan(chosen, {"vgg": suites["vgg"]}, progress=lambda *doing: told.append(doing))
    assert all(isinstance(artifact.make(study), MissingInputs) for artifact in chosen)
    assert study.rows == 0
    assert told == []


def test_progress_is_told_every_row(suites):
    told = []
    chosen = choose_artifacts(["table1", "table8"])
    study = plan(chosen, suites, progress=lambda doing, rows: told.append(rows))
    for artifact in chosen:
        artifact.make(study)
    assert sum(told) == study.rows > 0


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_artifact_is_documented(name):
    page = Path(__file__).parents[2] / "docs" / "reproduce.md"
    assert f"| `{name}` |" in page.read_text("utf-8")


def test_names_are_chosen_in_the_papers_order():
    assert [a.name for a in choose_artifacts(["fig4", "table1", "fig4"])] == ["table1", "fig4"]
    assert [a.name for a in choose_artifacts([])] == list(ARTIFACTS)
    with pytest.raises(ValueError, match="there is no artifact 'table10'; choose from table1"):
        choose_artifacts(["table10"])


def test_two_suites_of_one_network_are_told_apart(suites):
    labels = suite_labels({"a": suites["vgg"], "b": suites["vgg"], "c": suites["vit"]})
    assert labels["a"] == ("CIFAR-10", "vgg11-half (a)")
    assert labels["c"] == ("ImageNet-1k", "vit_b_16")


def test_strange_names_are_made_harmless(write_suite, tmp_path):
    suite = write_suite(tmp_path / "s", data="a\nb\x1b[31m", network="n" * 500, cells=False)
    data, network = suite_labels({"s": suite})["s"]
    assert data == "a b?[31m"
    assert len(network) == 60


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vgg11-half", "VGG"),
        ("wrn-16-2", "WideResNet"),
        ("wide_resnet50_2", "WideResNet"),
        ("se-resnet20", "SE-ResNet"),
        ("resnet20", "ResNet"),
        ("vit_b_32", "ViT-B/32"),
        ("swin_t", "Swin-T"),
        ("vit-tiny-16", "ViT"),
        ("lenet", None),
    ],
)
def test_families(name, expected):
    assert family(name) == expected


def test_shipped_transformer_is_one():
    """Tables and figures of transformers ask for a name with vit or swin in it."""
    assert [n for n in shipped.names() if is_transformer(shipped.load(n))] == ["imagenet-vit-tiny"]
