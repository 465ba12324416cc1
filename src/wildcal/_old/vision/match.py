"""Whether a network and the images can belong together; best known before the work."""

from typing import Any

from numpy.typing import NDArray

from wildcal._old.vision.cells import Plan
from wildcal._old.vision.classifiers import Classifier


def check_match(classifier: Classifier, plan: Plan) -> None:
    """Raise if network and images cannot belong together, as far as is known before it runs."""
    if classifier.size not in (None, plan.data["size"]):
        raise ValueError(
            f"the network takes images of {classifier.size} x {classifier.size} pixels,"
            f" not {plan.data['size']}; give crop={classifier.size}."
        )
    if classifier.class_names not in (None, plan.class_names):
        raise ValueError("the network was trained for other classes than those of the images.")


def check_width(logits: NDArray[Any], plan: Plan) -> None:
    """Raise if a network does not give one logit for each class of the images."""
    if logits.ndim != 2 or logits.shape[1] != len(plan.class_names):
        raise ValueError(
            f"the network must give {len(plan.class_names)} logits per image, one for each"
            f" class of the data, got {' x '.join(map(str, logits.shape[1:])) or 'one number'}."
        )
