"""The command: help, errors in one line, exit codes, streams."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import wildcal
from wildcal.cli.main import COMMANDS, cli, main, run, with_option_names
from wildcal.cli.output import progress_bar
from wildcal.io.atomic import atomic_write

SOURCE = str(Path(wildcal.__file__).parents[1])
posix = pytest.mark.skipif(os.name == "nt", reason="a shell of Unix")


def commands(group=cli, above=()):
    context = click.Context(group, info_name="wildcal")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*above, name))
        yield " ".join((*above, name)), command


def listed(folder="."):
    return sorted(path.name for path in Path(folder).iterdir())


def shell(line, folder, *first):
    """Run a line of sh in a folder, in which $W is the command."""
    places = os.pathsep.join([*first, SOURCE, os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "W": f"{sys.executable} -m wildcal", "PYTHONPATH": places}
    words = ["sh", "-c", line]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_help_has_an_example(words, capsys):
    assert run([*words.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example:\n" in shown
    assert f"wildcal {words}" in shown.partition("Example:")[2]
    assert COMMANDS[words.split()[0]].endswith(".")


def test_version_and_no_command(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"wildcal, version {wildcal.__version__}\n"
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0


@pytest.mark.parametrize("words", [[], ["fit"], ["monitor"]])
def test_no_arguments_are_the_help(words, capsys):
    run(words)
    shown = capsys.readouterr()
    assert shown.out.startswith("Usage: wildcal")
    assert shown.err == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("apply a b", "`apply` was renamed `predict` in 0.2."),
        ("inspect a", "`inspect` was renamed `show` in 0.2."),
        ("suite rows a", "`suite rows` was renamed `suite export` in 0.2."),
        ("suite make", "`suite make` was renamed `suite create` in 0.2."),
        ("fit x.csv --columns a,b -o x.json", "`--columns` was renamed `--score-columns` in 0.2."),
        ("fit x.csv --set a=1 -o x.json", "`--set` was renamed `--param` in 0.2."),
        ("evalute x", "No such command 'evalute'. Did you mean 'evaluate'?"),
        ("suite shw x", "No such command 'shw'. Did you mean 'show'?"),
        ("suite export x y --step 1 -o z.npz", "--dtype and --step are for whole suites."),
        ("fit x.csv", "Missing option '-o' / '--output'."),
        ("fit -o x.json", "give SOURCE or --suite."),
        ("fit x.csv --fail-if ece -o x.json", "`--fail-if` is an option of `wildcal evaluate`."),
        ("fit x.csv --labels-file y.npy --sample 9 -o x.json", "--sample must be left out with"),
        ("fit --suite cifar10-resnet20 --sample 9 -o x.json", "a suite has all its samples"),
        ("compare-models x.csv", "give at least two files."),
        ("methods x", "Got unexpected extra argument (x)."),
        ("fit x.csv --input probs -o x.json", "'probs' is not one of"),
        ("fit x.csv --metadata network -o x.json", "must be NAME=VALUE, got 'network'."),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(line, said, capsys):
    assert run(line.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert re.fullmatch(r"error: .* See `wildcal[\w -]* --help`\.\n", shown.err)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fit gone.npz -o x.json", "gone.npz does not exist."),
        ("fit val.npz --method enrgy -o x.json", "Unknown method 'enrgy'. Did you mean 'energy'?"),
        ("fit val.npz --method x -o x.json", "Unknown method 'x'. See `wildcal methods`."),
        ("benchmark pacs-resnet18 --ood x", "no suite was measured. pacs-resnet18: ood must be"),
        ("evaluate val.npz --fail-if ece", "got 'ece'. Try 'ece > 0.05'. (--fail-if)"),
        ("fit val.npz --method ts --param colour=1 -o x.json", "has no option 'colour'"),
        ("benchmark pacs-resnet18 --sort typo", "Unknown metric 'typo'."),
        ("compare val.npz val.npz", "test must be another file than calibration, got val.npz"),
        ("predict ts.json val.npz test.npz -o x.npz", "--output must be a folder for 2 files"),
        ("monitor merge ts.json gone.json x.json -o y.json", "error: gone.json: No such file"),
        ("fit val.npz -o x.txt", "--output must end in .json, got x.txt."),
        ("fit val.npz -o gone/x.json", "--output must be in a folder that exists"),
        ("fit val.npz --ood ood.npz --method ts -o x.json", "--ood must be left out: ts does not"),
        ("predict gone.json val.npz -o x.npz", "gone.json: No such file or directory."),
        ("predict val.npz val.npz -o x.npz", "val.npz must be a JSON file of a calibrator"),
        ("predict ts.json val.npz -o x.csv", "--output must end in .npz, as the input does"),
        ("predict ts.json val.npz -o val.npz --overwrite", "--output must not be a file that is"),
        ("accuracy fit val.npz --weight-column w -o x.json", "--weight-column must be left out"),
        ("suite create --calibration val.npz --test x.npz --domain-column d -o x", "each file"),
        ("suite create --calibration val.npz --test x.npz --weight-column w -o x", "suites count"),
        ("evaluate val.npz --csv val.npz", "--csv must not be a file that is read, got val.npz."),
        ("evaluate val.npz --csv gone/x.csv", "--csv must be in a folder that exists, got gone/x"),
        ("predict ts.json val.npz --input proba -o x.npz", "--input must be 'logits', as the"),
        ("suite show nowhere", "suite must be a folder, a .npz or the name of an installed"),
        ("suite show val.npz", "val.npz must be a suite"),
        ("suite export pacs-resnet18 art -o x.csv", "--output must end in .npz"),
        ("suite export pacs-resnet18 arts -o x.npz", "got 'arts'. Try art"),
        ("show val.npz", "must be a JSON file of a calibrator"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_1(folder, line, said, capsys):
    assert run("fit val.npz --method ts -o ts.json -q".split()) == 0
    before = listed()
    capsys.readouterr()
    assert run(line.split()) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
    assert listed() == before


def test_progress_in_a_log_ends_before_the_total(monkeypatch, capsys):
    monkeypatch.setattr("wildcal.cli.output._EVERY", 0)
    with progress_bar("Evaluating", total=2) as progress:
        progress.advance()
        progress.advance()
    assert capsys.readouterr().err == "Evaluating: 1 of 2.\n"


def test_debug_shows_the_traceback(tmp_path, capsys):
    line = f"fit {tmp_path}/gone.npz -o {tmp_path}/x.json"
    assert run(line.split()) == 1
    assert "Traceback" not in capsys.readouterr().err
    for words in (["--debug", *line.split()], [*line.split(), "--debug"]):
        assert run(words) == 1
        assert "Traceback" in capsys.readouterr().err


def test_an_unexpected_error_names_its_class(folder, monkeypatch, capsys):
    monkeypatch.setattr("wildcal.io.artifact.save", lambda *_, **__: 1 / 0)
    assert run("fit val.npz --method ts -o x.json".split()) == 1
    assert "division by zero (ZeroDivisionError; --debug shows where)" in capsys.readouterr().err


def test_options_for_parameters():
    options = {"input": "--input", "overwrite": "--overwrite", "score_columns": "--score-columns"}
    text = "score_columns must be given. Try score_columns=['a', 'b'] or overwrite=True."
    assert with_option_names(text, options, "score_columns") == (
        "--score-columns must be given. Try --score-columns a,b or --overwrite."
    )
    assert with_option_names("y must not be empty.", options, "y") == "y must not be empty."


def test_calibration_warnings_are_lines(tmp_path, capsys):
    z = np.eye(3)[np.arange(60) % 3] * 4
    np.savez(tmp_path / "train.npz", logits=z, y=np.arange(60) % 3)
    assert run(["fit", str(tmp_path / "train.npz"), "-o", str(tmp_path / "x.json"), "-q"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("warning: AutoCalibrator: no calibration sample is misclassified.")
    assert said.count("\n") == said.count("warning: ")


def test_importing_one_command_leaves_the_others(tmp_path):
    code = (
        "import sys; from wildcal.cli.main import run; run(['methods', '-q']);"
        "print(sorted(m for m in sys.modules if m.startswith('wildcal.cli.')), file=sys.stderr);"
        "assert not {'torch', 'pyarrow', 'pandas', 'dask'} & set(sys.modules)"
    )
    words = [sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert "methods" in done.stderr
    assert "fit" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_kill_are_one_line(folder, monkeypatch, capsys, number):
    """The signal arrives while the file is written."""

    def dump(*_, **__):
        signal.raise_signal(number)

    before = listed()
    monkeypatch.setattr("json.dump", dump)
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as ended:
            main("fit val.npz --method ts -o x.json".split())
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    assert ended.value.code == 128 + number
    said = capsys.readouterr().err
    assert said.strip() == "interrupted; no unfinished file was left."
    assert listed() == before


@posix
def test_ctrl_c_while_importing_is_one_line(tmp_path):
    """Ctrl-C is pressed while a module is imported."""
    (tmp_path / "click.py").write_text(
        "import os, signal\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    raise OSError\n"
        "except BaseException:\n    raise ImportError('as extension modules do') from None\n"
    )
    done = shell("$W --help", tmp_path, str(tmp_path))
    assert done.stderr == "interrupted; no unfinished file was left.\n"
    assert done.returncode == 130


@posix
def test_a_reader_that_ends_early_is_no_error(tmp_path):
    done = shell("$W suite show cifar10-resnet20 --splits --json | head -1", tmp_path)
    assert done.stdout == "{\n"
    assert done.stderr == ""


@posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_one_line(tmp_path):
    done = shell("$W methods > /dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: No space left on device.\n"


@posix
def test_closed_standard_error_does_not_matter(folder):
    assert shell("$W fit val.npz --method ts -o ts.json 2>&-", folder).returncode == 0
    assert wildcal.load(folder / "ts.json").name == "ts"


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("old")
    with pytest.raises(TypeError), atomic_write(path) as file:
        file.writelines(["new", 3])
    assert path.read_text() == "old"
    assert listed(tmp_path) == ["x.json"]
