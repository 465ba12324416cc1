"""`wildcal extract --features`: distances beside the logits, also in suites that are there."""

import shutil
import sys
import time

import numpy as np
import pytest
import torch

from wildcal._old.core.parallel import use_threads
from wildcal._old.io.suite import Suite
from wildcal._old.shift import corrupt
from wildcal._old.vision.classifiers import open_classifier
from wildcal._old.vision.datasets import ArrayImages, Split, cifar10
from wildcal._old.vision.distances import DistancePlan, Neighbors
from wildcal._old.vision.extract import extract
from wildcal._old.vision.features import make_reader
from wildcal._old.vision.networks import build
from wildcal._old.vision.plan import PlanMaker
from wildcal._old.vision.preprocess import make_preprocess
from wildcal._old.vision.sizes import Sizes
from wildcal._old.vision.sources import make_plan
from wildcal._old.vision.training_data import NORMALIZERS
from wildcal._old.vision.training_features import CACHE
from wildcal._old.vision.training_images import TrainingImages, training_images, without_shared
from wildcal.cli.main import run

LOOK = make_preprocess("cifar10")
LAYERS = tuple(f"/features/features.{i}/Relu_output_0" for i in (2, 6, 13, 20, 27))


@pytest.fixture(autouse=True)
def one_thread():
    """Several that wait for each other burn more time than such small work takes."""
    with use_threads(1):
        yield


@pytest.fixture(scope="module")
def network(tmp_path_factory, export):
    torch.manual_seed(0)
    return export(build("vgg11-half", 10), tmp_path_factory.mktemp("net") / "net.onnx")


@pytest.fixture(scope="module")
def data(foggy_data):
    return foggy_data


def command(data, network, output, *more):
    words = "--rows 8 --tuning-rows 6 --ood-rows 5 --transforms none".split()
    given = ["--network", str(network), "--corrupted", str(data), "-o", str(output)]
    return ["--threads", "1", "extract", str(data), *given, *words, *more]


FEATURES = ("--features", "--k", "20", "--layers", f"{LAYERS[1]},{LAYERS[4]},logits")


@pytest.fixture(scope="module")
def plain(data, network, tmp_path_factory):
    """A finished suite without distances."""
    folder = tmp_path_factory.mktemp("plain") / "s"
    assert run(command(data, network, folder)) == 0
    return folder


@pytest.fixture(scope="module")
def near(data, network, tmp_path_factory):
    """The same with distances from the beginning."""
    folder = tmp_path_factory.mktemp("near") / "s"
    assert run(command(data, network, folder, *FEATURES)) == 0
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def by_hand(reader, train, images, rank):
    """Return distances to one neighbor from all pairs."""
    found = []
    for t, x in zip(reader(train)[1], reader(images)[1], strict=True):
        apart = ((x[:, None].astype(float) - t[None]) ** 2).sum(axis=2)
        found.append(np.sort(apart, axis=1)[:, rank - 1])
    return np.stack(found, axis=1)


def test_distances_are_those_of_the_images(near, data, network):
    suite = Suite.open(near, verify=True)
    assert suite.complete
    assert suite.layers == (LAYERS[1], LAYERS[4], "logits")
    assert suite.neighbors["ranks"] == [1, 20]
    assert suite.neighbors["train_rows"] == 180
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    train, test = cifar10(data, "train"), cifar10(data, "test")
    reader = make_reader(classifier, test.read(slice(0, 4)), suite.layers)
    learned = train.read(slice(0, 180))
    rows = Split.load(near / "rows-test.json").rows("corrupted")
    tuned = Split.load(near / "rows-validation.json").rows("corrupted")
    shown = train.read(tuned)
    cases = {
        "validation": train.read(slice(180, 200)),
        "validation-spatter-2": corrupt(shown, "spatter", 2, seed=0, indices=tuned),
        "test": test.read(slice(None)),
        "fog-3": corrupt(test.read(slice(None)), "fog", 3, seed=0)[rows],
    }
    for name, images in cases.items():
        for rank in (1, 20):
            found = suite.split(name).distances(rank)
            np.testing.assert_allclose(found, by_hand(reader, learned, images, rank), atol=1e-5)
    assert all(split.has_distances for split in suite.splits)


def test_added_to_a_finished_suite(plain, near, data, network, tmp_path, capsys):
    """Nothing but the manifest changes, and all files are those of a run that had them at once."""
    folder = tmp_path / "s"
    shutil.copytree(plain, folder)
    before = contents(folder)
    assert run(command(data, network, folder, *FEATURES)) == 0
    after = contents(folder)
    assert [name for name in before if after[name] != before[name]] == ["manifest.json"]
    assert after == contents(near)
    assert not (folder / CACHE).exists()
    # And once more: nothing is left to do.
    assert run(command(data, network, folder, *FEATURES)) == 0
    assert contents(folder) == after
    assert capsys.readouterr().out == ""


def test_progress_counts_training_images(data, network, near, tmp_path, capsys):
    """They are read again for the last split, which is lost."""
    shutil.copytree(near, tmp_path / "s")
    (tmp_path / "s" / "textures-test.labels.npy").unlink()
    assert run(command(data, network, tmp_path / "s", *FEATURES)) == 0
    said = capsys.readouterr().err.splitlines()
    rows = sum(split.rows for split in Suite.open(near).splits)
    assert said[-2] == f"{rows + 180:,} of {rows + 180:,} rows."
    assert contents(tmp_path / "s") == contents(near)


def with_other_logits(plain, folder, name):
    """Return a copy of a finished suite in which a split has logits of other last bits."""
    from wildcal._old.io.suite import SuiteWriter

    shutil.copytree(plain, folder)
    suite = Suite.open(plain)
    keys = ("network", "data", "seed", "versions", "n_classes", "class_names")
    writer = SuiteWriter(folder, **{key: getattr(suite, key) for key in keys})
    split = suite.split(name)
    logits = np.nextafter(split.logits, np.float32(9), dtype=np.float32)
    writer.add(name, logits, split.y, role=split.role, shift=split.shift)
    writer.finish([split.name for split in suite.splits])
    return folder, logits


def test_other_logits_are_refused_before_anything_changes(plain, data, network, tmp_path, capsys):
    """A suite whose first logits do not come out again stays as it is, to the byte."""
    folder, _ = with_other_logits(plain, tmp_path / "s", "validation")
    before = contents(folder)
    assert run(command(data, network, folder, *FEATURES)) == 1
    said = capsys.readouterr().err
    assert "the logits of validation come out otherwise than they were written" in said
    assert contents(folder) == before
    assert Suite.open(folder, verify=True).complete


def test_other_logits_further_on_are_refused(plain, data, network, tmp_path, capsys):
    """Logits are kept; a run without distances finishes the suite and leaves nothing behind."""
    folder, logits = with_other_logits(plain, tmp_path / "s", "test")
    assert run(command(data, network, folder, *FEATURES)) == 1
    said = capsys.readouterr().err
    assert "the logits of test come out otherwise than they were written" in said
    np.testing.assert_array_equal(Suite.open(folder).split("test").logits, logits)
    assert (folder / CACHE).exists()
    assert run(command(data, network, folder)) == 0
    assert not (folder / CACHE).exists()
    assert Suite.open(folder, verify=True).complete


def test_other_distances_are_refused(near, data, network, capsys):
    before = contents(near)
    assert run(command(data, network, near, *FEATURES, "--k", "5")) == 1
    said = capsys.readouterr().err
    assert "holds other neighbor distances (ranks: [1, 20] there, [1, 5] here)" in said
    assert contents(near) == before


def test_float16(data, network, tmp_path):
    """The logits that come out are rounded before they are compared."""
    train, test = cifar10(data, "train"), cifar10(data, "test")
    maker = PlanMaker(
        data={"size": 32},
        validation=train,
        validation_rows=np.arange(180, 200),
        test=test,
        types=("fog",),
        transforms=(),
        sizes=Sizes(corrupted=8, tuning=6),
    )
    plan, classifier = maker.make(), open_classifier(str(network), NORMALIZERS["cifar10"])
    extract(classifier, plan, tmp_path / "s", dtype="float16")
    wanted = Neighbors(
        training=training_images("cifar10", data, LOOK),
        layers=[LAYERS[1], LAYERS[4], "logits"],
        k=20,
    )
    distances = DistancePlan(classifier, plan, wanted)
    suite = extract(classifier, plan, tmp_path / "s", dtype="float16", distances=distances)
    suite.verify()
    split = suite.split("fog-3")
    assert split.dtype == "float16"
    assert split.distances().shape == (8, 3)


def count(folder, pattern):
    return len(list(folder.glob(pattern))) if folder.exists() else 0


def test_killed(data, network, near, tmp_path, start, capsys):
    """Killed while it reads training images, then at random numbers of distances."""
    rng = np.random.default_rng(3)
    folder = tmp_path / "s"
    words = command(data, network, folder, *FEATURES)
    targets = [
        (f"{CACHE}/about.json", 0),
        *(("*.distances.npy", n) for n in np.sort(rng.choice(np.arange(24), 3, replace=False))),
    ]
    for pattern, target in targets:
        process = start(words)
        while count(folder, pattern) <= target and process.is_alive():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.03))
        assert process.is_alive()
        process.kill()
        process.join()
        assert not Suite.open(folder, verify=True).complete
    assert run(words) == 0, capsys.readouterr().err
    assert contents(folder) == contents(near)


def test_training_features_are_read_once(plain, data, network, tmp_path):
    """A run that ends after the training images goes on without them."""
    shutil.copytree(plain, tmp_path / "s")
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    plan = make_plan(
        "cifar10",
        data,
        ood={"svhn": data, "textures": data},
        extra={},
        corrupted=data,
        sizes=Sizes(corrupted=8, tuning=6, ood=5),
        seed=0,
        transforms=(),
    )
    training = training_images("cifar10", data, LOOK)
    wanted = Neighbors(training=training, layers=["logits"], k=3)

    class Stopped(Exception):
        pass

    def stop(cell, rows):
        if cell != "training images":
            raise Stopped

    blocks = [*[32] * 5, 20]
    for seen in (blocks, []):
        asked = []

        class Counting:
            def __getattr__(self, name):
                return getattr(classifier, name)

            def features(self, images, layers):
                asked.append(len(images))  # noqa: B023
                return classifier.features(images, layers)

        distances = DistancePlan(Counting(), plan, wanted)
        with pytest.raises(Stopped):
            extract(classifier, plan, tmp_path / "s", distances=distances, on_rows=stop)
        # Eight images are tried, then the 20 of the first cell are compared, filled up to a block,
        # then come the training images, then the first cell.
        assert asked == [8, 32, *seen, 32]
    (block,) = (tmp_path / "s" / CACHE).glob("*.npy")
    block.write_bytes(block.read_bytes()[:-1])
    asked.clear()
    with pytest.raises(Stopped):
        extract(classifier, plan, tmp_path / "s", distances=distances, on_rows=stop)
    assert asked == [32, *blocks, 32]
    Suite.open(tmp_path / "s", verify=True)


def pictures(n, seed=0):
    images = np.random.default_rng(seed).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
    return ArrayImages("mine", images, np.zeros(n, int), ("a", "b"))


def test_shared_images_are_left_out():
    """Two of 300 images to tune on are among the training images, one of them twice."""
    tuning = pictures(300)
    images = np.concatenate([pictures(50, 1).images, tuning.images[[4, 9, 4]]])
    train = ArrayImages("mine", images, np.zeros(53, int), ("a", "b"))
    kept = without_shared(TrainingImages(train, np.arange(53)), tuning, np.arange(300))
    assert kept.rows.tolist() == list(range(50))
    assert kept.duplicates == 3
    alone = without_shared(TrainingImages(train, np.arange(50)), tuning, np.arange(300))
    assert (alone.duplicates, alone.sha256) == (0, kept.sha256)


def test_training_images_to_tune_on_are_refused():
    tuning = pictures(300)
    with pytest.raises(ValueError, match="4 of 300 images to tune on are among the training imag"):
        without_shared(TrainingImages(tuning, np.arange(4)), tuning, np.arange(300))


class Lazy:
    """Pictures that are made when they are read, as those in files are; counts them."""

    name = "lazy"

    def __init__(self, images):
        self.images, self.read_so_far = images, 0

    def __len__(self):
        return len(self.images)

    def read(self, rows):
        self.read_so_far += len(rows)
        return self.images[rows]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_small_sample_of_training_images_shows_what_is_shared(lazy):
    """All 400 images to tune on are among 20,000, of which 150 are searched."""
    images = np.random.default_rng(0).integers(0, 256, (20_000, 4, 4, 3), dtype=np.uint8)
    labels = np.zeros(20_000, int)
    rng = np.random.default_rng(1)
    order = rng.permutation(20_000)
    rows, others = np.sort(order[:150]), np.sort(order[150:])
    for shared, refused in ((400, True), (3, False)):
        tuning = images[rng.choice(20_000, 400, replace=False)]
        tuning[shared:] ^= 255
        tuning = ArrayImages("tuning", tuning, labels[:400], ("a",))
        train = Lazy(images) if lazy else ArrayImages("train", images, labels, ("a",))
        sample = TrainingImages(train, rows, others)
        if refused:
            part = r"lazy; 2,000 of 20,000 were looked at" if lazy else "train"
            with pytest.raises(ValueError, match=rf"of 400 images to tune on are .* \({part}\)"):
                without_shared(sample, tuning, np.arange(400))
        else:
            kept = without_shared(sample, tuning, np.arange(400))
            assert len(kept.rows) + kept.duplicates == 150
        if lazy:
            assert train.read_so_far <= 2002  # a first one tells the size, in each part


def test_few_rows_on_the_command_line(data, network, tmp_path, capsys):
    """The images to tune on are refused as training images, however few of them are drawn."""
    from PIL import Image

    images = cifar10(data, "train")
    for i in range(160, 200):  # half of them are to be tuned on
        place = tmp_path / "train" / ("cat", "dog")[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.read(np.array([i]))[0]).save(place / f"{i}.png")
    words = ["--features", "--k", "1", "--layers", "logits", "--train-rows", "1"]
    words += ["--train", str(tmp_path / "train")]
    assert run(command(data, network, tmp_path / "s", *words)) == 1
    assert "20 of 20 images to tune on are among the training" in capsys.readouterr().err


def test_training_images_of_cifar(data):
    found = training_images("cifar10", data, LOOK)
    assert found.rows.tolist() == list(range(180))
    some = training_images("cifar10", data, LOOK, rows=30, seed=1)
    assert len(some.rows) == 30
    assert sorted([*some.rows, *some.others]) == list(range(180))
    again = training_images("cifar10", data, LOOK, rows=30, seed=1)
    np.testing.assert_array_equal(some.rows, again.rows)
    with pytest.raises(ValueError, match="train_rows must be at most 180, .* got 181"):
        training_images("cifar10", data, LOOK, rows=181)


def test_training_images_of_imagenet(tmp_path):
    """One in a hundred, cut out as the validation images are."""
    from PIL import Image

    from wildcal._old.vision.datasets import imagenet

    picture = np.random.default_rng(0).integers(0, 256, (50, 60, 3), dtype=np.uint8)
    for part, n in (("train", 101), ("val", 1)):
        for wnid in ("n01440764", "n01443537"):
            (tmp_path / part / wnid).mkdir(parents=True)
            for i in range(n):
                Image.fromarray(picture).save(tmp_path / part / wnid / f"{i}.png")
    found = training_images("imagenet", tmp_path, make_preprocess("imagenet", crop=32))
    assert len(found.rows) == 2
    wanted = imagenet(tmp_path, 32).read(slice(0, 1))
    np.testing.assert_array_equal(found.images.read(found.rows[:1]), wanted)


def test_folders(data, export, tmp_path, capsys, monkeypatch):
    """DATA/train is searched; another folder where it is given; the validation images never."""
    from PIL import Image

    monkeypatch.setattr("wildcal._old.vision.sources.CORRUPTIONS", ("fog",))
    images = cifar10(data, "train")
    for part, rows in (
        ("validation", range(20)),
        ("test", range(20, 40)),
        ("train", range(40, 80)),
    ):
        for i in rows:
            place = tmp_path / "data" / part / ("cat", "dog")[i % 2]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images.read(np.array([i]))[0]).save(place / f"{i}.png")
    network = export(build("vgg11-half", 2), tmp_path / "net.onnx")
    words = ["extract", str(tmp_path / "data"), "--dataset", "folders", "--size", "32"]
    words += [
        "--network",
        str(network),
        "--rows",
        "4",
        "--ood",
        "none",
        "--transforms",
        "none",
    ]
    # A network of another size is refused alike, before it runs.
    for more in ([], ["--features"]):
        assert run([*words, "-o", str(tmp_path / "s"), "--size", "40", *more]) == 1
        said = capsys.readouterr().err
        assert (
            said == "error: the network takes images of 32 x 32 pixels, not 40; give --crop 32.\n"
        )
    words += ["--features"]
    assert run([*words, "-o", str(tmp_path / "s"), "--search", "ivf"]) == 0
    about = Suite.open(tmp_path / "s").neighbors
    assert (about["ranks"], about["train_rows"], about["search"]) == ([1, 10], 40, "ivf")
    assert (about["train"]["name"], about["cells"]) == ("train", 1)
    other = training_images("folders", tmp_path, LOOK, train=tmp_path / "data" / "test", rows=15)
    assert (other.images.name, len(other.images), len(other.rows)) == ("test", 20, 15)
    capsys.readouterr()
    known = ["-o", str(tmp_path / "u"), "--train", str(tmp_path / "data" / "validation")]
    assert run([*words, *known]) == 1
    assert "20 of 20 images to tune on are among the training" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "data" / "train")
    assert run([*words, "-o", str(tmp_path / "u")]) == 1
    assert "train was not found; give the folder of the images" in capsys.readouterr().err
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--k", "5"], "--k is for --features."),
        (["--layers", "logits"], "--layers is for --features."),
        (["--train-rows", "5"], "--train-rows is for --features."),
        (["--features", "--k", "181"], "k must be at most the number of training images, 180"),
        (["--features", "--k", "9", "--layers", "Relu"], "has no tensor 'Relu'. Near names: "),
        (["--features", "--k", "9", "--layers", ""], "give at least one layer"),
        (["--features", "--k", "9", "--layers", "a,,logits"], "is empty in --layers a,,logits."),
        (["--features", "--k", "9", "--train", "nowhere"], "nowhere was not found"),
        (["--features", "--search", "fast"], "fast"),
    ],
)
def test_wrong_words(data, network, tmp_path, capsys, words, text):
    assert run([*command(data, network, tmp_path / "s"), *words]) in (1, 2)
    assert text in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("package", "modules", "text"),
    [
        ("faiss", ("neighbors", "distances"), 'pip install "wildcal[features]"'),
        ("onnx", ("classifiers.onnx_layers",), 'pip install "wildcal[onnx]"'),
    ],
)
def test_without_a_package(data, network, tmp_path, capsys, monkeypatch, package, modules, text):
    monkeypatch.setitem(sys.modules, package, None)
    for module in modules:
        monkeypatch.delitem(sys.modules, f"wildcal._old.vision.{module}", raising=False)
    assert run(command(data, network, tmp_path / "s", "--features", "--k", "9")) == 1
    assert text in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
    assert run(["extract", "--help"]) == 0
