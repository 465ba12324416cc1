"""What a network says of CIFAR's validation images under changes that are no corruptions.

    python benchmarks/studies/context_changes.py DATA --network wildcal:cifar10-se-resnet20 \
        -o changes/c10-se.npz                                               about three minutes

The 5,000 validation images, clean, and a thousand of them under each of `image_changes.CHANGES` at
three strengths and under the four validation corruptions at five severities. The file has logits
`KIND|STRENGTH` and labels `y|KIND|STRENGTH`; `clean|0` are the clean ones. context_belief.py reads
it. The network comes with the package, or is a checkpoint of `wildcal train`.

Any file in this layout will do; one of the six networks of the fit was another's ResNet-56, which
is not ours to ship. It had learned all training images, validation ones too, so its file has *test*
images of CIFAR-10: the first 5,000 clean, the others changed.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from image_changes import CHANGES, STRENGTHS, Images

from wildcal.io.files import replacing
from wildcal.shift import SEVERITIES, VALIDATION_CORRUPTIONS, corrupt
from wildcal.vision.batches import Normalizer
from wildcal.vision.checkpoint import Checkpoint
from wildcal.vision.predict import channels_last, on_device, predict_logits
from wildcal.vision.shipped import is_shipped, shipped_weights
from wildcal.vision.training_data import CIFAR, rows_to_learn

CHANGED_ROWS = 1000
ROWS_SEED, CHANGE_SEED = 7, 11


def validation_images(data: str, folder: Path) -> tuple[Images, np.ndarray]:
    """Return the images that no network has learned, and their labels."""
    images = CIFAR[data](folder, "train")
    kept = slice(rows_to_learn(images), len(images))
    return images.read(kept), images.labels[kept]


def changed(images: Images) -> Iterator[tuple[str, int, np.ndarray, Images]]:
    """Yield each kind and strength with the rows that were taken, and what became of them."""
    cells = [(kind, strength) for kind in CHANGES for strength in STRENGTHS]
    cells += [(kind, severity) for kind in VALIDATION_CORRUPTIONS for severity in SEVERITIES]
    for cell, (kind, strength) in enumerate(cells):
        rows = np.random.default_rng([cell, ROWS_SEED]).permutation(len(images))[:CHANGED_ROWS]
        rows.sort()
        if kind in CHANGES:
            rng = np.random.default_rng([cell, CHANGE_SEED])
            yield kind, strength, rows, CHANGES[kind](images[rows], strength, rng)
        else:
            yield kind, strength, rows, corrupt(images[rows], kind, strength, indices=rows)


def logits_under_changes(checkpoint: Checkpoint, folder: Path) -> dict[str, np.ndarray]:
    """Return the arrays of the file."""
    images, y = validation_images(checkpoint.data, folder)
    network = channels_last(on_device(checkpoint.build(), "cpu"))
    normalize = Normalizer(checkpoint.mean, checkpoint.std)
    found = {"clean|0": predict_logits(network, images, normalize), "y|clean|0": y}
    report("clean", 0, found["clean|0"], y)
    for kind, strength, rows, shifted in changed(images):
        logits = predict_logits(network, shifted, normalize)
        found |= {f"{kind}|{strength}": logits, f"y|{kind}|{strength}": y[rows]}
        report(kind, strength, logits, y[rows])
    return found


def report(kind: str, strength: int, logits: np.ndarray, y: np.ndarray) -> None:
    """Print a line of progress."""
    accuracy = 100 * np.mean(logits.argmax(axis=1) == y)
    print(f"{kind:14} {strength}  accuracy {accuracy:4.1f}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the published archive")
    parser.add_argument("--network", required=True, help="wildcal:NAME, or a checkpoint")
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    path = shipped_weights(args.network) if is_shipped(args.network) else args.network
    args.output.parent.mkdir(parents=True, exist_ok=True)
    found = logits_under_changes(Checkpoint.load(path), args.data)
    with replacing(args.output) as temporary:
        np.savez(temporary, **found)


if __name__ == "__main__":
    main()
