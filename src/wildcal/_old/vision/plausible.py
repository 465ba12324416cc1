"""Environments of a suite of images that may show something else than their labels say."""

import numpy as np

from wildcal._old.core.odd_environments import in_words
from wildcal._old.io.suite import Suite, SuiteSplit

_ADVICE = "does it change what the image shows? If so, leave it out of the transforms."


def plausibility_notes(suite: Suite) -> list[str]:
    """Return a sentence for each environment to tune on that may not keep the labels."""
    found = {
        split.name.removeprefix("validation-"): _accuracy(split)
        for split in suite.tune("covariate")
        if split.corruption is not None
    }
    return in_words(found, _ADVICE)


def _accuracy(split: SuiteSplit) -> float:
    return float(np.mean(split.logits.argmax(axis=1) == split.y))
