"""`wildcal fit`, `predict`, `show`, `methods` and `export`."""

import io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import wildcal
from wildcal import load, read_samples
from wildcal.cli.main import run


def spam(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 1, n).round(4)
    return p, rng.random(n) < p**1.5


@pytest.fixture
def mail(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("mail", 0), ("more", 1)):
        lines = [
            f"{k},{p},{'spam' if y else 'ham'}"
            for k, (p, y) in enumerate(zip(*spam(400, seed), strict=True))
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,p_spam,kind", *lines]) + "\n")
    return tmp_path


DECLARED = "--input proba --score-columns p_spam --label-column kind --positive-class spam"


def test_columns_declared_at_the_fit_are_the_default_later(mail, capsys):
    assert run(f"fit mail.csv {DECLARED} --method platt -o spam.json".split()) == 0
    calibrator, info = load("spam.json", return_info=True)
    assert (calibrator.input_, calibrator.class_names_) == ("proba", ("ham", "spam"))
    assert info.columns["label_column"] == "kind"
    assert run("predict spam.json more.csv -o out.csv --proba".split()) == 0
    head, *lines = (mail / "out.csv").read_text().splitlines()
    assert head == "id,p_spam,kind,confidence,predicted,proba_ham,proba_spam"
    p, _ = spam(400, 1)
    proba = calibrator.predict_proba(np.column_stack([1 - p, p]))
    cells = [line.split(",") for line in lines]
    np.testing.assert_allclose([float(c[6]) for c in cells], proba[:, 1], atol=1e-9)
    assert [c[4] for c in cells] == [("ham", "spam")[k] for k in proba.argmax(axis=1)]
    assert [c[0] for c in cells] == [str(k) for k in range(400)]


def test_from_a_pipe_to_a_pipe(mail, capsysbinary, monkeypatch):
    assert run(f"fit mail.csv {DECLARED} --method ts -o spam.json -q".split()) == 0
    text = b"p_spam,note\n0.25,007\n0.5,a b\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    capsysbinary.readouterr()
    assert run("predict spam.json - -o - -q".split()) == 0
    out, err = capsysbinary.readouterr()
    assert err == b""
    lines = out.decode().splitlines()
    assert lines[0] == "p_spam,note,confidence,predicted"
    assert [line.split(",")[:2] for line in lines[1:]] == [["0.25", "007"], ["0.5", "a b"]]


def test_stated_confidence_in_percent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    stated = rng.integers(40, 101, 600)
    correct = rng.random(600) < (stated / 100) ** 2
    lines = [f"{c},{r}" for c, r in zip(stated, correct, strict=True)]
    (tmp_path / "answers.csv").write_text("\n".join(["confidence,correct", *lines]) + "\n")
    assert run("fit answers.csv --input confidence --percent -o c.json -q".split()) == 0
    assert run("predict c.json answers.csv -o out.csv -q".split()) == 0
    head, *lines = (tmp_path / "out.csv").read_text().splitlines()
    assert head == "confidence,correct,calibrated_confidence"
    found = np.array([float(line.split(",")[2]) for line in lines])
    assert abs(found.mean() - correct.mean()) < 0.02


def test_several_files_and_formats_give_the_same_fit(folder):
    samples = read_samples("val.npz")
    names = [f"logit_{k}" for k in range(samples.X.shape[1])]
    rows = [",".join(map(str, [*x, y])) for x, y in zip(samples.X.tolist(), samples.y, strict=True)]
    head = ",".join([*names, "label"])
    for part, cut in (("a", slice(0, 300)), ("b", slice(300, None))):
        (folder / f"{part}.csv").write_text("\n".join([head, *rows[cut]]) + "\n")
    assert run("fit val.npz --method ts -o one.json -q".split()) == 0
    assert run("fit a.csv b.csv --method ts -o two.json -q".split()) == 0
    assert load("two.json").temperature_ == pytest.approx(load("one.json").temperature_, rel=1e-6)


def test_ood_samples_and_options_of_the_method(folder, capsys):
    line = "fit val.npz --method energy --ood ood.npz --param theta_bounds=paper"
    assert run([*line.split(), "--metadata", "network=resnet", "-o", "e.json"]) == 0
    said = capsys.readouterr().err
    calibrator, info = load("e.json", return_info=True)
    n_ood = calibrator.fit_info_.n_ood
    assert n_ood > 0
    assert f"and {n_ood:,} OOD samples" in said
    assert calibrator.theta_bounds == "paper"
    assert info.metadata == {"network": "resnet"}
    assert run("show e.json".split()) == 0
    shown = capsys.readouterr().out
    assert "Kim and Kwon, ECCV 2024" in shown
    assert "It never changes the predicted class." in shown
    assert "network: resnet" in shown
    assert run("show e.json --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "wildcal calibrator"


def test_fit_on_a_suite(folder):
    assert run("fit --suite cifar10-resnet20 --method ts -o ts.json -q".split()) == 0
    split = wildcal.suites.load("cifar10-resnet20").split("validation")
    expected = wildcal.TemperatureScaling().fit(split.logits, split.y)
    assert load("ts.json").temperature_ == pytest.approx(expected.temperature_)
    assert load("ts.json").class_names_[0] == "airplane"


def test_domains_and_windows(folder, capsys):
    samples = read_samples("val.npz")
    site = np.where(np.arange(len(samples)) % 2, "night", "day")
    np.savez("sites.npz", logits=samples.X, y=samples.y, site=site)
    line = "fit sites.npz --method window --domain-column site --source-domain day -o w.json"
    assert run(line.split()) == 0
    assert "2 domains" in capsys.readouterr().err
    assert run("predict w.json test.npz -o out.npz".split()) == 0
    adapted = load("w.json").adapt(read_samples("test.npz").X)
    with np.load("out.npz") as found:
        np.testing.assert_allclose(
            found["confidence"], adapted.confidence(read_samples("test.npz").X), atol=1e-6
        )


def test_distances_for_dac(folder):
    samples, rng = read_samples("val.npz"), np.random.default_rng(0)
    np.savez("near.npz", logits=samples.X, y=samples.y, knn_distances=rng.random((len(samples), 2)))
    assert run("fit near.npz --method dac+ts -o dac.json -q".split()) == 0
    assert run("predict dac.json near.npz -o out.npz -q".split()) == 0
    assert run("predict dac.json test.npz -o other.npz -q".split()) == 1
    np.save("near.npy", rng.random((len(samples), 2)))
    assert run("fit val.npz --knn-file near.npy --method dac+ts -o again.json -q".split()) == 0


def test_labels_in_another_file(folder):
    samples = read_samples("val.npz")
    np.save("z.npy", samples.X)
    np.save("y.npy", samples.y)
    assert run("fit z.npy --labels-file y.npy --method ts -o a.json -q".split()) == 0
    assert run("fit val.npz --method ts -o b.json -q".split()) == 0
    assert load("a.json").temperature_ == load("b.json").temperature_


def test_help_of_predict_has_no_options_for_labels(folder, capsys):
    assert run("predict --help".split()) == 0
    assert "--label-column" not in capsys.readouterr().out
    assert run("fit val.npz --method ts -o ts.json -q".split()) == 0
    assert run("predict ts.json val.npz --label-column y -o x.npz -q".split()) == 0
    assert run("fit val.npz --method ts -o ts.json".split()) == 0
    assert "Replaced ts.json." in capsys.readouterr().err


def test_your_own_method(folder, monkeypatch):
    (folder / "mine.py").write_text(
        "from wildcal import TemperatureScaling\n"
        "class Half(TemperatureScaling):\n    name = 'half'\n    title = 'half'\n"
        "    def _fit(self, data):\n        info = super()._fit(data)\n"
        "        self.temperature_ = 0.5 * self.temperature_\n        return info\n"
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("wildcal.core.registry.CALIBRATORS", dict(wildcal.CALIBRATORS))
    assert run("fit val.npz --method mine:Half -o half.json -q".split()) == 0
    assert run("--plugin mine:Half predict half.json test.npz -o out.npz -q".split()) == 0


def test_methods_fits_100_columns(capsys):
    assert run(["methods"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    for name in wildcal.CALIBRATORS:
        assert f" {name} " in shown
    assert run(["methods", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["energy"]["uses"] == "OOD samples, raw logits"
    assert found["ts"]["preserves_accuracy"]


def test_export(folder, needs):
    needs("onnxruntime")
    import onnxruntime

    assert run("fit val.npz --method ts -o ts.json -q".split()) == 0
    assert run("export ts.json -o ts.onnx".split()) == 0
    z = read_samples("test.npz").X.astype(np.float32)
    session = onnxruntime.InferenceSession("ts.onnx")
    (found,) = session.run(["confidence"], {session.get_inputs()[0].name: z})
    np.testing.assert_allclose(found, load("ts.json").confidence(z), atol=1e-5)


def test_the_time_of_predict_grows_with_the_number_of_files(folder, monkeypatch):
    assert run("fit val.npz --method ts -o ts.json -q".split()) == 0
    names = [f"part-{k}.npz" for k in range(30)]
    for name in names:
        shutil.copy("test.npz", name)
    resolve, n_calls = Path.resolve, []
    monkeypatch.setattr(Path, "resolve", lambda *args: n_calls.append(1) or resolve(*args))
    assert run(["predict", "ts.json", *names, "-o", "out", "-q"]) == 0
    assert len(n_calls) < 10 * len(names)
