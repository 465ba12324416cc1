"""Window methods are ordinary methods: on the command line, and on suites with what they knew."""

import json

import numpy as np
import pytest

from wildcal._old import suites
from wildcal._old.evaluation.methods import Method, parse
from wildcal._old.evaluation.protocol.fitted import fit_method
from wildcal._old.evaluation.protocol.tuning import read_tuning
from wildcal._old.testing import make_suite
from wildcal.cli.main import run

SUITE = make_suite(0, n_classes=4, n_tuning=400, n_ood_tuning=0, n_test=250)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("val.npz", logits=SUITE.tuning.logits, y=SUITE.tuning.y)
    np.savez("test.npz", logits=SUITE.shifted.logits, y=SUITE.shifted.y)


def test_from_fit_to_apply(folder, capsys):
    assert run("fit val.npz --method match+cot -o m.json".split()) == 0
    assert run("apply m.json test.npz --window all -o whole.npz".split()) == 0
    assert run("apply m.json test.npz -o alone.npz".split()) == 0
    whole, alone = (np.load(f"{name}.npz")["confidence"] for name in ("whole", "alone"))
    assert whole.mean() < alone.mean()
    capsys.readouterr()
    line = "evaluate test.npz --with m.json --window all --json --bootstrap 0"
    assert run(line.split()) == 0
    text = capsys.readouterr().out
    assert f"{whole.astype(float).mean():.6f}"[:6] in text


def test_compared_on_files(folder, capsys):
    line = "compare val.npz test.npz --methods ts,match+cot,em-bcts --bootstrap 0 --json"
    assert run(line.split()) == 0
    methods = json.loads(capsys.readouterr().out)["methods"]
    assert methods["match+cot"]["knew"] == "400 labels, no test window"


def test_on_a_suite_with_what_they_knew():
    suite = suites.load("cifar10-resnet20")
    tuning = read_tuning(
        suite, None, 0, lambda s: s.corruption in ("spatter", "saturate") and s.severity in (1, 5)
    )
    chosen = [parse("ts"), parse("match+cot")]
    chosen.append(Method("small", parse("match+atc-ne").calibrator, window=64))
    fitted = {method.name: fit_method(method, tuning) for method in chosen}
    knew = {name: method.knew.words() for name, method in fitted.items()}
    assert knew["match+cot"] == "5,000 labels, unlabeled test window"
    assert knew["small"] == "5,000 labels, unlabeled windows of 64 test rows"
    split = suite.split("validation-gaussian_blur-4")
    right = (split.logits.argmax(axis=1) == split.y).mean()
    off = {n: abs(m.bind([split]).confidences().mean() - right) for n, m in fitted.items()}
    assert max(off[name] for name in off if name != "ts") < 0.7 * off["ts"]
