import shutil
import time

import numpy as np
import pytest
import torch

from wildcal._old.io.suite import Suite
from wildcal._old.io.suite.lock import is_written, writing
from wildcal._old.shift import (
    CORRUPTIONS,
    TUNING_TRANSFORMS,
    VALIDATION_CORRUPTIONS,
    corrupt,
    transform,
)
from wildcal._old.vision.batches import Normalizer
from wildcal._old.vision.classifiers import open_classifier
from wildcal._old.vision.datasets import Split, cifar10, svhn
from wildcal._old.vision.extract import extract
from wildcal._old.vision.plan import PlanMaker
from wildcal._old.vision.sizes import Sizes, usual_ood_rows
from wildcal._old.vision.sources import make_plan, ood_there
from wildcal._old.vision.training_data import NORMALIZERS
from wildcal.cli.main import run

SIZES = Sizes(corrupted=8, tuning=6, ood=5)
TRANSFORMED = [
    (name, level) for name, s in TUNING_TRANSFORMS.items() for level in range(1, len(s) + 1)
]


@pytest.fixture(scope="module")
def network(tmp_path_factory, export, small_network):
    return export(small_network(), tmp_path_factory.mktemp("net") / "net.onnx")


def plan(folder, **options):
    chosen = {
        "ood": {"svhn": folder, "textures": folder},
        "extra": {},
        "corrupted": None,
        "sizes": SIZES,
        "seed": 0,
    } | options
    return make_plan("cifar10", folder, **chosen)


@pytest.fixture(scope="module")
def suite(small_data, network, tmp_path_factory):
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    return extract(classifier, plan(small_data), tmp_path_factory.mktemp("suite") / "s")


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_splits(suite):
    assert suite.complete
    assert [s.name for s in suite.tune("none")] == ["validation"]
    assert [s.name for s in suite.tests("none")] == ["test"]
    assert [s.rows for s in suite.tune("semantic")] == [5, 5]
    assert [(s.name, s.rows) for s in suite.tests("semantic")] == [
        ("svhn-test", 25),
        ("textures-test", 15),
    ]
    cells = {(s.corruption, s.severity) for s in suite.tests("covariate")}
    assert cells == {(name, level) for name in CORRUPTIONS for level in range(1, 6)}
    cells = [(s.corruption, s.severity) for s in suite.tune("covariate")]
    corrupted = [(name, level) for name in VALIDATION_CORRUPTIONS for level in range(1, 6)]
    assert cells == corrupted + TRANSFORMED
    assert len(cells) == 44
    assert {s.rows for s in suite.tests("covariate")} == {8}
    assert {s.rows for s in suite.tune("covariate")} == {6}


def test_validation_is_the_part_kept_from_training(suite, small_data):
    np.testing.assert_array_equal(
        suite.split("validation").y, cifar10(small_data, "train").labels[180:]
    )


def test_logits_are_those_of_the_images(suite, small_data, network):
    """Cells made here by hand: rows from the split file, corruption and network called plainly."""
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    test = cifar10(small_data, "test")
    rows = Split.load(suite.path / "rows-test.json").rows("corrupted")
    for name, level in (("fog", 3), ("gaussian_noise", 5)):
        images = corrupt(test.read(slice(None)), name, level, seed=0)[rows]
        split = suite.split(f"{name}-{level}")
        np.testing.assert_allclose(split.logits, classifier.logits(images), atol=1e-5)
        np.testing.assert_array_equal(split.y, test.labels[rows])
    train = cifar10(small_data, "train")
    rows = Split.load(suite.path / "rows-validation.json").rows("corrupted")
    for change, name, level in ((corrupt, "spatter", 4), (transform, "cutout", 3)):
        images = change(train.read(slice(None)), name, level, seed=0)[rows]
        split = suite.split(f"validation-{name}-{level}")
        np.testing.assert_allclose(split.logits, classifier.logits(images), atol=1e-5)
        np.testing.assert_array_equal(split.y, train.labels[rows])
    parts = Split.load(suite.path / "rows-svhn.json")
    images = svhn(small_data).read(parts.rows("tune"))
    np.testing.assert_allclose(
        suite.split("svhn-tune").logits, classifier.logits(images), atol=1e-5
    )
    assert set(suite.split("svhn-tune").y) == {-1}
    assert not set(parts.rows("tune")) & set(parts.rows("test"))


def test_seed_changes_rows_and_noise(suite, small_data, network, tmp_path):
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    other = extract(classifier, plan(small_data, seed=1), tmp_path / "s")
    assert not np.array_equal(other.split("fog-3").y, suite.split("fog-3").y)
    np.testing.assert_array_equal(other.split("test").logits, suite.split("test").logits)


def test_a_suite_that_lacks_cells_gets_them(suite, small_data, network, tmp_path):
    """A finished suite without the transforms: only they are computed, and nothing else differs."""
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    before = extract(classifier, plan(small_data, transforms=()), tmp_path / "s")
    assert before.complete
    assert len(before.splits) == len(suite.splits) - 24
    old = {p.name: p.stat().st_mtime_ns for p in before.path.iterdir() if p.suffix == ".npy"}
    asked = []

    class Counting:
        def __getattr__(self, name):
            return getattr(classifier, name)

        def logits(self, images):
            asked.append(len(images))
            return classifier.logits(images)

    after = extract(Counting(), plan(small_data), before.path)
    assert asked == [32] * 24  # each of the 6 rows, filled up to a block
    assert contents(after.path) == contents(suite.path)
    assert old == {name: (after.path / name).stat().st_mtime_ns for name in old}


def test_a_suite_with_more_cells_is_refused(suite, small_data, network):
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    before = contents(suite.path)
    with pytest.raises(ValueError, match="holds validation-channel_swap-1, which was not"):
        extract(classifier, plan(small_data, transforms=()), suite.path)
    assert contents(suite.path) == before


def test_transforms_are_not_for_tests(small_data):
    train, test = cifar10(small_data, "train"), cifar10(small_data, "test")
    maker = PlanMaker(data={}, validation=train, test=test, types=("fog", "rotation"))
    with pytest.raises(ValueError, match="name must be a corruption; 'rotation' is for tuning"):
        maker.make()


def test_another_network_is_refused(small_network, suite, small_data, export, tmp_path):
    path = export(small_network(seed=1), tmp_path / "net.onnx")
    classifier = open_classifier(str(path), NORMALIZERS["cifar10"])
    with pytest.raises(ValueError, match="was extracted from another network"):
        extract(classifier, plan(small_data), suite.path)


def test_another_normalization_is_refused(suite, small_data, network):
    classifier = open_classifier(str(network), Normalizer((0.5,) * 3, (0.5,) * 3))
    with pytest.raises(ValueError, match="was extracted from another network"):
        extract(classifier, plan(small_data), suite.path)


def test_wrong_number_of_classes(small_network, small_data, export, tmp_path):
    path = export(small_network(7), tmp_path / "net.onnx")
    classifier = open_classifier(str(path), NORMALIZERS["cifar10"])
    with pytest.raises(ValueError, match="must give 10 logits per image, .* got 7"):
        extract(classifier, plan(small_data), tmp_path / "s")


def test_network_that_ends_in_a_softmax(small_network, small_data, export, tmp_path):
    network = torch.nn.Sequential(small_network(), torch.nn.Softmax(1))
    classifier = open_classifier(
        str(export(network, tmp_path / "net.onnx")), NORMALIZERS["cifar10"]
    )
    with pytest.raises(ValueError, match="these are probabilities"):
        extract(classifier, plan(small_data), tmp_path / "s")


def test_published_corrupted_images(small_data, network, tmp_path, suite):
    """CIFAR-10-C as published, made of our corruptions, gives the logits of those made here."""
    test = cifar10(small_data, "test")
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    for name in CORRUPTIONS:
        levels = [corrupt(test.read(slice(None)), name, s, seed=0) for s in range(1, 6)]
        np.save(folder / f"{name}.npy", np.concatenate(levels))
    np.save(folder / "labels.npy", np.tile(test.labels, 5))
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    made = extract(classifier, plan(small_data, corrupted=folder), tmp_path / "s")
    for split in suite.tests("covariate"):
        np.testing.assert_allclose(made.split(split.name).logits, split.logits, atol=1e-5)
    (folder / "fog.npy").unlink()
    assert "fog-3" not in {cell.name for cell in plan(small_data, corrupted=folder).cells}
    np.save(folder / "labels.npy", np.tile(test.labels[::-1], 5))
    with pytest.raises(ValueError, match="in the same order"):
        extract(classifier, plan(small_data, corrupted=folder), tmp_path / "t")


def command(data, network, output):
    return [
        *("extract", str(data), "--network", str(network)),
        *("--rows", "8", "--tuning-rows", "6", "--ood-rows", "5", "-o", str(output)),
    ]


def splits_written(folder):
    return len(list(folder.glob("*.labels.npy"))) if folder.exists() else 0


def test_killed_again_and_again(small_data, network, suite, tmp_path, start, capsys):
    """Killed in its first moments, then at three random numbers of splits."""
    rng = np.random.default_rng(7)
    folder = tmp_path / "s"
    killed = 0
    process = start(command(small_data, network, folder))
    while not folder.exists() and process.is_alive():
        time.sleep(0.0005)
    process.kill()
    process.join()
    for target in np.sort(rng.choice(np.arange(0, 115), 3, replace=False)):
        process = start(command(small_data, network, folder))
        while splits_written(folder) <= target and process.is_alive():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.03))
        killed += process.is_alive()
        process.kill()
        process.join()
        if folder.joinpath("manifest.json").exists():
            assert not Suite.open(folder, verify=True).complete
    assert killed == 3
    assert run(command(small_data, network, folder)) == 0, capsys.readouterr().err
    assert contents(folder) == contents(suite.path)


def test_command_line(small_data, network, tmp_path, capsys):
    words = command(small_data, network, tmp_path / "s")
    assert run([*words, "--ood", "none", "--dtype", "float16"]) == 0
    said = capsys.readouterr().err
    *tenths, last = said.splitlines()
    assert (len(tenths), tenths[-1]) == (10, "1,084 of 1,084 rows.")
    assert last.startswith("Wrote 1,084 rows in 141 splits to ")
    suite = Suite.open(tmp_path / "s", verify=True)
    assert {s.dtype for s in suite.splits} == {"float16"}
    assert suite.tune("semantic") == []


def test_command_line_without_transforms(small_data, network, tmp_path, capsys):
    words = command(small_data, network, tmp_path / "s")
    assert run([*words, "--ood", "none", "--transforms", "none"]) == 0
    assert "Wrote 940 rows in 117 splits to " in capsys.readouterr().err
    assert run([*words, "--ood", "none", "--transforms", "none", "--test-rows", "9"]) == 1
    assert "was extracted from other rows (rows-test.json)" in capsys.readouterr().err


def test_folders_of_classes(small_network, small_data, export, tmp_path, capsys):
    """Any data set, as folders of pictures; further sets of its classes and of other classes."""
    from PIL import Image

    images = cifar10(small_data, "test")
    for part in ("data/validation", "data/test", "sketches"):
        for label, name in enumerate(("cat", "dog")):
            place = tmp_path / part / name
            place.mkdir(parents=True)
            for i in np.flatnonzero(images.labels == label):
                Image.fromarray(images.read(np.array([i]))[0]).resize((40, 48)).save(
                    place / f"{i}.png"
                )
    network = export(small_network(2), tmp_path / "net.onnx")
    words = ["extract", str(tmp_path / "data"), "--dataset", "folders", "--size", "32"]
    words += ["--network", str(network), "-o", str(tmp_path / "s"), "--rows", "4"]
    words += ["--extra", f"sketches={tmp_path / 'sketches'}", "--ood", f"svhn={small_data}"]
    words += ["--ood", f"stripes={small_data / 'dtd' / 'images'}"]
    assert run(words) == 0, capsys.readouterr().err
    suite = Suite.open(tmp_path / "s", verify=True)
    assert suite.class_names == ("cat", "dog")
    assert (suite.data["name"], suite.data["layout"]) == ("data", "folders")
    # Of images that nobody knows, only the colors are changed.
    changed = {s.corruption for s in suite.tune("covariate")} - set(VALIDATION_CORRUPTIONS)
    assert changed == {"posterize", "solarize", "gamma", "gray", "inverted", "channel_swap"}
    assert [s.name for s in suite.tests("semantic")] == ["svhn-test", "stripes-test"]
    sketches = suite.split("sketches")
    assert (sketches.shift, sketches.corruption, sketches.rows) == ("covariate", None, 8)
    np.testing.assert_array_equal(sketches.y, suite.split("test").y)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--ood", "svhn=nowhere"], "nowhere"),
        (["--mean", "1,2"], "give three numbers"),
        (["--std", "1,0,1"], "give three numbers"),
        (["--extra", "a", "--extra", "a=b"], "a name was given twice"),
        (["--extra", "svhn"], "the name 'svhn' is taken"),
        (["--ood", "test=here"], "the name 'test' is taken"),
        (["--ood", "none", "--ood", "svhn"], "--ood none excludes other sets"),
        (["--extra", "imagenet-r"], "imagenet-r"),
        (["--extra", "my set=here"], "here"),
        (["--size", "64"], "the images of cifar10 have 32 x 32 pixels, not 64 x 64"),
        (["--network", "absent.onnx"], "there is no network absent.onnx"),
    ],
)
def test_wrong_words(small_data, network, tmp_path, capsys, words, text):
    code = run([*command(small_data, network, tmp_path / "s"), *words])
    assert code in (1, 2)
    assert text in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_imagenet_and_its_relatives(small_network, export, tmp_path, capsys, monkeypatch):
    """Labels of every set are those of the 1000 classes; every class tunes and tests."""
    from PIL import Image

    from wildcal._old.vision.datasets import imagenet_wnids

    monkeypatch.setattr("wildcal._old.vision.sources.CORRUPTIONS", ("fog", "frost"))
    rng = np.random.default_rng(0)
    wnids = np.array(imagenet_wnids())
    for place, chosen in (("val", [3, 500, 999, 7]), ("imagenet-r", [500, 999])):
        for wnid in wnids[chosen]:
            folder = tmp_path / place / wnid
            folder.mkdir(parents=True)
            for i in range(4):
                picture = rng.integers(0, 256, (44, 40, 3), dtype=np.uint8)
                Image.fromarray(picture).save(folder / f"{i}.JPEG")
    network = export(small_network(1000), tmp_path / "net.onnx")
    words = ["extract", str(tmp_path), "--dataset", "imagenet", "--size", "32", "--rows", "2"]
    words += ["--network", str(network), "--ood", "none"]
    words += ["--extra", f"imagenet-r={tmp_path / 'imagenet-r'}", "--transforms", "gray"]
    assert run([*words, "-o", str(tmp_path / "s")]) == 0, capsys.readouterr().err
    suite = Suite.open(tmp_path / "s", verify=True)
    assert suite.n_classes == 1000
    assert [suite.split(name).rows for name in ("validation", "test", "fog-3")] == [4, 4, 2]
    assert set(suite.split("imagenet-r").y) == {500, 999}
    rows = Split.load(suite.path / "rows-images.json")
    assert not set(rows.rows("validation")) & set(rows.rows("test"))
    words += ["--preprocess", "caffe", "--interpolation", "bicubic", "--resize", "40"]
    words += ["--validation-rows", "8", "--test-rows", "6", "-o", str(tmp_path / "t")]
    assert run(words) == 0, capsys.readouterr().err
    suite = Suite.open(tmp_path / "t", verify=True)
    assert sorted(suite.split("validation").y) == [3, 3, 7, 7, 500, 500, 999, 999]
    assert set(suite.split("test").y) == {3, 7, 500, 999}
    told = {key: suite.data[key] for key in ("name", "size", "resize", "interpolation")}
    assert told == {"name": "imagenet", "size": 32, "resize": 40, "interpolation": "bicubic"}
    assert suite.network["normalize"]["channels"] == "bgr"
    assert suite.network["normalize"]["scale"] == 255.0
    assert run([*words[:-2], "--test-rows", "9", "-o", str(tmp_path / "u")]) == 1
    said = capsys.readouterr().err
    assert "there are 16 images for validation and test together, fewer than 17" in said


def test_sets_of_other_classes(small_data, foggy_data, network, tmp_path, capsys):
    """By default those that are there, with the paper's numbers of rows where there are as many."""
    assert plan(small_data, sizes=Sizes()).data["sizes"]["ood"] == 100
    notes = plan(small_data, sizes=Sizes()).notes
    assert notes[0] == (
        "svhn: 15 rows tune, not 100, because it has 30 images and half of them are for tests."
    )
    assert len(notes) == 2
    assert plan(small_data, sizes=Sizes(ood=4)).notes == ()
    assert [usual_ood_rows(k) for k in (2, 10, 100, 1000, 21841)] == [100, 100, 400, 3500, 3500]
    capped = plan(small_data, sizes=Sizes(ood=4, ood_test=6))
    assert {c.name: len(c.rows) for c in capped.cells if c.shift == "semantic"} == {
        "svhn-tune": 4,
        "textures-tune": 4,
        "svhn-test": 6,
        "textures-test": 6,
    }
    assert list(ood_there(small_data)) == ["svhn", "textures"]
    assert ood_there(tmp_path) == {}
    words = ["extract", str(foggy_data), "--network", str(network), "--rows", "1"]
    words += ["--tuning-rows", "1", "--transforms", "none", "--corrupted", str(foggy_data)]
    assert run([*words, "-o", str(tmp_path / "s")]) == 0
    said = capsys.readouterr().err
    assert said.startswith("Sets of other classes: svhn, textures.\nsvhn: 15 rows tune, not 100,")


def test_names_that_no_split_may_have(small_data):
    with pytest.raises(ValueError, match="cannot be the name of a split"):
        plan(small_data, ood={"my set": small_data / "dtd" / "images"})
    folder = small_data / "dtd" / "images"
    with pytest.raises(ValueError, match="the name 'SVHN-tune' is taken"):
        plan(small_data, ood={"svhn": small_data, "SVHN": folder})


def test_log_softmax_is_refused(small_network, small_data, export, tmp_path):
    network = torch.nn.Sequential(small_network(), torch.nn.LogSoftmax(1))
    classifier = open_classifier(
        str(export(network, tmp_path / "net.onnx")), NORMALIZERS["cifar10"]
    )
    with pytest.raises(ValueError, match="every row is normalized"):
        extract(classifier, plan(small_data), tmp_path / "s")


def test_other_images_are_refused(suite, small_data, network, tmp_path):
    """A folder never mixes two data sets, be they as large as each other."""
    other = tmp_path / "data"
    shutil.copytree(small_data, other)
    path = other / "cifar-10-batches-bin" / "test_batch.bin"
    raw = bytearray(path.read_bytes())
    raw[5] ^= 255
    path.write_bytes(raw)
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    with pytest.raises(ValueError, match="was extracted from other data"):
        extract(classifier, plan(other), suite.path)


def test_split_with_other_rows_is_computed_again(suite, small_data, network, tmp_path):
    from wildcal._old.io.suite import SuiteWriter

    shutil.copytree(suite.path, tmp_path / "s")
    writer = SuiteWriter(
        tmp_path / "s",
        network=suite.network,
        data=suite.data,
        seed=suite.seed,
        versions=suite.versions,
        n_classes=10,
        class_names=suite.class_names,
    )
    assert writer.done("fog-3", rows=8)
    assert not writer.done("fog-3", rows=7)


def test_rows_files_hold_rows_of_the_data_set(suite, small_data):
    kept = Split.load(suite.path / "rows-validation.json")
    rows = kept.rows("corrupted")
    assert (kept.data, kept.n) == ("cifar10-train", 200)
    assert rows.min() >= 180
    labels = cifar10(small_data, "train").labels[rows]
    np.testing.assert_array_equal(suite.split("validation-spatter-1").y, labels)


def test_house_numbers_in_the_size_of_the_network(small_data):
    made = svhn(small_data, size=48).read(slice(2))
    assert made.shape == (2, 48, 48, 3)
    plain = svhn(small_data).read(slice(2))
    assert abs(made.mean() - plain.mean()) < 2


def test_other_folders_do_not_pass_for_textures(small_data, tmp_path):
    (tmp_path / "cat").mkdir()
    shutil.copy(next((small_data / "dtd" / "images" / "banded").iterdir()), tmp_path / "cat")
    with pytest.raises(FileNotFoundError, match="DTD was not found"):
        plan(small_data, ood={"textures": tmp_path})


def test_network_of_another_size_is_refused_before_the_work(small_data, network, tmp_path):
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    classifier.size = 64
    with pytest.raises(ValueError, match="takes images of 64 x 64 pixels, not 32; give crop=64"):
        extract(classifier, plan(small_data), tmp_path / "s")
    classifier.size, classifier.class_names = None, ("cat", "dog")
    with pytest.raises(ValueError, match="trained for other classes"):
        extract(classifier, plan(small_data), tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_one_writer_at_a_time(small_data, network, tmp_path):
    classifier = open_classifier(str(network), NORMALIZERS["cifar10"])
    folder = tmp_path / "s"
    folder.mkdir()
    assert not is_written(folder)
    with writing(folder):
        assert is_written(folder)
        with pytest.raises(ValueError, match="another extraction is writing to"):
            extract(classifier, plan(small_data), folder)
    assert not is_written(folder)
    assert not is_written(tmp_path / "absent")
    assert list(folder.iterdir()) == []
