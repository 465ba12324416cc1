"""Images mixed up in pairs, which stand in for labeled ones of the same condition (PseudoCal)."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from wildcal.vision.batches import Pixels, filled
from wildcal.vision.classifiers.base import Classifier

SHARE: Final = 0.65
"""Of the first image in a mixed one, as the authors have it."""


def mixed_up(
    classifier: Classifier,
    images: Pixels,
    rng: np.random.Generator,
    *,
    share: float = SHARE,
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return logits of mixed-up images, and the class that the first image of each was taken for.

    Every image is paired with another at random. Pairs that the network takes for two classes are
    mixed, 0.65 of the first and 0.35 of the second, and labeled as the first: the network is right
    about as often on such images as on the unlabeled ones they are made of. So temperature scaling
    fitted on what comes back calibrates it there, without a label (PseudoCal: Hu et al., 2024):

        calibrator = wildcal.TemperatureScaling().fit(*mixed_up(classifier, images, rng))

    Parameters
    ----------
    images
        Unlabeled, of one condition: uint8 of shape (n, H, W, 3), or float32 and normalized already.
    share
        What the first image has in a mixed one, above 0.5.

    Notes
    -----
    The authors pair images within the batches they read, here it is within all that are given.
    Temperature scaling is ours, which finds the minimum; theirs is a Nelder-Mead search from 2.
    """
    if not 0.5 < share < 1.0:
        raise ValueError(f"share must lie between 0.5 and 1, got {share}.")
    predicted = _logits(classifier, images).argmax(axis=1)
    second = rng.permutation(len(images))
    differ = np.flatnonzero(predicted != predicted[second])
    if not len(differ):
        raise ValueError(
            f"no two of the {len(images)} images that were paired are taken for different classes,"
            " so none can be mixed; give more images."
        )
    parts = []
    size = classifier.block(images.shape[1])
    for start in range(0, len(differ), size):
        first = differ[start : start + size]
        own, other = (classifier.normalize(images[at]) for at in (first, second[first]))
        mixed = np.float32(share) * own + np.float32(1 - share) * other
        parts.append(_logits(classifier, mixed))
    return np.concatenate(parts), predicted[differ].astype(np.int64)


def _logits(classifier: Classifier, images: Pixels) -> NDArray[np.float32]:
    full = filled(images, classifier.block(images.shape[1]))
    return classifier.logits(full)[: len(images)]
