"""Every command that takes rows takes a folder of shards, and can compare what is in them."""

import os

import numpy as np
import pytest

from wildcal.cli.main import run
from wildcal._old.core import room
from wildcal._old.io.sources import open_shards

pytestmark = pytest.mark.filterwarnings("ignore::wildcal._old.core.errors.CalibrationWarning")

N, K = 300, 3


def write(folder, name, seed=0, n=N, **more):
    """Write rows as shards in a folder and as one file, and return both."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    logits = rng.standard_normal((n, K)).astype(np.float32)
    logits[np.arange(n), y] += 1.5
    columns = {"logits": logits, "y": y, **more}
    shards, file = folder / name, folder / f"{name}.npz"
    shards.mkdir()
    for i, part in enumerate((slice(0, n // 3), slice(n // 3, n))):
        np.savez(shards / f"{i}.npz", **{key: column[part] for key, column in columns.items()})
    np.savez(file, **columns)
    return shards, file


def said(capsys, *words):
    assert not run([str(word) for word in words]), capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys, *words):
    assert run([str(word) for word in words])
    return capsys.readouterr().err


def spoil(path):
    """Change a number of a file, and neither its size nor its time."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


# The commands that read shards piece by piece.
COMMANDS = {
    "fit": "fit rows --method ts -o again.json",
    "apply": "apply ts.json rows -o out",
    "evaluate": "evaluate rows --with ts.json",
    "compare": "compare rows rows --methods ts",
    "accuracy fit": "accuracy fit rows -o again.json",
    "accuracy estimate": "accuracy estimate atc.json rows",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_verify_notices_what_size_and_time_do_not_tell(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shards, file = write(tmp_path, "rows")
    said(capsys, "fit", file, "--method", "ts", "-o", "ts.json")
    said(capsys, "accuracy", "fit", file, "-o", "atc.json")
    opened = open_shards

    def then_spoiled(where, *, verify=False):
        source = opened(where, verify=verify)
        spoil(shards / "1.npz")
        return source

    monkeypatch.setattr("wildcal._old.io.sources.opening.open_shards", then_spoiled)
    said_no = refused(capsys, *COMMANDS[name].split(), "--verify")
    assert "the shard rows/1.npz changed while it was read: its content is another" in said_no


def test_verify_changes_no_number(tmp_path, capsys):
    shards, _ = write(tmp_path, "rows")
    for flag, name in ((), "plain.json"), (("--verify",), "verified.json"):
        said(capsys, "fit", shards, "--method", "energy", "-o", tmp_path / name, *flag)
    assert (tmp_path / "plain.json").read_bytes() == (tmp_path / "verified.json").read_bytes()


def test_verify_is_for_shards(tmp_path, capsys):
    _, file = write(tmp_path, "rows")
    words = "fit", file, "--method", "ts", "-o", tmp_path / "ts.json", "--verify"
    assert "--verify is for a folder or a pattern of shards." in refused(capsys, *words)


def test_a_suite_of_shards_is_that_of_files(tmp_path, capsys):
    """Also a mixture of both, and rows of other classes without labels."""
    made = []
    kinds = {name: write(tmp_path, name, i) for i, name in enumerate(("val", "test", "fog", "out"))}
    for kind, name in ((0, "of-shards"), (1, "of-files")):
        val, test, fog, out = (paths[kind] for paths in kinds.values())
        said(capsys, "suite", "make", "--tune", val, "--test", test, "--shifted", f"fog={fog}",
             "--test-ood", f"other={out}", "-o", tmp_path / f"{name}.npz")  # fmt: skip
        made.append((tmp_path / f"{name}.npz").read_bytes())
    assert made[0] == made[1]


def test_two_networks_in_shards(tmp_path, capsys):
    (first, file), (second, other) = write(tmp_path, "first"), write(tmp_path, "second", 1)
    found = []
    for rows, beside in ((first, second), (file, other), (first, other)):
        estimator = tmp_path / "gde.json"
        two = rows, "--second", beside
        said(capsys, "accuracy", "fit", *two, "--method", "gde", "-o", estimator)
        words = "accuracy", "estimate", estimator, *two, "--json"
        found.append(said(capsys, *words))
    assert found[0] == found[1] == found[2]


def test_shards_that_are_held_need_room(tmp_path, capsys, monkeypatch):
    shards, _ = write(tmp_path, "rows")
    monkeypatch.setattr(room, "free_bytes", lambda: 1000.0)
    words = "suite", "make", "--tune", shards, "--test", shards, "-o", tmp_path / "mine"
    assert "This command holds all rows" in refused(capsys, *words)


def test_options_about_columns_are_refused_beside_shards(tmp_path, capsys):
    shards, _ = write(tmp_path, "rows")
    words = ["suite", "make", "--tune", shards, "--test", shards, "-o", tmp_path / "mine"]
    assert "is a set of shards, which bring" in refused(capsys, *words, "--label-column", "label")


@pytest.mark.parametrize(
    "words",
    [
        "apply ts.json rows -o out",
        "evaluate rows --with ts.json",
        "accuracy estimate atc.json rows",
    ],
)
def test_what_was_fitted_on_probabilities_does_not_read_logits(
    words, tmp_path, capsys, monkeypatch
):
    """As it did without a word, where it read shards piece by piece."""
    monkeypatch.chdir(tmp_path)
    _, file = write(tmp_path, "rows")
    with np.load(file) as columns:
        e = np.exp(columns["logits"])
        np.savez("proba.npz", proba=e / e.sum(axis=1, keepdims=True), y=columns["y"])
    said(capsys, *"fit proba.npz --input proba --method ts -o ts.json".split())
    said(capsys, *"accuracy fit proba.npz --input proba --method atc-ne -o atc.json".split())
    assert "which hold logits, not proba" in refused(capsys, *words.split())
