"""`wildcal reproduce`: the authors' variants, tables, figures and claims."""

import csv

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from wildcal import Suite, SuiteWriter, get_calibrator, suites
from wildcal.cli.main import run
from wildcal.metrics._scores import Scores
from wildcal.metrics.calibration_error import compute_ece
from wildcal.report.paper.artifacts import write
from wildcal.report.paper.claims import claims
from wildcal.report.paper.figures import fig1, fig4, fig5
from wildcal.report.paper.published import published_row
from wildcal.report.paper.study import Study
from wildcal.report.paper.tables import Missing, paper_table
from wildcal.report.paper.variants import isotonic_output, isotonic_scores, paper_method

pytestmark = pytest.mark.slow

NAME = "cifar10-vgg11-half"


@pytest.fixture(scope="module")
def study():
    return Study({NAME: suites.load(NAME)}, {})


@pytest.fixture(scope="module")
def small():
    """Return a study of a suite with 16 samples in a condition."""
    name = "imagenet-vit-tiny"
    return Study({name: suites.load(name)}, {}, n_bootstrap=20)


def values(made):
    return {record["method"]: record["value"] for record in made.records}


def test_isotonic_variant_is_scikit_learn_on_float32():
    suite = suites.load(NAME)
    fit, test = suite.split("validation"), suite.split("fog-3")

    def softmax(z):
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    calibrator = get_calibrator("irova").fit(fit.logits, fit.y)
    p, q = softmax(fit.logits.astype(np.float64)), softmax(test.logits.astype(np.float64))
    expected = np.column_stack(
        [
            IsotonicRegression(out_of_bounds="clip").fit(p[:, k], fit.y == k).predict(q[:, k])
            for k in range(10)
        ]
    )
    found = isotonic_output(calibrator, test.logits, np.float32)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected + 1e-9 * q, atol=1e-5)
    assert not np.allclose(found.sum(axis=1), 1, atol=0.05)


def test_samples_above_1_contribute_nothing():
    suite = suites.load(NAME)
    fit, test = suite.split("validation"), suite.split("fog-3")
    calibrator = get_calibrator("irovats").fit(fit.logits, fit.y)
    output = isotonic_output(calibrator, test.logits, np.float64)
    top, correct = output.max(axis=1), output.argmax(axis=1) == test.y
    kept = top <= 1
    assert 0.05 < (~kept).mean() < 0.6
    inside = Scores(top[kept], correct[kept], np.ones(kept.sum()))
    expected = compute_ece(inside, inside.weight) * kept.mean()
    scores = isotonic_scores(calibrator, test.logits, test.y, dtype=np.float64, leave_out=True)
    assert compute_ece(scores, scores.weight) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cifar10-resnet20", {"IRM": 10.37, "IROvA": 11.80, "IROvATS": 11.10}),
        ("cifar10-vgg11-half", {"IRM": 7.23, "IROvA": 7.71, "IROvATS": 6.77}),
        ("cifar100-resnet20", {"IRM": 12.28, "IROvA": 14.46, "IROvATS": 11.10}),
    ],
)
def test_table1_has_the_values_of_the_authors_code(name, expected):
    """The values of their code on the same logits, in float32 and with bins of float32."""
    found = values(paper_table(Study({name: suites.load(name)}, {}), "table1"))
    for method, value in expected.items():
        assert found[method] == pytest.approx(value, abs=0.11)


def test_variants_of_this_package(study):
    own = Study(study.suites, {}, authors=False)
    made = paper_table(own, "table1")
    assert values(made)["IRM"] == pytest.approx(7.07, abs=0.01)
    assert not any("authors" in note for note in made.table.notes)
    assert "IROvATS" in made.table.heads
    assert paper_method("spline", authors=False).scores is None


def test_table1_explains_the_dagger(study):
    made = paper_table(study, "table1", paper=True)
    assert "IROvATS†" in made.table.heads
    notes = " ".join(made.table.notes)
    assert "Counted there: CIFAR-10 vgg11-half 7.37." in notes
    assert "as in the authors' code" in notes
    lines = [[str(cell) for cell in row] for row in made.table.rows]
    assert lines[1][1] == "VGG19 (paper)"
    assert lines[1][-2] == "5.78"


def test_small_conditions_are_pooled_and_the_best_is_not_marked(small):
    made = paper_table(small, "table1")
    assert any(note.startswith("Corruption types of a severity are pooled") for note in
               made.table.notes)  # fmt: skip
    assert float(made.records[0]["noise_floor"]) < 8  # 12.8 to 19.1 without pooling
    marked = [cell for row in made.table.rows for cell in row if cell.is_best]
    assert len(marked) == sum(record["is_best"] for record in made.records) <= 1


def test_label_keeps_the_rows_of_the_paper(study):
    own = Study(study.suites, {NAME: "Ours"})
    made = paper_table(own, "table1", paper=True)
    lines = [str(row[1]) for row in made.table.rows]
    assert lines == ["Ours", "VGG19 (paper)"]


def test_missing_data_is_named(study):
    made = paper_table(study, "table7")
    assert isinstance(made, Missing)
    assert "wildcal extract DATA" in str(made)


def test_known_errors_of_the_paper():
    row = published_row("table5", ("CIFAR-10", "densenet-45"))
    assert row.labels == ("CIFAR-10", "DenseNet201")
    assert "duplicates" in row.error
    assert published_row("table1", ("CIFAR-10", "lenet")) is None


def test_figures(study):
    made = fig1(study)
    assert len(made.figures["fig1"].axes) == 4
    assert {record["panel"].split(",")[0] for record in made.records} == {
        f"{NAME} Softmax confidence",
        f"{NAME} Negative energy",
    }
    made = fig4(study)
    table = values(paper_table(study, "table1"))
    ece = [100 * r["value"] for r in made.records if r["method"] == "Energy"]
    assert np.mean(ece) == pytest.approx(table["Energy"])
    made = fig5(study)
    assert len({record["row"] for record in made.records}) == 19
    for figure in made.figures.values():
        assert figure.get_figwidth() <= 7
        assert figure._suptitle is None


def test_several_suites_give_a_heat_map(study):
    both = {NAME: suites.load(NAME), "cifar10-wrn-16-2": suites.load("cifar10-wrn-16-2")}
    made = fig5(Study(both, {}))
    assert {record["column"] for record in made.records} == {
        "CIFAR-10, vgg11-half",
        "CIFAR-10, wrn-16-2",
    }
    assert sum(record["value"] < 0 for record in made.records) > 25


def test_claims(tmp_path):
    words = ["reproduce", "claims", "--suites", "cifar10-resnet20", "--n-bootstrap", "20"]
    assert run([*words, "-o", str(tmp_path), "--format", "csv,md"]) == 0
    with (tmp_path / "claims.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = {}
    for row in rows:
        found.setdefault(row["claim"], []).append(float(row["margin"]))
    right = found["Energy separates correct from incorrect better than softmax"]
    assert right == [pytest.approx(-4.8, abs=0.1)]
    variance = found["The variance of energies is higher under shift (standard deviation)"]
    assert variance[0] < 0
    assert len(found["Energy has the lowest ECE on most corruption types"]) == 19
    assert found["Energy has the lowest ECE on in-distribution data"][0] < 0


def test_network_without_errors(tmp_path):
    """Nothing separates correct from incorrect samples if none is incorrect."""
    y = np.arange(60) % 3
    logits = 5 * np.eye(3, dtype=np.float32)[y]
    ood = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    writer = SuiteWriter(tmp_path / "suite", class_names=["a", "b", "c"])
    writer.add("calibration", logits, y, role="calibration")
    writer.add("test", logits, y, role="test")
    writer.add("svhn-test", ood, np.full(60, -1), role="test", domain=None)
    writer.finish()
    study = Study({"suite": Suite.open(tmp_path / "suite")}, {})
    write(fig1(study), tmp_path, pictures=("svg",))
    with pytest.warns(match="not defined"):
        made = claims(study)
    assert {record["claim"] for record in made.records} == {
        "Energy separates in-distribution samples from SVHN better than softmax"
    }


def test_command(tmp_path, capsys):
    words = ["reproduce", "table1", "table7", "--suites", NAME, "--label", f"{NAME}=Ours",
             "--methods", "hts", "--n-bootstrap", "20", "--intervals",
             "-o", str(tmp_path)]  # fmt: skip
    assert run(words) == 0
    out, err = capsys.readouterr()
    assert "table1.tex" in out
    assert "not made: table7 needs" in err
    tex = (tmp_path / "table1.tex").read_text("utf-8")
    for part in (
        r"\toprule",
        r"\label{tab:table1}",
        "& Ours &",
        "& hts &",
        r"\textdagger{}",
        " to ",
    ):
        assert part in tex
    assert r"\caption{Average ECE" in tex
    assert tex.index(r"\end{tabular}") < tex.index("authors' code")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tabel1"], "artifacts must be one of 'table1'"),
        (["table1", "--figures", "gif"], "must be one of 'pdf', 'png', 'svg', got 'gif'"),
        (["table1", "--label", "nothing=x"], "--label must be one of"),
        (["table1", "--suites", "nothing"], "suite must be a folder"),
    ],
)
def test_errors(tmp_path, capsys, words, message):
    assert run(["reproduce", *words, "-o", str(tmp_path)]) != 0
    assert message in capsys.readouterr().err


def test_report_command_on_files(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for name in ("val", "test", "night"):
        y = rng.integers(0, 3, 300)
        z = 2 * np.eye(3)[y] + rng.normal(size=(300, 3)) * (2 if name == "night" else 1)
        rows = [["logit_a", "logit_b", "logit_c", "label", "country"]]
        rows += [[*map(str, zi), "abc"[k], "xy"[k % 2]] for zi, k in zip(z, y, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(map(",".join, rows)))
    files = {name: str(tmp_path / f"{name}.csv") for name in ("val", "test", "night")}
    words = ["report", files["val"], files["test"], "--shifted", f"night={files['night']}",
             "--group-column", "country", "--methods", "identity,ts", "--n-bootstrap", "20",
             "-o", str(tmp_path / "page.html"), "--csv", str(tmp_path / "page.csv")]  # fmt: skip
    assert run(words) == 0, capsys.readouterr().err
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<h2>Groups</h2>" in page
    assert "night" in page
    assert (tmp_path / "page.csv").read_text().startswith("suite,method,split")
