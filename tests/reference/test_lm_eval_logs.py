"""Sample logs that lm-evaluation-harness 0.4.13 wrote; recorded/make_lm_eval.py made them."""

import json
from pathlib import Path

import numpy as np
import pytest

from wildcal import read_samples
from wildcal.cli.main import run
from wildcal.core.exceptions import InputError

FOLDER = Path(__file__).parent / "recorded"
GOLD = [1, 0, 1, 1, 0]


def log(name):
    path = FOLDER / f"lm_eval_target_{name}.jsonl"
    return path, [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("target", ["index", "text", "filters"])
@pytest.mark.parametrize("metric", ["acc", "acc_norm"])
def test_predictions_are_right_where_the_log_says_so(target, metric):
    path, records = log(target)
    samples = read_samples(path, input="lm-eval", score_columns=metric)
    assert samples.y.tolist() == GOLD
    assert samples.input == "logits"
    right = samples.X.argmax(axis=1) == samples.y
    assert right.tolist() == [bool(record[metric]) for record in records[:5]]
    # Two to four options: the others are masked.
    assert np.isneginf(samples.X).sum(axis=1).tolist() == [0, 1, 1, 2, 0]
    assert samples.id.tolist() == [0, 1, 2, 3, 4]


def test_log_likelihoods_are_divided_by_the_length_of_the_option():
    path, records = log("index")
    raw = read_samples(path, input="lm-eval").X
    normalized = read_samples(path, input="lm-eval", score_columns="acc_norm").X
    lengths = [len(choice) for choice in records[0]["doc"]["choices"]]
    np.testing.assert_allclose(raw[0] / normalized[0], lengths)


def test_letters(tmp_path):
    _, records = log("index")
    path = tmp_path / "letters.jsonl"
    lines = [json.dumps({**r, "target": r["doc"]["letter"]}) for r in records]
    path.write_text("\n".join(lines))
    assert read_samples(path, input="lm-eval").y.tolist() == GOLD


def test_options_with_the_numbers_of_other_options(tmp_path):
    """Target "1" is the second option or the one that says 1: the logged accuracy decides."""
    _, records = log("index")
    record, path = records[2], tmp_path / "numbers.jsonl"
    for k, text in enumerate([" 1", " 0", " 2"]):
        record["arguments"][f"gen_args_{k}"]["arg_1"] = text
    path.write_text(json.dumps({**record, "target": "2", "acc": 1.0}))
    assert read_samples(path, input="lm-eval").y.tolist() == [2]
    path.write_text(json.dumps({**record, "target": "1", "acc": 0.0}))
    with pytest.raises(InputError, match="must have one meaning"):
        read_samples(path, input="lm-eval")
    assert len(read_samples(path, input="lm-eval", labels=False)) == 1  # to predict


def test_unconditional_likelihoods_are_left_out(tmp_path):
    _, records = log("index")
    record, path = records[3], tmp_path / "mutual.jsonl"
    for k in range(2):
        argument = record["arguments"][f"gen_args_{k}"]
        record["arguments"][f"gen_args_{k + 2}"] = {**argument, "arg_0": ""}
    record["filtered_resps"] += [["-1.0", "False"], ["-2.0", "False"]]
    path.write_text(json.dumps(record))
    assert read_samples(path, input="lm-eval").X.shape == (1, 2)


def test_the_commands_read_logs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path, _ = log("index")
    # Temperature scaling of 40 logged questions.
    (tmp_path / "log.jsonl").write_text(path.read_text() * 8)
    assert run("fit log.jsonl --input lm-eval --method ts -o ts.json -q".split()) == 0
    capsys.readouterr()
    assert run(f"predict ts.json {path} -o out.jsonl".split()) == 0
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    _, records = log("index")
    assert [{k: r[k] for k in records[0]} for r in found] == records
    likelihoods = [[float(p[0]) for p in r["filtered_resps"]] for r in records]
    assert [r["predicted"] for r in found] == [int(np.argmax(z)) for z in likelihoods]
    assert all(0.25 <= r["confidence"] <= 1 for r in found)


def test_generated_text_has_no_options(tmp_path):
    path = tmp_path / "generated.jsonl"
    path.write_text(json.dumps({"filtered_resps": ["42"], "arguments": {}, "target": "42"}))
    with pytest.raises(InputError, match="Tasks that generate text have none"):
        read_samples(path, input="lm-eval")
