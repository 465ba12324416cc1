"""How fast images are corrupted at 32 x 32, beside the `imagecorruptions` package.

    python benchmarks/corruptions.py                       ours alone, images per second
    python benchmarks/corruptions.py --peer /tmp/v/bin/python     and the ratios

The peer lives in a Python of its own, because it may need other versions of everything:

    python -m venv /tmp/v && /tmp/v/bin/pip install imagecorruptions "setuptools<81"

It is timed on 32 x 32 images as it is; types that fail there are left out of the ratios. Ours get
batches of 512, the peer gets images one by one, which is how each is used. Times are the best of a
few rounds, a mean over the five severities, with one thread each.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

# The same pictures for both: smoothed noise, because flat or white ones would flatter JPEG.
PICTURES = """
import json, time, warnings
import cv2, numpy as np
warnings.filterwarnings("ignore")
cv2.setNumThreads(1)
rng = np.random.default_rng(0)
images = [cv2.GaussianBlur(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8), (0, 0), 2)
          for _ in range(512)]
images = np.stack([cv2.normalize(i, None, 0, 255, cv2.NORM_MINMAX) for i in images])
"""

PEER = """
from imagecorruptions import corrupt, get_corruption_names
for name in get_corruption_names("all"):
    try:
        total = 0.0
        for severity in range(1, 6):
            best = float("inf")
            for _ in range(ROUNDS):
                start = time.perf_counter()
                for image in images[:20]:
                    corrupt(image, severity=severity, corruption_name=name)
                best = min(best, (time.perf_counter() - start) / 20)
            total += best / 5
        print(json.dumps([name, total]), flush=True)
    except Exception as error:
        print(json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
"""


def peer_seconds(python: str, rounds: int) -> dict[str, float | str]:
    code = PICTURES + PEER.replace("ROUNDS", str(rounds))
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def our_seconds(rounds: int) -> dict[str, float]:
    from wildcal.shift import CORRUPTIONS, SEVERITIES, corrupt

    space: dict[str, np.ndarray] = {}
    exec(PICTURES, space)
    images = space["images"]
    result = {}
    for name in CORRUPTIONS:
        total = 0.0
        for severity in SEVERITIES:
            corrupt(images[:1], name, severity)  # tables and textures, once per process
            times = []
            for _ in range(rounds):
                start = time.perf_counter()
                corrupt(images, name, severity)
                times.append(time.perf_counter() - start)
            total += min(times) / len(images) / len(SEVERITIES)
        result[name] = total
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="a Python that has imagecorruptions")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ours = our_seconds(options.rounds)
    peer = peer_seconds(options.peer, options.rounds) if options.peer else {}
    print(f"{'type':20s}{'us/image':>10s}{'images/s':>11s}{'peer us':>10s}{'ratio':>8s}")
    ratios = []
    for name, seconds in ours.items():
        line = f"{name:20s}{1e6 * seconds:10.1f}{1 / seconds:11,.0f}"
        theirs = peer.get(name)
        if isinstance(theirs, float):
            ratios.append(theirs / seconds)
            line += f"{1e6 * theirs:10.0f}{ratios[-1]:8.1f}"
        elif theirs is not None:
            line += f"   fails ({theirs[:60]})"
        print(line)
    total = sum(ours.values())
    print(f"all 95 cells of 10,000 images: {5 * 10_000 * total:.0f} s")
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"geometric mean of {len(ratios)} ratios: {mean:.1f}x (wanted: at least 10x)")
        sys.exit(mean < 10)


if __name__ == "__main__":
    main()
