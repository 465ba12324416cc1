"""Density-aware calibration from files: fit, apply, evaluate, inspect, and what is refused."""

import json

import numpy as np
import pytest

import wildcal
from wildcal import DensityAwareCalibration, EnsembleTemperatureScaling
from wildcal._old.metrics import ece
from wildcal._old.testing import make_suite
from wildcal.cli.main import run

SUITE = make_suite(2, n_classes=5, n_tuning=600, n_ood_tuning=80, n_test=400)
KNOWN = SUITE.tuning.y >= 0


def distances(n, seed, layers=2):
    return 0.2 + np.random.default_rng(seed).gamma(3.0, 0.02, (n, layers))


VAL = SUITE.tuning.logits[KNOWN], SUITE.tuning.y[KNOWN], distances(KNOWN.sum(), 0)
TEST = SUITE.clean.logits, SUITE.clean.y, distances(len(SUITE.clean.y), 1)
OOD = SUITE.ood.logits, distances(len(SUITE.ood.y), 2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (z, y, s) in {"val": VAL, "test": TEST}.items():
        np.savez(f"{name}.npz", logits=z, y=y, distances=s)
        np.savez(f"{name}-plain.npz", logits=z, y=y)
        np.save(f"{name}-distances.npy", s)
    np.savez("ood.npz", logits=OOD[0], distances=OOD[1])
    np.savez("ood-plain.npz", logits=OOD[0])
    return tmp_path


def by_hand():
    calibrator = DensityAwareCalibration(base=EnsembleTemperatureScaling())
    return calibrator.fit(VAL[0], VAL[1], knn_distances=VAL[2])


@pytest.mark.parametrize(
    "files",
    [["val.npz"], ["val-plain.npz", "--distances", "val-distances.npy"]],
)
@pytest.mark.parametrize(
    "tested", [["test.npz"], ["test-plain.npz", "--distances", "test-distances.npy"]]
)
def test_fit_and_apply(folder, files, tested):
    assert run(["fit", "--method", "dac+ets", *files, "-o", "dac.json"]) == 0
    assert run(["apply", "dac.json", *tested, "-o", "out.npz"]) == 0
    expected = by_hand().predict_proba(TEST[0], knn_distances=TEST[2])
    with np.load("out.npz") as out:
        np.testing.assert_allclose(out["proba"], expected, atol=1e-6)
        np.testing.assert_allclose(out["confidence"], expected.max(axis=1), atol=1e-6)
        assert "temperature" not in out


def test_columns_of_a_csv(folder):
    header = ",".join([*(f"logit_{k}" for k in range(5)), "y", "distance_1", "distance_2"])
    rows = np.column_stack(VAL)
    np.savetxt("val.csv", rows, delimiter=",", header=header, comments="", fmt="%.9g")
    assert run(["fit", "--method", "dac", "val.csv", "-o", "dac.json"]) == 0
    assert wildcal.load("dac.json").n_layers == 2


def test_options_and_out_of_distribution_rows(folder, capsys):
    line = "fit --method dac-first+energy val.npz --ood ood.npz --set floor=0.1 -o d.json"
    assert run(line.split()) == 0
    assert f"{len(OOD[0])} out-of-distribution rows" in capsys.readouterr().err
    made = wildcal.load("d.json")
    assert (made.neighbor, made.floor, made.fit_info_.n_ood) == ("first", 0.1, len(OOD[0]))
    assert run(["apply", "d.json", "test.npz", "-o", "out.csv"]) == 0
    assert run(["inspect", "d.json"]) == 0
    assert "neighbor = first" in capsys.readouterr().out


def test_evaluate_beside_others(folder, capsys):
    assert run("fit --method dac+ets val.npz -o dac.json".split()) == 0
    assert run("fit --method ts val.npz -o ts.json".split()) == 0
    capsys.readouterr()
    line = "evaluate test.npz --ood ood.npz --with ts.json --with dac.json --json --bootstrap 0"
    assert run(line.split()) == 0
    found = json.loads(capsys.readouterr().out)
    expected = by_hand()
    confidence = np.minimum(
        expected.confidence(TEST[0], knn_distances=TEST[2]).astype(np.float64), 1
    )
    value = ece(TEST[0].argmax(axis=1) == TEST[1], confidence)
    assert found["dac"]["metrics"]["ece"]["value"] == pytest.approx(value, abs=1e-6)
    strange = expected.confidence(OOD[0], knn_distances=OOD[1]).mean()
    assert found["dac"]["metrics"]["ood_mean_confidence"]["value"] == pytest.approx(
        strange, abs=1e-6
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fit --method dac val-plain.npz -o x.json", "needs distances"),
        (
            "fit --method ts val.npz --distances val-distances.npy -o x.json",
            "does not read",
        ),
        ("fit --method dac val.npz --distances test-distances.npy -o x.json", "600"),
        ("fit --method dac+magic val.npz -o x.json", "no method 'dac+magic'"),
        ("fit --method dac+energy val.npz --ood ood-plain.npz -o x.json", "no distances"),
        ("fit --method dac --set base=ts val.npz -o x.json", "--set takes NAME=VALUE"),
        ("apply dac.json test-plain.npz -o x.npz", "needs distances"),
        (
            "apply dac.json test-plain.npz --distances wide.npy -o x.npz",
            "knn_distances must have shape (400, 2), got (400, 3).",
        ),
        ("apply dac.json test.npz --window all -o x.npz", "--window is for window"),
        ("evaluate test-plain.npz --with dac.json", "needs distances"),
        ("compare val.npz test.npz --methods dac+ets", "compared on suites only"),
    ],
)
def test_one_line_for_what_went_wrong(folder, capsys, line, said):
    assert run("fit --method dac val.npz -o dac.json".split()) == 0
    np.save("wide.npy", distances(len(TEST[1]), 1, layers=3))
    capsys.readouterr()
    assert run(line.split()) != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert not (folder / "x.json").exists()
    assert not (folder / "x.npz").exists()


def test_methods_that_do_not_read_distances_ignore_them(folder):
    assert run("fit --method energy val.npz --ood ood-plain.npz -o e.json".split()) == 0
    assert run("apply e.json test.npz -o out.npz".split()) == 0
    assert run("evaluate test.npz --ood ood-plain.npz --with e.json --bootstrap 0".split()) == 0
    assert run("compare val.npz test.npz --methods ts --bootstrap 0".split()) == 0


def test_evaluate_with_distances_of_their_own(folder, capsys):
    assert run("fit --method dac val.npz -o dac.json".split()) == 0
    line = "evaluate test-plain.npz --distances test-distances.npy --with dac.json --bootstrap 0"
    assert run(line.split()) == 0
    assert run("fit --method ts val.npz -o ts.json".split()) == 0
    capsys.readouterr()
    assert run("evaluate test.npz --distances test-distances.npy --with ts.json".split()) != 0
    assert "--distances is for dac" in capsys.readouterr().err


def test_columns_are_known_by_their_numbers(folder, capsys):
    names = [f"logit_{k}" for k in range(5)]
    for file, order in {"a": [1, 2], "b": [2, 1], "gap": [1, 3]}.items():
        header = ",".join([*names, *(f"density_{i}" for i in order)])
        rows = np.column_stack([TEST[0], TEST[2][:, [i % 2 - 1 for i in order]]])
        np.savetxt(f"{file}.csv", rows, delimiter=",", header=header, comments="", fmt="%.9g")
    assert run("fit --method dac val.npz -o dac.json".split()) == 0
    for file in "ab":
        assert run(f"apply dac.json {file}.csv -o {file}.npz".split()) == 0
    with np.load("a.npz") as a, np.load("b.npz") as b:
        np.testing.assert_array_equal(a["proba"], b["proba"])
    capsys.readouterr()
    assert run("apply dac.json gap.csv -o x.npz".split()) != 0
    assert "must be distance_1 to distance_2, each once" in capsys.readouterr().err


def test_an_array_of_another_name_is_no_distance(folder, capsys):
    np.savez("zonly.npz", logits=TEST[0])
    assert run("fit --method dac val.npz -o dac.json".split()) == 0
    assert run("apply dac.json test-plain.npz --distances zonly.npz -o x.npz".split()) != 0
    assert "has no distances" in capsys.readouterr().err
    np.save("val.distances.npy", VAL[2])
    line = "fit --method dac val-plain.npz --distances val.distances.npy -o x.json"
    assert run(line.split()) != 0
    assert "wildcal suite rows" in capsys.readouterr().err


def test_from_a_suite_to_files(folder, capsys):
    """What a suite holds of a split, as a file, gives what the suite gives."""
    suite = wildcal._old.suites.load("cifar10-resnet20")
    assert run("fit --method dac+ets --suite cifar10-resnet20 -o dac.json".split()) == 0
    assert "distances to training images in 5 layers" in capsys.readouterr().err
    assert run("suite rows cifar10-resnet20 fog-5 -o fog.npz".split()) == 0
    assert run("apply dac.json fog.npz -o out.npz".split()) == 0
    fog = suite.split("fog-5")
    with np.load("fog.npz") as rows, np.load("out.npz") as out:
        np.testing.assert_array_equal(rows["y"], fog.y)
        expected = wildcal.load("dac.json").predict_proba(fog.logits, knn_distances=fog.distances())
        np.testing.assert_allclose(out["proba"], expected, atol=1e-6)
    assert run("suite rows cifar10-resnet20 textures-test -o far.npz".split()) == 0
    with np.load("far.npz") as rows:
        assert "y" not in rows
    capsys.readouterr()
    for line, said in {
        "suite rows cifar10-resnet20 fogg-5 -o x.npz": "Near names: fog-5",
        "suite rows cifar10-resnet20 fog-5 --rank 1 -o x.npz": "not to 1;",
        "suite rows cifar10-wrn-16-2 fog-5 --rank 1 -o x.npz": "extract --features",
        "suite rows cifar10-resnet20 fog-5 -o x.csv": "must end in .npz",
    }.items():
        assert run(line.split()) != 0
        assert said in capsys.readouterr().err
        assert not (folder / "x.npz").exists()


@pytest.mark.parametrize("name", ["energy-all", "energy-no-ood"])
def test_methods_of_suites_can_be_saved(folder, capsys, name):
    line = f"fit --method {name} --suite cifar10-vgg11-half -o made.json"
    assert run(line.split()) == 0
    assert "It used 5,000 labels" in capsys.readouterr().err
    from wildcal._old.evaluation.protocol import choose_methods
    from wildcal._old.evaluation.protocol.fitted import fit_method
    from wildcal._old.evaluation.protocol.tuning import read_tuning

    suite = wildcal._old.suites.load("cifar10-vgg11-half")
    expected = fit_method(choose_methods([name])[0], read_tuning(suite, None, None)).calibrator
    logits = suite.split("fog-5").logits
    np.testing.assert_allclose(
        wildcal.load("made.json").confidence(logits), expected.confidence(logits), atol=1e-6
    )
    assert run(f"fit --method {name} val.npz -o x.json".split()) != 0
    assert "is fitted on the splits of a suite; see `wildcal suite fit" in capsys.readouterr().err


def test_auto_uses_distances_that_are_given(folder, capsys):
    line = "fit val-plain.npz --distances val-distances.npy -o auto.json"
    assert run(line.split()) == 0
    assert "auto becomes dac+auto" in capsys.readouterr().err
    fitted = wildcal.load(folder / "auto.json")
    assert (fitted.name, fitted.base.name) == ("dac+auto", "auto")
    assert run("fit val.npz -o auto.json".split()) == 0
    assert "auto does not read the distances of val.npz; --method dac+auto does" in (
        capsys.readouterr().err
    )
