"""Every input error: its whole text and the argument that it names."""

import warnings

import numpy as np
import pytest

from wildcal import read_samples
from wildcal.calibrators.energy import EnergyScaling
from wildcal.calibrators.temperature import TemperatureScaling
from wildcal.core.conversion import INPUT_KINDS
from wildcal.core.exceptions import CalibrationWarning, InputError
from wildcal.core.validation import (
    check_bounds,
    check_choice,
    check_distances,
    check_input,
    check_number,
    check_samples,
    check_weight,
)
from wildcal.testing import make_suite

SUITE = make_suite(600, 3)
Z, Y = (column[:600].copy() for column in SUITE.calibration)
P = np.exp(Z - np.logaddexp.reduce(Z, axis=1)[:, None]).astype(np.float64)


def error_of(call, *args, **options):
    """Return the text and the argument of the InputError that a call raises."""
    with pytest.raises(InputError) as caught:
        call(*args, **options)
    return str(caught.value), caught.value.param


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


SHAPE = "X must have shape (n_samples, n_classes >= 2), got"
ONE_SCORE = "Try input='score' for a binary model with one score, X[None, :] for one sample."
DROP = "Try dropping that sample."
RAW = "Try input='logits' for raw scores"
UNIT, SUMS = "X must lie in [0, 1] with", "X must sum to 1 in each sample with input='proba', got"
MASKED = "must not have masked entries. Try dropping those samples."
PROBA = (
    "X must be logits, got values in [0, 1] that sum to 1 in each sample. Try input='proba', or the"
    " scores before the softmax."
)
COLUMNS = "Are its columns all classes and nothing else?"
RANGE = f"{RAW}, or divide percentages by 100."
BAD_VALUES = [
    (np.zeros(5), "logits", "X", f"{SHAPE} (5,). {ONE_SCORE}"),
    (np.zeros((5, 1)), "logits", "X", f"{SHAPE} (5, 1). {ONE_SCORE}"),
    (np.zeros((2, 3, 4)), "logits", "X", f"{SHAPE} (2, 3, 4)."),
    (np.zeros((0, 3)), "logits", "X", f"{SHAPE} (0, 3)."),
    (3.0, "logits", "X", f"{SHAPE} ()."),
    ([["a", "b"]], "logits", "X", "X must be real numbers, got dtype <U1."),
    ([[1j, 2.0]], "logits", "X", "X must be real numbers, got dtype complex128."),
    ([[1.0, 2], [np.nan, 0]], "logits", "X", f"X must be finite, got nan at index 1. {DROP}"),
    ([[1.0, np.inf]], "log_proba", "X", f"X must be finite, got inf at index 0. {DROP}"),
    ([[-np.inf] * 2], "logits", "X", f"X must be finite, got only -inf at index 0. {DROP}"),
    ([[0.5, -np.inf]], "proba", "X", f"X must be finite, got -inf at index 0. {DROP}"),
    ([0.5, -np.inf], "score", "X", f"X must be finite, got -inf at index 1. {DROP}"),
    ([0.5, np.nan], "confidence", "X", f"X must be finite, got nan at index 1. {DROP}"),
    (np.ma.masked_equal([[1.0, 0.0]], 0), "logits", "X", f"X {MASKED}"),
    (P, "logits", "input", PROBA),
    ([[2.0, -1]], "proba", "input", f"{UNIT} input='proba', got -1 to 2. {RANGE}"),
    ([50.0, 99], "confidence", "input", f"{UNIT} input='confidence', got 50 to 99. {RANGE}"),
    (
        [[0.5, 0.5], [0.5, 0.412]],
        "proba",
        "X",
        f"{SUMS} 0.912 at index 1 (1 of 2 samples). {COLUMNS}",
    ),
    (Z, "score", "X", "X must have shape (n_samples,) with input='score', got (600, 3)."),
    (Z, "odds", "input", f"input must be one of {', '.join(INPUT_KINDS)}, got 'odds'."),
]


@pytest.mark.parametrize(("bad", "kind", "param", "text"), BAD_VALUES)
def test_values(bad, kind, param, text):
    assert error_of(check_input, bad, kind) == (text, param)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decimals", [2, 3])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_rounded_probabilities_are_no_logits(n_classes, decimals, dtype):
    rounded = (
        np.random.default_rng(0).dirichlet(np.ones(n_classes), 500).round(decimals).astype(dtype)
    )
    assert error_of(check_input, rounded, "logits") == (PROBA, "input")
    check_input(rounded, "proba")


def test_number_of_classes():
    fitted = TemperatureScaling().fit(Z, Y)
    text = "X must have shape (n_samples, 3), got (600, 2)."
    assert error_of(fitted.predict_proba, Z[:, :2]) == (text, "X")


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ("f2", "f4"),
        ("f4", "f4"),
        (">f4", "f4"),
        ("f8", "f8"),
        ("i4", "f8"),
        ("?", "f8"),
        ("g", "f8"),
    ],
)
def test_dtypes(given, dtype):
    assert check_input(np.round(3 * Z).astype(given), "logits").dtype == dtype


def test_accepted_inputs():
    check_input([[0.2, 0.8]], "logits")  # too few samples to be judged by their values
    check_input([[0.33, 0.33, 0.33]], "proba")  # two decimals
    check_input(np.array([[1.0, -np.inf]]), "logits")
    assert check_input(np.zeros((4, 1)), "score").shape == (4,)
    assert check_input(np.ma.masked_equal(Z, -1e9), "logits").shape == Z.shape  # nothing is masked


WORDS = {"X": P[:, 0], "y": np.where(Y, "right", "wrong"), "input": "confidence"}
BAD_SAMPLES = [
    ({"y": Y[1:]}, "y must have one label per sample, got 599 for 600 samples."),
    ({"y": np.ma.masked_equal(Y, 0)}, f"y {MASKED}"),
    (
        {"y": -np.ones(600)},
        "y must contain in-distribution samples with a positive weight, got none.",
    ),
    (WORDS, "y must be right or wrong (booleans), got dtype <U5."),
    ({"sample_weight": Z}, "sample_weight must be numbers of shape (600,), got float32 (600, 3)."),
    ({"domain": [0, 1]}, "domain must have shape (600,), got (2,)."),
    ({"knn_distances": Z[:3]}, "knn_distances must have shape (600, n_layers), got (3, 3)."),
]


@pytest.mark.parametrize(("change", "text"), BAD_SAMPLES)
def test_samples(change, text):
    assert error_of(check_samples, **{"X": Z, "y": Y} | change) == (text, text.split()[0])


@pytest.mark.parametrize("bad", [[1.0, -1.0], [1.0, np.nan], [1.0, np.inf], [0.0, 0.0]])
def test_weight(bad):
    text = "sample_weight must be finite, not negative and not all zero."
    assert error_of(check_weight, bad, 2) == (text, "sample_weight")


def test_weights_are_counts_unless_their_sum_says_otherwise():
    weight, notes = check_weight([0.5, 2, 0, 1], 4)
    np.testing.assert_array_equal(weight, [0.5, 2, 0, 1])
    assert notes == []
    # (1 + 1 + 2)^2 / (1 + 1 + 4) = 2.667 effective samples
    for factor in (1e-3, 1e3, 1e308):
        weight, notes = check_weight(factor * np.array([0.5, 0.5, 1, 0]), 4)
        np.testing.assert_allclose(weight, np.array([1, 1, 2, 0]) * 16 / 6 / 4)
        assert "are rescaled to the effective number of samples, 2.7." in notes[0]


def test_weight_zero_leaves_a_sample_out():
    samples = check_samples(Z, Y, sample_weight=(Y != 1).astype(int))
    assert len(samples) == (Y != 1).sum()
    assert (samples.y != 1).all()


def test_samples_of_domains():
    y = changed(Y, slice(590, 600), -1)
    samples = check_samples(Z, y, domain=np.arange(600) % 3, uses_ood=True)
    assert samples.n_domains == 3
    assert samples.is_ood.sum() == 10
    np.testing.assert_array_equal(samples.is_source, (np.arange(600) % 3 == 0) & (y >= 0))
    assert len(samples.subset(samples.is_source)) == samples.is_source.sum()


def test_distances():
    assert check_distances(np.ones(4), 4).shape == (4, 1)
    text = "knn_distances must be finite and not negative."
    for bad in (-1.0, np.nan, np.inf):
        assert error_of(check_distances, [1.0, bad], 2) == (text, "knn_distances")
    text = "knn_distances must have shape (4, 2), got (4, 3)."
    assert error_of(check_distances, np.ones((4, 3)), 4, 2) == (text, "knn_distances")


def test_options():
    text = "loss must be one of 'nll', 'mse', got 'hinge'."
    assert error_of(check_choice, "loss", "hinge", ("nll", "mse")) == (text, "loss")
    assert error_of(check_choice, "a", 1, (True, False))[1] == "a"
    text = "n must be an integer in [1, inf], got 2.5."
    assert error_of(check_number, "n", 2.5, 1, whole=True) == (text, "n")
    for bad in (np.nan, True, "1", None, 11):
        assert error_of(check_number, "w", bad, 0, 10)[0].startswith(
            "w must be a number in [0, 10], got"
        )
    check_number("w", np.float32(3), 0, 10)
    assert check_bounds("bounds", [1, 2]) == (1.0, 2.0)
    for bad in (
        (2.0, 1.0),
        (0, 1),
        5,
        None,
        "ab",
        ("a", "b"),
        (1, 2, 3),
        (True, 2),
        (1e-9, 1),
        (1, np.nan),
    ):
        text, param = error_of(check_bounds, "bounds", bad)
        assert text.startswith(
            "bounds must be a pair (low, high) with 1e-6 <= low <= high <= 1e6, got"
        )
        assert param == "bounds"
    for calibrator in (TemperatureScaling(loss="mae"), EnergyScaling(theta_bounds="big")):
        assert error_of(calibrator.fit, Z, Y)[1] in ("loss", "theta_bounds")


def test_normalized_logits_have_no_energy():
    fitted = EnergyScaling().fit(4 + 2 * Z, Y)
    text = (
        "X must be raw logits for EnergyScaling, got normalized ones (log-softmax), whose free"
        " energy is 0. Try the scores before the log-softmax."
    )
    assert error_of(fitted.predict_proba, np.log(P)) == (text, "X")
    assert error_of(EnergyScaling().fit, np.log(P), Y) == (text, "X")
    fitted.predict_proba(np.log(P[:3]))  # too few samples to judge
    text = (
        "input must be 'logits' for EnergyScaling, got 'proba', which has no free energy. Try"
        " TemperatureScaling."
    )
    assert error_of(EnergyScaling().fit, P, Y, input="proba") == (text, "input")


def warned(calibrator, *args, **options):
    """Return the texts of the warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator.fit(*args, **options)
    assert all(w.category is CalibrationWarning and w.filename == __file__ for w in caught)
    return [str(w.message).removeprefix(f"{type(calibrator).__name__}: ") for w in caught]


def test_warnings_name_what_is_left_out():
    assert warned(TemperatureScaling(), Z, Y) == []
    assert warned(TemperatureScaling(), Z, changed(Y, slice(0, 9), -1)) == [
        "9 OOD samples (y == -1) are left out: the method does not use them."
    ]
    masked = changed(Z, (np.arange(4), Y[:4]), -np.inf)
    assert warned(TemperatureScaling(), masked, Y) == [
        "the true class is masked (logit -inf) in 4 samples; they are left out of the fit."
    ]


def test_warnings_about_few_mistakes_and_class_frequencies():
    top = Z.argmax(axis=1)
    right = np.flatnonzero(top == Y)
    assert warned(TemperatureScaling(bounds=(0.5, 2)), Z[right], Y[right])[-1] == (
        "no calibration sample is misclassified. Are these samples of the training set? Try"
        " held-out samples."
    )
    some = np.append(right, np.flatnonzero(top != Y)[:5])
    assert warned(TemperatureScaling(), Z[some], Y[some]) == [
        "few calibration samples are misclassified (5), so the fit is uncertain. Try method 'auto'"
        " or more samples."
    ]
    biased = Z + np.array([6.0, 0, 0], np.float32)
    (text,) = warned(TemperatureScaling(), biased, Y)
    assert text.startswith("the mean probability of class 0 is 0.")
    assert text.endswith("The method cannot correct this. Try 'auto' or 'vector'.")


def test_wrong_predictions_of_low_confidence_are_mistakes():
    confidence, right = np.full(100, 0.3), np.arange(100) < 10
    assert warned(TemperatureScaling(), confidence, right, input="confidence") == []


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(Z, columns=["cat", "dog", "eel"])
    names = np.array(["cat", "dog", "eel"])[Y]
    fitted = TemperatureScaling().fit(frame, names)
    nullable = TemperatureScaling().fit(frame.convert_dtypes(), names)
    assert nullable.temperature_ == pytest.approx(fitted.temperature_)
    missing = pandas.Series(names, dtype="string").where(Y > 0)
    with pytest.raises(InputError, match="y must not be empty, got no label at index"):
        TemperatureScaling().fit(frame, missing)
    with pytest.raises(InputError, match="y must not be empty, got no label at index"):
        read_samples({**dict.fromkeys(frame, Z[:, 0]), "y": missing}, score_columns=list(frame))
    assert fitted.temperature_ == TemperatureScaling().fit(Z, Y).temperature_
    assert fitted.class_names_ == fitted.feature_names_in_ == ("cat", "dog", "eel")
    np.testing.assert_array_equal(fitted.predict_proba(frame), fitted.predict_proba(Z))
    text = (
        "X must have the columns of fit (cat, dog, eel), got dog, cat, eel in another order."
        " Try X[list(calibrator.feature_names_in_)]."
    )
    assert error_of(fitted.predict_proba, frame[["dog", "cat", "eel"]]) == (text, "X")
    text = error_of(fitted.predict_proba, frame.rename(columns={"cat": "cow"}))[0]
    assert text.startswith("X must have the columns of fit (cat, dog, eel), got cow, dog, eel. Try")
    shuffled = pandas.Series(Y)[::-1]
    text = "y must have the index of X, got another one. Try y.loc[X.index]."
    assert error_of(TemperatureScaling().fit, frame, shuffled) == (text, "y")
    fitted.fit(frame.loc[::-1], shuffled)


def test_arrays_of_other_libraries():
    torch = pytest.importorskip("torch")
    fitted = TemperatureScaling().fit(torch.tensor(Z), torch.tensor(Y))
    assert fitted.temperature_ == TemperatureScaling().fit(Z, Y).temperature_
    proba = fitted.predict_proba(torch.tensor(Z).to(torch.bfloat16))
    assert proba.dtype == torch.float32
    text = "X must have shape (n_samples, 3), got (600, 2)."
    assert error_of(fitted.predict_proba, torch.tensor(Z[:, :2])) == (text, "X")
    dask = pytest.importorskip("dask.array")
    lazy = dask.from_array(Z, chunks=(200, 2))
    text = "X must be in memory, got a Dask array. Try a sample of it for fit."
    assert error_of(TemperatureScaling().fit, lazy, Y) == (text, "X")
    np.testing.assert_array_equal(fitted.predict_proba(lazy).compute(), fitted.predict_proba(Z))
    np.testing.assert_array_equal(fitted.confidence(lazy).compute(), fitted.confidence(Z))


def test_predict_with_confidences():
    fitted = TemperatureScaling().fit(P.max(axis=1), P.argmax(axis=1) == Y, input="confidence")
    text = (
        "predict needs probabilities of classes, and this calibrator was fitted with"
        " input='confidence'. Try predict_proba."
    )
    assert error_of(fitted.predict, P.max(axis=1)) == (text, "X")
