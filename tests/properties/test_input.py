"""Numbers in keep their bits and their names, whatever the text they came in."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from wildcal import logits_from_score


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=20))
def test_a_score_is_the_log_odds_of_class_1(scores):
    logits = logits_from_score(scores)
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], scores, rtol=0, atol=1e-320)
    np.testing.assert_allclose(
        softmax(logits, axis=1)[:, 1], 1 / (1 + np.exp(-np.array(scores))), atol=1e-15
    )
