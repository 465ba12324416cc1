"""Logits in from every format, results out; damaged and hostile files give one clear error."""

import io
import pickle
import zipfile

import numpy as np
import pytest

from wildcal._old.core.errors import FileFormatError, MissingExtraError
from wildcal._old.io import read_labels, read_table, write_result

Z = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
Y = np.array([0, 1, 2, 0, 1, -1])


def write(path, logits=Z, y=Y):
    if path.suffix == ".npz":
        np.savez(path, logits=logits, y=y)
    elif path.suffix == ".npy":
        np.save(path, logits)
    elif path.suffix == ".csv":
        rows = "\n".join(
            f"{label},{','.join(map(repr, map(float, row)))}"
            for label, row in zip(y, logits, strict=True)
        )
        path.write_text("y,a,b,c\n" + rows + "\n")
    elif path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file({"logits": logits, "y": y}, path)
    else:
        import torch

        torch.save({"logits": torch.tensor(logits), "labels": torch.tensor(y)}, path)
    return path


@pytest.mark.parametrize("ending", [".npz", ".csv", ".safetensors", ".pt", ".pth"])
def test_logits_and_labels(tmp_path, needs, ending):
    if ending in (".pt", ".pth"):
        needs("torch")
    if ending == ".safetensors":
        needs("safetensors")
    table = read_table(write(tmp_path / f"x{ending}"))
    np.testing.assert_allclose(table.logits, Z, rtol=1e-7)
    np.testing.assert_array_equal(table.y, Y)


def test_labels_in_a_file_of_their_own(tmp_path):
    np.save(tmp_path / "y.npy", Y)
    logits = write(tmp_path / "z.npy")
    assert read_table(logits).y is None
    np.testing.assert_array_equal(read_table(logits, labels=tmp_path / "y.npy").y, Y)
    (tmp_path / "y.csv").write_text("label\n" + "\n".join(map(str, Y)))
    np.testing.assert_array_equal(read_labels(tmp_path / "y.csv"), Y)
    np.savez(tmp_path / "y.npz", targets=Y)
    np.testing.assert_array_equal(read_labels(tmp_path / "y.npz"), Y)


def test_csv_without_header_is_all_logits(tmp_path):
    path = tmp_path / "z.csv"
    path.write_text("1.5,2\n-3,4e-1\n")
    np.testing.assert_array_equal(read_table(path).logits, [[1.5, 2], [-3, 0.4]])


def test_torch_tensor_and_bfloat16(tmp_path, needs):
    needs("torch")
    import torch

    torch.save(torch.tensor(Z).to(torch.bfloat16), tmp_path / "z.pt")
    got = read_table(tmp_path / "z.pt")
    assert got.logits.dtype == np.float32
    np.testing.assert_allclose(got.logits, Z, rtol=1e-2)


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


@pytest.mark.parametrize("ending", [".npz", ".npy", ".pt"])
def test_pickles_are_not_opened(tmp_path, needs, capsys, ending):
    path = tmp_path / f"evil{ending}"
    if ending == ".pt":
        needs("torch")
        path.write_bytes(pickle.dumps(Evil()))
    else:
        evil = np.array([Evil()], dtype=object)
        np.savez(path, logits=evil) if ending == ".npz" else np.save(path, evil)
    with pytest.raises(FileFormatError, match=r"cannot read .*evil"):
        read_table(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("ending", [".npz", ".npy", ".safetensors", ".pt"])
@pytest.mark.parametrize("keep", [0, 3, 100])
def test_truncated(tmp_path, needs, ending, keep):
    if ending == ".pt":
        needs("torch")
    if ending == ".safetensors":
        needs("safetensors")
    path = write(tmp_path / f"x{ending}")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FileFormatError, match=f"cannot read .*not a whole {ending} file"):
        read_table(path)


def test_damaged_inside_the_archive(tmp_path):
    path = write(tmp_path / "x.npz")
    raw = bytearray(path.read_bytes())
    at = raw.find(b"NUMPY") + 130
    raw[at : at + 8] = b"\xff" * 8
    path.write_bytes(bytes(raw))
    with pytest.raises(FileFormatError, match="not a whole .npz file"):
        read_table(path)


def test_a_zip_of_something_else(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("hello.txt", "hi")
    (tmp_path / "x.npz").write_bytes(buffer.getvalue())
    with pytest.raises(FileFormatError, match="x.npz has no logits"):
        read_table(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is empty"),
        ("y,a,b\n1,2\n", "line 2 has 2 cells, the first line 3"),
        ("y,a,b\n", "it has column names and no rows"),
        ("y,a,b\n1.5,2,3\n", "column y must be integers"),
        ("y,label,a\n1,1,3\n", "several label columns"),
    ],
)
def test_bad_csv(tmp_path, content, message):
    path = tmp_path / "x.csv"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=message):
        read_table(path)


def test_names_and_endings_are_explained(tmp_path):
    np.savez(tmp_path / "x.npz", embedding=Z)
    with pytest.raises(
        FileFormatError, match="expected an array named logits or z or scores, found embedding"
    ):
        read_table(tmp_path / "x.npz")
    with pytest.raises(FileFormatError, match="does not exist"):
        read_table(tmp_path / "missing.npz")
    with pytest.raises(FileFormatError, match="its ending must be one of .npz, .npy, .csv"):
        read_table(tmp_path / "x.pkl")
    with pytest.raises(FileFormatError, match="its ending must be one of .npz, .npy, .csv"):
        write_result(tmp_path / "x.pkl", {"a": Z})


@pytest.mark.parametrize(("package", "ending"), [("safetensors", ".safetensors"), ("torch", ".pt")])
def test_missing_extra_has_the_pip_line(tmp_path, monkeypatch, package, ending):
    (tmp_path / f"x{ending}").write_bytes(b"x")
    monkeypatch.setitem(__import__("sys").modules, package, None)
    monkeypatch.setitem(__import__("sys").modules, f"{package}.numpy", None)
    with pytest.raises(MissingExtraError, match=rf'pip install "wildcal\[{package}\]"'):
        read_table(tmp_path / f"x{ending}")


@pytest.mark.parametrize("ending", [".npz", ".npy", ".csv"])
def test_results(tmp_path, ending):
    path = tmp_path / f"out{ending}"
    write_result(path, {"proba": Z, "pred": Y})
    if ending == ".npz":
        with np.load(path) as got:
            assert got["proba"].tobytes() == Z.tobytes()
            np.testing.assert_array_equal(got["pred"], Y)
    elif ending == ".npy":
        assert np.load(path).tobytes() == Z.tobytes()
    else:
        lines = path.read_text().splitlines()
        assert lines[0] == "proba_0,proba_1,proba_2,pred"
        assert np.float32(lines[1].split(",")[0]) == Z[0, 0]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_unrelated_arrays_are_not_read(tmp_path):
    np.savez(tmp_path / "x.npz", logits=Z, y=Y, files=np.array(["a", None], dtype=object))
    np.testing.assert_array_equal(read_table(tmp_path / "x.npz").logits, Z)


def test_bfloat16_safetensors(tmp_path, needs):
    needs("safetensors")
    needs("torch")
    import torch
    from safetensors.torch import save_file

    save_file(
        {"logits": torch.tensor(Z).to(torch.bfloat16), "y": torch.tensor(Y)},
        tmp_path / "x.safetensors",
    )
    table = read_table(tmp_path / "x.safetensors")
    assert table.logits.dtype == np.float32
    np.testing.assert_allclose(table.logits, Z, rtol=1e-2)
    np.testing.assert_array_equal(table.y, Y)


def test_columns_named_by_number_are_a_header(tmp_path):
    (tmp_path / "x.csv").write_text("0,1,2\n1.5,2.5,3.5\n")
    np.testing.assert_array_equal(read_table(tmp_path / "x.csv").logits, [[1.5, 2.5, 3.5]])


@pytest.mark.parametrize(
    ("header", "message"),
    [(",a,b", "a column has no name"), ("confidence,a,b", "is a result of a calibrator")],
)
def test_columns_that_are_no_logits(tmp_path, header, message):
    (tmp_path / "x.csv").write_text(header + "\n1,2,3\n")
    with pytest.raises(FileFormatError, match=message):
        read_table(tmp_path / "x.csv")


def test_labels_as_plain_text(tmp_path):
    (tmp_path / "y.csv").write_text("0\n2\n-1\n")
    y = read_labels(tmp_path / "y.csv")
    assert y.dtype == np.int64
    np.testing.assert_array_equal(y, [0, 2, -1])


def test_writing_respects_what_is_there(tmp_path):
    import os

    real = tmp_path / "real.npz"
    real.write_bytes(b"old")
    real.chmod(0o600)
    link = tmp_path / "link.npz"
    link.symlink_to(real)
    write_result(link, {"a": Z})
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(OSError, match="not a regular file"):
        write_result(tmp_path / "pipe.npz", {"a": Z})


def test_nobody_is_told_to_trust_a_pickle(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"garbage garbage")
    np.save(tmp_path / "y.npy", np.array([{}], dtype=object))
    for name in ("x.npy", "y.npy"):
        with pytest.raises(FileFormatError) as error:
            read_table(tmp_path / name)
        assert "pickle" not in str(error.value)
