"""A real `Trainer` writes a calibrator of its validation samples; processes gather theirs."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("lightning", reason="make test-integrations installs lightning")
import lightning
import torch
from scipy.special import softmax

import wildcal
from wildcal.interop.lightning import CalibrationCallback
from wildcal.interop.torchmetrics import CalibrationError
from wildcal.metrics import ece, noise_floor
from wildcal.testing import make_suite

pytestmark = pytest.mark.filterwarnings("ignore")  # those of Lightning itself
Z, Y = make_suite(300, seed=3).test


class Network(lightning.LightningModule):
    """A linear map of ten features; what validation returns is chosen."""

    def __init__(self, answer=lambda logits, y: {"logits": logits, "y": y}):
        super().__init__()
        self.map = torch.nn.Linear(10, 10)
        self.ece, self.answer = CalibrationError(), answer

    def training_step(self, batch):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.map(x), y)

    def validation_step(self, batch):
        x, y = batch
        logits = self.map(x)
        self.ece.update(logits, y)
        self.log("val_ece", self.ece)
        return self.answer(logits, y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def loader():
    data = torch.utils.data.TensorDataset(torch.from_numpy(Z), torch.from_numpy(Y))
    return torch.utils.data.DataLoader(data, batch_size=128)


def trainer(folder, *callbacks, **options):
    return lightning.Trainer(
        default_root_dir=folder, callbacks=list(callbacks), max_epochs=1, accelerator="cpu",
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, **options,
    )  # fmt: skip


def logits_of(model):
    with torch.no_grad():
        return model.map(torch.from_numpy(Z)).numpy()


def test_fit_writes_the_calibrator_of_the_final_weights(tmp_path):
    torch.manual_seed(0)
    callback, model = CalibrationCallback(tmp_path / "ts.json", "ts"), Network()
    run = trainer(tmp_path, callback)
    run.fit(model, loader(), loader())
    wanted = wildcal.TemperatureScaling().fit(logits_of(model), Y)
    kept = wildcal.load(tmp_path / "ts.json")
    assert callback.calibrator_.temperature_ == kept.temperature_
    assert kept.temperature_ == pytest.approx(wanted.temperature_, rel=1e-4)
    shown = float(run.callback_metrics["val_ece"])
    assert shown == pytest.approx(ece(Y, softmax(logits_of(model), axis=1)), abs=1e-6)


def test_validate_writes_and_read_chooses_the_outputs(tmp_path):
    model = Network(answer=lambda logits, y: logits)
    callback = CalibrationCallback(
        tmp_path / "own.json", wildcal.Identity(), read=lambda logits, batch: (logits, batch[1])
    )
    trainer(tmp_path, callback).validate(model, loader(), verbose=False)
    assert wildcal.load(tmp_path / "own.json").fit_info_.n_samples == len(Y)


def test_other_outputs_raise(tmp_path):
    model = Network(answer=lambda logits, y: None)
    run = trainer(tmp_path, CalibrationCallback(tmp_path / "x.json"))
    with pytest.raises(ValueError, match="validation_step must return a dict with 'logits'"):
        run.validate(model, loader(), verbose=False)


def test_a_missing_folder_raises_before_training(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        CalibrationCallback(tmp_path / "nowhere" / "x.json")


PROCESS = """
import json, sys
import numpy as np
import torch
from torch import distributed
sys.modules["lightning"] = None  # they take seconds
from wildcal.interop.lightning import gather
from wildcal.interop.torchmetrics import CalibrationError

rank, store, data = int(sys.argv[1]), sys.argv[2], np.load(sys.argv[3])
distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
part = slice(0, 120) if rank == 0 else slice(120, None)
metric = CalibrationError(returns=("ece", "noise_floor"))
metric.update(torch.from_numpy(data["z"][part]), torch.from_numpy(data["y"][part]))
found = {name: float(value) for name, value in metric.compute().items()}
gathered = gather([(data["z"][part], data["y"][part])])
assert np.array_equal(np.concatenate([z for z, _ in gathered]), data["z"])
assert np.array_equal(np.concatenate([y for _, y in gathered]), data["y"])
print(json.dumps(found))
distributed.destroy_process_group()
"""


def test_two_processes_have_the_values_of_one(tmp_path):
    np.savez(tmp_path / "data.npz", z=Z, y=Y)
    words = [str(tmp_path / "store"), str(tmp_path / "data.npz")]
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROCESS, str(rank), *words],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    first, second = (json.loads(process.communicate()[0]) for process in processes)
    proba = softmax(Z.astype(np.float64), axis=1)
    wanted = {"ece": ece(Y, proba), "noise_floor": noise_floor(proba.max(axis=1))}
    assert first == second == pytest.approx(wanted, abs=1e-6)
