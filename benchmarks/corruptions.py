"""How fast images are corrupted, beside the `imagecorruptions` package.

    python benchmarks/corruptions.py                       ours alone, images of 32 x 32
    python benchmarks/corruptions.py --types zoom_blur --size 224              one of the types
    python benchmarks/corruptions.py --peer /tmp/v/bin/python --size 224       and the ratios

The peer lives in a Python of its own, because it may need other versions of everything:

    python -m venv /tmp/v && /tmp/v/bin/pip install imagecorruptions

The two take turns, severity by severity, with one thread each; a time is the least processor time
of the turns, a mean over the five severities. Ours get a batch, the peer gets a few of its images,
one by one, which is how each is used. `--images` takes a folder of pictures; otherwise both get
smoothed noise. `--changes` prints how far the two move the pixels instead; `--output` keeps times
and ratios as csv.
"""

import argparse
import contextlib
import csv
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import cv2
import numpy as np

from wildcal.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from wildcal.corruptions.images import find_pictures, read_picture

cv2.setNumThreads(1)
HERE = Path(__file__).parent
_LONG = 0.2
"""A peer that takes more seconds for an image is asked once; more turns would change little."""

Ask = Callable[[str, int, int], dict[str, Any]]


def pictures(size: int, count: int, folder: Path | None) -> np.ndarray:
    """Return pictures of a folder, evenly spread and cut to squares, or smoothed noise."""
    if folder is None:  # because flat or white pictures would flatter JPEG
        rng = np.random.default_rng(0)
        raw = rng.integers(0, 256, (count, size, size, 3), dtype=np.uint8)
        smooth = (cv2.GaussianBlur(image, (0, 0), 2) for image in raw)
        return np.stack([cv2.normalize(image, None, 0, 255, cv2.NORM_MINMAX) for image in smooth])
    names = find_pictures(folder)
    chosen = names[:: max(1, len(names) // count)][:count]
    return np.stack([square(read_picture(folder / name), size) for name in chosen])


def square(image: np.ndarray, size: int) -> np.ndarray:
    """Return the middle of an image whose shorter side was brought to size · 256 / 224."""
    height, width = image.shape[:2]
    scale = size * 256 / 224 / min(height, width)
    shape = (max(size, round(width * scale)), max(size, round(height * scale)))
    image = cv2.resize(image, shape, interpolation=cv2.INTER_AREA)
    top, left = (shape[1] - size) // 2, (shape[0] - size) // 2
    return image[top : top + size, left : left + size]


@contextlib.contextmanager
def peer(python: str, images: np.ndarray) -> Iterator[Ask]:
    """Start the package on the same images; yield how to ask it."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/images.npy", images)
        command = [python, str(HERE / "imagecorruptions_peer.py"), f"{folder}/images.npy"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            answers = process.stdout
            print(f"imagecorruptions {json.loads(answers.readline())}")

            def ask(*question: Any) -> dict[str, Any]:
                print(json.dumps(question), file=process.stdin, flush=True)
                while not (line := answers.readline()).startswith("{"):  # it talks, too
                    if not line:
                        raise SystemExit("the peer ended early.")
                return json.loads(line)

            yield ask
            process.stdin.close()


def our_seconds(images: np.ndarray, name: str, severity: int) -> float:
    """Return the seconds of an image in one batch."""
    start = time.process_time()
    corrupt(images, name, severity)
    return (time.process_time() - start) / len(images)


def race(
    names: Sequence[str], images: np.ndarray, ask: Ask | None, turns: int, few: int
) -> list[tuple[str, str, str, str]]:
    """Print times and ratios, and return them."""
    print(f"{'type':18s}{'ours, ms':>28s}{'mean':>8s}{'peer':>9s}{'ratio':>8s}")
    ratios, total, table = [], 0.0, [("type", "ms", "peer", "faster")]
    for name in names:
        ours, theirs = np.full(5, np.inf), np.full(5, np.nan)
        for severity in SEVERITIES:
            corrupt(images[:1], name, severity)  # tables and textures, once per process
        fault = ""
        for _ in range(turns):
            for at, severity in enumerate(SEVERITIES):
                ours[at] = min(ours[at], our_seconds(images, name, severity))
                if ask is not None and not fault and not theirs[at] > _LONG:
                    answer = ask(name, severity, few)
                    fault = answer.get("error", "")
                    theirs[at] = np.fmin(theirs[at], answer.get("seconds", np.nan))
        total += ours.mean()
        line = f"{name:18s}" + "".join(f"{1e3 * t:7.2f}" for t in ours)
        line += f"{1e3 * ours.mean():8.3f}"
        if fault:
            line += f"   fails ({fault[:60]})"
        elif ask is not None:
            ratios.append(theirs.mean() / ours.mean())
            line += f"{1e3 * theirs.mean():9.2f}{ratios[-1]:8.1f}"
            row = (1e3 * ours.mean(), 1e3 * theirs.mean(), ratios[-1])
            table.append((name, *(f"{number:.3g}" for number in row)))
        print(line, flush=True)
    print(f"mean of ours: {1e3 * total / len(names):.3f} ms an image")
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"{len(ratios)} ratios: mean {mean:.1f} (wanted: 10), least {min(ratios):.1f}")
    return table


def changes(images: np.ndarray, ask: Ask) -> None:
    """Print the mean absolute change in levels at each severity, ours / the package's."""
    print("| type | 1 | 2 | 3 | 4 | 5 |\n|---|---|---|---|---|---|")
    for name in CORRUPTIONS:
        cells = []
        for severity in SEVERITIES:
            got = corrupt(images, name, severity).astype(np.int16)
            answer = ask(name, severity, len(images))
            cells.append(f"{np.abs(got - images).mean():.1f} / {answer.get('change', np.nan):.1f}")
        print(f"| `{name}` | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="a Python that has imagecorruptions")
    parser.add_argument("--size", type=int, default=32, help="side of the images in pixels")
    parser.add_argument("--images", type=Path, help="a folder of pictures")
    parser.add_argument("--count", type=int, help="images in a batch: 512 small or 8 large ones")
    parser.add_argument("--types", nargs="+", default=list(CORRUPTIONS), choices=CORRUPTIONS)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--changes", action="store_true", help="the change of the pixels instead")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    count = options.count or (8 if options.size > 64 else 512)
    images = pictures(options.size, count, options.images)
    with peer(options.peer, images) if options.peer else contextlib.nullcontext() as ask:
        if options.changes and ask is None:
            parser.error("--changes needs --peer.")
        elif options.changes:
            changes(images, ask)
        else:
            few = min(count, 2 if options.size > 64 else 20)
            table = race(options.types, images, ask, options.turns, few)
            if options.output:
                with options.output.open("w", newline="") as file:
                    csv.writer(file).writerows(table)


if __name__ == "__main__":
    main()
