"""`wildcal corrupt`: images under common corruptions, and a contact sheet of them all."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from wildcal._old.cli.extras import needs_extra
from wildcal._old.cli.options import PATH, quiet_option, refuse_same
from wildcal._old.cli.output import progress_bar, say
from wildcal._old.io.files import check_writable, replacing

if TYPE_CHECKING:
    from rich.progress import Progress

    from wildcal._old.shift.images import Batch

ALL = "all"
_CHUNK = 512
"""Images between two movements of the bar."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What to do to the images: types, severities and the options that `corrupt` alone has."""

    cells: list[tuple[str, int]]
    many: bool
    seed: int
    options: dict[str, Any]

    def run(self, images: NDArray[np.uint8], name: str, severity: int, first: int) -> Any:
        from wildcal._old.shift import TUNING_TRANSFORMS, corrupt, transform

        numbers = np.arange(first, first + len(images))
        if name in TUNING_TRANSFORMS:
            return transform(images, name, severity, seed=self.seed, indices=numbers)
        return corrupt(images, name, severity, seed=self.seed, indices=numbers, **self.options)


@click.command(no_args_is_help=True)
@click.argument("images", type=PATH, required=False)
@click.option("--name", help="Type of corruption, or all; or a transform, such as rotation.")
@click.option("--severity", help="1 to 5, or all; transforms have 1 to 4 levels.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--scale",
    type=click.Choice(["auto", "cifar", "imagenet"]),
    default="auto",
    show_default=True,
    help="Whose strengths; auto is CIFAR's for 32 x 32 pixels only.",
)
@click.option("--frost-textures", type=PATH, help="Folder with the published frost pictures.")
@click.option("-o", "--output", type=PATH, help="Result: of the kind of IMAGES, or a folder.")
@click.option("--gallery", type=PATH, help="Write a contact sheet of all types instead.")
@quiet_option
def corrupt(
    images: Path | None,
    name: str | None,
    severity: str | None,
    seed: int,
    scale: str,
    frost_textures: Path | None,
    output: Path | None,
    gallery: Path | None,
) -> None:
    """Corrupt IMAGES: fog, noise, blur, compression and 15 more, at 5 severities.

    IMAGES is a folder of pictures (the result mirrors it, as PNG), an .npz with `images` (N x H x W
    x 3, uint8; other arrays are copied over), a CIFAR batch (.bin) or the folder
    cifar-10-batches-bin, whose test batch is taken. With `all`, the output is a folder: NAME/S/...
    for pictures, NAME-S.npz or NAME-S.bin else. NAME may also be one of the transforms to tune on:
    rotation, shear, translation, scaling, vertical_flip, cutout, posterize, solarize, gamma, gray,
    inverted, channel_swap; `all` leaves them out.

    --gallery shows the first of IMAGES, or a picture drawn by the program.

    \b
    Example:
      wildcal corrupt photos --name fog --severity 3 -o foggy
      wildcal corrupt test.npz --name all --severity all -o corrupted
      wildcal corrupt --gallery sheet.png
    """
    with needs_extra():
        from wildcal._old.shift import TUNING_TRANSFORMS
    if gallery is not None:
        if name or severity or output:
            raise click.UsageError("--gallery shows every type; leave out --name, --severity, -o.")
        refuse_same(gallery, "--gallery")
        _gallery(gallery, images, seed, frost_textures)
        return
    if images is None or name is None or severity is None or output is None:
        raise click.UsageError("give IMAGES, --name, --severity and -o, or --gallery FILE.")
    if name in TUNING_TRANSFORMS and scale != "auto":
        raise click.UsageError("--scale is for corruptions; transforms grow with the image.")
    job = _Job(
        _cells(name, severity),
        ALL in (name, severity),
        seed,
        {"scale": scale, "frost_textures": frost_textures},
    )
    refuse_same(output)
    from wildcal._old.shift.images import batch_file

    source = batch_file(images)
    if source is None:
        _corrupt_folder(images, output, job)
    else:
        _corrupt_batch(source, output, job)


def _cells(name: str, severity: str) -> list[tuple[str, int]]:
    from wildcal._old.shift import CORRUPTIONS, SEVERITIES, TUNING_TRANSFORMS
    from wildcal._old.shift.checks import check_choice

    known = {n: len(SEVERITIES) for n in CORRUPTIONS}
    known |= {n: len(strengths) for n, strengths in TUNING_TRANSFORMS.items()}
    names = CORRUPTIONS if name == ALL else (check_choice("name", name, tuple(known)),)
    levels = range(1, 1 + known[names[0]])
    if severity != ALL and severity not in map(str, levels):
        wanted = ", ".join(map(str, levels))
        raise click.BadParameter(f"give {wanted} or {ALL}.", param_hint="--severity")
    chosen = levels if severity == ALL else (int(severity),)
    return [(n, s) for n in names for s in chosen]


def _corrupt_batch(source: Path, output: Path, job: _Job) -> None:
    from wildcal._old.shift.images import BATCHES, read_batch, write_batch

    if not job.many and (
        output.suffix not in BATCHES or (source.suffix, output.suffix) == (".npz", ".bin")
    ):
        kinds = ".npz" if source.suffix == ".npz" else ".bin or .npz"
        raise ValueError(f"cannot write {output}: the result of {source.name} is a {kinds}.")
    if job.many:
        _make_folder(output)
    elif output.resolve() == source.resolve():  # of a folder that holds it
        raise ValueError(f"cannot write {output}: it is what is read.")
    else:
        check_writable(output)  # before the work, not after it
    batch = read_batch(source)
    total = len(batch.images)
    with progress_bar(f"Corrupting {source.name}", total * len(job.cells)) as progress:
        for name, severity in job.cells:
            target = output / f"{name}-{severity}{source.suffix}" if job.many else output
            changed = batch.with_images(_changed(batch, job, name, severity, progress))
            with replacing(target) as temporary:
                write_batch(temporary, changed)
    say(f"Wrote {total:,} images{_per_cell(job)} to {output}.")


def _changed(
    batch: "Batch", job: _Job, name: str, severity: int, progress: "Progress"
) -> NDArray[np.uint8]:
    out = np.empty_like(batch.images)
    for start in range(0, len(out), _CHUNK):
        part = slice(start, start + _CHUNK)
        out[part] = job.run(batch.images[part], name, severity, start)
        progress.advance(progress.task_ids[0], len(out[part]))
    return out


def _corrupt_folder(folder: Path, output: Path, job: _Job) -> None:
    from wildcal._old.shift.images import find_pictures, read_picture, write_picture

    if output.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"cannot write {output}: it lies inside {folder}, which is read.")
    paths = find_pictures(folder)
    _make_folder(output)
    with progress_bar(f"Corrupting {folder}", len(paths) * len(job.cells)) as progress:
        for number, path in enumerate(paths):
            image = read_picture(folder / path)
            for name, severity, target in _targets(output, path, job):
                target.parent.mkdir(parents=True, exist_ok=True)
                changed = job.run(image[None], name, severity, number)[0]
                with replacing(target) as temporary:
                    write_picture(temporary, changed)
                progress.advance(progress.task_ids[0])
    say(f"Wrote {len(paths):,} images{_per_cell(job)} to {output}.")


def _targets(output: Path, path: Path, job: _Job) -> Iterator[tuple[str, int, Path]]:
    for name, severity in job.cells:
        below = output / name / str(severity) if job.many else output
        yield name, severity, below / path.with_suffix(".png")


def _make_folder(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"cannot write {output}: it is a file, and a folder is needed.")
    output.mkdir(parents=True, exist_ok=True)


def _per_cell(job: _Job) -> str:
    return f" for each of {len(job.cells)} cells" if job.many else ""


def _gallery(target: Path, images: Path | None, seed: int, frost_textures: Path | None) -> None:
    from wildcal._old.shift.gallery import ROWS, gallery
    from wildcal._old.shift.images import write_picture
    from wildcal._old.shift.scene import scene

    if target.suffix.lower() != ".png":
        raise ValueError(f"cannot write {target}: a gallery is a .png.")
    check_writable(target)
    image = scene() if images is None else _first(images)
    with progress_bar("Drawing the gallery", len(ROWS)) as progress:
        sheet = gallery(
            image,
            seed=seed,
            frost_textures=frost_textures,
            advance=lambda: progress.advance(progress.task_ids[0]),
        )
    with replacing(target) as temporary:
        write_picture(temporary, sheet)
    say(f"Wrote {target}.")


def _first(images: Path) -> NDArray[np.uint8]:
    from wildcal._old.shift.images import (
        PICTURES,
        batch_file,
        find_pictures,
        read_batch,
        read_picture,
    )

    if images.is_file() and images.suffix.lower() in PICTURES:
        return read_picture(images)
    source = batch_file(images)
    if source is not None:
        first: NDArray[np.uint8] = read_batch(source).images[0]
        return first
    return read_picture(images / find_pictures(images)[0])
