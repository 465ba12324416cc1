"""Write a trained network for the data package: float16, without what only training needs.

python benchmarks/suites/pack_weights.py resnet20.safetensors -o cifar10-resnet20.safetensors
"""

import argparse
from dataclasses import replace
from pathlib import Path

from wildcal.vision.checkpoint import Checkpoint

LARGEST = 3_000_000


def main() -> None:
    """Read, round, write, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    checkpoint = Checkpoint.load(options.checkpoint)
    checkpoint.check_trained(options.checkpoint)
    weights = {n: t.half() if t.is_floating_point() else t for n, t in checkpoint.weights.items()}
    if any(not tensor.isfinite().all() for tensor in weights.values()):
        raise SystemExit("weights must fit into float16.")
    packed = replace(checkpoint, weights=weights, momentum={}, sha256="")
    packed.save(options.output)
    size = options.output.stat().st_size
    print(f"{options.output}: {size / 1e6:.2f} MB")
    if size > LARGEST:
        raise SystemExit(f"more than {LARGEST / 1e6:g} MB: too large for the data package.")


if __name__ == "__main__":
    main()
