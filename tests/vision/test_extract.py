"""Extraction: splits of a suite, interrupted runs, clusters, and wrong preprocessing."""

import random
import shutil
import signal
import sys
import time

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn

from wildcal.cli.main import run
from wildcal.corruptions import (
    CORRUPTIONS,
    VALIDATION_CORRUPTIONS,
    VALIDATION_TRANSFORMS,
    corrupt,
    transform,
)
from wildcal.io.suite import Suite
from wildcal.io.suite_writer import SuiteWriter
from wildcal.vision.classifiers import open_classifier
from wildcal.vision.datasets import cifar10, svhn
from wildcal.vision.extract import extract, implausible_conditions
from wildcal.vision.extractor import Extractor, training_neighbors
from wildcal.vision.images import CIFAR10, PRESETS
from wildcal.vision.plan import Sizes, choose_transforms, make_plan, ood_sets

pytestmark = pytest.mark.slow

SMALL = ["--n-corrupted", "8", "--n-shifted-validation", "6", "--n-ood", "5"]
# The network of these tests is not trained.
COMMON = ["--allow-chance", "--transforms", "none"]


@pytest.fixture(scope="module")
def network(tmp_path_factory, export, small_network):
    return export(small_network(), tmp_path_factory.mktemp("net") / "net.onnx")


@pytest.fixture(scope="module")
def suite(small_data, network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite") / "s"
    words = ["extract", str(small_data), "--network", str(network), *SMALL, "--allow-chance"]
    assert run([*words, "-o", str(folder)]) == 0
    return Suite.open(folder)


def same(first, second, *, distances=False):
    assert [s.name for s in first.splits] == [s.name for s in second.splits]
    for a, b in zip(first.splits, second.splits, strict=True):
        np.testing.assert_allclose(a.logits, b.logits, atol=1e-5)
        np.testing.assert_array_equal(a.y, b.y)
        if distances:
            np.testing.assert_allclose(a.knn_distances, b.knn_distances, atol=1e-5)


def test_splits(suite):
    assert suite.complete
    by_name = {split.name: split for split in suite.splits}
    changes = [(name, level) for name in VALIDATION_CORRUPTIONS for level in range(1, 6)]
    for name, strengths in VALIDATION_TRANSFORMS.items():
        changes += [(name, level) for level in range(1, len(strengths) + 1)]
    shifted = [s for s in suite.calibration if s.is_shifted]
    assert [(s.corruption, s.severity) for s in shifted] == changes
    tested = {(s.corruption, s.severity) for s in suite.test if s.is_shifted}
    assert tested == {(name, level) for name in CORRUPTIONS for level in range(1, 6)}
    sizes = {name: by_name[name].n_samples for name in ("validation", "test", "fog-3")}
    assert sizes == {"validation": 20, "test": 40, "fog-3": 8}
    ood = [(s.name, s.n_samples) for s in suite.splits if s.is_ood]
    assert ood[:2] == [("svhn-calibration", 5), ("svhn-test", 25)]
    assert ood[2:] == [("textures-calibration", 5), ("textures-test", 15)]


def test_logits_are_those_of_the_images(suite, small_data, network):
    indices = np.load(suite.path / "indices.npz")
    train, test = cifar10(small_data, "train"), cifar10(small_data, "test")
    sets = {"validation": train, "validation-rotation-2": train, "fog-3": test}
    classifier = open_classifier(str(network))
    for name, images in sets.items():
        chosen = indices[name]
        pixels = images.read(chosen)
        if name == "fog-3":
            pixels = corrupt(pixels, "fog", 3, indices=chosen)
        if "rotation" in name:
            pixels = transform(pixels, "rotation", 2, indices=chosen)
        wanted, _ = classifier.outputs(CIFAR10.normalize(pixels))
        np.testing.assert_allclose(suite.split(name).logits, wanted, atol=1e-5)
        np.testing.assert_array_equal(suite.split(name).y, images.labels[chosen])
    assert indices["validation"].min() == 180  # the images that a training leaves out
    pixels = svhn(small_data, CIFAR10).read(indices["svhn-test"])
    wanted, _ = classifier.outputs(CIFAR10.normalize(pixels))
    np.testing.assert_allclose(suite.split("svhn-test").logits, wanted, atol=1e-5)


def test_the_same_images_in_all_corruptions_or_not(small_data):
    def indices(**options):
        plan = make_plan("cifar10", small_data, CIFAR10, sizes=Sizes(corrupted=8), **options)
        return {c.name: c.indices.tolist() for c in plan.conditions}

    paired, unpaired, other = indices(), indices(paired=False), indices(seed=1)
    assert paired["fog-1"] == paired["snow-3"] != other["fog-1"]
    assert unpaired["fog-1"] == unpaired["fog-5"] != unpaired["snow-3"]


def test_published_corrupted_images(foggy_data, network, tmp_path):
    words = ["extract", str(foggy_data), "--network", str(network), *SMALL, *COMMON]
    assert run([*words, "--corrupted", str(foggy_data), "-o", str(tmp_path / "s")]) == 0
    found = Suite.open(tmp_path / "s")
    assert [s.name for s in found.test if s.is_shifted] == [f"fog-{i}" for i in range(1, 6)]
    made = tmp_path / "made"
    assert run([*words, "-o", str(made)]) == 0
    wanted = Suite.open(made).split("fog-3")
    np.testing.assert_allclose(found.split("fog-3").logits, wanted.logits, atol=1e-5)


def test_published_images_of_another_order_are_refused_first(foggy_data, network, tmp_path, capsys):
    shutil.copytree(foggy_data / "CIFAR-10-C", tmp_path / "CIFAR-10-C")
    labels = np.load(tmp_path / "CIFAR-10-C" / "labels.npy")
    np.save(tmp_path / "CIFAR-10-C" / "labels.npy", labels[::-1])
    words = ["extract", str(foggy_data), "--network", str(network), *SMALL, *COMMON]
    assert run([*words, "--corrupted", str(tmp_path), "-o", str(tmp_path / "s")]) == 1
    assert "--corrupted must have the test images in the same order" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_killed_at_random_ten_times(foggy_data, network, tmp_path, run_and_kill, capsys):
    """Ends with the suite of a run that was not: each kill -9 loses at most one condition."""
    words = ["extract", str(foggy_data), "--network", str(network), *SMALL, *COMMON]
    words += ["--corrupted", str(foggy_data), "--features", "--layers", "logits"]
    words += ["--n-neighbors", "3", "--transforms", "all", "-o"]  # 55 conditions
    assert run([*words, str(tmp_path / "once")]) == 0
    killed, rng, done = tmp_path / "killed", random.Random(0), 0
    for _ in range(10):
        more = done + rng.randint(1, 3)
        code = run_and_kill([*words, str(killed)], more, delay=rng.uniform(0, 0.01))
        assert code == -signal.SIGKILL
        before, done = done, len(Suite.open(killed).splits)
        assert before <= done < len(Suite.open(tmp_path / "once").splits)
    assert done > 5
    assert run([*words, str(killed)]) == 0
    same(Suite.open(tmp_path / "once"), Suite.open(killed), distances=True)
    assert not (killed / ".training-features").exists()


def test_distances_are_added_to_a_finished_suite(foggy_data, network, tmp_path, capsys):
    words = ["extract", str(foggy_data), "--network", str(network), *SMALL, *COMMON]
    words += ["--corrupted", str(foggy_data), "-o", str(tmp_path / "s")]
    assert run(words) == 0
    plain = Suite.open(tmp_path / "s")
    logits = plain.split("fog-3").logits.copy()
    assert plain.split("fog-3").knn_distances is None
    assert run([*words, "--features", "--n-neighbors", "7", "--layers", "logits"]) == 0
    found = Suite.open(tmp_path / "s")
    assert found.layers == ("logits",)
    assert found.split("fog-3").knn_distances.shape == (8, 1)
    np.testing.assert_allclose(found.split("fog-3").logits, logits, atol=1e-6)
    # The k-th nearest training image by all distances.
    classifier, train = open_classifier(str(network)), cifar10(foggy_data, "train")
    features, _ = classifier.outputs(CIFAR10.normalize(train.read(np.arange(180))))
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (features, logits)]
    wanted = np.sort(((unit[1][:, None] - unit[0]) ** 2).sum(axis=2), axis=1)[:, 6]
    np.testing.assert_allclose(found.split("fog-3").knn_distances[:, 0], wanted, atol=1e-5)
    assert run([*words, "--features", "--n-neighbors", "5", "--layers", "logits"]) == 1
    assert "n_neighbors: 7 there, 5 here" in capsys.readouterr().err


def test_a_missing_faiss_is_noticed_first(small_data, network, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "faiss", None)
    words = ["extract", str(small_data), "--network", str(network), *SMALL, *COMMON]
    words += ["--features", "--layers", "logits", "--n-neighbors", "3"]
    assert run([*words, "-o", str(tmp_path / "s")]) == 1
    assert 'Install it with: pip install "wildcal[vision]"' in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_progress_of_a_resumed_run(foggy_data, network, tmp_path, monkeypatch):
    """It ends at the number of images, also where the last part of the features is smaller."""
    monkeypatch.setattr("wildcal.vision.extractor.PART_SIZE", 50)  # 180 images: 50, 50, 50, 30
    plan = make_plan("cifar10", foggy_data, CIFAR10, transforms=["none"], sizes=Sizes(corrupted=4))
    neighbors = training_neighbors("cifar10", foggy_data, CIFAR10, k=1, layers=("logits",))
    extractor = Extractor(lambda: open_classifier(str(network)), plan, CIFAR10, neighbors)
    total, counts = plan.n_samples + 180, []

    def stop_early(n):
        counts.append(n)
        if sum(counts) > 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(extractor, tmp_path / "s", progress=stop_early)
    counts.clear()
    extract(extractor, tmp_path / "s", progress=counts.append)
    assert sum(counts) == total


def test_on_a_cluster(foggy_data, network, tmp_path):
    pytest.importorskip("distributed")
    words = ["extract", str(foggy_data), "--network", str(network), *SMALL, *COMMON]
    words += ["--corrupted", str(foggy_data), "--features", "--layers", "logits"]
    assert run([*words, "-o", str(tmp_path / "here")]) == 0
    assert run([*words, "-o", str(tmp_path / "there"), "--scheduler", "local"]) == 0
    same(Suite.open(tmp_path / "here"), Suite.open(tmp_path / "there"), distances=True)


def test_another_network_or_more_conditions_are_refused(
    suite, small_data, export, small_network, network, tmp_path, capsys
):
    other = export(small_network(seed=1), tmp_path / "other.onnx")
    folder = shutil.copytree(suite.path, tmp_path / "s")
    words = ["extract", str(small_data), *SMALL, "--allow-chance", "-o", str(folder), "--network"]
    assert run([*words, str(other)]) == 1
    assert "model must be that of the suite" in capsys.readouterr().err
    assert run([*words, str(network), "--transforms", "none"]) == 1
    assert "--output must be another folder" in capsys.readouterr().err
    assert run([*words, str(network), "--seed", "1"]) == 1
    assert "must be that of the suite" in capsys.readouterr().err


def test_a_damaged_split_is_written_again(suite, small_data, network, tmp_path):
    folder = shutil.copytree(suite.path, tmp_path / "s")
    damaged = folder / "fog-3" / "logits.npy"
    damaged.write_bytes(damaged.read_bytes()[:-4] + b"1234")
    words = ["extract", str(small_data), "--network", str(network), *SMALL, "--allow-chance"]
    assert run([*words, "-o", str(folder)]) == 0
    same(suite, Suite.open(folder))


def test_training_images_that_are_for_validation_are_refused(small_data, network, tmp_path):
    plan = make_plan("cifar10", small_data, CIFAR10, transforms=["none"], sizes=Sizes(corrupted=4))
    neighbors = training_neighbors("cifar10", small_data, CIFAR10, k=1, layers=("logits",))
    object.__setattr__(neighbors, "indices", np.arange(100, 200))
    extractor = Extractor(lambda: open_classifier(str(network)), plan, CIFAR10, neighbors)
    with pytest.raises(ValueError, match="20 of 20 validation images are among them"):
        extract(extractor, tmp_path / "s")


def test_networks_that_do_not_match(small_data, export, small_network, tmp_path, capsys):
    words = ["extract", str(small_data), "-o", str(tmp_path / "s"), "--network"]
    assert run([*words, str(export(small_network(7), tmp_path / "seven.onnx"))]) == 1
    assert "--network must return 10 logits per image" in capsys.readouterr().err
    network = str(export(small_network(), tmp_path / "net.onnx"))
    assert run([*words, network, "--crop", "64"]) == 1
    assert "--crop must be 32" in capsys.readouterr().err
    assert run([*words, network, "--transforms", "blurry"]) == 1
    assert "--transforms must be one of 'color'" in capsys.readouterr().err
    assert run([*words, network, "--n-test", "100"]) == 1
    assert "--n-test must be an integer in [1, 40], got 100" in capsys.readouterr().err
    assert run([*words, network, "--features", "--n-neighbors", "500"]) == 1
    assert "--n-neighbors must be an integer in [1, " in capsys.readouterr().err


@pytest.mark.parametrize("last", [nn.Softmax(1), nn.LogSoftmax(1)])
def test_networks_that_end_in_a_softmax(small_data, export, small_network, tmp_path, capsys, last):
    network = export(nn.Sequential(small_network(), last), tmp_path / "net.onnx")
    words = ["extract", str(small_data), "--network", str(network), "--allow-chance"]
    assert run([*words, "-o", str(tmp_path / "s")]) == 1
    assert "logits" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "s").exists()


def test_transforms_that_change_the_class(tmp_path):
    writer = SuiteWriter(tmp_path / "s", class_names=["a", "b"])
    right = {f"gamma-{i}": 90 - 5 * i for i in range(5)} | {"vertical_flip-1": 20}
    for name, n in right.items():
        logits = np.tile([2.0, 0.0], (100, 1))
        y = (np.arange(100) >= n).astype(int)
        writer.add(f"validation-{name}", logits, y, role="calibration", domain=name)
    writer.finish()
    found = implausible_conditions(Suite.open(tmp_path / "s"))
    assert found == {"validation-vertical_flip-1": 0.2}


def test_chance_is_refused(small_data, network, tmp_path, capsys):
    words = ["extract", str(small_data), "--network", str(network), "-o", str(tmp_path / "s")]
    assert run(words) == 1
    text = capsys.readouterr().err
    assert "conditions" in text  # the plan comes first
    assert "within noise of chance" in text
    assert "--allow-chance" in text
    assert not (tmp_path / "s").exists()


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Folders of the digits of scikit-learn, and a network trained on levels up to 255."""
    home = tmp_path_factory.mktemp("digits")
    found = load_digits()
    images = np.kron(found.images, np.ones((4, 4))).astype(np.float32) / 16
    parts = {"train": slice(0, 700), "validation": slice(700, 1000), "test": slice(1000, 1300)}
    for part, chosen in parts.items():
        for i, (image, label) in enumerate(zip(images[chosen], found.target[chosen], strict=True)):
            folder = home / "data" / part / str(label)
            folder.mkdir(parents=True, exist_ok=True)
            picture = Image.fromarray((255 * image).astype(np.uint8)).convert("RGB")
            picture.save(folder / f"{i}.png")
    (home / "digitsnet.py").write_text(
        "from torch import nn\n"
        "def net():\n"
        "    return nn.Sequential(nn.Conv2d(3, 16, 4, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 3),"
        " nn.ReLU(), nn.Flatten(), nn.Linear(1152, 10))\n"
    )
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Conv2d(3, 16, 4, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1152, 10)),
    )
    pixels = np.repeat((255 * images[:700]).astype(np.uint8)[..., None], 3, axis=3)
    x = torch.from_numpy(PRESETS["caffe"].normalize(pixels)).permute(0, 3, 1, 2)
    y = torch.from_numpy(found.target[:700])
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(80):
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    save_file(net.state_dict(), home / "w.safetensors")
    return home


def test_folders_of_small_pictures(digits, tmp_path, monkeypatch, capsys):
    """They keep their size; the wrong colors are named; the right ones give a suite."""
    monkeypatch.chdir(digits)
    words = ["extract", "data", "--dataset", "folders", "--network", "digitsnet:net"]
    words += ["--weights", "w.safetensors", "--n-corrupted", "20", "-o", str(tmp_path / "s")]
    assert run(words) == 1
    colors = "--mean 123.68,116.779,103.939, --std 1,1,1, --channels bgr, --scale 255"
    assert f" with {colors}. Try these." in capsys.readouterr().err
    words += colors.replace(", --", " --").split()
    words += ["--features", "--n-train", "300"]
    assert run(words) == 1
    assert "--layers must be given for digitsnet:net" in capsys.readouterr().err
    assert run([*words, "--layers", "1,3,logits"]) == 0
    text = capsys.readouterr().err
    assert "center 32 x 32" in text
    assert "Accuracy on 300 in-distribution images: 9" in text
    found = Suite.open(tmp_path / "s")
    test = found.split("test")
    assert (test.logits.argmax(axis=1) == test.y).mean() > 0.85
    assert found.layers == ("1", "3", "logits")
    # A 6 upside down is a 9: by default only colors are changed.
    changed = {s.corruption for s in found.calibration if s.is_shifted}
    assert changed == {*VALIDATION_CORRUPTIONS, *choose_transforms(["color"], "folders")}


def test_ood_and_extra_sets(digits, network, tmp_path, monkeypatch, capsys):
    shutil.copytree(digits / "data" / "test", tmp_path / "data" / "night")
    shutil.copytree(digits / "data" / "test", tmp_path / "dice")
    for part in ("validation", "test"):
        (tmp_path / "data" / part).symlink_to(digits / "data" / part)
    monkeypatch.chdir(tmp_path)
    words = ["extract", "data", "--dataset", "folders", "--network", str(network), *COMMON, *SMALL]
    assert run([*words, "--ood", "dice=dice", "--extra", "night", "-o", "s"]) == 0
    found = Suite.open("s")
    assert found.split("night").domain == "night"
    assert found.split("dice-test").is_ood
    assert run([*words, "--ood", "none", "-o", "t"]) == 0
    assert not any(split.is_ood for split in Suite.open("t").splits)
    assert run([*words, "--ood", "absent", "-o", "u"]) == 1
    assert "data/absent was not found" in capsys.readouterr().err


def test_imagenet(export, small_network, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for part, n in (("data/val", 8), ("data/imagenet-r", 2)):
        for k in range(4):
            folder = tmp_path / part / str(k)
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.jpg")
    network = str(export(small_network(1000), tmp_path / "net.onnx"))
    monkeypatch.chdir(tmp_path)
    words = ["extract", "data", "--dataset", "imagenet", "--network", network, *COMMON]
    words += ["--n-corrupted", "4", "--extra", "imagenet-r=data", "-o", "s"]
    assert run(words) == 0
    found = Suite.open("s")
    assert (found.split("validation").n_samples, found.split("test").n_samples) == (8, 8)
    assert sorted(found.split("validation").y) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert sorted(found.split("imagenet-r").y) == [0, 0, 1, 1, 2, 2, 3, 3]
    indices = np.load("s/indices.npz")
    assert not set(indices["validation"]) & set(indices["test"])


def test_ood_sets_of_a_folder(small_data, tmp_path):
    assert set(ood_sets(small_data)) == {"svhn", "textures"}
    assert ood_sets(tmp_path) == {}


def test_progress_without_a_terminal(small_data, network, tmp_path, capsys, monkeypatch):
    from wildcal.cli import output as module

    monkeypatch.setattr(module, "_EVERY", 0.0)
    words = ["extract", str(small_data), "--network", str(network), *SMALL, *COMMON]
    started = time.monotonic()
    assert run([*words, "-o", str(tmp_path / "s")]) == 0
    assert time.monotonic() > started
    lines = capsys.readouterr().err.splitlines()
    assert sum(" images" in line and " of " in line for line in lines) > 50
