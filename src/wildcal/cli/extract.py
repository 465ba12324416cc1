"""`wildcal extract`: write the logits of a network on images as a suite."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wildcal.cli import options as common
from wildcal.cli.output import progress_bar, say
from wildcal.cli.types import COLORS, COUNT, NAMES, PATH, pairs

if TYPE_CHECKING:
    from wildcal.vision.extractor import Extractor
    from wildcal.vision.images import Preprocess

_N_NEIGHBORS: Final = {"cifar10": 50, "cifar100": 200}
_SIZES: Final = {
    "n_validation": "In-distribution images for calibration, every class in proportion."
    "  [all; a quarter of imagenet]",
    "n_test": "In-distribution images for tests.  [all; a quarter of imagenet]",
    "n_corrupted": "Images per corrupted test condition.  [all]",
    "n_shifted_validation": "Images per corrupted or transformed validation condition.  [1000]",
    "n_ood": "Images of each OOD set for calibration.  [100, 400 or 3500 by the number of classes]",
    "n_ood_test": "Images of each OOD set for tests.  [all others]",
}
_NEIGHBORS: Final = {
    "layers": (
        NAMES,
        "With --features: the layers.  [our networks: ends of stages, logits]",
    ),
    "n_neighbors": (COUNT, "With --features: k of the k-th neighbor.  [10; CIFAR: 50, 200]"),
    "train": (PATH, "With --features: folder of training images.  [DATA/train]"),
    "n_train": (COUNT, "With --features: training images.  [all; 1 % of imagenet]"),
}
_PREPROCESS: Final = {
    "crop": (COUNT, "Side of the center crop.  [size of the pictures if all are alike; 224]"),
    "resize": (COUNT, "Short side before the crop.  [8/7 of the crop for imagenet]"),
    "interpolation": (click.Choice(["nearest", "bilinear", "bicubic", "lanczos"]), None),
    "mean": (COLORS, "Subtracted from the colors."),
    "std": (COLORS, "Divides the colors."),
    "channels": (click.Choice(["rgb", "bgr"]), "Order of the colors.  [rgb]"),
    "scale": (float, "Value of white before the mean is subtracted: 1 or 255.  [1]"),
}


def _named(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> Any:
    """Read NAME or NAME=FOLDER."""
    found = pairs(context, option, tuple(v if "=" in v else f"{v}=" for v in values))
    return {name: Path(folder) if folder else None for name, folder in found.items()}


@click.command(no_args_is_help=True)
@click.argument("data", type=PATH)
@click.option(
    "--network",
    required=True,
    help="Checkpoint of `wildcal train` (.safetensors), ONNX file (.onnx), module:function,"
    " torchvision:NAME, timm:NAME, hf:NAME, or wildcal:NAME for weights that come with wildcal.",
)
@click.option("--weights", type=PATH, help="For module:function, a .safetensors file.")
@click.option("-o", "--output", type=PATH, required=True, help="Folder of the suite.")
@click.option(
    "--dataset",
    type=click.Choice(["cifar10", "cifar100", "imagenet", "folders"]),
    default="cifar10",
    help="Layout of DATA.",
)
@click.option("--name", help="Name of the data in the suite.  [the data set, or the folder]")
@common.table({name: (COUNT, text) for name, text in _SIZES.items()})
@click.option(
    "--paired/--unpaired",
    default=True,
    help="All corruptions of the same images, or of other images for each type.",
)
@click.option(
    "--transforms",
    type=NAMES,
    metavar="color|geometric|all|none|NAME,...",
    help="Transformed validation images. Choose those that keep the class.  [all; color for"
    " folders]",
)
@click.option(
    "--ood",
    multiple=True,
    callback=_named,
    metavar="NAME[=FOLDER]",
    help="OOD set: svhn, textures, or a folder of classes; repeatable; `none` for none."
    "  [svhn and textures, if they are in DATA]",
)
@common.pairs_option(
    "--extra",
    "NAME[=FOLDER]",
    "More images of the same classes: imagenet-r, imagenet-a, imagenet-sketch, or a folder of"
    " classes",
    _named,
)
@click.option("--corrupted", type=PATH, help="Folder of published corrupted images.")
@click.option("--features", is_flag=True, help="Measure distances to the training images, for dac.")
@common.table(_NEIGHBORS)
@click.option(
    "--preprocess",
    "preset",
    type=click.Choice(["torchvision", "timm-0.5", "caffe", "unit"]),
    help="Preprocessing of the images; the options below replace parts of it."
    "  [as the network says; torchvision for imagenet]",
)
@common.table(_PREPROCESS)
@click.option("--allow-chance", is_flag=True, help="Go on at an accuracy of chance.")
@common.seed_option
@click.option(
    "--dtype",
    type=click.Choice(["float16", "float32"]),
    default="float32",
    help="How logits are stored.",
)
@click.option("--device", default="cpu", help="Any device of torch.")
@common.scheduler_option
def extract(
    data: Path,
    network: str,
    weights: Path | None,
    output: Path,
    allow_chance: bool,
    dtype: str,
    device: str,
    scheduler: str | None,
    **options: Any,
) -> None:
    """Run a network on the images in the folder DATA and write its logits as a suite.

    The suite has validation images, also under 4 corruptions and under transforms; test images,
    also under 19 corruptions at 5 severities; and OOD sets for both. Images are corrupted on the
    fly. An interrupted run continues when it is started again.

    \b
    Layouts of DATA:
      cifar10, cifar100  the published folders; svhn and dtd beside them
      imagenet           val/n01440764/*.JPEG, or val/0/*.JPEG by class index
      folders            validation/CLASS/*.png and test/CLASS/*.png
    With --features, training images of the last two are in train/CLASS/.

    \b
    Example:
      wildcal extract data --network resnet20.safetensors --n-corrupted 2000 -o suite
      wildcal extract data --dataset imagenet --network timm:vit_base_patch16_224 -o suite
      wildcal extract data --dataset folders --network mymodels:cnn --weights w.safetensors -o suite
      wildcal extract data --network resnet20.safetensors --features -o suite
    """
    from wildcal.vision.classifiers import open_classifier
    from wildcal.vision.extract import check_accuracy, implausible_conditions
    from wildcal.vision.extract import extract as run

    open_network = partial(open_classifier, network, weights=weights, device=device)
    extractor, colors_known = _extractor(open_network, data, **options)
    plan, preprocess = extractor.plan, extractor.preprocess
    say(plan.summary())
    say(_description(preprocess))
    extractor.check()
    accuracy, n = check_accuracy(extractor, colors_known=colors_known, allow_chance=allow_chance)
    say(f"Accuracy on {n:,} in-distribution images: {100 * accuracy:.1f} %.")
    n_training = len(extractor.neighbors.indices) if extractor.neighbors else 0
    with progress_bar("Extracting images", plan.n_samples + n_training) as progress:
        try:
            suite = run(
                extractor,
                output,
                dtype=dtype,
                scheduler=scheduler,
                progress=progress.advance,
            )
        except KeyboardInterrupt:
            say("The same command continues where this run stops.")
            raise
    for name, found in implausible_conditions(suite).items():
        say(
            f"{name}: accuracy {100 * found:.1f} %, far below all others: does it change what the"
            " image shows? If so, leave it out of --transforms."
        )
    say(
        f"Wrote {plan.n_samples:,} samples in {len(suite.splits)} splits to {output};"
        f" `wildcal suite show {output}` lists them."
    )


def _extractor(
    open_network: Callable[[], Any],
    data: Path,
    *,
    dataset: str,
    seed: int,
    ood: dict[str, Path | None],
    extra: dict[str, Path | None],
    features: bool,
    train: Path | None,
    n_train: int | None,
    layers: tuple[str, ...] | None,
    n_neighbors: int | None,
    **options: Any,
) -> tuple["Extractor", bool]:
    """Return the network with the plan of the suite, and whether its colors are known."""
    from wildcal.vision.extractor import Extractor, training_neighbors
    from wildcal.vision.plan import Sizes, choose_preprocess, make_plan, ood_sets

    classifier = open_network()
    given = {name: options.pop(name) for name in ("preset", *_PREPROCESS)}
    preprocess, colors_known = choose_preprocess(dataset, data, classifier, **given)
    sizes = {name.removeprefix("n_"): options.pop(name) for name in _SIZES}
    plan = make_plan(
        dataset,
        data,
        preprocess,
        ood=ood_sets(data) if not ood else {} if "none" in ood else _folders(ood, data),
        extra=_folders(extra, data),
        sizes=Sizes(**{name: n for name, n in sizes.items() if n is not None}),
        seed=seed,
        **options,
    )
    neighbors = None
    if features:
        neighbors = training_neighbors(
            dataset,
            data,
            preprocess,
            folder=train,
            n=n_train,
            seed=seed,
            layers=layers,
            k=n_neighbors or _N_NEIGHBORS.get(dataset, 10),
        )
    extractor = Extractor(open_network, plan, preprocess, neighbors)
    extractor.classifier = classifier
    return extractor, colors_known


def _folders(named: dict[str, Path | None], data: Path) -> dict[str, Path]:
    """Return the folder of each set: DATA for svhn and textures, DATA/NAME for others."""
    usual = {"svhn": data, "textures": data}
    return {name: folder or usual.get(name, data / name) for name, folder in named.items()}


def _description(preprocess: "Preprocess") -> str:
    mean, std = (" ".join(f"{v:.4g}" for v in each) for each in (preprocess.mean, preprocess.std))
    return (
        f"Images: short side {preprocess.resize}, center {preprocess.crop} x {preprocess.crop},"
        f" {preprocess.interpolation}; mean {mean}, std {std}, {preprocess.channels}, white"
        f" {preprocess.scale:g}."
    )
