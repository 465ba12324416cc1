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


def _layers(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    return None if value is None else tuple(word.strip() for word in value.split(","))


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
    help="Rows per corrupted, transformed or perturbed tuning cell.",
)
@click.option(
    "--transforms/--no-transforms",
    default=True,
    show_default=True,
    help="Tune on rotated, cut, recoloured ... validation images too.",
)
@click.option(
    "--perturb/--no-perturb",
    default=False,
    show_default=True,
    help="Add validation images under noise of 5 strengths, searched for this network: accuracy"
    " falls from clean to chance in equal steps.",
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
@click.option(
    "--features",
    is_flag=True,
    help="Also keep how far each image is from the training images, in several layers.",
)
@click.option(
    "--layers",
    callback=_layers,
    metavar="A,B,...",
    help="With --features: the layers.  [the ends of the blocks, and logits]",
)
@click.option(
    "--k",
    type=click.IntRange(min=1),
    help="With --features: the k-th neighbour, beside the nearest.  [50, 200 or 10]",
)
@click.option(
    "--train", type=PATH, help="With --features: folder of training images.  [DATA or DATA/train]"
)
@click.option(
    "--train-rows",
    type=click.IntRange(min=1),
    help="With --features: training images to search among.  [all; 1 % of imagenet]",
)
@click.option(
    "--search",
    type=click.Choice(["exact", "ivf"]),
    help="With --features: search all training images, or only near ones.  [exact]",
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
    perturb: bool,
    ood_rows: int,
    semantic: Named,
    extra: Named,
    corrupted: Path | None,
    features: bool,
    layers: tuple[str, ...] | None,
    k: int | None,
    train: Path | None,
    train_rows: int | None,
    search: str | None,
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
    With --features, training images of the last two are in train/CLASS/.

    \b
    Example:
      wildcal extract data --network resnet20.safetensors --rows 2000 -o suite
      wildcal extract data --dataset imagenet --network vit.onnx --rows 1000 -o suite
      wildcal extract data --network mymodels:resnet --weights w.safetensors -o suite
      wildcal extract data --network resnet20.safetensors --rows 2000 --features -o suite
    """
    with needs_extra():
        from wildcal.vision.batches import Normaliser
        from wildcal.vision.classifiers import open_classifier
        from wildcal.vision.extract import extract as run
        from wildcal.vision.perturb import notes
        from wildcal.vision.plan import Sizes
        from wildcal.vision.sources import input_size, make_plan
        from wildcal.vision.training_data import NORMALISERS
    given = {"layers": layers, "k": k, "train": train, "train-rows": train_rows, "search": search}
    for name, value in given.items():
        if value is not None and not features:
            raise click.UsageError(f"--{name} is for --features.")
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
        perturb=perturb,
    )
    densities = None
    if features:
        with needs_extra():
            from wildcal.vision.densities import DensityPlan, Neighbours
            from wildcal.vision.neighbours import usual_k
        from wildcal.vision.training_images import training_images

        training = training_images(
            dataset, data, plan.data["size"], train=train, rows=train_rows, seed=seed
        )
        wanted = Neighbours(
            training=training, layers=layers, k=k or usual_k(dataset), search=search or "exact"
        )
        densities = DensityPlan(classifier, plan, wanted)
    work = plan.rows + (len(densities.training.rows) if densities else 0)
    with progress_bar(f"Extracting {classifier.about['name']}", work) as bar:
        tenths = _Tenths(work, watched=not bar.disable)

        def show(cell: str, count: int) -> None:
            bar.update(bar.task_ids[0], advance=count, description=f"Extracting {cell}")
            tenths.add(count)

        def expect(more: int) -> None:
            tenths.total = tenths.done + more + work  # the search comes before all cells
            bar.update(bar.task_ids[0], total=tenths.total)

        suite = run(
            classifier,
            plan,
            output,
            dtype=dtype,
            densities=densities,
            on_rows=show,
            on_expected=expect,
        )
    for note in notes(suite.perturbation or {}):
        say(note)
    say(
        f"Wrote {plan.rows:,} rows in {len(suite.splits)} splits to {output};"
        f" `wildcal suite show {output}` shows them."
    )


class _Tenths:
    """A line for each tenth of the work, for a log that shows no bar."""

    def __init__(self, total: int, *, watched: bool) -> None:
        self.total, self.done, self.said, self.watched = total, 0, 0, watched

    def add(self, rows: int) -> None:
        self.done += rows
        if (tenth := 10 * self.done // self.total) > self.said:
            self.said = tenth
            if not self.watched:
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
