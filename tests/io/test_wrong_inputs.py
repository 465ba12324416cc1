"""What new users hand over by mistake: each answer is one line that names the thing and the remedy.

A case is what is written or held, how it is read, and the words its answer must have: the first say
what is wrong and where, the last what to do.
"""

import gzip
import io
import json
import pickle
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from wildcal.cli.main import run
from wildcal._old.core.convert import softmax
from wildcal._old.core.labels import ClassNames
from wildcal._old.io import as_rows, read_rows

RNG = np.random.default_rng(0)
Z = RNG.normal(0, 3, (40, 4))
Y = np.arange(40) % 4
P = softmax(Z)
SIGMOIDS = 1 / (1 + np.exp(-Z))
# Words that only other libraries use, and switches of theirs that nobody should turn.
FOREIGN = (
    "allow_pickle", "npickl", "weights_only", "Arrow", "arrow::", "zipfile", "BadZip", "ndarray",
    "dtype=object",
    "Errno", "codec", "safetensor_", "Deserializ", "loadtxt", "usecols", "inhomogeneous", "\n",
    "Traceback", "could not convert", "expected str", "array at row",
)  # fmt: skip


@dataclass
class Case:
    words: tuple[str, ...]
    content: Any
    name: str | None = None
    needs: tuple[str, ...] = ()
    options: dict[str, Any] | None = None
    y: Any = None

    def read(self, tmp_path):
        options = self.options or {}
        if self.name is None:
            content = self.content() if callable(self.content) else self.content
            return as_rows(content, self.y, **options)
        path = tmp_path / self.name
        if callable(self.content):
            self.content(path)
        elif isinstance(self.content, bytes):
            path.write_bytes(self.content)
        else:
            path.write_text(self.content)
        return read_rows(path, **options)


def held(words, content, y=None, needs=(), **options):
    return Case(words, content, None, needs, options, y)


def file(name, words, content, needs=(), **options):
    return Case(words, content, name, needs, options)


def cut(write, keep):
    def make(path):
        write(path)
        path.write_bytes(path.read_bytes()[:keep])

    return make


def npz(path, **arrays):
    with path.open("wb") as out:
        np.savez(out, **({"logits": Z, "y": Y} | arrays))


def doubled(path):
    buffer = io.BytesIO()
    np.save(buffer, Z)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("logits.npy", buffer.getvalue())
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("logits.npy", buffer.getvalue())


def bomb(path):
    """200 MB of zeros in 0.2 MB, without ever holding them."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (25_000_000, 1)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("logits.npy", "w", force_zip64=True) as member:
            member.write(head.getvalue())
            for _ in range(200):
                member.write(bytes(1_000_000))


def text_bomb(path):
    with gzip.open(path, "wb", compresslevel=1) as packed:
        for _ in range(150):
            packed.write(b"0,0\n" * 250_000)


def parquet_bomb(path):
    import pyarrow as arrow
    from pyarrow import parquet

    zeros = arrow.array(np.zeros(1_000_000))
    schema = arrow.schema([(f"c{k}", arrow.float64()) for k in range(4)])
    with parquet.ParquetWriter(path, schema) as writer:
        for _ in range(5):
            writer.write_table(arrow.table([zeros] * 4, schema=schema))


def claims(path):
    """A header that announces more than there is."""
    with path.open("wb") as out:
        np.lib.format.write_array_header_1_0(
            out, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10)}
        )


def pickled_pt(path):
    import torch

    torch.save({"logits": torch.zeros(3, 3), "config": object}, path)


def bare_pickle(path):
    path.write_bytes(pickle.dumps({"logits": Z.tolist(), "when": RNG}))


def stride_0(path):
    import torch

    torch.save({"logits": torch.zeros(1, 1).expand(100_000, 1000), "y": torch.zeros(3)}, path)


def a_list_pt(path):
    import torch

    torch.save([torch.zeros(3, 3)], path)


def pt(path):
    import torch

    torch.save({"logits": torch.tensor(Z)}, path)


def safetensors(path):
    from safetensors.numpy import save_file

    save_file({"logits": Z}, path)


def parquet(path):
    import pyarrow as arrow
    from pyarrow import parquet

    parquet.write_table(arrow.table({f"c{k}": Z[:, k] for k in range(4)}), path)


def feather(path):
    import pyarrow as arrow
    from pyarrow import feather

    feather.write_feather(arrow.table({f"c{k}": Z[:, k] for k in range(4)}), path)


def csv(columns):
    rows = zip(*(np.asarray(v).tolist() for v in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n"


def scores(**more):
    return {f"c{k}": Z[:, k] for k in range(4)} | more


def pandas_frame(**columns):
    def make():
        import pandas

        return pandas.DataFrame(scores(**columns))

    return make


def twice_named():
    import pandas

    return pandas.DataFrame(Z, columns=["a", "b", "b", "c"])


def lazy():
    import polars

    return polars.DataFrame(scores()).lazy()


def meta_tensor():
    import torch

    return torch.zeros(40, 4, device="meta")


def sparse():
    from scipy.sparse import csr_array

    return csr_array(Z)


def changed(array, row, column, value):
    out = array.copy()
    out[row, column] = value
    return out


ONE_HOT = np.eye(4)[Y]
MULTI = (Z > 0).astype(int)
TOKENS = [{"yes": -0.1}, {"no": -0.2}]

CASES = {
    # Files that are not what their name says.
    "a folder": file("x.npz", ("x.npz", "it is a folder"), lambda path: path.mkdir()),
    "no such file": file("x.npz", ("x.npz does not exist",), lambda path: None),
    "a pickle": file("x.pkl", ("ending must be one of", ".npz"), b""),
    "no ending": file("x", ("ending must be one of", ".npz"), b""),
    "packed binary": file("x.npz.gz", ("ending must be one of", "text also with .gz"), b""),
    "text called npz": file("x.npz", ("not a whole .npz file", "cut short"), "a,b\n1,2\n"),
    "text called npy": file("x.npy", ("not a whole .npy file", "cut short"), "a,b\n1,2\n"),
    "npz called csv": file("x.csv", ("it is no text",), npz),
    "an empty npz": file("x.npz", ("not a whole .npz file",), b""),
    "an empty csv": file("x.csv", ("it is empty",), b""),
    "blank lines": file("x.csv", ("it is empty",), "\n\n\n"),
    "an empty jsonl": file("x.jsonl", ("it is empty",), b""),
    # Cut short.
    "half an npz": file("x.npz", ("not a whole .npz file", "cut short"), cut(npz, 700)),
    "half an npy": file(
        "x.npy", ("not a whole .npy file", "cut short"), cut(lambda p: np.save(p, Z), 700)
    ),
    "half a pt": file("x.pt", ("not a whole .pt file", "cut short"), cut(pt, 700), ("torch",)),
    "half a safetensors": file(
        "x.safetensors", ("not a whole .safetensors file",), cut(safetensors, 700), ("safetensors",)
    ),
    "half a parquet": file(
        "x.parquet", ("not a whole .parquet file",), cut(parquet, 700), ("pyarrow",)
    ),
    "half a feather": file(
        "x.feather", ("not a whole .arrow file",), cut(feather, 500), ("pyarrow",)
    ),
    "half a gz": file(
        "x.csv.gz", ("not a whole .gz file",), gzip.compress(csv(scores()).encode())[:200]
    ),
    "half a line of json": file(
        "x.jsonl", ("line 2 is not whole JSON",), '{"logits": [1, 2]}\n{"logits": [1, '
    ),
    "more announced than there": file("x.npy", ("80000000000000 bytes were announced",), claims),
    # Made to harm.
    "objects in npz": file(
        "x.npz",
        ("array logits", "Python objects", "Save plain numbers"),
        lambda p: npz(p, logits=np.array([{}], object)),
    ),
    "objects in pt": file(
        "x.pt", ("Python objects", "Save tensors alone"), pickled_pt, ("torch",)
    ),
    "a bare pickle called pt": file(
        "x.pt", ("Python objects", "Save tensors alone"), bare_pickle, ("torch",)
    ),
    "a list in pt": file("x.pt", ("holds a list", "Save tensors alone"), a_list_pt, ("torch",)),
    "a doubled member": file("x.npz", ("holds logits twice", "Write it anew"), doubled),
    "an npz that explodes": file("x.npz", ("array logits would grow", "200 MB", "unpacked"), bomb),
    "a gz that explodes": file("x.csv.gz", ("would grow", "unpacked"), text_bomb),
    "a parquet that explodes": file(
        "x.parquet", ("would grow", "unpacked"), parquet_bomb, ("pyarrow",)
    ),
    "one number a hundred million times": file(
        "x.pt", ("claims 100000000 numbers and stores 1", "contiguous"), stride_0, ("torch",)
    ),
    # Tables that are not square, or have no names.
    "a ragged csv": file(
        "x.csv", ("line 3 has 2 cells, the first line 3", "cut short"), "a,b,c\n1,2,3\n1,2\n"
    ),
    "a header alone": file("x.csv", ("column names and no rows",), "a,b,y\n"),
    "an open quote": file("x.csv", ("cannot read", "line"), 'a,b\n"1,2\n3,4\n5,6\n', ("pyarrow",)),
    "two columns of one name": file("x.csv", ("two columns are called 'a'",), "a,a\n1,2\n"),
    "the index of a frame": file(
        "x.csv", ("a column has no name", "index=False"), ",a,b\n0,1.5,2\n1,2.5,3\n"
    ),
    "lists of two lengths": file(
        "x.jsonl",
        ("'logits'", "several lengths"),
        '{"logits": [1.5, 2]}\n{"logits": [1.5]}\n',
        columns=["logits"],
    ),
    "a json list around all": file("x.jsonl", ("line 1 is not whole", "object a line"), "[\n{},\n"),
    "a number a line": file("x.jsonl", ("line 1 must be an object",), "1\n2\n"),
    "a list after an object": file(
        "x.jsonl", ("row 1 is a list, the first a dict", "every line alike"), '{"a": 1}\n[1, 2]\n'
    ),
    "bare lists of two lengths": file(
        "x.jsonl", ("numbers and of one length", "Name the fields"), "[1, 2]\n[1]\n"
    ),
    "lists in lists without end": file("x.jsonl", ("line 1 is not whole",), "[" * 100_000),
    # Names that are not there.
    "an unknown array": file(
        "x.npz", ("has no logits", "found embedding", "arrays={'logits': 'embedding'}"),
        lambda p: np.savez(p, embedding=Z),
    ),
    "an array of another kind": file(
        "x.npz", ("has no logits", "found probs", "kind='proba'"),
        lambda p: np.savez(p, probs=Z),
    ),
    "a misspelled column": file(
        "x.csv", ("has no column 'lable'", "Did you mean 'label'?"),
        csv(scores(label=Y)), label_column="lable",
    ),
    "an unknown role": file("x.npz", ("arrays must say", "'labels'"), npz, arrays={"labels": "y"}),
    "two label columns": file(
        "x.csv", ("several label columns: y, label", "label_column="), csv(scores(y=Y, label=Y))
    ),
    "no scores": file("x.csv", ("no columns of scores",), "y\n1\n2\n"),
    "an unknown kind": held(("kind must be one of", "'proba'"), Z, kind="probabilities"),
    # Columns that became a class without a word.
    "an id column": file("x.csv", ("column 'id'", "id_column='id'"), csv({"id": Y, **scores()})),
    "a column that counts": file(
        "x.csv", ("column 'nr' counts the rows", "id_column="), csv(scores(nr=np.arange(40)))
    ),
    "a label left in": file(
        "x.csv", ("column 'digit' holds whole numbers from 0 to 3", "label_column="),
        csv(scores(digit=Y)),
    ),
    "a label left in an array": held(
        ("column 4 holds whole numbers", "Leave it out"), np.column_stack([Z, Y])
    ),
    "an id left in a frame": held(
        ("column 'image_id'", "id_column='image_id'"),
        pandas_frame(image_id=Y + 7), None, ("pandas",),
    ),
    "a column of words": file(
        "x.csv", ("column 'text' holds words", "label_column= or id_column="),
        csv(scores(text=["hi"] * 40)), ("pyarrow",),
    ),
    "a column of truth": held(
        ("column 'ok' holds true and false", "columns="), pandas_frame(ok=Y > 0), None, ("pandas",)
    ),
    "results of apply": file(
        "x.csv", ("column proba_0 is a result", "kind='proba'"), "proba_0,proba_1\n0.5,0.5\n"
    ),
    # Probabilities, almost.
    "probabilities": held(("these are probabilities", "kind='proba'"), P),
    "rounded probabilities": held(("rounded to 3 decimals", "kind='proba'"), P.round(3)),
    "percent": held(("sum to 100", "Divide by 100"), 100 * P),
    "percent as probabilities": held(("sum to 100", "Divide by 100"), 100 * P, kind="proba"),
    "one row off": held(
        ("row 7 sums to", "Mend it and pass kind='proba'"), changed(P, 7, 2, 0.0)
    ),
    "one row off, declared": held(
        ("row 7 sums to", "Drop or mend it"), changed(P, 7, int(P[7].argmax()), 0.0), kind="proba"
    ),
    "sigmoids": held(("a sigmoid for each class", "one column"), SIGMOIDS),
    "sigmoids as probabilities": held(
        ("row 0 sums to", "a sigmoid for each class"), SIGMOIDS, kind="proba"
    ),
    "decisions": held(("every entry is 0 or 1", "before it decides"), ONE_HOT),
    "logits as probabilities": held(("row 0 is", "column 1", "kind='logits'"), Z, kind="proba"),
    "probabilities as log probabilities": held(
        ("row 0", "kind='proba'"), P, kind="logprobs"
    ),
    "one percent": held(("row 1 is 30", "Divide by 100"), [0.5, 30.0, 70.0], kind="proba"),
    "log-odds as a probability": held(("row 0 is -3", "kind='score'"), [-3.0, 2.0], kind="proba"),
    # Arrays of the wrong sort.
    "one score a row": held(("(40, 1)", "kind='score'"), Z[:, 0]),
    "two scores for one": held(("got 4 columns", "kind='logits'"), Z, kind="score"),
    "tokens": held(("(40, 4, 2)", "labels != -100"), np.zeros((40, 4, 2))),
    "no rows": held(("at least one row",), np.zeros((0, 4))),
    "masked": held(("masked array", "filled(-np.inf)"), np.ma.masked_less(Z, 0)),
    "sparse": held(("sparse matrix", "toarray()"), sparse),
    "complex": held(("real numbers, got dtype complex128",), Z + 1j),
    "text": held(("real numbers",), np.array([["a", "b"]] * 10)),
    "ragged": held(("rows of one length",), [[1.0, 2.0], [1.0]]),
    "a tuple of outputs": held(("a tuple of 2 arrays", "usually [0]"), (Z, np.zeros((40, 7)))),
    "NaN": held(("row 3 is empty (NaN) in column 2", "Drop that row"), changed(Z, 3, 2, np.nan)),
    "+inf": held(("row 3 is inf in column 2", "Drop that row"), changed(Z, 3, 2, np.inf)),
    "every class ruled out": held(
        ("row 3 rules out every class", "Drop that row"), changed(Z, 3, slice(None), -np.inf)
    ),
    "an empty cell": file(
        "x.csv", ("row 1 is empty (NaN) in column 'b'",), "a,b\n1,2\n3,\n", ("pyarrow",)
    ),
    "a frame without rows": held(("LazyFrame", "collect()"), lazy, None, ("polars",)),
    "names twice in a frame": held(("called 'b'",), twice_named, None, ("pandas",)),
    "a tensor without numbers": held(("'meta'",), meta_tensor, None, ("torch",)),
    "a path as an array": held(("read_rows",), "val.csv"),
    # Labels.
    "labels from 1": held(("got 1 to 4", "y - 1"), Z, Y + 1),
    "labels 1 and 2": held(("got 1 to 2", "pos_label="), Z[:, :2], Y % 2 + 1),
    "labels -1 and 1": held(("got -1 and 1", "pos_label=1"), Z[:, 0], Y % 2 * 2 - 1, kind="score"),
    "a label too many": held(("row 3 is 9", "column missing"), Z, np.where(Y == 3, 9, Y)),
    "tokens to ignore": held(("row 0 is -100", "Drop those rows"), Z, np.where(Y == 0, -100, Y)),
    "one-hot labels": held(("one-hot", "argmax"), Z, ONE_HOT),
    "soft labels": held(("soft labels", "sample_weight"), Z, P),
    "a soft binary label": held(("Soft labels?", "sample_weight"), Z[:, 0], P[:, 0], kind="score"),
    "multi-label": held(("multi-label", "kind='score'"), Z, MULTI),
    "lists of labels": held(("row 0 is list", "multi-label"), Z, [["a"], ["a", "b"]] * 20),
    "broken labels": held(("row 1 is 1.5", "whole numbers"), Z, [0.0, 1.5] * 20),
    "a missing label": held(("row 2 has no label", "-1"), Z, [0.0, 1.0, np.nan, 3.0] * 10),
    "a missing name": held(("row 1 has no label",), Z, ["a", None] * 20, classes=list("abcd")),
    "too few labels": held(("each of the 40 rows", "got 39"), Z, Y[1:]),
    "masked labels": held(("masked",), Z, np.ma.masked_equal(Y, 0)),
    "names without columns": held(
        ("labels are names (cat, dog", "classes="), Z, np.array(["dog", "cat"] * 20)
    ),
    "an unknown name": held(
        ("label 'bird'", "classes="), Z, ["a", "bird"] * 20, classes=list("abcd")
    ),
    "two names for four columns": held(("2 names for 4 columns",), Z, classes=["a", "b"]),
    "names in another order": held(
        ("classes= says c1, c0", "columns="), pandas_frame(), None, ("pandas",),
        classes=["c1", "c0", "c2", "c3"],
    ),
    "names of a calibrator in another order": held(
        ("the columns are c0", "the calibrator, or the file before this one, has c1, c0",
         "columns= as there"),
        pandas_frame(), None, ("pandas",), classes=ClassNames(("c1", "c0", "c2", "c3")),
    ),
    "pos_label that is not there": held(
        ("pos_label='yse'", "no, yes"), Z[:, 0], ["yes", "no"] * 20, kind="score", pos_label="yse"
    ),
    "pos_label of four": held(("two classes, got 4",), Z, Y, pos_label=1),
    # Language models.
    "tokens without labels": held(("classes=['yes', 'no']",), TOKENS, kind="logprobs"),
    "a log probability above 0": held(
        ("row 0 has 1.5", "kind='logits'"), [{"yes": 1.5}], kind="logprobs", classes=["yes", "no"]
    ),
    "a row that is no list": held(
        ("row 1", "token and logprob"), [{"yes": -1.0}, 3], kind="logprobs", classes=["yes", "no"]
    ),
    # Company.
    "a weight below zero": held(
        ("sample_weight must be finite and not negative",), {"logits": Z, "weight": -np.ones(40)}
    ),
    "environments by name": held(
        ("environments must be whole numbers", "Number them"),
        {"logits": Z, "environment": np.array(["a", "b"] * 20)},
    ),
    "a floor of zero": held(("floor must be a number above 0",), P, kind="proba", floor=0.0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_answer_names_the_thing_and_the_remedy(tmp_path, needs, case):
    for package in case.needs:
        needs(package)
    with pytest.raises(ValueError) as error:  # noqa: PT011  # its text is compared below
        case.read(tmp_path)
    text = str(error.value)
    for words in case.words:
        assert words in text
    for word in FOREIGN:
        assert word not in text, f"another library speaks: {text}"
    assert text.endswith((".", "?"))
    assert len(text.replace(str(tmp_path), "")) < 330


FLAGS = {"kind": "--input", "columns": "--columns", "label_column": "--label-column",
         "id_column": "--id-column", "arrays": "--arrays", "classes": "--classes",
         "pos_label": "--pos-label"}  # fmt: skip
IN_FILES = {what: case for what, case in CASES.items()
            if case.name is not None and set(case.options or {}) <= set(FLAGS)}  # fmt: skip


def as_words(value):
    if isinstance(value, dict):
        return ",".join(f"{role}={name}" for role, name in value.items())
    return str(value) if isinstance(value, str | int) else ",".join(map(str, value))


@pytest.mark.parametrize("case", IN_FILES.values(), ids=IN_FILES)
def test_the_command_answers_too_and_saves_nothing(tmp_path, needs, capsys, case):
    for package in case.needs:
        needs(package)
    with pytest.raises(ValueError):  # noqa: PT011  # which also writes the file
        case.read(tmp_path)
    options = (case.options or {}).items()
    flags = [word for name, value in options for word in (FLAGS[name], as_words(value))]
    path, output = tmp_path / case.name, tmp_path / "calibrator.json"
    assert run(["fit", str(path), *flags, "-o", str(output)]) != 0
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.lower().startswith("error: ")
    for word in FOREIGN:
        assert word not in said, f"another library speaks: {said}"
    assert not output.exists()


def test_there_are_enough():
    assert len(CASES) >= 60


def test_a_stream_of_text():
    with pytest.raises(ValueError, match="opened for bytes"):
        read_rows(io.StringIO("a,b\n1,2\n"))
    with pytest.raises(ValueError, match="it is empty"):
        read_rows(io.BytesIO(b""))


def test_judging_can_be_left_out():
    """Whoever knows better says so; ranges of probabilities hold all the same."""
    np.testing.assert_array_equal(as_rows(SIGMOIDS, judge=False).logits, SIGMOIDS)
    with pytest.raises(ValueError, match="must lie in"):
        as_rows(Z, kind="proba", judge=False)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_files_are_read_or_refused(tmp_path, needs, seed):
    """No byte flipped anywhere makes another library speak."""
    for package in ("torch", "safetensors", "pyarrow"):
        needs(package)
    rng = np.random.default_rng(seed)
    lines = "\n".join(
        json.dumps({"logits": row, "y": int(k)}) for row, k in zip(Z.tolist(), Y, strict=True)
    )
    makers = {
        "x.npz": npz, "x.npy": lambda p: np.save(p, Z), "x.pt": pt, "x.safetensors": safetensors,
        "x.parquet": parquet, "x.feather": feather,
        "x.csv": lambda p: p.write_text(csv(scores(y=Y))), "x.jsonl": lambda p: p.write_text(lines),
    }  # fmt: skip
    for name, make in makers.items():
        make(tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        for _ in range(25):
            mutant = bytearray(whole)
            for at in rng.integers(0, len(whole), int(rng.integers(1, 6))):
                mutant[at] = int(rng.integers(256))
            (tmp_path / name).write_bytes(mutant[: int(rng.integers(1, len(mutant) + 1))]
                                          if rng.random() < 0.3 else mutant)  # fmt: skip
            text = answer(tmp_path / name)
            assert not [word for word in FOREIGN if word in text], (name, text)


def answer(path):
    """What is said to a file, or nothing where it is read."""
    try:
        read_rows(path, judge=False)
    except ValueError as error:
        return str(error)
    return ""
