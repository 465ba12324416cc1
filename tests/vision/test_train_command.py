import os
import signal
import subprocess
import sys
import time

import pytest

from wildcal.cli.main import run
from wildcal.vision.checkpoint import Checkpoint


def words(data, output, *more):
    return [
        *("--threads", "1", "train", str(data), "--network", "vgg11-half", "-o", str(output)),
        *("--epochs", "3", "--batch-size", "32", "--learning-rate", "0.05"),
        *("--precision", "float32", *more),
    ]


@pytest.fixture(scope="module")
def whole(small_data, tmp_path_factory):
    path = tmp_path_factory.mktemp("train") / "net.safetensors"
    assert run(words(small_data, path)) == 0
    return path


def test_lines_for_a_log(small_data, tmp_path, capsys):
    path = tmp_path / "net.safetensors"
    assert run(words(small_data, path, "--epochs", "2")) == 0
    out, err = capsys.readouterr()
    first, second, last = err.splitlines()
    assert out == ""
    assert first.startswith("epoch 1 of 2: loss ")
    assert first.endswith("% on images kept from it.")
    assert second.startswith("epoch 2 of 2: loss ")
    assert last.startswith(f"Wrote {path}: vgg11-half after 2 epochs, ")
    assert last.endswith("% right on 20 images kept from training.")


def test_killed_and_resumed(small_data, whole, tmp_path):
    """kill -9 after the first checkpoint; --resume ends with the bytes of a run in one piece."""
    path = tmp_path / "net.safetensors"
    command = [sys.executable, "-m", "wildcal", *words(small_data, path, "--resume")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(Checkpoint.load(path).history) < 3
    assert run(command[3:]) == 0
    assert path.read_bytes() == whole.read_bytes()


def test_needs_resume_to_go_on(small_data, whole, capsys):
    before = whole.read_bytes()
    assert run(words(small_data, whole)) == 1
    assert "exists; --resume goes on with it." in capsys.readouterr().err
    assert run(words(small_data, whole, "--resume")) == 0
    assert whole.read_bytes() == before
    assert run(words(small_data, whole, "--resume", "--seed", "1")) == 1
    assert "was trained with seed = 0, not 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (["--network", "resnet"], "there is no network 'resnet'; choose from vgg19, "),
        (["-o", "net.pt"], "a checkpoint's name must end in .safetensors"),
        (["--learning-rate", "-1"], "learning_rate must not be negative"),
        (["-o", "nowhere/net.safetensors"], "the folder nowhere does not exist"),
        (["--dataset", "cifar100"], "https://www.cs.toronto.edu/~kriz/cifar.html"),
    ],
)
def test_wrong_words(small_data, tmp_path, capsys, change, text):
    assert run(words(small_data, tmp_path / "net.safetensors", *change)) == 1
    assert text in capsys.readouterr().err


def test_unfinished_network_is_not_extracted(small_data, tmp_path, capsys, whole):
    path = tmp_path / "net.safetensors"
    checkpoint = Checkpoint.load(whole)
    checkpoint.history.pop()
    checkpoint.save(path)
    arguments = ["extract", str(small_data), "--network", str(path), "-o", str(tmp_path / "s")]
    assert run(arguments) == 1
    assert "is not trained to its end (2 of 3 epochs)" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["torch", "safetensors"])
def test_missing_package_is_named_with_its_pip_line(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from wildcal.cli.main import run;"
        " sys.exit(run(['train', 'data', '--network', 'resnet20', '-o', 'n.safetensors']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert 'pip install "wildcal[vision]"' in done.stderr
