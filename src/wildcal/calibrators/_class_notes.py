"""Warning of methods that fit numbers for each class."""

import numpy as np

from wildcal.core.validation import Samples


def absent_class_notes(data: Samples) -> list[str]:
    """Return a warning if classes have no calibration sample."""
    absent = np.setdiff1d(np.arange(data.n_classes), data.y)
    if len(absent) in (0, data.n_classes - 1):  # every method warns about samples of one class
        return []
    name = absent[0] if data.class_names is None else data.class_names[absent[0]]
    return [
        f"{len(absent)} of {data.n_classes} classes have no calibration sample (class {name}), so"
        " their probabilities may be far too low. Try samples of all classes, or 'ts'."
    ]
