"""`wildcal corrupt`: images under common corruptions or validation transforms."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from numpy.typing import NDArray

from wildcal.cli.options import PATH, seed_option
from wildcal.cli.output import Progress, check_output, progress_bar, say
from wildcal.core.exceptions import InputError
from wildcal.io.atomic import atomic_write

ALL: Final = "all"
# Images between two steps of the progress bar.
_CHUNK: Final = 512


@click.command(no_args_is_help=True)
@click.argument("images", type=PATH)
@click.option("--name", required=True, help="Corruption, or all; or a transform, such as rotation.")
@click.option("--severity", required=True, help="1 to 5, or all; transforms have 1 to 4 levels.")
@seed_option
@click.option(
    "--scale",
    type=click.Choice(["auto", "cifar", "imagenet"]),
    default="auto",
    help="Published strengths to use; auto is those of CIFAR for 32 x 32 pixels only.",
)
@click.option("--frost-textures", type=PATH, help="Folder with the published frost pictures.")
@click.option("-o", "--output", type=PATH, required=True, help="File, or folder.")
def corrupt(images: Path, name: str, severity: str, output: Path, **options: Any) -> None:
    """Corrupt IMAGES: fog, noise, blur, compression and 15 more, at 5 severities.

    IMAGES is a folder of pictures (the result mirrors it, as PNG), an .npz with `images` (uint8 of
    shape n x height x width x 3; other arrays are copied), a CIFAR batch (.bin), or the folder
    cifar-10-batches-bin, whose test batch is taken. With `all`, the output is a folder:
    NAME/SEVERITY/... for pictures, NAME-SEVERITY.npz or .bin otherwise. Transforms are rotation,
    shear, translation, scaling, vertical_flip, cutout, posterize, solarize, gamma, gray, inverted
    and channel_swap; `all` does not include them.

    \b
    Example:
      wildcal corrupt photos --name fog --severity 3 -o foggy
      wildcal corrupt test.npz --name all --severity all -o corrupted
    """
    from wildcal.corruptions.images import find_batch

    conditions = _conditions(name, severity)
    is_many = ALL in (name, severity)
    batch = find_batch(images)
    if output.resolve().is_relative_to(images.resolve()):
        raise InputError(f"output must not be inside {images}, got {output}.", "output")
    if batch is None or is_many:
        if output.is_file():
            raise InputError(f"output must be a folder, got the file {output}.", "output")
        output.mkdir(parents=True, exist_ok=True)
    write = _corrupt_batch if batch is not None else _corrupt_folder
    n = write(batch or images, output, conditions, is_many, options)
    each = f" for each of {len(conditions)} conditions" if is_many else ""
    say(f"Wrote {n:,} images{each} to {output}.")


def _conditions(name: str, severity: str) -> list[tuple[str, int]]:
    from wildcal.corruptions import CORRUPTIONS, SEVERITIES, VALIDATION_TRANSFORMS

    levels = dict.fromkeys(CORRUPTIONS, len(SEVERITIES))
    levels |= {n: len(strengths) for n, strengths in VALIDATION_TRANSFORMS.items()}
    if name not in (ALL, *levels):
        raise InputError(f"name must be all or one of {', '.join(levels)}, got {name!r}.", "name")
    names = CORRUPTIONS if name == ALL else (name,)
    allowed = [str(level) for level in range(1, levels[names[0]] + 1)]
    if severity not in (ALL, *allowed):
        raise InputError(
            f"severity must be all or one of {', '.join(allowed)}, got {severity!r}.", "severity"
        )
    chosen = allowed if severity == ALL else [severity]
    return [(n, int(level)) for n in names for level in chosen]


def _change(
    images: NDArray[np.uint8], name: str, severity: int, first: int, options: dict[str, Any]
) -> NDArray[np.uint8]:
    """Return images whose indices begin with `first`."""
    from wildcal.corruptions import CORRUPTIONS, corrupt, transform

    indices = np.arange(first, first + len(images))
    if name in CORRUPTIONS:
        return corrupt(images, name, severity, indices=indices, **options)
    return transform(images, name, severity, indices=indices, seed=options["seed"])


def _corrupt_batch(
    source: Path,
    output: Path,
    conditions: list[tuple[str, int]],
    is_many: bool,
    options: dict[str, Any],
) -> int:
    from wildcal.corruptions.images import Batch, read_batch, write_batch

    suffixes = [".npz"] if source.suffix == ".npz" else [".bin", ".npz"]
    if not is_many:
        check_output(output, suffixes=suffixes)
    batch = read_batch(source)
    n = len(batch.images)
    with progress_bar(f"Corrupting {source.name}", n * len(conditions)) as progress:
        for name, severity in conditions:
            target = output / f"{name}-{severity}{source.suffix}" if is_many else output
            changed = _in_chunks(batch.images, name, severity, options, progress)
            with atomic_write(target, "wb") as file:
                write_batch(file, Batch(changed, batch.others), target.suffix)
    return n


def _in_chunks(
    images: NDArray[np.uint8], name: str, severity: int, options: dict[str, Any], progress: Progress
) -> NDArray[np.uint8]:
    out = np.empty_like(images)
    for first in range(0, len(out), _CHUNK):
        part = slice(first, first + _CHUNK)
        out[part] = _change(images[part], name, severity, first, options)
        progress.advance(len(out[part]))
    return out


def _corrupt_folder(
    folder: Path,
    output: Path,
    conditions: list[tuple[str, int]],
    is_many: bool,
    options: dict[str, Any],
) -> int:
    from wildcal.corruptions.images import find_pictures, read_picture, write_picture

    paths = find_pictures(folder)
    with progress_bar(f"Corrupting {folder}", len(paths) * len(conditions)) as progress:
        for index, path in enumerate(paths):
            image = read_picture(folder / path)
            for name, severity, target in _targets(output, path, conditions, is_many):
                target.parent.mkdir(parents=True, exist_ok=True)
                changed = _change(image[None], name, severity, index, options)[0]
                with atomic_write(target, "wb") as file:
                    write_picture(file, changed)
                progress.advance()
    return len(paths)


def _targets(
    output: Path, path: Path, conditions: list[tuple[str, int]], is_many: bool
) -> Iterator[tuple[str, int, Path]]:
    for name, severity in conditions:
        home = output / name / str(severity) if is_many else output
        yield name, severity, home / path.with_suffix(".png")
