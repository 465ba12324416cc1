"""The options of `wildcal extract` that say how a network wants its pictures."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

COLORS: Final = ("mean", "std", "channels", "scale")
"""Those that a checkpoint knows for itself."""
LOOK: Final = ("preset", "crop", "resize", "interpolation", *COLORS)
"""All of them."""
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _three(
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


_OPTIONS = (
    click.option(
        "--preprocess",
        "preset",
        type=click.Choice(["torchvision", "timm-0.5", "caffe"]),
        help="How the network wants its pictures; the options below replace parts of it."
        "  [torchvision for imagenet]",
    ),
    click.option(
        "--crop",
        "--size",
        "crop",
        type=click.IntRange(min=32),
        help="Side of the square cut out of the middle, in pixels.  [32 or 224]",
    ),
    click.option(
        "--resize",
        type=click.IntRange(min=32),
        help="What the short side is resized to before.  [8/7 of the crop for imagenet; the crop]",
    ),
    click.option(
        "--interpolation",
        type=click.Choice(["nearest", "bilinear", "bicubic", "lanczos"]),
        help="How it is resized.  [bilinear]",
    ),
    click.option("--mean", callback=_three, help="R,G,B, taken off.  [those of the data set]"),
    click.option("--std", callback=_three, help="R,G,B, divided by.  [those of the data set]"),
    click.option(
        "--channels", type=click.Choice(["rgb", "bgr"]), help="Order of the colors.  [rgb]"
    ),
    click.option(
        "--scale",
        type=click.FloatRange(min=0, min_open=True),
        help="What white is before the mean is taken off: 1, or 255.  [1]",
    ),
)


def preprocess_options(command: _Command) -> _Command:
    """Add the options to a command, in order."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
