import dataclasses
import json
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from wildcal.core.errors import FileFormatError
from wildcal.vision.batches import Augmented, Normalizer
from wildcal.vision.bfloat16 import bfloat16_trouble, trouble_of
from wildcal.vision.checkpoint import Checkpoint
from wildcal.vision.networks import build
from wildcal.vision.recipe import Recipe
from wildcal.vision.train import _use_bfloat16, train
from wildcal.vision.training_data import read_training_data

RECIPE = Recipe(epochs=3, batch_size=32, learning_rate=0.05, small_crops=0.3)


@pytest.fixture(scope="module")
def data(small_data):
    return read_training_data("cifar10", small_data)


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "net.safetensors"
    return path, train("vgg11-half", data, path, recipe=RECIPE)


def test_the_last_tenth_is_not_learnt_from(data, small_data):
    from wildcal.vision.datasets import cifar10

    whole = cifar10(small_data, "train")
    assert len(data.images) == 180
    np.testing.assert_array_equal(data.images, whole.read(slice(0, 180)))
    np.testing.assert_array_equal(data.watched_images, whole.read(slice(180, 200)))
    np.testing.assert_array_equal(data.watched_labels, whole.labels[180:])


def test_training_learns(trained):
    history = trained[1].history
    assert len(history) == 3
    assert history[-1]["loss"] < history[0]["loss"] - 0.3


def test_stopped_run_ends_with_the_same_bytes(data, trained, tmp_path):
    path = tmp_path / "net.safetensors"

    class Stop(Exception):
        pass

    def stop(at):
        # In the middle of the second and of the third epoch.
        if at.step == 3 and at.epoch == stops[0]:
            stops.pop(0)
            raise Stop

    stops = [1, 2, None]
    for _ in range(2):
        with pytest.raises(Stop):
            train("vgg11-half", data, path, recipe=RECIPE, on_step=stop)
    train("vgg11-half", data, path, recipe=RECIPE, on_step=stop)
    assert path.read_bytes() == trained[0].read_bytes()


def test_finished_run_is_left_alone(data, trained):
    before = trained[0].stat().st_mtime_ns
    again = train("vgg11-half", data, trained[0], recipe=RECIPE)
    assert again.history == trained[1].history
    assert trained[0].stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"seed": 1}, "was trained with seed = 0, not 1; give the same options"),
        ({"epochs": 9}, "was trained with epochs = 3, not 9"),
    ],
)
def test_resume_refuses_another_recipe(data, trained, change, text):
    with pytest.raises(ValueError, match=text):
        train("vgg11-half", data, trained[0], recipe=dataclasses.replace(RECIPE, **change))


def test_resume_refuses_another_network(data, trained):
    with pytest.raises(ValueError, match="was trained with network = vgg11-half, not resnet20"):
        train("resnet20", data, trained[0], recipe=RECIPE)


def test_loss_that_explodes_says_what_to_try(data, tmp_path):
    wild = dataclasses.replace(RECIPE, learning_rate=1e30, warm_up=0.0)
    with pytest.raises(FloatingPointError, match=r"the loss became .* try a learning rate below"):
        train("vgg11-half", data, tmp_path / "n.safetensors", recipe=wild)


def test_bfloat16_learns_too(data, tmp_path):
    if trouble := bfloat16_trouble("cpu"):
        pytest.skip(f"bfloat16 does not work on this machine: {trouble}")
    recipe = dataclasses.replace(RECIPE, epochs=1)
    # Slow where the processor has no such numbers, so on few images.
    data = dataclasses.replace(data, images=data.images[:64], labels=data.labels[:64])
    made = train(
        "vgg11-half", data, tmp_path / "n.safetensors", recipe=recipe, precision="bfloat16"
    )
    assert 0.5 < made.history[0]["loss"] < 3
    assert made.recipe["precision"] == "bfloat16"
    assert {t.dtype for t in made.weights.values()} <= {torch.float32, torch.int64}


@pytest.fixture
def machine(monkeypatch):
    """Say what the machine announces, and how a step in bfloat16 ends on it."""

    def machine(*, pays, trouble):
        monkeypatch.setattr("wildcal.vision.train.bfloat16_pays", lambda device: pays)
        monkeypatch.setattr("wildcal.vision.train.bfloat16_trouble", lambda device: trouble)

    return machine


@pytest.mark.parametrize(
    ("pays", "trouble", "chosen"),
    [
        (True, "", True),
        (True, "Illegal instruction", False),
        (False, "", False),
    ],
)
def test_auto_is_bfloat16_where_it_pays_and_works(machine, pays, trouble, chosen):
    machine(pays=pays, trouble=trouble)
    assert _use_bfloat16("auto", "cpu", None) is chosen
    assert _use_bfloat16("float32", "cpu", None) is False
    assert _use_bfloat16("bfloat16", "cpu", None) is True


def test_bfloat16_that_does_not_work_is_told_in_a_line(data, tmp_path, machine):
    machine(pays=True, trouble="Illegal instruction")
    path = tmp_path / "n.safetensors"
    text = r"does not work on this machine \(.*: Illegal instruction\); try precision float32"
    with pytest.raises(ValueError, match=text):
        train("vgg11-half", data, path, recipe=RECIPE, precision="bfloat16")
    assert not path.exists()


def begun(path, tmp_path, n_epochs, **recipe):
    """Return a copy of a trained checkpoint as it was after some epochs."""
    checkpoint = Checkpoint.load(path)
    checkpoint.recipe |= recipe
    del checkpoint.history[n_epochs:]
    names = dict(build("vgg11-half", 10).named_parameters())
    checkpoint.momentum = {name: torch.zeros_like(checkpoint.weights[name]) for name in names}
    checkpoint.save(tmp_path / "begun.safetensors")
    return tmp_path / "begun.safetensors"


def test_resumed_in_the_precision_it_began_with(data, trained, tmp_path, machine):
    machine(pays=True, trouble="")  # a new training would be bfloat16
    path = begun(trained[0], tmp_path, 2)
    made = train("vgg11-half", data, path, recipe=RECIPE, precision="auto")
    assert len(made.history) == 3
    assert "precision" not in made.recipe
    with pytest.raises(ValueError, match="was trained with precision = float32, not bfloat16"):
        train("vgg11-half", data, path, recipe=RECIPE, precision="bfloat16")


def test_training_begun_in_bfloat16(data, trained, tmp_path, machine):
    machine(pays=False, trouble="Illegal instruction")  # a new training would be float32
    path = begun(trained[0], tmp_path, 2, precision="bfloat16")
    with pytest.raises(ValueError, match="was trained with precision = bfloat16, not float32"):
        train("vgg11-half", data, path, recipe=RECIPE)
    with pytest.raises(ValueError, match="bfloat16 does not work on this machine"):
        train("vgg11-half", data, path, recipe=RECIPE, precision="auto")
    path = begun(trained[0], tmp_path, 3, precision="bfloat16")
    made = train("vgg11-half", data, path, recipe=RECIPE, precision="auto")  # no step is left
    assert made.recipe["precision"] == "bfloat16"


def test_how_a_trial_ends():
    assert trouble_of("pass") == ""
    assert trouble_of("import os; os.kill(os.getpid(), 4)") == signal.strsignal(4)
    assert trouble_of("raise ImportError('no torch')") == "ImportError: no torch"
    assert trouble_of("raise SystemExit(3)") == "exit code 3"
    assert trouble_of("import time; time.sleep(60)", 0.1) == "no end within 0.1 seconds"
    assert bfloat16_trouble("cuda") == ""  # which raises an error of its own


def test_rate_rises_and_falls():
    recipe = Recipe(learning_rate=0.4, warm_up=0.25)
    rates = [recipe.rate(p) for p in (0.0, 0.125, 0.25, 0.625, 1.0)]
    assert rates == pytest.approx([0.0, 0.2, 0.4, 0.2, 0.0])
    assert Recipe(warm_up=0.0, learning_rate=0.4).rate(0.0) == pytest.approx(0.4)


def test_small_crops_come_first():
    recipe = Recipe(epochs=10, small_crops=0.4)
    assert [recipe.crop(e) for e in range(10)] == [24] * 4 + [32] * 6


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"learning_rate": float("nan")}, "learning_rate must not be negative, got nan"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative"),
        ({"warm_up": 1.5}, r"warm_up must lie in \[0, 1\]"),
    ],
)
def test_recipe_refuses(options, text):
    with pytest.raises(ValueError, match=text):
        Recipe(**options)


def test_crops_and_flips():
    """Every crop is a window of the padded image, flipped or not, and every image comes once."""
    rng = np.random.default_rng(0)
    images = rng.integers(1, 256, (9, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(9)
    padded = np.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)))
    for crop, offsets in ((32, range(9)), (24, range(4, 13))):
        seen, flips = [], 0
        batches = Augmented.of(images, labels).batches(rng, size=4, crop=crop)
        for cut, y in batches:
            for picture, label in zip(cut, y, strict=True):
                places = [
                    (flip, a, b)
                    for a in offsets
                    for b in offsets
                    for flip in (1, -1)
                    if np.array_equal(picture[:, ::flip], padded[label, a : a + crop, b : b + crop])
                ]
                assert len(places) == 1
                flips += places[0][0] == -1
            seen += list(y)
        # Nine images in fours leave one, of which no batch statistics can be taken.
        assert len(seen) == len(set(seen)) == 8
        assert 0 < flips < 8


def test_normalizer_by_hand():
    normalize = Normalizer((0.5, 0.0, 1.0), (0.5, 1.0, 0.25))
    image = np.array([[[[255, 51, 0]]]], np.uint8)
    np.testing.assert_allclose(normalize(image), [[[[1.0, 0.2, -4.0]]]], rtol=1e-6)
    assert normalize(image).dtype == np.float32


def test_checkpoint_round_trip(trained):
    path, made = trained
    found = Checkpoint.load(path)
    assert (found.network, found.data, found.history) == ("vgg11-half", "cifar10", made.history)
    assert found.momentum == {}
    assert all(torch.equal(found.weights[n], t) for n, t in made.weights.items())


def damaged(path, tmp_path, **changes):
    checkpoint = Checkpoint.load(path)
    about = {
        "format": "wildcal-network",
        "version": 1,
        "network": checkpoint.network,
        "data": checkpoint.data,
        "class_names": list(checkpoint.class_names),
        "mean": list(checkpoint.mean),
        "std": list(checkpoint.std),
        "recipe": checkpoint.recipe,
        "history": checkpoint.history,
    } | changes
    tensors = {f"network.{n}": t for n, t in checkpoint.weights.items()}
    target = tmp_path / "bad.safetensors"
    save_file(tensors, target, {"wildcal": json.dumps(about)})
    return target


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"format": "other"}, "was not written by wildcal train"),
        ({"version": 2}, "unknown version; a newer wildcal may have written it"),
        ({"network": "resnet20"}, "are not those of a resnet20"),
        ({"network": "alexnet"}, "'alexnet', which is not known here"),
        ({"network": 3}, "its description is damaged"),
        ({"std": [1.0, 0.0, 1.0]}, "std above 0"),
        ({"std": [1.0, 1.0]}, "must have three values"),
        ({"mean": ["a", "b", "c"]}, "must be numbers"),
        ({"class_names": ["one"]}, "at least two words"),
        ({"class_names": ["a", "b"]}, "are not those of a vgg11-half"),
        ({"recipe": []}, "its description is damaged"),
        ({"recipe": {"epochs": "many"}}, "recipe is damaged"),
        ({"history": [1]}, "history is damaged"),
        ({"history": [{}]}, "history is damaged"),
        ({"std": [1.0, float("nan"), 1.0]}, "must be numbers"),
    ],
)
def test_damaged_checkpoints(trained, tmp_path, changes, text):
    with pytest.raises(FileFormatError, match=text):
        Checkpoint.load(damaged(trained[0], tmp_path, **changes))


def test_files_that_are_no_checkpoints(trained, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        Checkpoint.load(tmp_path / "none.safetensors")
    raw = trained[0].read_bytes()
    for name, content in {
        "empty": b"",
        "short": raw[: len(raw) // 2],
        "pickle": b"\x80\x02cos\nsystem\n(S'true'\ntR.",
        "huge header": b"\xff" * 8 + raw[8:],
        "plain": None,
    }.items():
        path = tmp_path / f"{name}.safetensors"
        if content is None:
            save_file({"a": torch.zeros(2)}, path)
        else:
            path.write_bytes(content)
        with pytest.raises(FileFormatError, match="cannot read .* as a checkpoint"):
            Checkpoint.load(path)


def test_interrupted_save_keeps_the_last_checkpoint(trained, monkeypatch):
    path = trained[0]
    before = path.read_bytes()

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("wildcal.vision.checkpoint.save_file", fail)
    with pytest.raises(KeyboardInterrupt):
        Checkpoint.load(path).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_one_more_cycle_from_trained_weights(data, trained, tmp_path):
    start = Checkpoint.load(trained[0])
    recipe = dataclasses.replace(RECIPE, epochs=1, learning_rate=0.0)
    made = train("vgg11-half", data, tmp_path / "n.safetensors", recipe=recipe, start=start)
    weights = {n: t for n, t in made.weights.items() if "running" not in n and "num_" not in n}
    assert all(torch.equal(t, start.weights[n]) for n, t in weights.items())
    assert made.recipe["start"] == start.sha256
    with pytest.raises(ValueError, match="was trained with start = "):
        train("vgg11-half", data, tmp_path / "n.safetensors", recipe=recipe)
    with pytest.raises(ValueError, match="must be a resnet20 for cifar10, got a vgg11-half"):
        train("resnet20", data, tmp_path / "m.safetensors", recipe=recipe, start=start)
