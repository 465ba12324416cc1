"""`wildcal monitor`: pipes of samples and labels, states, alerts and merging."""

import json
import subprocess
import sys

import numpy as np
import pytest

import wildcal
from wildcal.monitor import Monitor

pytestmark = pytest.mark.slow


def draw(n, scale=1.0, seed=0, k=4):
    rng = np.random.default_rng(seed)
    z = 2.5 * scale * rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    return 2 * z, y


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitor")
    wildcal.save(wildcal.TemperatureScaling().fit(*draw(3000, seed=1)), folder / "c.json")
    return folder


def run(folder, *words, given="", code=0):
    """Return standard output and error of a command."""
    if isinstance(given, str):
        given = given.encode()
    done = subprocess.run(
        [sys.executable, "-m", "wildcal", "monitor", *map(str, words)],
        cwd=folder,
        input=given,
        capture_output=True,
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def lines(z, **more):
    return "".join(json.dumps({"logits": row.tolist(), **more}) + "\n" for row in z)


def test_lines(folder):
    z, _ = draw(30)
    text = lines(z[:15], camera="a") + "".join(json.dumps(row.tolist()) + "\n" for row in z[15:])
    out, err = run(folder, "run", "c.json", "--proba", given=text)
    found = [json.loads(line) for line in out.splitlines()]
    expected = wildcal.load(folder / "c.json").predict_proba(z)
    np.testing.assert_allclose([line["proba"] for line in found], expected)
    np.testing.assert_allclose([line["confidence"] for line in found], expected.max(1))
    assert [line["class"] for line in found] == expected.argmax(1).tolist()
    assert found[0]["camera"] == "a"
    assert found[-1]["drift_alert"] is False
    assert err.startswith("30 samples: estimated accuracy")


def test_alert(folder, tmp_path):
    text = lines(draw(500)[0]) + lines(draw(500, 0.3)[0])
    file = tmp_path / "alert.json"
    _, err = run(folder, "run", "c.json", "--on-alert", f"cat > {file}", given=text)
    assert "drift alert: estimated accuracy" in err
    assert json.loads(file.read_text())["drift_alert"] is True
    run(folder, "run", "c.json", "--exit-on-alert", "--quiet", given=text, code=3)


def test_state_and_labels(folder, tmp_path):
    z, y = draw(200)
    state = tmp_path / "state.json"
    samples = "".join(
        json.dumps({"id": i, "logits": row.tolist()}) + "\n" for i, row in enumerate(z)
    )
    run(folder, "run", "c.json", "--state", state, "--save-every", "50", given=samples)
    labels = "".join(json.dumps({"id": i, "label": int(k)}) + "\n" for i, k in enumerate(y))
    _, err = run(folder, "run", "c.json", "--state", state, given=labels)
    assert "Continuing after sample 200" in err
    monitor = Monitor.load(state, wildcal.load(folder / "c.json"))
    assert (monitor.n_samples, monitor.status().n_labels) == (200, 200)


def test_invalid_lines(folder):
    good = lines(draw(20)[0])
    bad = good + '{"logits": [1, 2]}\nnonsense\n' + good
    _, err = run(folder, "run", "c.json", given=bad, code=1)
    assert "line 21: logits must have shape (4,), got (2,)." in err
    assert "--skip-invalid leaves such lines out" in err
    assert "line 21: it must be JSON. " in run(folder, "run", "c.json", given=good + "x", code=1)[1]
    _, err = run(folder, "run", "c.json", "--skip-invalid", given=bad)
    assert "40 samples: " in err
    assert err.rstrip().endswith("; 2 lines skipped.")
    nan = good + '{"logits": [NaN, 1, 2, 3]}\n'
    out, err = run(folder, "run", "c.json", "--skip-invalid", given=nan)
    assert len(out.splitlines()) == 20


def test_merge(folder, tmp_path):
    z, _ = draw(300)
    for name, part in (("a", z[:100]), ("b", z[100:])):
        run(folder, "run", "c.json", "--state", tmp_path / f"{name}.json", given=lines(part))
    both = tmp_path / "both.json"
    words = ("merge", "c.json", tmp_path / "a.json", tmp_path / "b.json", "-o", both)
    _, err = run(folder, *words)
    assert err.startswith("300 samples: ")
    assert Monitor.load(both, wildcal.load(folder / "c.json")).n_samples == 300
    _, err = run(folder, *words[:3], words[2], "-o", both, code=1)
    assert "must be different files" in err


def test_estimator(folder):
    wildcal.save(wildcal.accuracy.DoC().fit(*draw(2000, seed=2)), folder / "doc.json")
    words = ("run", "c.json", "--estimator", "doc.json", "--log-every", "100")
    out, _ = run(folder, *words, given=lines(draw(100)[0]))
    assert 0.5 < json.loads(out)["estimated_accuracy"] < 1
    out, _ = run(folder, "run", "c.json", "--log-every", "100", given=lines(draw(350)[0]))
    assert [json.loads(line)["n_samples"] for line in out.splitlines()] == [100, 200, 300]
    _, err = run(folder, "run", "c.json", "--estimator", "c.json", code=1)
    assert "--estimator must be a file of `accuracy fit`, got c.json, a calibrator." in err


def test_usage(folder):
    _, err = run(folder, "run", "c.json", "--save-every", "5", code=2)
    assert "--save-every needs --state" in err
    _, err = run(folder, "run", "c.json", "--state", "gone/s.json", code=1)
    assert "--state must be in a folder that exists" in err
    out, _ = run(folder, "run", "--help")
    assert "Example:" in out
