"""No command replaces a file that it reads, whatever option names what is written."""

import pytest

from wildcal.cli.main import run

LINES = [
    "fit a.npz --ood b.npz -o a.json --labels a.json",
    "apply a.json a.npz -o a.npz",
    "accuracy fit a.npz --second b.npz --labels a.json -o a.json",
    "accuracy estimate a.json a.npz --csv a.npz",
    "export a.json --attach a.onnx -o ./a.onnx",
    "evaluate a.npz --with a.json --csv a.json",
    "evaluate a.npz --ood b.npz --csv b.npz",
    "compare a.npz b.npz --csv b.npz",
    "report a.npz b.npz -o a.npz",
    "report a.npz b.npz -o b.npz",
    "report a.npz b.npz --shifted night=c.npz -o c.npz",
    "report a.npz b.npz --csv a.npz",
    "report a.npz -o a.npz",
    "suite report a.npz --csv a.npz",
    "suite compare a.npz b.npz --csv b.npz",
    "suite rows a.npz val -o a.npz",
    "suite pack a.npz -o a.npz",
    "suite make --tune a.npz --test b.npz --test-ood c=c.npz -o c.npz",
    "corrupt a.npz --name fog --severity 3 -o a.npz",
    "corrupt a.png --gallery a.png",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("a.npz", "b.npz", "c.npz", "a.json", "s.json", "t.json", "a.onnx", "a.png"):
        (tmp_path / name).write_bytes(b"mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", LINES)
def test_a_file_that_is_read_is_not_replaced(folder, capsys, line):
    if line.startswith("corrupt"):
        pytest.importorskip("cv2")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert run(line.split()) == 2
    assert " would replace a file that is read. Give another." in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_batch_of_a_folder_is_not_replaced(tmp_path, capsys):
    pytest.importorskip("cv2")
    batch = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    batch.parent.mkdir()
    batch.write_bytes(bytes(3073))
    words = ["corrupt", str(batch.parent), "--name", "fog", "--severity", "3", "-o", str(batch)]
    assert run(words) == 1
    assert "it is what is read" in capsys.readouterr().err
    assert batch.read_bytes() == bytes(3073)
