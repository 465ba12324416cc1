"""What is around a command is torn: closed pipes, full disks, Ctrl-C before it has begun."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wildcal
from wildcal._old.calibrators.context import ContextScaling
from wildcal._old.io import save
from wildcal._old.testing import make_suite
from wildcal.cli.main import run

SUITE = make_suite(seed=1, n_tuning=100, n_test=100, n_ood_tuning=0)
SOURCE = str(Path(wildcal.__file__).parents[1])
posix = pytest.mark.skipif(os.name == "nt", reason="a shell of Unix")


def shell(line: str, folder: Path, *first: str) -> subprocess.CompletedProcess[str]:
    """Run a line of sh in a folder, in which $W is the command."""
    places = os.pathsep.join([*first, SOURCE, os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "W": f"{sys.executable} -m wildcal", "PYTHONPATH": places}
    words = ["sh", "-c", line]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", ["evaluate -", "apply context.json - -o out.npz"])
def test_closed_standard_input_is_one_line(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)  # what Python makes of `<&-`
    calibrator = ContextScaling().fit(SUITE.tuning.logits, SUITE.tuning.y)
    save(calibrator, "context.json")
    assert run(words.split()) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: standard input is closed; pipe rows into the command")
    assert said.count("\n") == 1


@posix
def test_closed_standard_error_does_not_matter(tmp_path):
    """There is no person to talk to; the file is written all the same."""
    np.savez(tmp_path / "rows.npz", logits=SUITE.tuning.logits, y=SUITE.tuning.y)
    done = shell("$W fit rows.npz --method ts -o ts.json 2>&-", tmp_path)
    assert done.returncode == 0
    assert wildcal.load(tmp_path / "ts.json").name == "ts"


@posix
def test_closed_standard_output_is_one_line_where_data_would_be_lost(tmp_path):
    np.savez(tmp_path / "rows.npz", logits=SUITE.tuning.logits, y=SUITE.tuning.y)
    done = shell(
        "$W fit rows.npz --method ts -q -o ts.json >&- && $W inspect ts.json >&-", tmp_path
    )
    assert done.stderr.splitlines(keepends=True)[-1] == (
        "error: standard output is closed; send it to a file, or to /dev/null.\n"
    )
    assert done.returncode == 1
    assert (tmp_path / "ts.json").exists()


@posix
def test_ctrl_c_while_importing_is_one_line(tmp_path):
    """A module that the command needs, in whose place Ctrl-C is pressed."""
    (tmp_path / "click.py").write_text(
        "import os, signal\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    raise OSError\n"
        "except BaseException:\n    raise ImportError('as extension modules do') from None\n"
    )
    done = shell("$W --help", tmp_path, str(tmp_path))
    assert done.stderr == "interrupted; no unfinished file was left.\n"
    assert done.returncode == 130


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_below_standard_output_is_named(tmp_path):
    done = shell("$W --version > /dev/full", tmp_path)
    assert done.stderr == "error: cannot write standard output: no space is left there.\n"
    assert done.returncode == 1


@posix
@pytest.mark.parametrize("name", ["out.npz", "out.csv", "out.npy"])
def test_a_full_disk_names_the_file(name, tmp_path, monkeypatch, capsys):
    import resource  # of Unix

    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(3000, 3)).astype(np.float32)
    np.savez("rows.npz", logits=rows)
    wildcal.save(wildcal.Identity().fit(rows, rows.argmax(axis=1) * 0), "cal.json")
    # A limit on the size of each file stands for the end of the disk.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        code = run(f"apply cal.json rows.npz -o {name}".split())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 1
    assert capsys.readouterr().err == f"error: cannot write {name}: no space is left there.\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cal.json", "rows.npz"]
