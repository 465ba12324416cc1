"""`wildcal extract`: a network's logits on clean and shifted images, as a suite."""

from pathlib import Path

import click

from wildcal.cli.extras import needs_extra
from wildcal.cli.options import PATH
from wildcal.cli.output import progress_bar, say

Named = tuple[tuple[str, str | None], ...]


def _named(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Named:
    """Read NAME or NAME=FOLDER."""
    pairs = tuple((name, folder or None) for name, _, folder in (v.partition("=") for v in values))
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise click.BadParameter("a name was given twice.")
    return pairs


def _colours(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[float, ...] | None:
    if value is None:
        return None
    try:
        numbers = tuple(float(word) for word in value.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 3 or (option.name == "std" and min(numbers) <= 0):
        raise click.BadParameter("give three numbers, such as 0.485,0.456,0.406.")
    return numbers


@click.command(no_args_is_help=True)
@click.argument("data", type=PATH)
@click.option(
    "--network",
    required=True,
    help="Checkpoint of `wildcal train` (.safetensors), ONNX file (.onnx), or module:callable.",
)
@click.option("--weights", type=PATH, help="For module:callable, a .safetensors file.")
@click.option("-o", "--output", type=PATH, required=True, help="Folder of the suite.")
@click.option(
    "--dataset",
    type=click.Choice(["cifar10", "cifar100", "imagenet", "folders"]),
    default="cifar10",
    show_default=True,
    help="Layout of DATA.",
)
@click.option("--rows", type=click.IntRange(min=1), help="Rows per corrupted test cell.  [all]")
@click.option(
    "--tuning-rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Rows per corrupted or transformed tuning cell.",
)
@click.option(
    "--transforms/--no-transforms",
    default=True,
    show_default=True,
    help="Tune on rotated, cut, recoloured ... validation images too.",
)
@click.option(
    "--ood-rows",
    type=click.IntRange(min=1),
    default=500,
    show_default=True,
    help="Rows of each semantic set that tune; the rest test.",
)
@click.option(
    "--semantic",
    multiple=True,
    callback=_named,
    metavar="NAME[=FOLDER]",
    help="Set with other classes: svhn, textures, or a folder of classes. Repeatable; `none` for"
    " none.  [svhn and textures, in DATA]",
)
@click.option(
    "--extra",
    multiple=True,
    callback=_named,
    metavar="NAME[=FOLDER]",
    help="More images of the same classes: imagenet-r, imagenet-a, imagenet-sketch, or a folder of"
    " classes. Repeatable.",
)
@click.option(
    "--corrupted", type=PATH, help="Folder of published corrupted images, taken instead of made."
)
@click.option("--size", type=click.IntRange(min=32), help="Side of the images.  [32 or 224]")
@click.option("--mean", callback=_colours, help="R,G,B in 0..1.  [those of the data set]")
@click.option("--std", callback=_colours, help="R,G,B in 0..1.  [those of the data set]")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--dtype",
    type=click.Choice(["float16", "float32"]),
    default="float32",
    show_default=True,
    help="How logits are stored.",
)
@click.option("--device", default="cpu", show_default=True, help="Any device of torch.")
def extract(
    data: Path,
    network: str,
    weights: Path | None,
    output: Path,
    dataset: str,
    rows: int | None,
    tuning_rows: int,
    transforms: bool,
    ood_rows: int,
    semantic: Named,
    extra: Named,
    corrupted: Path | None,
    size: int | None,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    seed: int,
    dtype: str,
    device: str,
) -> None:
    """Run a network over the images in the folder DATA and keep its logits as a suite.

    The suite has validation images clean, under 4 corruptions and under 24 transforms to tune on,
    test images clean and under 19 corruptions x 5 severities, and sets of other classes for both.
    Corrupted images are made on the fly and not stored. A run that was interrupted goes on when it
    is started again, and ends with the same files; a finished suite that lacks some splits gets
    them.

    \b
    Layouts of DATA:
      cifar10, cifar100  the published folders; svhn and dtd beside them
      imagenet           val/n01440764/*.JPEG
      folders            validation/CLASS/*.png and test/CLASS/*.png

    \b
    Example:
      wildcal extract data --network resnet20.safetensors --rows 2000 -o suite
      wildcal extract data --dataset imagenet --network vit.onnx --rows 1000 -o suite
      wildcal extract data --network mymodels:resnet --weights w.safetensors -o suite
    """
    with needs_extra():
        from wildcal.vision.batches import Normaliser
        from wildcal.vision.classifiers import open_classifier
        from wildcal.vision.extract import extract as run
        from wildcal.vision.plan import Sizes
        from wildcal.vision.sources import input_size, make_plan
        from wildcal.vision.training_data import NORMALISERS
    usual = NORMALISERS.get(dataset, NORMALISERS["imagenet"])
    chosen = semantic or (("svhn", None), ("textures", None))
    if ("none", None) in chosen:
        if len(chosen) > 1:
            raise click.UsageError("--semantic none excludes other sets.")
        chosen = ()
    if (mean or std) and Path(network).suffix == ".safetensors":
        raise click.UsageError("leave out --mean and --std: a checkpoint knows its own.")
    with needs_extra():
        classifier = open_classifier(
            network,
            Normaliser(mean or usual.mean, std or usual.std),
            weights=weights,
            device=device,
        )
    plan = make_plan(
        dataset,
        data,
        semantic=_folders(chosen, data),
        extra=_folders(extra, data),
        corrupted=corrupted,
        sizes=Sizes(corrupted=rows, tuning=tuning_rows, ood=ood_rows),
        size=size or input_size(dataset),
        seed=seed,
        transforms=transforms,
    )
    with progress_bar(f"Extracting {classifier.about['name']}", plan.rows) as bar:
        tenths = _Tenths(plan.rows, watched=not bar.disable)

        def show(cell: str, count: int) -> None:
            bar.update(bar.task_ids[0], advance=count, description=f"Extracting {cell}")
            tenths.add(count)

        suite = run(classifier, plan, output, dtype=dtype, on_rows=show)
    say(
        f"Wrote {plan.rows:,} rows in {len(suite.splits)} splits to {output};"
        f" `wildcal suite show {output}` shows them."
    )


class _Tenths:
    """A line for each tenth of the work, for a log that shows no bar."""

    def __init__(self, total: int, *, watched: bool) -> None:
        self.total, self.done, self.watched = total, 0, watched

    def add(self, rows: int) -> None:
        before = 10 * self.done // self.total
        self.done += rows
        if 10 * self.done // self.total > before and not self.watched:
            say(f"{self.done:,} of {self.total:,} rows.")


def _folders(named: Named, data: Path) -> dict[str, Path]:
    """Return the folder of each set: by default DATA for svhn and textures, DATA/NAME for others.

    Never DATA itself for others: the clean images would then pass for the shifted ones.
    """
    usual = {"svhn": data, "textures": data}
    return {
        name: usual.get(name, data / name) if folder is None else Path(folder)
        for name, folder in named
    }
