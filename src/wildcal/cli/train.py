"""`wildcal train`: train a network on CIFAR images."""

from pathlib import Path
from typing import Any

import click

from wildcal.cli import options as common
from wildcal.cli.output import check_output, progress_bar, say
from wildcal.cli.types import PATH
from wildcal.core.exceptions import InputError
from wildcal.core.validation import check_choice


@click.command(no_args_is_help=True)
@click.argument("data", type=PATH)
@click.option(
    "--network",
    required=True,
    help="resnet20, wrn-16-2, vgg11-half, densenet-45, se-resnet20 for a CPU; a wrong name lists"
    " all.",
)
@click.option("--dataset", type=click.Choice(["cifar10", "cifar100"]), default="cifar10")
@click.option("-o", "--output", type=PATH, required=True, help="Checkpoint (.safetensors).")
@click.option("--resume", is_flag=True, help="Continue the training of OUTPUT.")
@click.option("--start", type=PATH, help="Checkpoint whose weights to begin with.")
@click.option("--epochs", type=int, default=16)
@click.option("--batch-size", type=int, default=128)
@click.option("--learning-rate", type=float, default=0.2, help="At its peak.")
@click.option("--weight-decay", type=float, default=5e-4)
@click.option("--warm-up", default=0.2, help="Share of steps with a rising learning rate.")
@click.option("--small-crops", default=0.4, help="Share of epochs, the first, on 24 x 24 pixels.")
@common.seed_option
@click.option("--device", default="cpu", help="Any device of torch.")
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

    The last tenth of the training images (45,000 to 49,999) is not used; `wildcal extract`
    takes its calibration samples from it. A checkpoint is written after every epoch, and --resume
    continues after the last one.

    \b
    Example:
      wildcal train data --network resnet20 -o resnet20.safetensors
      wildcal train data --network resnet20 -o resnet20.safetensors --resume
      wildcal train data --network resnet20 --start resnet20.safetensors -o longer.safetensors
    """
    from wildcal.vision.checkpoint import Checkpoint
    from wildcal.vision.networks import NETWORKS
    from wildcal.vision.train import Progress, Recipe, read_training_data
    from wildcal.vision.train import train as run

    check_choice("network", network, NETWORKS)
    recipe = Recipe(**options)
    check_output(output, suffixes=[".safetensors"])
    if output.exists() and not resume:
        raise InputError(f"output must not exist, got {output}. Try resume=True.", "output")
    images = read_training_data(dataset, data)
    with progress_bar(network, recipe.epochs) as bar:

        def report(state: Progress) -> None:
            if state.held_out_accuracy is None:
                bar.advance(1 / state.n_steps)
                return
            say(
                f"epoch {state.epoch + 1} of {recipe.epochs}: loss {state.loss:.3f}, accuracy"
                f" {100 * state.accuracy:.1f} %, {100 * state.held_out_accuracy:.1f} % on held-out"
                " images."
            )

        checkpoint = run(
            network,
            images,
            output,
            recipe=recipe,
            start=None if start is None else Checkpoint.load(start),
            device=device,
            progress=report,
        )
    accuracy, n = checkpoint.history[-1]["held_out"], len(images.held_out_labels)
    say(
        f"Wrote {output}: {network} after {recipe.epochs} epochs, accuracy {100 * accuracy:.1f} %"
        f" on {n:,} held-out images."
    )
