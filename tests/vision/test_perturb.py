"""Suites with validation images under noise that takes a network to chance."""

import numpy as np
import pytest
import torch

from wildcal.core.errors import FileFormatError
from wildcal.io.suite import Suite
from wildcal.vision.batches import Normalizer
from wildcal.vision.classifiers.torch_module import TorchClassifier
from wildcal.vision.datasets import ArrayImages, Split
from wildcal.vision.extract import extract
from wildcal.vision.noise import Noise
from wildcal.vision.perturb import notes
from wildcal.vision.plan import PlanMaker
from wildcal.vision.sizes import Sizes

USUAL = Normalizer((0.5, 0.4, 0.6), (0.25, 0.2, 0.3))
CLASSES = ("rows", "columns", "rising", "falling")


def stripes(n, rng):
    """Stripes of four directions, in many widths and colors."""
    labels = np.arange(n) % 4
    y, x = np.mgrid[:32, :32]
    along = np.stack([y, x, y + x, y - x])[labels]
    phase, width = rng.uniform(0, 2 * np.pi, (n, 1, 1)), rng.uniform(4, 9, (n, 1, 1))
    wave = np.sin(2 * np.pi * along / width + phase)[..., None]
    images = 128 + wave * rng.uniform(15, 45, (n, 1, 1, 3)) + rng.normal(0, 12, (n, 32, 32, 3))
    return np.clip(images, 0, 255).astype(np.uint8), labels


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 5, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveMaxPool2d(2)
        )
        self.head = torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


@pytest.fixture(scope="module")
def trained():
    """A network that tells the stripes apart."""
    torch.manual_seed(0)
    images, labels = stripes(240, np.random.default_rng(1))
    x = torch.from_numpy(USUAL(images).transpose(0, 3, 1, 2).copy())
    y = torch.from_numpy(labels)
    network = Small()
    optimizer = torch.optim.Adam(network.parameters(), 0.03)
    for _ in range(80):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network.eval()


class Counting(TorchClassifier):
    """Counts passes; may stop the work in one of them, as a kill would."""

    def __init__(self, network, stop_at=None):
        super().__init__(network, USUAL, {"name": "small"})
        self.passes, self.stop_at = 0, stop_at

    def logits(self, images):
        if self.passes == self.stop_at:
            raise KeyboardInterrupt
        self.passes += 1
        return super().logits(images)


@pytest.fixture(scope="module")
def sets():
    rng = np.random.default_rng(2)
    return {
        part: ArrayImages(f"stripes-{part}", *stripes(n, rng), CLASSES)
        for part, n in (("validation", 200), ("test", 20))
    }


def make_plan(sets, perturb="input", seed=0, tuning=160):
    maker = PlanMaker(
        data={"name": "stripes", "size": 32},
        validation=sets["validation"],
        test=sets["test"],
        types=("fog",),
        transforms=(),
        perturb=perturb,
        sizes=Sizes(tuning=tuning),
        seed=seed,
    )
    return maker.make()


@pytest.fixture(scope="module")
def suite(trained, sets, tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite") / "s"
    return extract(Counting(trained), make_plan(sets), folder)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def accuracy(split):
    return float((split.logits.argmax(axis=1) == split.y).mean())


def test_cells_of_a_plan(sets):
    plain, noisy = make_plan(sets, None), make_plan(sets)
    names = [cell.name for cell in noisy.cells]
    new = [f"validation-perturbed-{j}" for j in range(1, 6)]
    assert [name for name in names if name not in {cell.name for cell in plain.cells}] == new
    at = names.index(new[0])
    assert names[at - 1].startswith("validation-saturate")
    assert names[at + 5] == "test"
    np.testing.assert_array_equal(noisy.cells[at].rows, noisy.cells[at - 1].rows)
    assert noisy.data == plain.data


def test_levels_of_a_suite(suite):
    about = suite.perturbation
    assert (about["seed"], about["space"], about["rows"]) == (0, "input", 160)
    clean = about["clean_accuracy"]
    assert clean > 0.9
    perturbed = suite.perturbed()
    assert [s.name for s in perturbed] == [f"validation-perturbed-{j}" for j in range(1, 6)]
    for split, level in zip(perturbed, about["levels"], strict=True):
        assert (split.role, split.shift, split.corruption) == (
            "perturb",
            "covariate",
            "perturbation",
        )
        assert (split.severity, split.rows) == (level["severity"], 160)
        assert level["target"] == pytest.approx(clean - (clean - 0.25) * level["severity"] / 5)
        assert level["met"]
        share = 0.05 if level["severity"] == 5 else 0.03
        assert abs(accuracy(split) - level["target"]) <= share * clean
        assert accuracy(split) == pytest.approx(level["accuracy"], abs=1e-12)
    assert not set(perturbed) & set(suite.tune())


def test_logits_are_those_of_the_noise(suite, sets, trained):
    """A cell made by hand: rows from the list beside the suite, noise and network called."""
    rows = Split.load(suite.path / "rows-validation.json").rows("corrupted")
    sigma = suite.perturbation["levels"][2]["sigma"]
    images = sets["validation"].read(rows)
    x = Noise("input").at(sigma, USUAL)(images, seed=0, indices=rows)
    with torch.no_grad():
        wanted = trained(torch.from_numpy(x.transpose(0, 3, 1, 2).copy())).numpy()
    np.testing.assert_allclose(suite.split("validation-perturbed-3").logits, wanted, atol=1e-4)


def test_added_to_a_finished_suite(suite, sets, trained, tmp_path):
    """Only the search and the five cells are computed, and the rest keeps its bytes."""
    plain = Counting(trained)
    before = extract(plain, make_plan(sets, None), tmp_path / "s")
    assert before.complete
    assert before.perturbation is None
    assert before.perturbed() == []
    old = {p.name: p.stat().st_mtime_ns for p in before.path.iterdir() if p.suffix == ".npy"}
    classifier = Counting(trained)
    after = extract(classifier, make_plan(sets), before.path)
    assert classifier.passes == len(after.perturbation["tried"]) + 5
    assert contents(after.path) == contents(suite.path)
    assert old == {name: (after.path / name).stat().st_mtime_ns for name in old}
    again = Counting(trained)
    extract(again, make_plan(sets), before.path)
    assert again.passes == 0
    assert contents(after.path) == contents(suite.path)
    with pytest.raises(ValueError, match="holds validation-perturbed-1, which was not asked for"):
        extract(again, make_plan(sets, None), before.path)


def test_stopped_in_every_pass(suite, sets, trained, tmp_path):
    """Stopped once in each pass of the search and of the cells, it ends with the same bytes."""
    extract(Counting(trained), make_plan(sets, None), tmp_path / "s")
    stops = 0
    while True:
        classifier = Counting(trained, stop_at=1)
        try:
            extract(classifier, make_plan(sets), tmp_path / "s")
            break
        except KeyboardInterrupt:
            stops += 1
            assert not Suite.open(tmp_path / "s", verify=True).complete
    assert stops == len(suite.perturbation["tried"]) + 5 - 1
    assert contents(tmp_path / "s") == contents(suite.path)


def test_other_rows_are_other_levels(suite, sets, trained, tmp_path):
    other = extract(Counting(trained), make_plan(sets, seed=1), tmp_path / "s")
    assert other.perturbation["seed"] == 1
    assert not np.array_equal(
        other.split("validation-perturbed-3").logits, suite.split("validation-perturbed-3").logits
    )


def test_clipped_space(suite, sets, trained, tmp_path):
    clipped = extract(Counting(trained), make_plan(sets, "pixels"), tmp_path / "s")
    assert clipped.perturbation["space"] == "pixels"
    sigmas = [level["sigma"] for level in clipped.perturbation["levels"]]
    # In units of pixels, a quarter of those of the input.
    assert sigmas[0] < suite.perturbation["levels"][0]["sigma"]
    with pytest.raises(FileFormatError, match="space is 'input', not 'pixels'"):
        extract(Counting(trained), make_plan(sets, "pixels"), suite.path)


def test_network_that_does_not_look(sets, tmp_path):
    """A network that noise cannot move: the suite is whole, and says that no level was met."""

    class Blind(torch.nn.Module):
        def forward(self, x):
            out = torch.zeros(len(x), 4)
            out[:, 0] = 5
            return out

    images = ArrayImages(
        "one", sets["validation"].images[::4], sets["validation"].labels[::4], CLASSES
    )
    plan = make_plan({"validation": images, "test": sets["test"]})
    made = extract(TorchClassifier(Blind(), USUAL, {"name": "blind"}), plan, tmp_path / "s")
    assert made.complete
    assert made.perturbation["clean_accuracy"] == 1
    assert [level["met"] for level in made.perturbation["levels"]] == [False] * 5
    assert len(notes(made.perturbation)) == 5


def test_network_at_chance(sets, tmp_path):
    class Constant(torch.nn.Module):
        def forward(self, x):
            return torch.tensor([[1.0, 2.0, 3.0, 3.5]]).repeat(len(x), 1)

    plan = make_plan({"validation": sets["test"], "test": sets["test"]})
    with pytest.raises(ValueError, match=r"it is right on 25.0% of the clean tuning rows"):
        extract(TorchClassifier(Constant(), USUAL, {"name": "c"}), plan, tmp_path / "s")


def test_progress_counts_the_search(sets, trained, tmp_path):
    done, told = [], []
    plan = make_plan(sets)
    made = extract(
        Counting(trained),
        plan,
        tmp_path / "s",
        on_rows=lambda cell, rows: done.append((cell, rows)),
        on_expected=lambda rows: told.append((sum(n for _, n in done), rows)),
    )
    search = sum(rows for cell, rows in done if cell == "noise strengths")
    assert search == 160 * len(made.perturbation["tried"])
    assert told[0] == (0, 16 * 160)
    assert told[-1] == (search, 0)
    assert sum(rows for _, rows in done) == search + plan.rows
