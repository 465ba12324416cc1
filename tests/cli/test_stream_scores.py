"""`wildcal stream` with a calibrator that was fitted on other scores than logits."""

import io
import json
import sys

import numpy as np
import pytest

import wildcal
from wildcal._old.calibrators.context import ContextScaling
from wildcal.cli.main import run
from wildcal._old.core.convert import logits_from_proba, proba_floor, softmax
from wildcal._old.io import About, save
from wildcal._old.serve.model import Model

RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(600, 4))
Y = (LOGITS + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
# As a forest of 20 trees says it, with many zeros.
PROBA = np.stack([RNG.multinomial(20, p) / 20 for p in softmax(LOGITS)])
ABOUT = About(kind="proba", floor=proba_floor(PROBA))


def fitted(logits, y):
    return ContextScaling().fit(logits, y, environment=np.zeros(len(y), int))


@pytest.fixture
def calibrator():
    return fitted(logits_from_proba(PROBA, floor=ABOUT.floor), Y)


@pytest.fixture
def stream(tmp_path, monkeypatch, capsys, calibrator):
    """Run the command on bytes; return its exit code, its lines and what it said."""
    monkeypatch.chdir(tmp_path)
    save(calibrator, "context.json", ABOUT)

    def call(data, *options):
        data = data.encode() if isinstance(data, str) else data
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = run(["stream", "context.json", *options])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return call


def test_probabilities_as_the_server_reads_them(stream, calibrator):
    model, window = Model("m", calibrator, ABOUT), wildcal.Stream(calibrator)
    logits, _ = model.read({"proba": PROBA[:50]}, most_rows=100)
    expected = model.answer_in(window, logits, None).outputs
    texts = [json.dumps(row) for row in PROBA[:50].tolist()]
    code, lines, err = stream("\n".join(texts))
    assert (code, err) == (0, "50 rows in the stream.\n")
    for name in ("confidence", "temperature", "estimated_accuracy", "drift"):
        np.testing.assert_allclose([line[name] for line in lines], expected[name], rtol=1e-9)
    one = stream(texts[0])[1]  # alone as together
    objects = stream("\n".join(f'{{"id": 3, "proba": {text}}}' for text in texts))[1]
    assert one == lines[:1]
    assert objects == [{"id": 3, **line} for line in lines]


def test_probabilities_in_arrays(stream):
    file = io.BytesIO()
    np.save(file, PROBA[:50])
    code, lines, _ = stream(file.getvalue(), "--format", "npy")
    assert code == 0
    assert lines == stream("\n".join(json.dumps(row) for row in PROBA[:50].tolist()))[1]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"logits": [1, 2, 3, 4]}', 'an object must have "proba".'),
        ("[0.5, 0.5]", "proba must be 4 numbers, as in fit, got 2."),
        (
            "[3.0, -1.0, 2.0, 0.5]",
            "the calibrator was fitted on proba, and probabilities must lie in [0, 1], but row 0"
            " is 3 in column 0.",
        ),
        ("[0.1, 0.1, 0.1, 0.1]", "the calibrator was fitted on proba, and probabilities must sum"),
        ("[NaN, 0.5, 0.5, 0]", "the calibrator was fitted on proba, and scores must be numbers"),
    ],
)
def test_rows_that_are_no_probabilities(stream, line, problem):
    code, lines, err = stream(f"[0.25, 0.25, 0.5, 0]\n{line}\n[0, 0, 0, 1]\n", "--skip-bad")
    assert (code, len(lines)) == (0, 2)
    assert err.startswith(f"skipped line 2: {problem}")


@pytest.mark.parametrize(
    ("kind", "row"), [("score", [1.5]), ("proba", [0.2]), ("proba", [0.8, 0.2])]
)
def test_two_classes(stream, kind, row):
    z = LOGITS[:, :2]
    calibrator = fitted(z, (z + RNG.gumbel(size=z.shape)).argmax(axis=1))
    about = About(kind=kind, floor=None if kind == "score" else 0.01)
    save(calibrator, "context.json", about)
    logits = [[-0.75, 0.75]] if kind == "score" else [np.log([0.8, 0.2])]
    code, (line,), _ = stream(json.dumps({kind: row}))
    assert code == 0
    confidence = wildcal.Stream(calibrator).read(logits).confidence[0]
    assert line["confidence"] == pytest.approx(confidence)
