"""The blocks of docs/integrations.md that need more packages than `make test` installs."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import wildcal
from wildcal.metrics import ece
from wildcal.testing import make_suite

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the frameworks themselves
PAGE = Path(__file__).parents[3] / "docs" / "integrations.md"
Z, Y = make_suite(300, seed=0).test


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the block of a section that is not a doctest, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def execute(section, **given):
        text = PAGE.read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        (block,) = re.findall(r"^```python\n((?!>>>).*?)^```$", text, re.M | re.S)
        exec(compile(block, f"{PAGE.name}: {section}", "exec"), given)
        return given

    return execute


def test_lightning(run):
    pytest.importorskip("lightning", reason="make test-integrations installs lightning")
    import torch

    data = torch.utils.data.TensorDataset(torch.from_numpy(Z), torch.from_numpy(Y))
    loader = torch.utils.data.DataLoader(data, batch_size=100)
    run("Lightning", train_loader=loader, validation_loader=loader)
    assert wildcal.load("calibrator.json").name == "auto"


def test_hugging_face(run, capsys):
    pytest.importorskip("transformers", reason="make test-integrations installs transformers")
    import torch
    from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

    rows = [{"input_ids": torch.tensor([5 + int(y), 4, 3]), "labels": int(y)} for y in Y[:60] % 3]
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = BertConfig(vocab_size=30, intermediate_size=8, num_labels=3, **small)
    arguments = TrainingArguments(
        "runs", num_train_epochs=1, report_to=[], save_strategy="no", use_cpu=True,
        disable_tqdm=True,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    run("Hugging Face", model=model, arguments=arguments, train_set=rows, validation_set=rows)
    assert wildcal.load("calibrator.json").name == "auto"
    assert 0 <= float(capsys.readouterr().out.split()[-1]) <= 1


def test_mlflow(run, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="make test-integrations installs mlflow-skinny")
    # A data base needs more packages than the skinny MLflow brings.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    found = run("MLflow", logits=Z, y=Y, test_logits=Z, test_y=Y)
    kept = mlflow.get_run(found["run"].info.run_id).data.metrics
    assert kept["ece_before"] == pytest.approx(ece(Y, softmax(Z, axis=1)))
    np.testing.assert_array_equal(
        found["again"].predict_proba(Z), found["calibrator"].predict_proba(Z)
    )
