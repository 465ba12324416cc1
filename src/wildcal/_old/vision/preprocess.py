"""How a picture becomes what a network reads: declared once, used everywhere, kept with a suite."""

from dataclasses import dataclass, replace
from typing import Any, Final

from wildcal._old.core.checks import check_choice, check_count
from wildcal._old.vision.batches import Normalizer
from wildcal._old.vision.datasets.images import INTERPOLATIONS
from wildcal._old.vision.training_data import CIFAR, NORMALIZERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocess:
    """Resize the short side, cut out the center, normalize the colors.

    Parameters
    ----------
    crop
        Width and height of what the network reads, in pixels.
    resize
        What the short side of a picture is resized to before.
    interpolation
        How: "nearest", "bilinear", "bicubic" or "lanczos".
    normalize
        What is done to the pixels.

    Examples
    --------
    >>> from wildcal._old.vision.preprocess import PRESETS
    >>> PRESETS["timm-0.5"].resize, PRESETS["timm-0.5"].crop
    (248, 224)
    """

    crop: int
    resize: int
    interpolation: str = "bilinear"
    normalize: Normalizer

    def __post_init__(self) -> None:
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        if check_count("resize", self.resize) < check_count("crop", self.crop):
            raise ValueError(f"resize must be at least crop = {self.crop}, got {self.resize}.")

    @property
    def pictures(self) -> dict[str, Any]:
        """What the readers of picture files are told."""
        return {"size": self.crop, "resize": self.resize, "interpolation": self.interpolation}


IMAGENET: Final = Preprocess(crop=224, resize=256, normalize=NORMALIZERS["imagenet"])
PRESETS: Final = {
    "torchvision": IMAGENET,
    # Most vision transformers: nine tenths of the picture, colors from -1 to 1.
    "timm-0.5": Preprocess(
        crop=224,
        resize=248,
        interpolation="bicubic",
        normalize=Normalizer((0.5,) * 3, (0.5,) * 3),
    ),
    # Networks from Caffe, and Keras' first ones: the mean color taken off, nothing divided.
    "caffe": replace(
        IMAGENET,
        normalize=Normalizer((123.68, 116.779, 103.939), (1.0,) * 3, channels="bgr", scale=255.0),
    ),
}
"""How widely used collections of networks want their images."""


def make_preprocess(
    dataset: str,
    *,
    preset: str | None = None,
    crop: int | None = None,
    resize: int | None = None,
    interpolation: str | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    channels: str | None = None,
    scale: float | None = None,
) -> Preprocess:
    """Return a preset, or what is usual for a data set, with some of its parts replaced.

    Another crop alone keeps the margin of ImageNet and of the presets in proportion. Pictures in
    other folders and CIFAR have no margin, unless told.
    """
    if preset is not None:
        check_choice("preprocess", preset, tuple(PRESETS))
        base = PRESETS[preset]
    elif dataset == "imagenet":
        base = IMAGENET
    else:
        side = 32 if dataset in CIFAR else 224
        normalize = NORMALIZERS.get(dataset, NORMALIZERS["imagenet"])
        base = Preprocess(crop=side, resize=side, normalize=normalize)
    if crop is not None and crop != base.crop:
        base = replace(base, crop=crop, resize=round(crop * base.resize / base.crop))
    if resize is not None:
        base = replace(base, resize=resize)
    given = {"mean": mean, "std": std, "channels": channels, "scale": scale}
    colors = {name: value for name, value in given.items() if value is not None}
    return replace(
        base,
        interpolation=interpolation or base.interpolation,
        normalize=replace(base.normalize, **colors),  # type: ignore[arg-type]
    )
