"""`wildcal train`: a CIFAR network from a folder of published images."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wildcal._old.cli.extras import needs_extra
from wildcal._old.cli.options import PATH, quiet_option
from wildcal._old.cli.output import progress_bar, say
from wildcal._old.io.files import check_writable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from wildcal._old.vision.train import Progress


@click.command(no_args_is_help=True)
@click.argument("data", type=PATH)
@click.option(
    "--network",
    required=True,
    help="resnet20, wrn-16-2, vgg11-half, densenet-45, se-resnet20 for a CPU; a wrong name lists"
    " all.",
)
@click.option(
    "--dataset", type=click.Choice(["cifar10", "cifar100"]), default="cifar10", show_default=True
)
@click.option("-o", "--output", type=PATH, required=True, help="Checkpoint (.safetensors).")
@click.option("--resume", is_flag=True, help="Go on with OUTPUT if it is there.")
@click.option(
    "--start", type=PATH, help="Checkpoint whose weights to begin with, for one more cycle."
)
@click.option("--epochs", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--batch-size", type=click.IntRange(min=2), default=128, show_default=True)
@click.option("--learning-rate", type=float, default=0.2, show_default=True, help="At its peak.")
@click.option("--weight-decay", type=float, default=5e-4, show_default=True)
@click.option(
    "--warm-up",
    type=click.FloatRange(0, 1),
    default=0.2,
    show_default=True,
    help="Share of the steps in which the learning rate rises.",
)
@click.option(
    "--small-crops",
    type=click.FloatRange(0, 1),
    default=0.4,
    show_default=True,
    help="Share of the epochs, at the start, on 24 x 24 pixels.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--device", default="cpu", show_default=True, help="Any device of torch.")
@quiet_option
def train(
    data: Path,
    network: str,
    dataset: str,
    output: Path,
    resume: bool,
    start: Path | None,
    device: str,
    **options: Any,
) -> None:
    """Train a network on the CIFAR images in the folder DATA.

    The last tenth of the training images (45,000 to 49,999) is not learned from; `wildcal extract`
    makes the tuning rows of it. A checkpoint is written after every epoch, and --resume goes on
    after the last one. `wildcal --threads N train ...` sets the number of threads.

    \b
    Example:
      wildcal train data --network resnet20 -o resnet20.safetensors
      wildcal train data --network resnet20 -o resnet20.safetensors --resume
      wildcal train data --network resnet20 --start resnet20.safetensors -o longer.safetensors
    """
    with needs_extra():
        import wildcal._old.vision.networks  # noqa: F401  # says what to install where torch is missing
        from wildcal._old.vision.checkpoint import Checkpoint
        from wildcal._old.vision.networks.registry import check_network
        from wildcal._old.vision.recipe import Recipe
        from wildcal._old.vision.train import train as run
        from wildcal._old.vision.training_data import read_training_data
    check_network(network)
    recipe = Recipe(**options)
    if output.suffix != ".safetensors":
        raise ValueError(f"cannot write {output}: a checkpoint's name must end in .safetensors.")
    if output.exists() and not resume:
        raise FileExistsError(f"{output} exists; --resume goes on with it.")
    check_writable(output)  # before the work, not after it
    images = read_training_data(dataset, data)
    with progress_bar(network, recipe.epochs) as bar:
        checkpoint = run(
            network,
            images,
            output,
            recipe=recipe,
            start=None if start is None else Checkpoint.load(start),
            device=device,
            on_step=_Shown(network, recipe.epochs, bar),
        )
    say(
        f"Wrote {output}: {network} after {recipe.epochs} epochs,"
        f" {checkpoint.history[-1]['watched']:.1%} right on"
        f" {len(images.watched_labels):,} images kept from training."
    )


class _Shown:
    """The bar of a person watching, and a line for each epoch, which a log keeps."""

    def __init__(self, network: str, epochs: int, bar: "Bar") -> None:
        self.network, self.epochs, self.bar = network, epochs, bar

    def __call__(self, at: "Progress") -> None:
        text = f"epoch {at.epoch + 1} of {self.epochs}: loss {at.loss:.3f}, {at.accuracy:.1%} right"
        if at.watched_accuracy is None:
            done = at.epoch + at.step / at.n_steps
            self.bar.update(
                self.bar.task_ids[0], completed=done, description=f"{self.network} {text}"
            )
        else:
            line = f"{text}, {at.watched_accuracy:.1%} on images kept from it."
            if self.bar.disable:  # nobody watches, so the console of the bar is quiet
                say(line)
            else:
                self.bar.console.print(line)
