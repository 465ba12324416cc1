"""A real `Trainer` of a tiny network: metrics at evaluation, a calibrator at the end."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="make test-integrations installs transformers")
import torch
from scipy.special import softmax
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import wildcal
from wildcal.interop.transformers import CalibrationCallback, compute_metrics, logits_and_labels
from wildcal.metrics import ece, noise_floor

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers itself


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trainer")
    torch.manual_seed(0)
    words = torch.randint(5, 30, (96, 6))
    rows = [{"input_ids": row, "labels": int(row[0]) % 3} for row in words]
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = BertConfig(vocab_size=30, intermediate_size=8, num_labels=3, **small)
    trainer = Trainer(
        BertForSequenceClassification(config),
        TrainingArguments(
            str(folder), num_train_epochs=1, per_device_train_batch_size=32, report_to=[],
            save_strategy="no", use_cpu=True, disable_tqdm=True, logging_strategy="no",
        ),
        train_dataset=rows[:64],
        eval_dataset=rows[64:],
        compute_metrics=compute_metrics,
    )  # fmt: skip
    callback = CalibrationCallback(trainer, rows[64:], folder / "bert.json", method="ts")
    trainer.add_callback(callback)
    trainer.train()
    return trainer, callback, folder


def test_evaluation_has_the_values_of_our_functions(trained):
    trainer, _, _ = trained
    found = trainer.evaluate()
    logits, y = logits_and_labels(trainer.predict(trainer.eval_dataset))
    proba = softmax(logits.astype(np.float64), axis=1)
    assert found["eval_ece"] == pytest.approx(ece(y, proba), abs=1e-9)
    assert found["eval_noise_floor"] == pytest.approx(noise_floor(proba.max(axis=1)), abs=1e-9)
    assert {"eval_accuracy", "eval_mean_confidence", "eval_nll"} <= found.keys()


def test_the_end_of_training_writes_a_calibrator(trained):
    trainer, callback, folder = trained
    kept = wildcal.load(folder / "bert.json")
    logits, y = logits_and_labels(trainer.predict(trainer.eval_dataset))
    wanted = wildcal.TemperatureScaling().fit(logits, y)
    assert kept.temperature_ == callback.calibrator_.temperature_
    assert kept.temperature_ == pytest.approx(wanted.temperature_, rel=1e-6)
    assert np.all(np.isfinite(kept.predict_proba(logits)))
