"""One row of numbers per image from whatever a layer gives: the mean over all places."""

from collections.abc import Sequence


def pooled_axes(shape: Sequence[int], layer: str) -> tuple[int, ...]:
    """Return the axes over which the output of a layer is averaged.

    (n, channels, H, W) is averaged over the picture, (n, tokens, channels) over the tokens, and
    (n, channels) is taken as it is. Of four axes the channels are the second, unless the second and
    third are equal and the fourth is not: then the picture is in between, since our images are
    square.
    """
    if len(shape) == 4:
        last = shape[1] == shape[2] != shape[3]
        return (1, 2) if last else (2, 3)
    if len(shape) == 3:
        return (1,)
    if len(shape) == 2:
        return ()
    raise ValueError(
        f"layer {layer} must give 2 to 4 axes, images first, got shape {tuple(shape)};"
        " leave it out of layers=."
    )
