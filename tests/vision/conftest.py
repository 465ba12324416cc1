"""A small CIFAR-10, SVHN and Textures in their published layouts, and a network to run on them."""

import multiprocessing
import warnings

import numpy as np
import pytest
import scipy.io

NAMES = "airplane automobile bird cat deer dog frog horse ship truck".split()


def scenes(n, side, rng):
    """Smooth colored pictures: a few bright spots on a dark ground."""
    rows, columns = np.mgrid[:side, :side] / side
    centers, colors = rng.random((n, 3, 2)), rng.random((n, 3, 3))
    distance = (rows - centers[..., 0, None, None]) ** 2 + (
        columns - centers[..., 1, None, None]
    ) ** 2
    light = np.einsum("nshw,nsc->nhwc", np.exp(-20 * distance), colors)
    return np.clip(40 + 200 * light, 0, 255).astype(np.uint8)


def write_cifar10(folder, n_train, n_test, rng):
    """Write the binary version; the training images fill five batches."""
    folder.mkdir(parents=True)
    for name, n in [
        *((f"data_batch_{i}", n_train // 5) for i in range(1, 6)),
        ("test_batch", n_test),
    ]:
        labels = np.arange(n, dtype=np.uint8) % 10
        images = scenes(n, 32, rng)
        # Classes that can be learned: each has its own tint.
        images[..., 0] //= 1 + labels[:, None, None] % 4
        images[..., 1] //= 1 + labels[:, None, None] // 4
        planes = images.transpose(0, 3, 1, 2).reshape(n, -1)
        np.concatenate([labels[:, None], planes], axis=1).tofile(folder / f"{name}.bin")
    (folder / "batches.meta.txt").write_text("\n".join(NAMES) + "\n")


# A thread of the process itself, which a busy machine does not delay.
KILLED = """
import glob, os, signal, threading, time
from wildcal.cli.main import run

def kill():
    while len(glob.glob({folder!r} + "/*/logits.npy")) < {n_splits}:
        time.sleep(0.001)
    time.sleep({delay})
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=kill, daemon=True).start()
run({words!r})
"""


@pytest.fixture(scope="session")
def run_and_kill():
    """Run a command in a process that kills itself; common imports are done once."""
    context = multiprocessing.get_context("forkserver")
    extras = ["cv2", "faiss", "onnxruntime", "PIL.Image", "scipy.io"]
    context.set_forkserver_preload(["wildcal.cli.extract", "wildcal.vision.extract", *extras])

    def run_and_kill(words, n_splits, delay):
        """Kill it when its folder, the last word, has this many splits, after a delay."""
        names = {"folder": words[-1], "words": words, "n_splits": n_splits, "delay": delay}
        process = context.Process(target=exec, args=(KILLED.format(**names), {}), daemon=True)
        process.start()
        process.join()
        return process.exitcode

    return run_and_kill


@pytest.fixture(scope="session")
def small_data(tmp_path_factory):
    """A data folder with 200 training and 40 test images, 30 house numbers and 20 textures."""
    from PIL import Image

    rng = np.random.default_rng(0)
    root = tmp_path_factory.mktemp("data")
    write_cifar10(root / "cifar-10-batches-bin", 200, 40, rng)
    (root / "svhn").mkdir()
    digits = {"X": scenes(30, 32, rng).transpose(1, 2, 3, 0), "y": np.full((30, 1), 10, np.uint8)}
    scipy.io.savemat(root / "svhn" / "test_32x32.mat", digits)
    for kind in ("banded", "dotted"):
        place = root / "dtd" / "images" / kind
        place.mkdir(parents=True)
        for i, image in enumerate(scenes(10, 48, rng)):
            Image.fromarray(image).save(place / f"{kind}_{i:04d}.jpg")
    return root


@pytest.fixture(scope="session")
def foggy_data(small_data, tmp_path_factory):
    """The small data sets, and published corrupted images of one type only."""
    from wildcal.corruptions import corrupt
    from wildcal.vision.datasets import cifar10

    root = tmp_path_factory.mktemp("data")
    for folder in small_data.iterdir():
        (root / folder.name).symlink_to(folder)
    (root / "CIFAR-10-C").mkdir()
    test = cifar10(small_data, "test")
    images = test.read(np.arange(len(test)))
    foggy = [corrupt(images, "fog", severity) for severity in range(1, 6)]
    np.save(root / "CIFAR-10-C" / "fog.npy", np.concatenate(foggy))
    np.save(root / "CIFAR-10-C" / "labels.npy", np.tile(test.labels, 5).astype(np.uint8))
    return root


@pytest.fixture(scope="session")
def small_network():
    """Make a small network whose logits differ from image to image."""

    def make(n_classes=10, seed=0):
        import torch
        from torch import nn

        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, n_classes)
        )

    return make


@pytest.fixture(scope="session")
def export():
    """Write a torch network as ONNX, with any number of images per batch unless told one."""

    def write(network, path, batch=None):
        import torch

        images = torch.zeros(batch or 2, 3, 32, 32)
        axes = {} if batch else {"images": {0: "n"}, "logits": {0: "n"}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter that needs no further package
            torch.onnx.export(
                network.eval(),
                (images,),
                str(path),
                input_names=["images"],
                output_names=["logits"],
                dynamic_axes=axes,
                dynamo=False,
            )
        return path

    return write
