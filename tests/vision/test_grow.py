"""A suite that grew, killed in between, has the bytes of one that was made at once."""

import shutil
import time

import numpy as np
import pytest

from wildcal.cli.main import run
from wildcal.io.suite import Suite
from wildcal.io.suite.lock import is_written, writing
from wildcal.vision.batches import Normalizer
from wildcal.vision.classifiers.torch_module import TorchClassifier
from wildcal.vision.distances import DistancePlan, Neighbors
from wildcal.vision.extract import extract
from wildcal.vision.preprocess import make_preprocess
from wildcal.vision.sizes import Sizes
from wildcal.vision.sources import make_plan
from wildcal.vision.training_images import training_images

SMALL = Sizes(corrupted=3, tuning=2, ood=3, ood_test=4)
MIDDLE = Sizes(corrupted=33, tuning=7, ood=5, ood_test=6)
LARGE = Sizes(corrupted=39, tuning=19, ood=8, ood_test=10)


@pytest.fixture
def classifier(small_network):
    return TorchClassifier(small_network(), Normalizer((0.5,) * 3, (0.2,) * 3), {"name": "small"})


def plan(data, sizes=LARGE, **options):
    chosen = {"ood": {"svhn": data}, "extra": {}, "corrupted": data, "seed": 0}
    return make_plan("cifar10", data, sizes=sizes, **(chosen | {"transforms": ()} | options))


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_more_rows_and_more_sets(foggy_data, classifier, tmp_path):
    both = {"svhn": foggy_data, "textures": foggy_data}
    extract(classifier, plan(foggy_data, SMALL), tmp_path / "s")
    extract(classifier, plan(foggy_data, MIDDLE, transforms=("gray",)), tmp_path / "s")
    before = contents(tmp_path / "s")
    old = Suite.open(tmp_path / "s").split("fog-2").logits
    last = plan(foggy_data, LARGE, transforms=("gray", "gamma"), ood=both)
    grown = extract(classifier, last, tmp_path / "s")
    assert grown.complete
    assert (len(old), grown.split("fog-2").rows) == (33, 39)
    np.testing.assert_array_equal(grown.split("fog-2").logits[:33], old)
    extract(classifier, last, tmp_path / "once")
    assert contents(tmp_path / "s") == contents(tmp_path / "once")
    # What did not grow was not touched.
    same = [name for name, raw in before.items() if contents(tmp_path / "s")[name] == raw]
    assert {"test.logits.npy", "validation.logits.npy", "test.labels.npy"} <= set(same)


def test_only_what_is_missing_is_computed(foggy_data, classifier, tmp_path):
    extract(classifier, plan(foggy_data, SMALL), tmp_path / "s")
    seen, there = {}, []

    def count(cell, rows):
        seen[cell] = seen.get(cell, 0) + rows

    extract(
        classifier, plan(foggy_data, MIDDLE), tmp_path / "s", on_rows=count, on_there=there.append
    )
    assert seen["fog-1"] == 30
    assert seen["validation-spatter-3"] == 5
    assert (seen["svhn-tune"], seen["svhn-test"]) == (2, 2)
    assert "test" not in seen
    assert sum(seen.values()) + sum(there) == plan(foggy_data, MIDDLE).rows


def test_each_type_with_images_of_its_own(small_data, classifier, tmp_path, monkeypatch):
    monkeypatch.setattr("wildcal.vision.sources.CORRUPTIONS", ("fog", "frost", "snow"))

    def make(sizes):
        return plan(small_data, sizes, corrupted=None, paired=False)

    first = make(SMALL)
    rows = {cell.name: tuple(cell.rows) for cell in first.cells}
    assert rows["fog-1"] == rows["fog-5"] != rows["frost-1"]
    drawn = [row for name in rows if name.endswith("-1") and "-" in name for row in rows[name]]
    assert len(set(drawn)) > 3
    extract(classifier, first, tmp_path / "s")
    extract(classifier, make(MIDDLE), tmp_path / "s")
    extract(classifier, make(MIDDLE), tmp_path / "once")
    assert contents(tmp_path / "s") == contents(tmp_path / "once")
    assert (tmp_path / "s" / "rows-test-fog.json").exists()
    with pytest.raises(ValueError, match=r"other data \(paired: false there, true here\)"):
        extract(classifier, plan(small_data, MIDDLE, corrupted=None), tmp_path / "s")


def test_a_suite_does_not_shrink(foggy_data, classifier, tmp_path):
    extract(classifier, plan(foggy_data, MIDDLE), tmp_path / "s")
    before = contents(tmp_path / "s")
    with pytest.raises(ValueError, match="holds 5 rows of svhn-tune, more than the 3 asked for"):
        extract(classifier, plan(foggy_data, SMALL), tmp_path / "s")
    with pytest.raises(ValueError, match="was extracted from other rows"):
        extract(classifier, plan(foggy_data, LARGE, seed=1), tmp_path / "s")
    # All the rest of a semantic set are for tests; more to tune on would be taken from them.
    rest = Sizes(corrupted=33, tuning=7, ood=5)
    extract(classifier, plan(foggy_data, rest), tmp_path / "s")
    with pytest.raises(ValueError, match=r"other rows \(rows-svhn.json\)"):
        extract(classifier, plan(foggy_data, Sizes(corrupted=33, tuning=7, ood=6)), tmp_path / "s")
    after = contents(tmp_path / "s")
    assert {name: after[name] for name in before if "fog" in name} == {
        name: raw for name, raw in before.items() if "fog" in name
    }


def test_other_images_of_the_same_name_are_refused(foggy_data, classifier, tmp_path):
    extract(classifier, plan(foggy_data, SMALL), tmp_path / "s")
    other = tmp_path / "other"
    shutil.copytree(foggy_data / "svhn", other / "svhn")
    path = other / "svhn" / "test_32x32.mat"
    raw = bytearray(path.read_bytes())
    raw[500] ^= 255
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="was extracted from other data"):
        extract(classifier, plan(foggy_data, MIDDLE, ood={"svhn": other}), tmp_path / "s")


def test_with_distances(foggy_data, classifier, tmp_path):
    training = training_images("cifar10", foggy_data, make_preprocess("cifar10"))
    wanted = Neighbors(training=training, layers=["1", "logits"], k=3)

    def made(sizes, folder):
        asked = plan(foggy_data, sizes)
        return extract(classifier, asked, folder, distances=DistancePlan(classifier, asked, wanted))

    made(SMALL, tmp_path / "s")
    with pytest.raises(
        ValueError, match="so more rows of it need them too: run an extraction with"
    ):
        extract(classifier, plan(foggy_data, MIDDLE), tmp_path / "s")
    made(LARGE, tmp_path / "s")
    made(LARGE, tmp_path / "once")
    assert contents(tmp_path / "s") == contents(tmp_path / "once")
    # Rows without distances first, then more rows and all distances.
    extract(classifier, plan(foggy_data, SMALL), tmp_path / "later")
    made(LARGE, tmp_path / "later")
    assert contents(tmp_path / "later") == contents(tmp_path / "once")


@pytest.fixture(scope="module")
def network(tmp_path_factory, export, small_network):
    return export(small_network(), tmp_path_factory.mktemp("net") / "net.onnx")


STEPS = (
    "--rows 3 --tuning-rows 2 --ood-rows 3 --ood-test-rows 4 --ood svhn",
    "--rows 20 --tuning-rows 7 --ood-rows 5 --ood-test-rows 6 --ood svhn --ood textures",
    "--rows 39 --tuning-rows 19 --ood-rows 8 --ood-test-rows 10 --ood svhn"
    " --ood textures --transforms color",
)


def command(data, network, folder, step):
    words = STEPS[step].split()
    if "--transforms" not in words:
        words += ["--transforms", "none"]
    given = ["--network", str(network), "--corrupted", str(data), "-o", str(folder)]
    return ["--threads", "1", "extract", str(data), *given, *words]


def test_grown_in_three_steps_and_killed_in_each(foggy_data, network, tmp_path, start, capsys):
    """Killed by the system, at a random number of splits that are new or larger."""
    rng = np.random.default_rng(3)
    folder = tmp_path / "s"
    killed = 0
    for step in range(3):
        words = command(foggy_data, network, folder, step)
        started = time.time_ns()
        process = start(words)
        wanted = rng.integers(1, 20)

        def written(since=started):
            found = folder.glob("*.logits.npy") if folder.exists() else ()
            return sum(path.stat().st_mtime_ns > since for path in found)

        while written() < wanted and process.is_alive():
            time.sleep(0.001)
        if process.is_alive():
            killed += not Suite.open(folder, partial=True).complete
            process.kill()
        process.join()
        assert not is_written(folder)
        assert run(words) == 0, capsys.readouterr().err
        assert Suite.open(folder, verify=True).complete
    assert killed == 3
    assert run(command(foggy_data, network, tmp_path / "once", 2)) == 0
    assert contents(folder) == contents(tmp_path / "once")


def test_one_writer_at_a_time(foggy_data, classifier, tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    assert not is_written(folder)
    with writing(folder):
        assert is_written(folder)
        with pytest.raises(ValueError, match="another extraction is writing to"):
            extract(classifier, plan(foggy_data, SMALL), folder)
    assert not is_written(folder)
    assert not is_written(tmp_path / "absent")
    assert list(folder.iterdir()) == []
