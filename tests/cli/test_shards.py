"""Folders of Parquet files with columns of classes, ids, countries and times."""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

pyarrow = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

from wildcal import Columns, load  # noqa: E402
from wildcal.cli.main import run  # noqa: E402
from wildcal.cli.options import load_with_columns  # noqa: E402
from wildcal.evaluation.chunked import evaluate_files  # noqa: E402

pytestmark = pytest.mark.slow

CLASSES = ("cat", "dog", "fish", "bird")
N_FILES, N_SAMPLES = 20, 300
DECLARED = f"--score-columns {','.join(CLASSES)} --label-column species"


def listed(folder="."):
    return sorted(path.name for path in Path(folder).iterdir())


def shard(seed):
    """Logits that are too large by 2; in one country by 3."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (N_SAMPLES, 4))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((N_SAMPLES, 1))).argmax(axis=1)
    country = rng.choice(["DE", "FR", "IN"], N_SAMPLES)
    z = (z * np.where(country == "IN", 3, 2)[:, None]).astype(np.float32)
    start = seed * N_SAMPLES
    columns = {
        "row_id": np.array([f"{k:06d}" for k in range(start, start + N_SAMPLES)]),
        "country": country,
        **{name: z[:, k] for k, name in enumerate(CLASSES)},
        "ts": np.arange(start, start + N_SAMPLES).astype("datetime64[s]"),
        "species": np.array(CLASSES)[y],
    }
    table = pyarrow.table(columns)
    dictionary = table["country"].dictionary_encode()
    return table.set_column(1, "country", dictionary)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    (folder / "data").mkdir()
    for seed in range(N_FILES):
        parquet.write_table(
            shard(seed), folder / "data" / f"part-{seed:03d}.parquet", row_group_size=100
        )
    return folder


@pytest.fixture
def here(shards, tmp_path, monkeypatch):
    (tmp_path / "data").symlink_to(shards / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def same_but(out, given, added):
    table, original = parquet.read_table(out), parquet.read_table(given)
    assert table.column_names == [*original.column_names, *added]
    assert table.select(original.column_names).equals(original)
    return table


def test_fit_on_a_sample_and_predict_to_the_same_files(here, capsys):
    assert run(f"fit data/*.parquet {DECLARED} --sample 2000 -o auto.json".split()) == 0
    assert "Drew 2,000 of 6,000 samples uniformly" in capsys.readouterr().err
    # The columns are those of the fit.
    assert run(["predict", "auto.json", "data/*.parquet", "-o", "out", "--proba"]) == 0
    assert listed("out") == listed("data")
    calibrator = load("auto.json")
    assert calibrator.class_names_ == CLASSES
    added = ["confidence", "predicted", *(f"proba_{name}" for name in CLASSES)]
    for name in listed("out")[::6]:
        table = same_but(f"out/{name}", f"data/{name}", added)
        z = np.column_stack([table[c].to_numpy() for c in CLASSES])
        p = calibrator.predict_proba(z)
        np.testing.assert_allclose(table["confidence"], p.max(axis=1), atol=1e-6)
        assert table["predicted"].to_pylist() == [CLASSES[k] for k in p.argmax(axis=1)]
        np.testing.assert_allclose(table["proba_dog"], p[:, 1], atol=1e-6)


def test_evaluate_by_country(here):
    """Temperature scaling leaves the country with larger logits overconfident."""
    assert run(f"fit data {DECLARED} --method ts -o ts.json -q".split()) == 0
    calibrator, columns = load_with_columns(Path("ts.json"), Columns(group_column="country"))
    found = evaluate_files("data", columns, calibrator, n_bootstrap=0)
    assert found.n_samples == N_FILES * N_SAMPLES
    ece = {name: float(group.ece) for name, group in found.groups.items()}
    assert found.worst_group == "IN"
    assert ece["IN"] > 2 * float(found.ece)


def test_a_second_run_does_not_overwrite(here, capsys):
    assert run(f"fit data {DECLARED} --method ts -o ts.json -q".split()) == 0
    assert run("predict ts.json data -o out".split()) == 0
    before = Path("out/part-000.parquet").stat().st_mtime_ns
    capsys.readouterr()
    assert run("predict ts.json data -o out".split()) == 1
    assert "--output must not exist" in capsys.readouterr().err
    assert Path("out/part-000.parquet").stat().st_mtime_ns == before
    assert run("predict ts.json data -o out --overwrite".split()) == 0
    assert run("predict ts.json data -o data --overwrite".split()) == 1
    assert "--output must not" in capsys.readouterr().err


def test_a_damaged_file_leaves_nothing_half_written(here, capsys):
    assert run(f"fit data {DECLARED} --method ts -o ts.json -q".split()) == 0
    bad = here / "bad"
    bad.mkdir()
    table = shard(0)
    nan = table["cat"].to_numpy().copy()
    nan[250] = np.nan
    parquet.write_table(table, bad / "a.parquet")
    changed = table.set_column(table.column_names.index("cat"), "cat", pyarrow.array(nan))
    parquet.write_table(changed, bad / "b.parquet")
    assert run("predict ts.json bad -o out".split()) == 1
    assert "bad/b.parquet: X must be finite, got nan" in capsys.readouterr().err
    assert listed("out") == ["a.parquet"]
    assert len(parquet.read_table("out/a.parquet")) == N_SAMPLES


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "feather", "npz"])
def test_every_format_keeps_its_columns(here, ending):
    """Leading zeros, times and texts stay as they are."""
    assert run(f"fit data {DECLARED} --method ts -o ts.json -q".split()) == 0
    table, name = shard(3).slice(0, 5), f"part.{ending}"
    plain = {c: table[c].to_pylist() for c in table.column_names}
    plain["ts"] = [str(t) for t in plain["ts"]]
    if ending == "feather":
        from pyarrow import feather

        feather.write_feather(table, name)
    elif ending == "npz":
        np.savez(name, **{c: np.array(v) for c, v in plain.items()})
    elif ending == "jsonl":
        rows = [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
        (here / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        rows = [",".join(map(str, row)) for row in zip(*plain.values(), strict=True)]
        text = "\n".join([",".join(plain), *rows]) + "\n"
        if ending == "csv":
            (here / name).write_text(text)
        else:
            import gzip

            (here / name).write_bytes(gzip.compress(text.encode()))
    assert run(f"predict ts.json {name} -o out/".split()) == 0
    path = here / "out" / name
    z = np.column_stack([plain[c] for c in CLASSES]).astype(np.float32)
    confidence = load("ts.json").confidence(z)
    if ending == "npz":
        with np.load(path) as found:
            assert found["row_id"].tolist() == plain["row_id"]
            np.testing.assert_allclose(found["confidence"], confidence, atol=1e-6)
        return
    if ending == "feather":
        from pyarrow import feather

        found = feather.read_table(path)
        assert found.select(table.column_names).equals(table)
        np.testing.assert_allclose(found["confidence"], confidence, atol=1e-6)
    elif ending == "jsonl":
        found = [json.loads(line) for line in path.read_text().splitlines()]
        assert [{k: r[k] for k in plain} for r in found] == rows
        np.testing.assert_allclose([r["confidence"] for r in found], confidence, atol=1e-6)
    else:
        text = path.read_bytes() if ending == "csv" else gzip.decompress(path.read_bytes())
        lines = text.decode().splitlines()
        assert lines[0] == ",".join([*plain, "confidence", "predicted"])
        for line, row, c in zip(lines[1:], rows, confidence, strict=True):
            assert line.startswith(f"{row},")
            assert float(line.split(",")[-2]) == pytest.approx(c, abs=1e-6)


def test_dask_writes_the_same_files(here, needs):
    needs("distributed")
    assert run(f"fit data {DECLARED} --method ts -o ts.json -q".split()) == 0
    assert run("predict ts.json data -o alone".split()) == 0
    assert run("predict ts.json data -o cluster --scheduler local".split()) == 0
    for name in listed("data"):
        assert parquet.read_table(f"alone/{name}").equals(parquet.read_table(f"cluster/{name}"))


def test_a_killed_worker_changes_nothing(here, needs):
    needs("distributed")
    from distributed import Client, LocalCluster

    assert run(f"fit data {DECLARED} --method ts -o ts.json -q".split()) == 0
    assert run("predict ts.json data -o alone".split()) == 0
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            (pid, *_) = client.run(os.getpid).values()
        words = ["predict", "ts.json", "data", "-o", "out", "--scheduler"]
        with ThreadPoolExecutor() as pool:
            code = pool.submit(run, [*words, cluster.scheduler_address])
            while not (here / "out" / "part-000.parquet").exists() and not code.done():
                time.sleep(0.001)
            os.kill(pid, signal.SIGKILL)
            assert code.result() == 0
    assert listed("out") == listed("alone")
    for name in listed("alone"):
        assert parquet.read_table(f"alone/{name}").equals(parquet.read_table(f"out/{name}"))


def test_a_wrong_scheduler_is_one_line(here, capsys, needs):
    needs("distributed")
    assert run(f"fit data {DECLARED} --method ts -o ts.json -q".split()) == 0
    assert run("predict ts.json data -o out --scheduler nowhere".split()) == 1
    assert "--scheduler must be 'local' or the address of a Dask" in capsys.readouterr().err


def test_threads_stop_at_a_wrong_file(here, capsys):
    assert run(f"fit data {DECLARED} --method ts -o ts.json -q".split()) == 0
    (here / "csv").mkdir()
    header = ",".join(parquet.read_table("data/part-000.parquet").column_names)
    names = header.split(",")
    good = ",".join("1.5" for _ in names)
    for name, last in (("a", good), ("b", good.replace("1.5", "?")), ("c", good)):
        (here / "csv" / f"{name}.csv").write_text(f"{header}\n{good}\n{last}\n")
    assert run("predict ts.json csv -o out --scheduler local".split()) == 1
    assert "csv/b.csv: " in capsys.readouterr().err
    assert not (here / "out" / "b.csv").exists()
    assert not list((here / "out").glob(".*"))
