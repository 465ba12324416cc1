"""What new users hand over by mistake: one line that says what is wrong, and nothing is saved."""

import gzip
import io
import json
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from wildcal import read_samples
from wildcal.cli.main import run
from wildcal.core.exceptions import WildcalError

RNG = np.random.default_rng(0)
Z = RNG.normal(0, 3, (40, 4))
Y = np.arange(40) % 4
P = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
CONFIDENCE = P.max(axis=1)
# Words of other libraries that explain nothing to a user.
FOREIGN = ("Traceback", "ndarray", "dtype=object", "Errno", "could not convert", "inhomogeneous")


@dataclass
class Case:
    name: str
    words: tuple[str, ...]
    content: Any
    options: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def write(self, folder):
        path = folder / self.name
        if callable(self.content):
            self.content(path)
        else:
            text = self.content
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


def case(name, words, content, needs=(), **options):
    return Case(name, (words,) if isinstance(words, str) else words, content, options, needs)


def csv(**columns):
    rows = zip(*(np.asarray(v).tolist() for v in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


def table(prefix="logit_", scores=Z, **more):
    return csv(**{f"{prefix}{k}": scores[:, k] for k in range(scores.shape[1])}, **more)


def npz(path, **arrays):
    with path.open("wb") as out:
        np.savez(out, **({"logits": Z, "y": Y} | arrays))


def cut(write, keep):
    def make(path):
        write(path)
        path.write_bytes(path.read_bytes()[:keep])

    return make


def pt(path, content=None):
    import torch

    torch.save({"logits": torch.tensor(Z)} if content is None else content, path)


def pickled_pt(path):
    pt(path, {"logits": Z.tolist(), "config": object})


def safetensors(path):
    from safetensors.numpy import save_file

    save_file({"logits": Z}, path)


def parquet(path, **more):
    import pyarrow as arrow
    from pyarrow import parquet

    parquet.write_table(arrow.table({f"logit_{k}": Z[:, k] for k in range(4)} | more), path)


def feather(path):
    import pyarrow as arrow
    from pyarrow import feather

    feather.write_feather(arrow.table({f"logit_{k}": Z[:, k] for k in range(4)}), path)


def claims(path):
    """A header that announces more than there is."""
    with path.open("wb") as out:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10)}
        np.lib.format.write_array_header_1_0(out, header)


def suite(path):
    with path.open("wb") as out:
        np.savez(out, **{"manifest.json": np.zeros(3), "a/logits": Z})


def changed(array, row, column, value):
    out = array.copy()
    out[row, column] = value
    return out


LINES = "\n".join(
    json.dumps({"logits": z, "y": int(k)}) for z, k in zip(Z.tolist(), Y, strict=True)
)
BUFFER = io.BytesIO()
np.save(BUFFER, Z)
NAMES = np.array(["ant", "bee", "cat", "dog"])

CASES = {
    # Files that are not what their name says.
    "no such file": case("x.npz", "does not exist", lambda path: None),
    "a pickle": case("x.pkl", (".npz", "endings"), b""),
    "no ending": case("x", "endings", b""),
    "packed binary": case("x.npz.gz", "endings", b""),
    "text called npz": case("x.npz", "cannot be read", "a,b\n1,2\n"),
    "text called npy": case("x.npy", "cannot be read", "a,b\n1,2\n"),
    "text called parquet": case("x.parquet", "cannot be read", "a,b\n1,2\n", ("pyarrow",)),
    "npz called csv": case("x.csv", "cannot be read", npz),
    "an empty npz": case("x.npz", "cannot be read", b""),
    "an empty csv": case("x.csv", "column names in the first line", b""),
    "blank lines": case("x.csv", "column names in the first line", "\n\n\n"),
    "an empty jsonl": case("x.jsonl", "there are no samples", b""),
    "a suite": case("x.npz", "is a suite, expected a file of samples", suite),
    "an empty folder": case("x", "no files of samples", lambda path: path.mkdir()),
    # Cut short.
    "half an npz": case("x.npz", "cannot be read", cut(npz, 700)),
    "half an npy": case("x.npy", "cannot be read", BUFFER.getvalue()[:700]),
    "half a pt": case("x.pt", "cannot be read", cut(pt, 700), ("torch",)),
    "half a safetensors": case(
        "x.safetensors", "cannot be read", cut(safetensors, 700), ("safetensors",)
    ),
    "half a parquet": case("x.parquet", "cannot be read", cut(parquet, 700), ("pyarrow",)),
    "half a feather": case("x.feather", "cannot be read", cut(feather, 500), ("pyarrow",)),
    "half a gz": case("x.csv.gz", "cannot be read", gzip.compress(table().encode())[:200]),
    "half a line of json": case("x.jsonl", "JSON in line 2", '{"logits": [1, 2]}\n{"logits": [1, '),
    "more announced than there": case("x.npy", "cannot be read", claims),
    # Objects instead of numbers.
    "objects in npz": case(
        "x.npz", "holds Python objects", lambda p: npz(p, logits=np.array([{}], object))
    ),
    "labels of objects in npz": case(
        "x.npz",
        "y.astype(str)",
        lambda p: npz(p, y=NAMES[Y].astype(object)),
        class_names="ant,bee,cat,dog",
    ),
    "objects in pt": case("x.pt", "cannot be read", pickled_pt, ("torch",)),
    "a bare pickle called pt": case(
        "x.pt", "cannot be read", pickle.dumps({"logits": Z.tolist()}), ("torch",)
    ),
    "a list in pt": case(
        "x.pt", "a tensor or a dict of tensors", lambda p: pt(p, [1, 2]), ("torch",)
    ),
    # Tables that are not square, or have no names.
    "a ragged csv": case(
        "x.csv", "cannot be read", "logit_a,logit_b,y\n1,2,0\n1,2\n", ("pyarrow",)
    ),
    "a header alone": case("x.csv", "there are no samples", "logit_a,logit_b,y\n"),
    "two columns of one name": case("x.csv", "different column names, got 'a'", "a,a\n1,2\n"),
    "numbers in the first line": case("x.csv", "column names in the first line", "1,2\n3,4\n"),
    "decimal commas": case(
        "x.csv", "logit_a must be numbers, got '1,5' at index 0", "logit_a;logit_b;y\n1,5;2;0\n"
    ),
    "lists of two lengths": case(
        "x.jsonl", "equal length", '{"logits": [1.5, 2]}\n{"logits": [1.5]}\n'
    ),
    "a json list around all": case("x.jsonl", "JSON in line 1", "[\n{},\n"),
    "a number a line": case("x.jsonl", "an object in line 1", "1\n2\n"),
    "lists without end": case("x.jsonl", "cannot be read", "[" * 100_000),
    # Names that are not there.
    "an unknown array": case(
        "x.npz",
        ("no column is named logit_* or proba_*", "embedding"),
        lambda p: np.savez(p, embedding=Z),
    ),
    "class names without a prefix": case(
        "x.csv", ("score_columns must be given", "cat, dog"), csv(cat=Y, dog=Y, label=Y)
    ),
    "a misspelled label": case("x.csv", "'lable'", table(label=Y), label_column="lable"),
    "a misspelled score": case(
        "x.csv", "'logit_9'", table(label=Y), score_columns="logit_0,logit_9"
    ),
    "a missing class": case(
        "x.csv", "the difference is c", csv(logit_a=Y, logit_b=Y), class_names="a,b,c"
    ),
    "a pattern of nothing": case("x.csv", "p_*", table(label=Y), score_columns="p_*"),
    "a missing group": case("x.csv", "'country'", table(label=Y), group_column="country"),
    "two label columns": case("x.csv", "there are label and y", table(label=Y, y=Y)),
    "no labels": case("x.csv", "label_column must be given", table()),
    "logits and probabilities": case(
        "x.csv",
        "the columns have logits and proba",
        csv(logit_0=Z[:, 0], logit_1=Z[:, 1], proba_0=P[:, 0], proba_1=P[:, 1], y=Y % 2),
    ),
    # Probabilities, almost.
    "probabilities as logits": case("x.csv", ("must be logits", "proba"), table(scores=P, y=Y)),
    "logits as probabilities": case(
        "x.csv", "Try input logits", table(y=Y), input="proba", score_columns="logit_*"
    ),
    "percent": case("x.csv", ("got 9", "percent"), table("proba_", 100 * P, y=Y), input="proba"),
    "one sample off": case(
        "x.csv",
        ("sum to 1", "index 7"),
        table("proba_", changed(P, 7, int(P[7].argmax()), 0.0), y=Y),
    ),
    "probabilities as log-probabilities": case(
        "x.csv", "log_proba_*", table("proba_", P, y=Y), input="log_proba"
    ),
    "confidence in percent": case(
        "x.csv", "percent", csv(confidence=100 * CONFIDENCE, correct=Y > 0), input="confidence"
    ),
    "confidence without correct": case(
        "x.csv", "correct_column must be given", csv(confidence=CONFIDENCE), input="confidence"
    ),
    "correct is a class": case(
        "x.csv",
        "y must be true or false, got",
        csv(confidence=CONFIDENCE, y=Y + 1),
        input="confidence",
        correct_column="y",
    ),
    # Values.
    "NaN": case("x.csv", ("nan", "index 3"), table(scores=changed(Z, 3, 2, np.nan), y=Y)),
    "infinity": case("x.csv", ("inf", "index 3"), table(scores=changed(Z, 3, 2, np.inf), y=Y)),
    "every class masked": case(
        "x.csv", "only -inf at index 3", table(scores=changed(Z, 3, slice(None), -np.inf), y=Y)
    ),
    "an empty cell": case(
        "x.csv", "logit_b must be numbers, got nothing", "logit_a,logit_b,y\n1,2,0\n3,,1\n"
    ),
    "text": case(
        "x.csv", "logit_b must be numbers, got 'high'", "logit_a,logit_b,y\n1,2,0\n3,high,1\n"
    ),
    "a missing number": case(
        "x.jsonl", "must be finite, got nan", '{"logit_a": 1, "logit_b": null, "y": 0}\n'
    ),
    "complex numbers": case("x.npz", "real numbers", lambda p: npz(p, logits=Z + 1j)),
    "three dimensions": case("x.npz", "shape", lambda p: npz(p, logits=np.zeros((40, 4, 2)))),
    "one column of logits": case("x.npz", "shape", lambda p: npz(p, logits=Z[:, :1])),
    "two scores for one": case(
        "x.csv", "one column", table("score_", Z[:, :2], y=Y % 2), input="score"
    ),
    # Labels.
    "labels from 1": case("x.npz", ("[1, 4]", "subtract 1"), lambda p: npz(p, y=Y + 1)),
    "labels from 0, columns from 1": case(
        "x.csv",
        "class names (1, 2, 3, 4), got 0",
        csv(**{f"logit_{k + 1}": Z[:, k] for k in range(4)}, y=Y),
    ),
    "a label too many": case(
        "x.npz", "must lie in [0, 3]", lambda p: npz(p, y=np.where(Y == 3, 9, Y))
    ),
    "tokens to ignore": case("x.npz", "-100", lambda p: npz(p, y=np.where(Y == 0, -100, Y))),
    "one-hot labels": case("x.npz", "one column", lambda p: npz(p, y=np.eye(4)[Y])),
    "broken labels": case("x.npz", "whole numbers", lambda p: npz(p, y=Y + 0.5)),
    "a missing label": case("x.csv", "no label at index 1", "logit_a,logit_b,y\n1,2,a\n3,4,\n"),
    "too few labels": case("x.npz", "must have 40 values, got 39", lambda p: npz(p, y=Y[1:])),
    "names without classes": case("x.npz", "class_names", lambda p: npz(p, y=NAMES[Y])),
    "an unknown name": case("x.csv", "'bird'", "logit_a,logit_b,y\n1,2,a\n3,4,bird\n"),
    "too few class names": case(
        "x.npz", "class_names must be 4 names, got 2", npz, class_names="a,b"
    ),
    "a class name twice": case("x.npz", "unique", npz, class_names="a,a,b,c"),
    "a positive class that is not there": case(
        "x.csv",
        "'yse'",
        csv(score=Z[:, 0], y=np.where(Y % 2, "yes", "no")),
        input="score",
        positive_class="yse",
    ),
    # Beside the samples.
    "a negative weight": case(
        "x.csv", "sample_weight must be finite", table(y=Y, w=-np.ones(40)), weight_column="w"
    ),
    "a weight of text": case(
        "x.csv", "w must be numbers", table(y=Y, w=["much"] * 40), weight_column="w"
    ),
    "no source domain": case(
        "x.csv", "source domain", table(y=Y, site=np.where(Y > 1, "a", "b")), domain_column="site"
    ),
    "a log that is none": case("x.jsonl", "filtered_resps", LINES, input="lm-eval"),
}


@pytest.mark.parametrize("each", CASES.values(), ids=CASES)
def test_one_clear_line_and_nothing_is_saved(tmp_path, needs, capsys, each):
    for package in each.needs:
        needs(package)
    path, output = each.write(tmp_path), tmp_path / "calibrator.json"
    options = [
        word for name, value in each.options.items()
        for word in ("--" + name.replace("_", "-"), value)
    ]  # fmt: skip
    assert run(["fit", str(path), "--method", "ts", *options, "-o", str(output)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert said.count(str(path)) <= 1
    assert said.endswith((".\n", "?\n", ")\n"))
    for words in each.words:
        plain = said.replace("--", "").replace("-", "_")
        assert words.replace("-", "_") in plain
    for word in FOREIGN:
        assert word not in said
    assert len(said.replace(str(tmp_path), "")) < 330
    assert not output.exists()


def test_no_declared_scores():
    assert len(read_samples({"logits": Z, "y": Y}, score_columns=[])) == len(Z)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_are_read_or_refused(tmp_path, needs, seed):
    for package in ("torch", "safetensors", "pyarrow"):
        needs(package)
    rng = np.random.default_rng(seed)
    makers = {
        "x.npz": npz, "x.npy": lambda p: np.save(p, Z), "x.pt": pt, "x.safetensors": safetensors,
        "x.parquet": parquet, "x.feather": feather,
        "x.csv": lambda p: p.write_text(table(y=Y)), "x.jsonl": lambda p: p.write_text(LINES),
    }  # fmt: skip
    for name, make in makers.items():
        make(tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        for _ in range(25):
            mutant = bytearray(whole)
            for at in rng.integers(0, len(whole), int(rng.integers(1, 6))):
                mutant[at] = int(rng.integers(256))
            short = rng.random() < 0.3
            part = mutant[: int(rng.integers(1, len(mutant) + 1))] if short else mutant
            (tmp_path / name).write_bytes(part)
            said = answer(tmp_path / name)
            assert not [word for word in FOREIGN if word in said], (name, said)


def answer(path):
    """Return the message for a file, nothing where it is read."""
    try:
        read_samples(path)
    except WildcalError as error:
        return str(error)
    return ""
