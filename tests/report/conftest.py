"""A small suite with every kind of split that the paper's artifacts read."""

import numpy as np
import pytest

from wildcal._old.io.suite import Suite, SuiteWriter
from wildcal._old.testing import make_suite

TYPES = ("fog", "snow")


def write_suite(
    folder,
    *,
    data,
    network,
    seed=0,
    extra=(),
    ood=("svhn", "textures"),
    cells=True,
    shifted=(),
    distances=False,
    class_names=tuple("0123456789"),
):
    drawn = make_suite(seed, n_tuning=400, n_ood_tuning=150, n_test=300)
    rng = np.random.default_rng(seed)
    writer = SuiteWriter(
        folder,
        network={"name": network},
        data={"name": data},
        seed=seed,
        versions={},
        n_classes=10,
        class_names=class_names,
    )
    known = drawn.tuning.y >= 0
    validation = drawn.tuning.logits[known], drawn.tuning.y[known]
    writer.add("validation", *validation, role="tune", shift="none")
    for kind in shifted:
        for level in range(1, 6):
            noise = rng.normal(scale=0.8 * level, size=validation[0].shape).astype(np.float32)
            place = {"shift": "covariate", "corruption": kind, "severity": level}
            logits = validation[0] + noise
            writer.add(f"val-{kind}-{level}", logits, validation[1], role="tune", **place)
    for i, name in enumerate(ood):
        others = drawn.tuning.logits[~known] * (1 + i / 4)
        writer.add(f"{name}-tune", others, np.full(150, -1), role="tune", shift="semantic")
        writer.add(
            f"{name}-test",
            drawn.ood.logits * (1 + i / 4),
            drawn.ood.y,
            role="test",
            shift="semantic",
        )
    writer.add("test", *drawn.clean, role="test", shift="none")
    for kind in TYPES if cells else ():
        for level in range(1, 6):
            noise = rng.normal(scale=0.8 * level, size=(200, 10)).astype(np.float32)
            place = {"shift": "covariate", "corruption": kind, "severity": level}
            logits = drawn.clean.logits[:200] + noise
            writer.add(f"{kind}-{level}", logits, drawn.clean.y[:200], role="test", **place)
    for name in extra:
        writer.add(name, *drawn.shifted, role="test", shift="covariate")
    if distances:
        add_distances(writer, rng)
    writer.finish(list(writer.names))
    return Suite.open(folder)


def add_distances(writer, rng):
    """Give every split distances of two layers to one neighbor."""
    layers = [{"name": "stem", "width": 8}, {"name": "logits", "width": 10}]
    writer.describe(
        neighbors={
            "layers": layers,
            "ranks": [50],
            "train_rows": 100,
            "search": "exact",
            "faiss": "0",
        }
    )
    for name in writer.names:
        rows = len(writer.stored(name))
        writer.add_distances(name, 0.1 + rng.gamma(4.0, 0.01, (rows, 2)).astype(np.float32))


@pytest.fixture(scope="package")
def suites(tmp_path_factory):
    """A convolutional network on CIFAR-10 and a transformer on ImageNet."""
    folder = tmp_path_factory.mktemp("suites")
    kin = ("imagenet-r", "imagenet-sketch")
    return {
        "vit": write_suite(folder / "vit", data="imagenet", network="vit_b_16", seed=1, extra=kin),
        "vgg": write_suite(folder / "vgg", data="cifar10", network="vgg11-half", distances=True),
    }


@pytest.fixture(scope="package")
def study(suites):
    from wildcal._old.report import choose_artifacts, plan

    return plan(choose_artifacts(["all"]), suites, n_boot=20)


@pytest.fixture
def bare(tmp_path):
    """A suite without corruptions and without other classes."""
    return write_suite(tmp_path / "bare", data="cifar10", network="x", ood=(), cells=False)


@pytest.fixture(name="write_suite", scope="package")
def _write_suite():
    return write_suite
