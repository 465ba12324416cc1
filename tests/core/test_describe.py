"""What a fitted method says of itself where it has no words of its own."""

import numpy as np
import pytest

from wildcal import make_calibrator


@pytest.mark.parametrize("n_classes", [3, 9])
def test_fitted_values_in_few_words(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(300, n_classes))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    vector = make_calibrator("vector").fit(logits, y)
    values = {"scale": vector.scale_, "intercept": vector.intercept_}
    few = {name: "[" + ", ".join(f"{v:.4g}" for v in a) + "]" for name, a in values.items()}
    many = {
        name: f"{len(a)} numbers from {min(a):.4g} to {max(a):.4g}" for name, a in values.items()
    }
    said = few if n_classes == 3 else many
    assert vector.describe() == [f"{name}: {words}" for name, words in said.items()]
