"""The one reader: every format and frame gives the same rows, and kinds are what was declared."""

import gzip
import io
import json

import numpy as np
import pytest

from wildcal._old.core.convert import softmax
from wildcal._old.core.errors import FileFormatError, MissingExtraError
from wildcal._old.io import as_rows, read_rows
from wildcal._old.io.tables.source import FREE_EXPANSION
from wildcal._old.io.tables.text import read_text

RNG = np.random.default_rng(0)
Z = RNG.normal(0, 3, (40, 3))
NAMES = ("cat", "dog", "fish")
Y = np.arange(40) % 3
WORDS = [NAMES[k] for k in Y]
IDS = [f"r{i}" for i in range(40)]


def frame_dict():
    return {"key": IDS, **{name: Z[:, k] for k, name in enumerate(NAMES)}, "label": WORDS}


def csv_text(delimiter=",", comma=False, names=NAMES):
    rows = [delimiter.join(("key", *names, "label"))]
    for i in range(40):
        cells = [repr(float(v)) for v in Z[i]]
        if comma:
            cells = [cell.replace(".", ",") for cell in cells]
        rows.append(delimiter.join([f'"{IDS[i]}"', *cells, names[Y[i]]]))
    return "\n".join(rows) + "\n"


def write(path):
    ending = "".join(path.suffixes)
    if ending == ".parquet":
        import pyarrow as arrow
        from pyarrow import parquet

        parquet.write_table(arrow.table(frame_dict()), path)
    elif ending in (".feather", ".arrow"):
        import pyarrow as arrow
        from pyarrow import feather

        feather.write_feather(arrow.table(frame_dict()), path)
    elif ending.startswith(".jsonl"):
        columns = {k: list(v) for k, v in frame_dict().items()}
        lines = [json.dumps({k: v[i] for k, v in columns.items()}) for i in range(40)]
        _pack(path, "\n".join(lines))
    elif ending.startswith(".tsv"):
        _pack(path, csv_text("\t"))
    else:
        _pack(path, csv_text())
    return path


def _pack(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


TABLES = [
    ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet", ".feather", ".arrow"
]  # fmt: skip


@pytest.mark.parametrize("ending", TABLES)
def test_tables_with_words(tmp_path, needs, ending):
    needs("pyarrow")
    rows = read_rows(write(tmp_path / f"x{ending}"), id_column="key")
    np.testing.assert_array_equal(rows.logits, Z)
    np.testing.assert_array_equal(rows.y, Y)
    assert rows.classes.names == NAMES
    assert rows.ids.tolist() == IDS


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".parquet", ".arrow"])
def test_streams_are_known_by_their_first_bytes(tmp_path, needs, monkeypatch, ending):
    needs("pyarrow")
    content = write(tmp_path / f"x{ending}").read_bytes()
    rows = read_rows(io.BytesIO(content), id_column="key")
    np.testing.assert_array_equal(rows.logits, Z)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    np.testing.assert_array_equal(read_rows("-", id_column="key").logits, Z)


def test_binary_streams():
    buffer = io.BytesIO()
    np.savez(buffer, logits=Z, y=Y)
    buffer.seek(0)
    np.testing.assert_array_equal(read_rows(buffer).y, Y)
    buffer = io.BytesIO()
    np.save(buffer, Z)
    buffer.seek(0)
    np.testing.assert_array_equal(read_rows(buffer).logits, Z)


def test_an_arrow_stream(tmp_path, needs):
    needs("pyarrow")
    import pyarrow as arrow

    table = arrow.table({"logits": Z.tolist(), "label": WORDS})
    with arrow.OSFile(str(tmp_path / "x.arrow"), "wb") as sink:
        with arrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    rows = read_rows(tmp_path / "x.arrow", classes=NAMES)
    np.testing.assert_array_equal(rows.logits, Z)
    np.testing.assert_array_equal(rows.y, Y)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_other_tongues(tmp_path, needs, encoding, delimiter):
    needs("pyarrow")
    names = ("Kätzchen", "Hund", "Fisch")
    text = csv_text(delimiter, comma=delimiter == ";", names=names)
    (tmp_path / "x.csv").write_bytes(text.encode(encoding))
    rows = read_rows(tmp_path / "x.csv", id_column="key")
    np.testing.assert_array_equal(rows.logits, Z)
    np.testing.assert_array_equal(rows.y, Y)
    assert rows.classes.names == names
    assert bool(rows.notes) == (encoding == "latin-1")


def test_plain_numbers_need_no_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    lines = [",".join([str(k), *(repr(float(v)) for v in z)]) for z, k in zip(Z, Y, strict=True)]
    for ending, mark in ((".csv", ","), (".tsv", "\t"), (".csv", ";")):
        path = tmp_path / f"x{ending}"
        text = "\n".join(["y,cat,dog,fish", *lines]).replace(",", mark)
        path.write_text(text)
        rows = read_rows(path)
        np.testing.assert_array_equal(rows.logits, Z)
        np.testing.assert_array_equal(rows.y, Y)
        assert rows.classes.names == NAMES
    rows = read_rows(io.BytesIO("\n".join(lines).encode()), label_column=0)
    np.testing.assert_array_equal(rows.logits, Z)
    np.testing.assert_array_equal(rows.y, Y)
    assert rows.classes is None


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (".csv", "a,b,label\n1,,cat\n"),
        (".csv", "a,b,label\n1,2,true\n"),
        (".csv", "a,b,label\n1, 2,cat\n"),
        (".csv", 'a,b,label\n1,2, "c,d"\n'),
        (".csv", "a;b\n1,5;2,5\n"),
        (".parquet", "PAR1"),
        (".feather", "x"),
    ],
)
def test_the_pip_line(tmp_path, monkeypatch, ending, text):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / f"x{ending}").write_text(text)
    with pytest.raises(MissingExtraError, match=r'pip install "wildcal\[tables\]"'):
        read_rows(tmp_path / f"x{ending}")


@pytest.mark.parametrize(
    "text",
    [
        "a,b,label\n1,2,cat\n-3,0.5,dog\n",
        'a,"b, c",label\n1e3,.5,"one, two"\n-3,1.,dog\n\n',
        "a,b,label\r\n1,-2e-5,Katze\r\n3,4,\u00e9l\u00e9phant\r\n",
        "a,true,label\n1,2,truely\n3,123456789012345678,x y\n",
    ],
)
def test_plain_words_are_read_alike_without_pyarrow(text, needs, monkeypatch):
    needs("pyarrow")
    monkeypatch.setattr("wildcal._old.io.tables.text.find_spec", lambda name: None)
    found = read_text(text.encode(), "x", ".csv").load(("a", "label"))
    monkeypatch.undo()
    wanted = read_text(text.encode(), "x", ".csv").load(("a", "label"))
    for name, column in wanted.items():
        assert found[name].dtype == column.dtype
        assert found[name].tolist() == column.tolist()


def test_a_table_with_words_needs_no_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    lines = [",".join([*map(str, z), NAMES[k]]) for z, k in zip(Z, Y, strict=True)]
    (tmp_path / "x.csv").write_text("\n".join(["cat,dog,fish,label", *lines]))
    rows = read_rows(tmp_path / "x.csv")
    np.testing.assert_array_equal(rows.logits, Z)
    np.testing.assert_array_equal(rows.y, Y)
    assert rows.classes.names == NAMES


def test_columns_and_patterns(tmp_path, needs):
    needs("pyarrow")
    path = write(tmp_path / "x.csv")
    rows = read_rows(path, columns=["fish", "cat", "dog"])
    np.testing.assert_array_equal(rows.logits, Z[:, [2, 0, 1]])
    np.testing.assert_array_equal(rows.y, (Y + 1) % 3)
    rows = read_rows(path, columns="*", id_column="key")
    np.testing.assert_array_equal(rows.logits, Z)


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_frames(needs, package):
    needs(package)
    if package == "pyarrow":
        import pyarrow

        frame = pyarrow.table(frame_dict())
    else:
        frame = __import__(package).DataFrame(frame_dict())
    rows = as_rows(frame, id_column="key")
    np.testing.assert_array_equal(rows.logits, Z)
    np.testing.assert_array_equal(rows.y, Y)
    assert rows.classes.names == NAMES
    assert rows.ids.tolist() == IDS


def test_pandas_kinds_of_columns(needs):
    needs("pandas")
    import pandas as pd

    frame = pd.DataFrame(frame_dict()).drop(columns="key")
    frame["label"] = pd.Categorical(frame["label"])
    frame["cat"] = frame["cat"].astype("Float64")
    frame["weight"] = pd.array(range(1, 41), dtype="Int64")
    frame["environment"] = 0
    rows = as_rows(frame)
    np.testing.assert_array_equal(rows.logits, Z)
    np.testing.assert_array_equal(rows.y, Y)
    np.testing.assert_array_equal(rows.weight, np.arange(1, 41))
    np.testing.assert_array_equal(rows.environment, np.zeros(40))
    unnamed = as_rows(pd.DataFrame(Z), pd.Series(Y))
    np.testing.assert_array_equal(unnamed.logits, Z)
    assert unnamed.classes is None
    lists = as_rows(pd.DataFrame({"logits": list(Z), "y": Y}))
    np.testing.assert_array_equal(lists.logits, Z)


def test_polars_lists(needs):
    needs("polars")
    import polars as pl

    rows = as_rows(pl.DataFrame({"logits": Z.tolist(), "y": Y}))
    np.testing.assert_array_equal(rows.logits, Z)
    np.testing.assert_array_equal(rows.y, Y)


def test_torch_tensors_of_any_kind(needs):
    needs("torch")
    import torch

    leaf = torch.tensor(Z, dtype=torch.float32, requires_grad=True)
    np.testing.assert_array_equal(as_rows(leaf, torch.tensor(Y)).logits, Z.astype(np.float32))
    half = as_rows((leaf * 2).to(torch.bfloat16))
    assert half.logits.dtype == np.float32
    np.testing.assert_allclose(half.logits, 2 * Z, rtol=1e-2)
    np.testing.assert_array_equal(as_rows(leaf.detach().to_sparse()).logits, Z.astype(np.float32))


def test_hugging_face_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", predictions=Z.astype(np.float32), label_ids=Y)
    rows = read_rows(tmp_path / "x.npz", arrays={"logits": "predictions", "y": "label_ids"})
    np.testing.assert_array_equal(rows.y, Y)
    assert rows.logits.dtype == np.float32
    with pytest.raises(FileFormatError, match="arrays={'logits': 'predictions'}"):
        read_rows(tmp_path / "x.npz")


def test_company(tmp_path):
    company = {"sample_weight": np.ones(40), "environments": Y, "distances": Z**2}
    np.savez(tmp_path / "x.npz", logits=Z, y=Y, name=np.array(IDS), **company)
    rows = read_rows(tmp_path / "x.npz", arrays={"ids": "name"})
    np.testing.assert_array_equal(rows.environment, Y)
    np.testing.assert_array_equal(rows.distances, Z**2)
    np.testing.assert_array_equal(rows.weight, np.ones(40))
    assert rows.ids.tolist() == IDS
    assert rows.rows.distances is rows.distances
    assert rows.rows.n_classes == 3


def test_labels_in_a_file_of_their_own(tmp_path):
    np.save(tmp_path / "z.npy", Z)
    (tmp_path / "y.jsonl").write_text("\n".join(json.dumps({"label": word}) for word in WORDS))
    rows = read_rows(tmp_path / "z.npy", labels=tmp_path / "y.jsonl", classes=NAMES)
    np.testing.assert_array_equal(rows.y, Y)


def test_probabilities():
    proba = softmax(Z)
    rows = as_rows(proba, Y, kind="proba")
    np.testing.assert_allclose(softmax(rows.logits), proba, rtol=1e-12)
    np.testing.assert_array_equal(rows.proba, proba)
    assert rows.notes == ()
    assert rows.floor == proba.min() / 2


def test_what_apply_writes_is_read_as_probabilities(tmp_path):
    from wildcal._old.io import write_result

    proba = softmax(Z)
    arrays = {"proba": proba, "confidence": proba.max(1), "pred": proba.argmax(1), "y": Y}
    for name in ("x.csv", "x.npz"):
        write_result(tmp_path / name, arrays)
        rows = read_rows(tmp_path / name, kind="proba")
        np.testing.assert_allclose(rows.proba, proba, rtol=1e-15)
        np.testing.assert_array_equal(rows.y, Y)
        np.testing.assert_array_equal(rows.pred, arrays["pred"])
        assert rows.notes[-1] == "pred was read as predicted class"
    rows = read_rows(tmp_path / "x.csv", kind="proba")
    assert rows.classes.names == ("0", "1", "2")
    assert rows.notes[:-1] == ("columns left out: confidence",)


def test_a_column_pred_of_other_numbers_is_left_out_and_said_to_be():
    for first, second in ((0.6, 0.7), (1, 2), ("b", "a")):
        text = f"proba_a,proba_b,pred\n0.4,0.6,{first}\n0.7,0.3,{second}\n"
        rows = read_rows(io.BytesIO(text.encode()), kind="proba", file_format="csv")
        assert rows.pred is None
        assert rows.notes == ("pred was left out: it holds no class numbers",)


TAKEN = {"environment": "environment", "weight": "weight", "distance_1": "distances"}


@pytest.mark.parametrize("name", TAKEN)
def test_a_class_may_go_by_the_name_of_something_else(name):
    text = f"{name},sport,truth\n0.5,-1.5,{name}\n-0.5,1.5,sport\n".encode()
    options = {"label_column": "truth", "file_format": "csv"}
    said = f"label {name!r} is a class, .* taken for the {TAKEN[name]} of each row.*columns="
    with pytest.raises(FileFormatError, match=said):
        read_rows(io.BytesIO(text), **options)
    for told in ({"columns": [name, "sport"]}, {"classes": [name, "sport"]}):
        rows = read_rows(io.BytesIO(text), **options, **told)
        assert rows.classes.names == (name, "sport")
        assert rows.y.tolist() == [0, 1]
        assert rows.weight is rows.environment is rows.distances is None


def test_a_label_may_go_by_the_name_of_a_column_that_is_no_class():
    line = b'{"logits": [0.5, -1.5], "weight": 2.0, "label": "weight"}'
    rows = read_rows(io.BytesIO(line), classes=["height", "weight"])
    assert (rows.y.tolist(), rows.weight.tolist()) == ([1], [2.0])


def test_a_known_class_may_go_by_the_name_of_an_id_or_a_result():
    text = b"en,id,pred\n0.5,-1.5,0.25\n"
    with pytest.raises(FileFormatError, match="column 'id' names rows"):
        read_rows(io.BytesIO(text), file_format="csv")
    rows = read_rows(io.BytesIO(text), file_format="csv", classes=["en", "id", "pred"])
    assert rows.logits.tolist() == [[0.5, -1.5, 0.25]]


def test_a_class_called_like_the_labels_leaves_them_where_columns_have_prefixes():
    text = b"logit_foe,logit_target,target\n0.5,-1.5,foe\n"
    rows = read_rows(io.BytesIO(text), file_format="csv", classes=["foe", "target"])
    assert rows.y.tolist() == [0]


def test_rounded_probabilities_are_divided_by_their_sum():
    rounded = softmax(Z).round(3)
    assert (rounded == 0).any()
    rows = as_rows(rounded, Y, kind="proba")
    np.testing.assert_allclose(rows.proba.sum(axis=1), 1, rtol=1e-12)
    assert "rounded to 3 decimals" in rows.notes[0]
    assert "probabilities of zero" in rows.notes[1]
    assert rows.floor == pytest.approx(0.0005, rel=1e-2)


def test_a_floor_from_the_tuning_rows_is_kept():
    rows = as_rows([[1.0, 0.0]], kind="proba", floor=0.005)
    np.testing.assert_allclose(rows.logits, np.log([[1.0, 0.005]]))
    assert rows.floor == 0.005


@pytest.mark.parametrize("shape", [(40,), (40, 1)])
def test_one_score_and_one_probability(shape):
    score, y = Z[:, 0].reshape(shape), np.where(Y == 0, "yes", "no")
    by_score = as_rows(score, y, kind="score", pos_label="yes")
    np.testing.assert_array_equal(by_score.logits, np.column_stack([-Z[:, 0], Z[:, 0]]) / 2)
    np.testing.assert_array_equal(by_score.y, Y == 0)
    assert by_score.classes.names == ("no", "yes")
    p = 1 / (1 + np.exp(-score))
    by_proba = as_rows(p, y, kind="proba", pos_label="yes")
    np.testing.assert_allclose(by_proba.proba, softmax(by_score.logits), atol=1e-15)


def test_signed_labels_need_pos_label():
    rows = as_rows(Z[:, 0], np.where(Y == 0, 1, -1), kind="score", pos_label=1)
    np.testing.assert_array_equal(rows.y, Y == 0)
    rows = as_rows(Z[:, 0], Y - 1, kind="score", pos_label=1)  # -1, 0, 1: then -1 is OOD
    np.testing.assert_array_equal(rows.y, Y - 1)


def test_top_tokens_from_json_lines(tmp_path):
    lines = [
        {"top_logprobs": {"yes": -0.105, "no": -2.996}, "label": "yes"},
        {"top_logprobs": [{"token": "no", "logprob": -0.0513}], "label": "no"},
        {"top_logprobs": {}, "label": "no"},
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = read_rows(tmp_path / "x.jsonl", kind="logprobs", classes=["yes", "no"])
    expected = [[0.9, 0.05], [0.05, 0.95], [0.5, 0.5]]
    np.testing.assert_allclose(np.exp(rows.logits), expected, atol=1e-3)
    np.testing.assert_array_equal(rows.y, [0, 1, 1])
    assert rows.classes.names == ("yes", "no")


def test_log_probabilities_with_gaps():
    matrix = np.log(softmax(Z))
    matrix[0, 1], matrix[1, 2], matrix[2, 0] = -np.inf, np.nan, -9999.0
    rows = as_rows(matrix, kind="logprobs")
    assert np.isfinite(rows.logits).all()
    np.testing.assert_array_equal(rows.logits[3:], matrix[3:])
    assert rows.notes == ("3 gaps in 3 rows got the missing mass of their row",)


def test_numbers_as_class_names_are_names(tmp_path):
    (tmp_path / "x.csv").write_text("label,7,3\n" + "3,0.1,2.5\n7,1.5,0.25\n" * 8)
    rows = read_rows(tmp_path / "x.csv")
    np.testing.assert_array_equal(rows.y, [1, 0] * 8)
    assert rows.classes.names == ("7", "3")


def test_bfloat16_logits_and_small_labels(tmp_path, needs):
    needs("torch")
    needs("safetensors")
    import torch
    from safetensors.torch import save_file

    logits = torch.tensor(Z).to(torch.bfloat16)
    save_file({"logits": logits, "y": torch.tensor(Y).to(torch.uint8)}, tmp_path / "x.safetensors")
    rows = read_rows(tmp_path / "x.safetensors")
    np.testing.assert_allclose(rows.logits, Z, rtol=1e-2)
    np.testing.assert_array_equal(rows.y, Y)


def test_large_honest_archives_are_read(tmp_path):
    """The cap is for what grows a hundred times: real scores, packed, stay far below."""
    scores = RNG.normal(size=(2000, 10)).astype(np.float32)
    np.savez_compressed(tmp_path / "x.npz", logits=scores)
    assert scores.nbytes < 2 * (tmp_path / "x.npz").stat().st_size < FREE_EXPANSION
    np.testing.assert_array_equal(read_rows(tmp_path / "x.npz").logits, scores)


def test_arrays_in_any_order_of_bytes_and_axes(tmp_path):
    for array in (np.asfortranarray(Z), Z.astype(">f8"), Z.astype("<f4")):
        np.save(tmp_path / "x.npy", array)
        rows = read_rows(tmp_path / "x.npy")
        np.testing.assert_array_equal(rows.logits, array)
        assert rows.logits.dtype.isnative
        rows.logits[0] = 0  # a copy of one's own


def test_similarities_between_0_and_1_are_scores():
    """Cosines of a joint embedding are logits of a small scale, and no sigmoids."""
    cosines = RNG.uniform(0.1, 0.4, (50, 10))
    np.testing.assert_array_equal(as_rows(cosines).logits, cosines)


def test_results_with_names_come_back(tmp_path, capsysbinary):
    from wildcal._old.core.labels import ClassNames
    from wildcal._old.io import write_result

    arrays = {"proba": softmax(Z), "ids": np.array(IDS, dtype=object)}
    write_result(tmp_path / "x.npz", arrays)
    rows = read_rows(tmp_path / "x.npz", kind="proba", arrays={"ids": "ids"})
    assert rows.ids.tolist() == IDS
    write_result("-", {"proba": softmax(Z), "y": Y}, classes=ClassNames(NAMES))
    rows = read_rows(io.BytesIO(capsysbinary.readouterr().out), kind="proba")
    np.testing.assert_array_equal(rows.proba, softmax(Z))
    assert rows.classes.names == NAMES


def test_labels_left_aside(tmp_path):
    np.savez(tmp_path / "x.npz", logits=Z, y=Y + 100)
    assert read_rows(tmp_path / "x.npz", with_labels=False).y is None


def test_columns_of_a_matrix_by_number(tmp_path):
    np.savez(tmp_path / "x.npz", logits=np.column_stack([Z, Y]))
    np.testing.assert_array_equal(read_rows(tmp_path / "x.npz", columns=[0, 1, 2]).logits, Z)
    with pytest.raises(FileFormatError, match="has columns 0 to 3 and no names"):
        read_rows(tmp_path / "x.npz", columns=[0, 4])
    bare = as_rows(np.column_stack([Z, Y]), columns=[0, 1, 2], label_column=3)
    np.testing.assert_array_equal(bare.logits, Z)
    np.testing.assert_array_equal(bare.y, Y)
