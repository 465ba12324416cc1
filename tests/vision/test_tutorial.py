"""The tutorial on images, from its page alone: files, commands and Python in order."""

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from wildcal.cli.main import run

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "images.md"
BLOCK = re.compile(r"^```(\w+)(?: title=\"([\w.]+)\")?\n(.*?)^```$", re.M | re.S)


# 11 of 500 digits are misclassified, which fits warn about.
@pytest.mark.filterwarnings("ignore::wildcal.core.exceptions.CalibrationWarning")
def test_every_block_runs(tmp_path, monkeypatch, needs, capsys):
    for package in ("torch", "onnxruntime", "onnxscript", "matplotlib", "sklearn"):
        needs(package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(blocks) >= 6
    names = {}
    for language, file, text in blocks:
        if file:
            Path(file).write_text(text)
        elif "wildcal.plots" in text and find_spec("wildcal.plots") is None:
            continue  # figures of the pages alone need them
        elif language == "python":
            exec(compile(text, str(PAGE), "exec"), names)
        else:
            for line in text.splitlines():
                program, *words = shlex.split(line)
                if program == "python":
                    subprocess.run([sys.executable, "-W", "ignore", *words], check=True)
                else:
                    assert run(words) == 0, capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "digits", raising=False)
    table = Path("table.tex").read_text()
    assert r"\toprule" in table
    assert r"\label{tab:digits}" in table
    assert names["proba"].sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert names["distances"].shape == (500, 2)
