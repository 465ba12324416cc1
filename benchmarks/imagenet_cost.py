"""What an extraction of ImageNet costs: processor time of each part of an image, largest memory.

    python benchmarks/imagenet_cost.py DATA ResNet-18=resnet18.onnx ViT-Tiny/16=vit.onnx

Times are the least of several turns, in one thread. The memory is that of a small `wildcal extract`
of each network. DATA holds ImageNet's validation images in `val`, and DTD. Writes imagenet_cost.csv
beside this file, from which docs/make.py makes the table of docs/imagenet.md.
"""

import argparse
import csv
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from wildcal.shift import CORRUPTIONS, corrupt
from wildcal.vision.classifiers import open_classifier
from wildcal.vision.datasets import imagenet
from wildcal.vision.preprocess import make_preprocess

HERE = Path(__file__).parent
COLUMNS = ("network", "images", "read_ms", "corruption_ms", "network_ms", "memory_mb")
IMAGES, TURNS = 8, 5


def least(work: Callable[[], object]) -> float:
    """Return milliseconds of processor time an image, the least of several turns."""
    taken = []
    for _ in range(TURNS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return 1000 * min(taken) / IMAGES


def memory(data: Path, network: str) -> float:
    """Return the largest memory of a small extraction, in MB."""
    few = str(2 * IMAGES)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "wildcal", "--threads", "1", "extract", str(data)),
            *("--dataset", "imagenet", "--network", network, "--unpaired"),
            *("--validation-rows", few, "--test-rows", few, "--rows", "1", "--tuning-rows", "1"),
            *("--ood", "textures", "--ood-rows", few, "--ood-test-rows", few),
            *("--quiet", "-o", str(Path(folder) / "suite")),
        ]
        _, status, used = os.wait4(os.posix_spawn(sys.executable, command, os.environ), 0)
    if status:
        sys.exit(f"{' '.join(command)} failed.")
    return used.ru_maxrss / 1024


def main() -> None:
    """Measure the pictures, then every network, and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("networks", nargs="+", metavar="NAME=FILE.onnx")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "imagenet_cost.csv")
    options = parser.parse_args()
    found = imagenet(options.data)
    chosen = np.linspace(0, len(found) - 1, IMAGES).astype(np.int64)
    images = found.read(chosen)
    read = least(lambda: found.read(chosen))
    kinds = [least(lambda k=kind: corrupt(images, k, 3)) for kind in CORRUPTIONS]
    with options.output.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, _, network in (text.partition("=") for text in options.networks):
            classifier = open_classifier(network, make_preprocess("imagenet").normalize)
            times = (read, float(np.mean(kinds)), least(lambda c=classifier: c.logits(images)))
            used = memory(options.data, network)
            writer.writerow([name, IMAGES, *(f"{ms:.1f}" for ms in times), f"{used:.0f}"])
            file.flush()


if __name__ == "__main__":
    main()
