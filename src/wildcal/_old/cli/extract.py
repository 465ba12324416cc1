"""`wildcal extract`: a network's logits on clean and shifted images, as a suite."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wildcal._old.cli.extract_preprocess import COLORS, LOOK, preprocess_options
from wildcal._old.cli.extract_progress import Steps
from wildcal._old.cli.extras import needs_extra
from wildcal._old.cli.options import PATH, quiet_option
from wildcal._old.cli.output import progress_bar, say

if TYPE_CHECKING:
    from wildcal._old.io.suite import Suite
    from wildcal._old.vision.cells import Plan
    from wildcal._old.vision.classifiers.base import Classifier
    from wildcal._old.vision.distances import DistancePlan
    from wildcal._old.vision.preprocess import Preprocess

Named = tuple[tuple[str, str | None], ...]


def _named(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Named:
    """Read NAME or NAME=FOLDER."""
    pairs = tuple((name, folder or None) for name, _, folder in (v.partition("=") for v in values))
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise click.BadParameter("a name was given twice.")
    return pairs


def _layers(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    return None if value is None else tuple(word.strip() for word in value.split(","))


@click.command(no_args_is_help=True)
@click.argument("data", type=PATH)
@click.option(
    "--network",
    required=True,
    help="Checkpoint of `wildcal train` (.safetensors), ONNX file (.onnx), module:callable, or"
    " wildcal:NAME for weights that come with wildcal.",
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
@click.option("--name", help="What the suite calls the data.  [the data set, or the folder]")
@click.option(
    "--validation-rows",
    type=click.IntRange(min=1),
    help="Clean rows to tune on, of every class as many.  [all; a quarter of imagenet]",
)
@click.option(
    "--test-rows",
    type=click.IntRange(min=1),
    help="Clean rows to test on, of every class as many.  [all; a quarter of imagenet]",
)
@click.option("--rows", type=click.IntRange(min=1), help="Rows per corrupted test cell.  [all]")
@click.option(
    "--paired/--unpaired",
    default=True,
    show_default=True,
    help="Whether all corruptions are applied to the same images, or each type to a draw of its"
    " own.",
)
@click.option(
    "--tuning-rows",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Rows per corrupted or transformed tuning cell.",
)
@click.option(
    "--transforms",
    metavar="color|geometric|all|none|LIST",
    help="Tune on recolored, rotated, cut ... validation images too. Take those that leave the"
    " class as it is.  [all; color for folders]",
)
@click.option(
    "--ood-rows",
    type=click.IntRange(min=1),
    help="Rows of each OOD set that tune, at most half of it.  [100, 400 or 3500 by the number"
    " of classes]",
)
@click.option(
    "--ood-test-rows",
    type=click.IntRange(min=1),
    help="Rows of each OOD set that test.  [all others]",
)
@click.option(
    "--ood",
    multiple=True,
    callback=_named,
    metavar="NAME[=FOLDER]",
    help="Set with other classes: svhn, textures, or a folder of classes. Repeatable; `none` for"
    " none.  [those of svhn and textures that are in DATA]",
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
    help="With --features: the k-th neighbor, beside the nearest.  [50, 200 or 10]",
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
@preprocess_options
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--dtype",
    type=click.Choice(["float16", "float32"]),
    default="float32",
    show_default=True,
    help="How logits are stored.",
)
@click.option("--device", default="cpu", show_default=True, help="Any device of torch.")
@quiet_option
def extract(
    data: Path,
    network: str,
    output: Path,
    dataset: str,
    dtype: str,
    **options: Any,
) -> None:
    """Run a network over the images in the folder DATA and keep its logits as a suite.

    The suite has validation images clean, under 4 corruptions and under transforms to tune on, test
    images clean and under 19 corruptions x 5 severities, and sets of other classes for both.
    Corrupted images are made on the fly and not stored. A run that was interrupted goes on when it
    is started again, and ends with the same files.

    \b
    Layouts of DATA:
      cifar10, cifar100  the published folders; svhn and dtd beside them
      imagenet           val/n01440764/*.JPEG, or val/0/*.JPEG by the number of the class
      folders            validation/CLASS/*.png and test/CLASS/*.png
    With --features, training images of the last two are in train/CLASS/.

    \b
    Example:
      wildcal extract data --network resnet20.safetensors --rows 2000 -o suite
      wildcal extract data --dataset imagenet --network vit.onnx --preprocess timm-0.5 -o suite
      wildcal extract data --network mymodels:resnet --weights w.safetensors -o suite
      wildcal extract data --network resnet20.safetensors --rows 2000 --features -o suite
    """
    with needs_extra():
        from wildcal._old.vision.classifiers import open_classifier
        from wildcal._old.vision.plausible import plausibility_notes
        from wildcal._old.vision.preprocess import make_preprocess
    _check(network, options)
    look = make_preprocess(dataset, **{name: options[name] for name in LOOK})
    with needs_extra():
        classifier = open_classifier(
            network, look.normalize, weights=options["weights"], device=options["device"]
        )
    plan = _plan(dataset, data, look, options)
    for note in plan.notes:
        say(note)
    distances = _distances(classifier, plan, data, look, options | {"dataset": dataset})
    suite = _watched(classifier, plan, output, dtype, distances)
    for note in plausibility_notes(suite):
        say(note)
    say(
        f"Wrote {plan.rows:,} rows in {len(suite.splits)} splits to {output};"
        f" `wildcal suite show {output}` shows them."
    )


def _check(network: str, options: dict[str, Any]) -> None:
    """Raise for options that do not go together."""
    from wildcal._old.vision.shipped import is_shipped

    for option in ("layers", "k", "train", "train_rows", "search"):
        if options[option] is not None and not options["features"]:
            raise click.UsageError(f"--{option.replace('_', '-')} is for --features.")
    if ("none", None) in options["ood"] and len(options["ood"]) > 1:
        raise click.UsageError("--ood none excludes other sets.")
    knows_its_own = Path(network).suffix == ".safetensors" or is_shipped(network)
    if knows_its_own and any(options[name] is not None for name in COLORS):
        words = ", ".join(f"--{name}" for name in COLORS)
        raise click.UsageError(f"leave out {words}: a checkpoint knows its own colors.")


def _plan(dataset: str, data: Path, look: "Preprocess", options: dict[str, Any]) -> "Plan":
    """Return which images are read."""
    from wildcal._old.vision.sizes import Sizes
    from wildcal._old.vision.sources import make_plan, ood_there
    from wildcal._old.vision.transforms import chosen_transforms

    if options["ood"]:
        chosen = {} if ("none", None) in options["ood"] else _folders(options["ood"], data)
    else:
        chosen = ood_there(data)
        say(f"Sets of other classes: {', '.join(chosen) or 'none in ' + str(data)}.")
    same = ("corrupted", "name", "paired", "seed")
    return make_plan(
        dataset,
        data,
        ood=chosen,
        extra=_folders(options["extra"], data),
        sizes=Sizes(
            validation=options["validation_rows"],
            test=options["test_rows"],
            corrupted=options["rows"],
            tuning=options["tuning_rows"],
            ood=options["ood_rows"],
            ood_test=options["ood_test_rows"],
        ),
        preprocess=look,
        transforms=chosen_transforms(options["transforms"], dataset),
        **{name: options[name] for name in same},
    )


def _distances(
    classifier: "Classifier", plan: "Plan", data: Path, look: "Preprocess", options: dict[str, Any]
) -> "DistancePlan | None":
    """Return which distances to training images are measured, if any."""
    if not options["features"]:
        return None
    with needs_extra():
        from wildcal._old.vision.distances import DistancePlan, Neighbors
        from wildcal._old.vision.neighbors import usual_k
    from wildcal._old.vision.training_images import training_images

    dataset = options["dataset"]
    training = training_images(
        dataset,
        data,
        look,
        train=options["train"],
        rows=options["train_rows"],
        seed=options["seed"],
    )
    wanted = Neighbors(
        training=training,
        layers=options["layers"],
        k=options["k"] or usual_k(dataset),
        search=options["search"] or "exact",
    )
    return DistancePlan(classifier, plan, wanted)


def _watched(
    classifier: "Classifier",
    plan: "Plan",
    output: Path,
    dtype: str,
    distances: "DistancePlan | None",
) -> "Suite":
    """Extract, and show how far it is."""
    from wildcal._old.vision.extract import extract as run

    work = plan.rows + (len(distances.training.rows) if distances else 0)
    with progress_bar(f"Extracting {classifier.about['name']}", work) as bar:
        steps = Steps(work, watched=not bar.disable)

        def show(cell: str, count: int) -> None:
            bar.update(bar.task_ids[0], advance=count, description=f"Extracting {cell}")
            steps.add(count)

        def found(count: int) -> None:
            bar.update(bar.task_ids[0], advance=count)
            steps.found(count)

        return run(
            classifier,
            plan,
            output,
            dtype=dtype,
            distances=distances,
            on_rows=show,
            on_there=found,
        )


def _folders(named: Named, data: Path) -> dict[str, Path]:
    """Return the folder of each set: by default DATA for svhn and textures, DATA/NAME for others.

    Never DATA itself for others: the clean images would then pass for the shifted ones.
    """
    usual = {"svhn": data, "textures": data}
    return {
        name: usual.get(name, data / name) if folder is None else Path(folder)
        for name, folder in named
    }
