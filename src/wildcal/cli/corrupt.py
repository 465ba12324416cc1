"""`wildcal corrupt`: apply common corruptions or validation transforms to images."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
import numpy as np
from numpy.typing import NDArray

from wildcal.cli import options as common
from wildcal.cli.output import check_output, progress_bar, say
from wildcal.cli.types import PATH
from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice
from wildcal.io.atomic import atomic_write

ALL: Final = "all"
Images: TypeAlias = NDArray[np.uint8]
Indices: TypeAlias = NDArray[np.int64]
Changes: TypeAlias = dict[tuple[str, int], Callable[..., Images]]
"""Functions of images and their indices, by name and severity."""
# Images between two steps of the progress bar.
_CHUNK: Final = 512


@click.command(no_args_is_help=True)
@click.argument("images", type=PATH)
@click.option("--name", required=True, help="Corruption, or all; or a transform, such as rotation.")
@click.option("--severity", required=True, help="1 to 5, or all; transforms have 1 to 4 levels.")
@common.seed_option
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

    changes = _changes(name, severity, options)
    is_many = ALL in (name, severity)
    batch = find_batch(images)
    if output.resolve().is_relative_to(images.resolve()):
        raise InputError(f"output must not be inside {images}, got {output}.", "output")
    if batch is None or is_many:
        if output.is_file():
            raise InputError(f"output must be a folder, got the file {output}.", "output")
        output.mkdir(parents=True, exist_ok=True)
    write = _corrupt_folder if batch is None else _corrupt_batch
    n = write(batch or images, output, changes, is_many)
    each = f" for each of {len(changes)} conditions" if is_many else ""
    say(f"Wrote {n:,} images{each} to {output}.")


def _changes(name: str, severity: str, options: dict[str, Any]) -> Changes:
    """Return the functions that --name and --severity mean."""
    from wildcal import corruptions

    levels = dict.fromkeys(corruptions.CORRUPTIONS, len(corruptions.SEVERITIES))
    levels |= {n: len(each) for n, each in corruptions.VALIDATION_TRANSFORMS.items()}
    check_choice("name", name, (ALL, *levels))
    names = corruptions.CORRUPTIONS if name == ALL else (name,)
    allowed = [str(level) for level in range(1, levels[names[0]] + 1)]
    check_choice("severity", severity, (ALL, *allowed))

    def change(images: Images, indices: Indices, name: str, level: int) -> Images:
        if name in corruptions.CORRUPTIONS:
            return corruptions.corrupt(images, name, level, indices=indices, **options)
        return corruptions.transform(images, name, level, indices=indices, seed=options["seed"])

    chosen = range(1, len(allowed) + 1) if severity == ALL else [int(severity)]
    return {(n, level): partial(change, name=n, level=level) for n in names for level in chosen}


def _corrupt_batch(source: Path, output: Path, changes: Changes, is_many: bool) -> int:
    from wildcal.corruptions.images import Batch, read_batch, write_batch

    if not is_many:
        suffixes = [".npz"] if source.suffix == ".npz" else [".bin", ".npz"]
        check_output(output, suffixes=suffixes)
    batch = read_batch(source)
    n = len(batch.images)
    with progress_bar(f"Corrupting {source.name}", n * len(changes)) as progress:
        for (name, severity), change in changes.items():
            target = output / f"{name}-{severity}{source.suffix}" if is_many else output
            changed = np.empty_like(batch.images)
            for indices in np.split(np.arange(n), range(_CHUNK, n, _CHUNK)):
                changed[indices] = change(batch.images[indices], indices=indices)
                progress.advance(len(indices))
            with atomic_write(target, "wb") as file:
                write_batch(file, Batch(changed, batch.others), target.suffix)
    return n


def _corrupt_folder(folder: Path, output: Path, changes: Changes, is_many: bool) -> int:
    from wildcal.corruptions.images import find_pictures, read_picture, write_picture

    paths = find_pictures(folder)
    with progress_bar(f"Corrupting {folder}", len(paths) * len(changes)) as progress:
        for index, path in enumerate(paths):
            images = read_picture(folder / path)[None]
            for (name, severity), change in changes.items():
                place = output / name / str(severity) if is_many else output
                target = place / path.with_suffix(".png")
                target.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(target, "wb") as file:
                    write_picture(file, change(images, indices=np.array([index]))[0])
                progress.advance()
    return len(paths)
