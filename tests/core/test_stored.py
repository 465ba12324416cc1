"""Options of a type that no file could hold are refused by their name."""

import pytest

from wildcal import make_calibrator
from wildcal.core.stored import ARRAY, INTEGER, REAL, TEXT, Many, Row, can_be, in_words, optional


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("vector", {"ridge": []}, "ridge must be a number"),
        ("vector", {"ridge": "strong"}, "ridge must be a number, got 'strong'"),
        ("vector", {"ridge": True}, "ridge must be a number, got True"),
        ("vector", {"ridge": 10**400}, "ridge must be a number, got 1000"),
        ("histogram", {"n_bins": 2.5}, "n_bins must be a whole number, got 2.5"),
        ("histogram", {"n_bins": 10**8}, "n_bins must be at most 100,000, got 100,000,000"),
        ("ts", {"bounds": (1, "a")}, "bounds must be a pair"),
    ],
)
def test_an_option_of_a_wrong_type_or_size(method: str, options: dict, said: str) -> None:
    calibrator = make_calibrator(method).set_params(**options)
    with pytest.raises(ValueError, match=said):
        calibrator.fit([[1.0, 2.0], [2.0, 1.0]], [0, 1])


def test_kinds_by_hand() -> None:
    assert can_be(Row((REAL, INTEGER)), (0.5, 1))
    assert not can_be(Row((REAL, INTEGER)), (0.5, 1.5))
    assert not can_be(Row((REAL, REAL)), (0.5,))
    assert can_be(Many(TEXT), ["a", "b"])
    assert not can_be(Many(TEXT), "ab")
    assert can_be(ARRAY, object())  # looked at where it is read
    assert in_words(optional(Many(TEXT))) == "nothing or a list, each text"
