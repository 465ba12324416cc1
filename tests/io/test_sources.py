"""Rows past memory: every kind of source gives the same rows, and says which shard is wrong."""

import os
from itertools import pairwise

import numpy as np
import pytest

from wildcal._old.calibrators import make_calibrator
from wildcal._old.core.blocks import Walk, added
from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.sources import from_batches, from_dask, open_rows, open_shards, write_shards

N, K = 500, 4
CUTS = (0, 100, 101, 350, N)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, N)
    logits = rng.normal(size=(N, K)).astype(np.float32)
    logits[np.arange(N), y] += 1
    return {
        "logits": logits,
        "y": y,
        "weight": rng.random(N),
        "environment": rng.integers(0, 3, N),
        "distances": rng.random((N, 2)),
    }


def pieces(rows):
    for i, (a, b) in enumerate(pairwise(CUTS)):
        yield i, {name: column[a:b] for name, column in rows.items()}


def npz(folder, rows):
    for i, piece in pieces(rows):
        np.savez(folder / f"{i}.npz", **piece)


def packed_npz(folder, rows):
    for i, piece in pieces(rows):
        np.savez_compressed(folder / f"{i}.npz", **piece)


def npy(folder, rows):
    for i, piece in pieces(rows):
        np.save(folder / f"{i}.npy", piece.pop("logits"))
        for role, column in piece.items():
            np.save(folder / f"{i}.{role}.npy", column)


def safetensors(folder, rows):
    numpy = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    for i, piece in pieces(rows):
        numpy.save_file({n: np.ascontiguousarray(c) for n, c in piece.items()},
                        folder / f"{i}.safetensors")  # fmt: skip


def table(piece):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    columns = {f"logit_{k}": piece["logits"][:, k] for k in range(K)}
    columns |= {name: piece[name] for name in ("y", "weight", "environment")}
    columns |= {f"density_{j + 1}": piece["distances"][:, j] for j in range(2)}
    return arrow.table(columns)


def parquet(folder, rows):
    for i, piece in pieces(rows):
        made = table(piece)
        from pyarrow import parquet as pq

        pq.write_table(made, folder / f"{i}.parquet", row_group_size=64)


def arrow(folder, rows):
    for i, piece in pieces(rows):
        made = table(piece)
        import pyarrow

        with pyarrow.ipc.new_file(folder / f"{i}.arrow", made.schema) as file:
            file.write_table(made, max_chunksize=64)


def zarr_group(folder, rows):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    for name, column in rows.items():
        group.create_array(name, data=column, chunks=(64, *column.shape[1:]))
    return folder / "rows.zarr"


KINDS = (npz, packed_npz, npy, safetensors, parquet, arrow, zarr_group)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_gives_the_rows_and_the_fit(kind, rows, tmp_path):
    source = open_rows(kind(tmp_path, rows) or tmp_path)
    assert source.shape == (N, K)
    for piece in (slice(None), slice(90, 360), slice(3, 490, 7), slice(100, 101), slice(7, 7)):
        np.testing.assert_array_equal(source[piece], rows["logits"][piece])
        for role in ("y", "weight", "environment", "distances"):
            np.testing.assert_array_equal(getattr(source, role)[piece], rows[role][piece])
    plain = make_calibrator("ts").fit(rows["logits"], rows["y"], sample_weight=rows["weight"])
    assert make_calibrator("ts").fit(source).new.temperature_ == plain.new.temperature_


def test_dask_arrays_and_frames(rows):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    logits, y = rows["logits"], rows["y"]
    source = from_dask(da.from_array(logits, chunks=(70, 2)), da.from_array(y, chunks=99))
    np.testing.assert_array_equal(source[65:75], logits[65:75])
    plain = make_calibrator("ts").fit(logits, y)
    assert make_calibrator("ts").fit(source).new.temperature_ == plain.new.temperature_


def test_batches_are_walked_once(rows):
    walks = []

    class Loader:
        def __iter__(self):
            walks.append(1)
            return iter([(p["logits"], p["y"]) for _, p in pieces(rows)])

    source = from_batches(Loader())
    plain = make_calibrator("ts").fit(rows["logits"], rows["y"])
    assert make_calibrator("ts").fit(source).new.temperature_ == plain.new.temperature_
    assert len(walks) == 1


def test_predictions_go_to_shards(rows, tmp_path):
    npz(tmp_path, rows)
    source = open_shards(tmp_path)
    fitted = make_calibrator("ts").fit(source)
    paths = write_shards(fitted, source, tmp_path / "out", shard_bytes=3000)
    assert len(paths) > 2
    proba = np.concatenate([np.load(path)["proba"] for path in paths])
    np.testing.assert_array_equal(proba, fitted.predict_proba(rows["logits"]))
    np.testing.assert_array_equal(np.concatenate([np.load(p)["y"] for p in paths]), rows["y"])


def test_a_shard_with_other_content_is_named(rows, tmp_path):
    """Of the same size and time: only who asks for it compares the content."""
    npy(tmp_path, rows)
    trusting, strict = open_shards(tmp_path), open_shards(tmp_path, verify=True)
    make_calibrator("ts").fit(strict)
    for name in ("1.npy", "1.y.npy"):
        path = tmp_path / name
        before, whole = path.stat(), path.read_bytes()
        path.write_bytes(whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:])
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.read_bytes() != whole
        make_calibrator("ts").fit(trusting)
        with pytest.raises(FileFormatError, match=rf"{name} changed .*: its content is another"):
            make_calibrator("ts").fit(strict)
        path.write_bytes(whole)
        with pytest.raises(FileFormatError, match=rf"{name} changed .*: its size or time"):
            make_calibrator("ts").fit(trusting)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_shard_that_is_wrong_is_named(rows, tmp_path):
    npy(tmp_path, rows)
    source = open_shards(tmp_path)
    path = tmp_path / "2.npy"
    whole = path.read_bytes()

    path.write_bytes(whole[:-8])
    with pytest.raises(FileFormatError, match=r"2.npy changed while it was read"):
        make_calibrator("ts").fit(source)
    with pytest.raises(FileFormatError, match=r"2.npy: it was cut short"):
        open_shards(tmp_path)

    path.write_bytes(whole)
    os.utime(path, ns=(1, 1))
    with pytest.raises(FileFormatError, match=r"2.npy changed while it was read"):
        source[:]

    path.unlink()
    with pytest.raises(FileFormatError, match=r"2.npy: it is not there"):
        source[:]

    np.save(path, np.zeros((249, K + 1), np.float32))
    with pytest.raises(FileFormatError, match=r"0.npy has 4 columns, .*2.npy 5"):
        open_shards(tmp_path)
    np.save(path, np.zeros((249, K), np.float32))
    (tmp_path / "2.weight.npy").unlink()
    with pytest.raises(FileFormatError, match=r"2.npy has no weight, others do"):
        open_shards(tmp_path)
    with pytest.raises(FileFormatError, match="has no shards"):
        open_shards(tmp_path / "nothing-*.npz")


def test_a_bad_logit_or_label_is_refused_as_in_an_array(rows, tmp_path):
    bad = rows["logits"].copy()
    bad[420, 1] = np.nan
    npz(tmp_path, rows | {"logits": bad})
    with pytest.raises(ValueError, match="row 420 holds NaN"):
        make_calibrator("ts").fit(open_shards(tmp_path))
    npz(tmp_path, rows | {"y": np.where(np.arange(N) == 300, K, rows["y"])})
    with pytest.raises(ValueError, match=r"y must lie in \[0, 3\]"):
        make_calibrator("ts").fit(open_shards(tmp_path))
    npz(tmp_path, {"logits": rows["logits"]})
    with pytest.raises(ValueError, match="y must be given"):
        make_calibrator("ts").fit(open_shards(tmp_path))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"y": np.full(N, -1)}, "some in-distribution rows, got -1 everywhere"),
        ({"weight": np.zeros(N)}, "must not be zero on every row"),
    ],
)
def test_columns_that_teach_nothing_are_refused(changed, said, rows, tmp_path):
    npz(tmp_path, {name: rows[name] for name in ("logits", "y", "weight")} | changed)
    with pytest.raises(ValueError, match=said):
        make_calibrator("energy").fit(open_shards(tmp_path))


def test_weights_must_not_be_zero_on_all_rows_with_a_class(rows, tmp_path):
    y = np.where(np.arange(N) < 50, -1, rows["y"])
    npz(tmp_path, {"logits": rows["logits"], "y": y, "weight": (y < 0).astype(float)})
    with pytest.raises(ValueError, match="zero on every in-distribution row"):
        make_calibrator("energy").fit(open_shards(tmp_path))


def test_columns_beside_a_source_have_its_length(rows, tmp_path):
    npz(tmp_path, {"logits": rows["logits"]})
    source = open_shards(tmp_path)
    with pytest.raises(ValueError, match="y must have one value per row: 500 rows, 499 values"):
        make_calibrator("ts").fit(source, rows["y"][:-1])
    fitted = make_calibrator("ts").fit(source, rows["y"])
    npz(tmp_path, {"logits": rows["logits"][:, 1:]})
    with pytest.raises(ValueError, match="logits must have 4 columns, as in fit, got 3"):
        fitted.predict_proba(open_shards(tmp_path))


def test_a_walk_keeps_few_results_however_many_there_are():
    now, most = 0, 0

    class Sum:
        def __init__(self, value):
            nonlocal now, most
            self.value = value
            now += 1
            most = max(most, now)

        def __add__(self, other):
            return Sum(self.value + other.value)

        def __del__(self):
            nonlocal now
            now -= 1

    for threads in (1, 2):
        walk = Walk(3201, 1, lambda: lambda piece: Sum(piece.start), added)
        assert walk.in_threads(threads).value == sum(range(3201))
    assert most < 40
