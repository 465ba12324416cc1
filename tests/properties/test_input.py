"""Numbers in keep their bits and their names, whatever the text they came in."""

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wildcal import logits_from_score, read_rows
from wildcal._old.core.convert import softmax


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=20))
def test_a_score_is_the_log_odds_of_class_1(scores):
    logits = logits_from_score(scores)
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], scores, rtol=0, atol=1e-320)
    np.testing.assert_allclose(
        softmax(logits)[:, 1], 1 / (1 + np.exp(-np.array(scores))), atol=1e-15
    )


@given(
    st.lists(
        st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 3), min_size=1, max_size=7
    ),
    st.sampled_from([",", ";", "\t"]),
    st.permutations(range(3)),
)
def test_text_keeps_every_bit_and_every_name(values, mark, order):
    """Whatever the order of the columns, a class keeps its numbers; few rows are not judged."""
    lines = [mark.join([*(f"n{k}" for k in order), "y"])]
    lines += [mark.join([*(repr(row[k]) for k in order), "-1"]) for row in values]
    rows = read_rows(io.BytesIO("\n".join(lines).encode()), columns=["n0", "n1", "n2"])
    assert rows.logits.tobytes() == np.array(values).tobytes()
    assert rows.classes.names == ("n0", "n1", "n2")
