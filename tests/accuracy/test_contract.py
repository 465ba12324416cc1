"""What every registered estimator promises, measured."""

import json

import numpy as np
import pytest

from wildcal._old.accuracy import ESTIMATORS, AccuracyEstimate, make_estimator
from wildcal._old.core.errors import NotFittedError

NAMES = list(ESTIMATORS)
MERGEABLE = [name for name, kind in ESTIMATORS.items() if kind.mergeable]


def ask(estimator, window, second):
    return estimator.estimate(window, second if estimator.needs_second else None)


def learn(name, logits, y, environment, second):
    kind = ESTIMATORS[name]
    return kind().fit(logits, y, environment, second=second if kind.needs_second else None)


@pytest.mark.parametrize("name", NAMES)
def test_promises_are_declared(name):
    kind = ESTIMATORS[name]
    assert kind.name == name
    assert kind.title
    assert kind.reference
    assert kind.__doc__
    assert kind.smallest_window >= 1
    promises = ("assumes_clean_class_mix", "mergeable",
                "learns_from_environments", "needs_second", "shift_invariant")  # fmt: skip
    assert all(isinstance(getattr(kind, promise), bool) for promise in promises)


@pytest.mark.parametrize("name", NAMES)
def test_who_learns_from_environments(name, fitted, tuning, window):
    clean = learn(name, *(array[tuning[2] == 0] for array in tuning))
    second = window[1] if ESTIMATORS[name].needs_second else None
    same = clean.value(window[0], second) == fitted[name].value(window[0], second)
    assert same != ESTIMATORS[name].learns_from_environments


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="there is no estimator 'oracle'; "):
        make_estimator("oracle")


@pytest.mark.parametrize("name", NAMES)
def test_an_estimate_has_its_company(name, fitted, window):
    logits, second, _ = window
    found = ask(fitted[name], logits, second)
    assert isinstance(found, AccuracyEstimate)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.n == len(logits)
    assert found.method == name
    assert found.clean_accuracy == pytest.approx(fitted[name].clean_accuracy_)
    assert json.loads(json.dumps(found.to_dict()))["value"] == found.value
    assert str(found).endswith("below clean")


@pytest.mark.parametrize("name", NAMES)
def test_the_truth_is_in_the_interval(name, fitted, window):
    logits, second, y = window
    found = ask(fitted[name], logits, second)
    assert found.low <= (logits.argmax(axis=1) == y).mean() <= found.high


@pytest.mark.parametrize("name", NAMES)
def test_order_of_window_rows_does_not_matter(name, fitted, window):
    logits, second, _ = window
    order = np.random.default_rng(0).permutation(len(logits))
    a, b = ask(fitted[name], logits, second), ask(fitted[name], logits[order], second[order])
    assert b.value == pytest.approx(a.value, abs=1e-9)
    assert b.low == pytest.approx(a.low, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_order_of_tuning_rows_does_not_matter(name, fitted, tuning, window):
    logits, second, _ = window
    order = np.random.default_rng(1).permutation(len(tuning[0]))
    again = learn(name, *(array[order] for array in tuning))
    assert ask(again, logits, second).value == pytest.approx(
        ask(fitted[name], logits, second).value, abs=1e-5
    )


@pytest.mark.parametrize("name", NAMES)
def test_names_of_classes_do_not_matter(name, fitted, tuning, window):
    logits, second, _ = window
    order = np.array([2, 0, 3, 1])
    z, y, environment, other = tuning
    again = learn(name, z[:, order], np.argsort(order)[y], environment, other[:, order])
    assert ask(again, logits[:, order], second[:, order]).value == pytest.approx(
        ask(fitted[name], logits, second).value, abs=1e-5
    )


@pytest.mark.parametrize("name", [n for n in NAMES if ESTIMATORS[n].shift_invariant])
def test_a_constant_on_a_row_does_not_matter(name, fitted, window):
    logits, second, _ = window
    more = np.random.default_rng(0).normal(size=(len(logits), 1))
    moved, found = ask(fitted[name], logits + more, second), ask(fitted[name], logits, second)
    for end in ("value", "low", "high"):
        assert getattr(moved, end) == pytest.approx(getattr(found, end), abs=1e-9)


@pytest.mark.parametrize("ruled_out", [False, True])
def test_the_draws_of_context_are_of_the_same_rows(ruled_out, fitted, window):
    """Whatever their order and their constants; classes that are ruled out are no exception."""
    estimator, logits = fitted["context"], window[0].copy()
    rng = np.random.default_rng(2)
    if ruled_out:
        logits[rng.uniform(size=logits.shape) < 0.3] = -np.inf
        logits = logits[~np.isneginf(logits).all(axis=1)]
    order = rng.permutation(len(logits))
    more = rng.normal(size=(len(logits), 1))
    found, moved = estimator.estimate(logits), estimator.estimate((logits + more)[order])
    assert moved.value - moved.low == pytest.approx(found.value - found.low, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_data_give_the_same_fit_and_inputs_stay(name, fitted, tuning, window):
    before = [array.copy() for array in tuning]
    again = learn(name, *tuning)
    assert all((a == b).all() for a, b in zip(before, tuning, strict=True))
    logits, second, _ = window
    kept = logits.copy()
    assert ask(again, logits, second) == ask(fitted[name], logits, second)
    assert (kept == logits).all()


@pytest.mark.parametrize("name", NAMES)
def test_float32_gives_nearly_the_same(name, fitted, window):
    logits, second, _ = window
    found = ask(fitted[name], logits.astype(np.float32), second.astype(np.float32))
    assert found.value == pytest.approx(ask(fitted[name], logits, second).value, abs=1e-2)


@pytest.mark.parametrize("name", NAMES)
def test_huge_logits_are_answered(name, fitted, window):
    logits, second, _ = window
    found = ask(fitted[name], 1e4 * logits, 1e4 * second)
    assert 0 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize("name", MERGEABLE)
def test_states_add(name, fitted, window):
    logits, second, _ = window
    estimator = fitted[name]
    other = second if estimator.needs_second else None
    whole = estimator.estimate(logits, other)
    parts = [slice(0, 1), slice(1, 90), slice(90, 200)]
    states = [estimator.state(logits[p], None if other is None else other[p]) for p in parts]
    for joined in (states[0] + states[1] + states[2], states[2] + (states[1] + states[0])):
        found = estimator.estimate_state(joined)
        assert found.n == whole.n
        assert found.value == pytest.approx(whole.value, abs=1e-9)
        assert found.low == pytest.approx(whole.low, abs=1e-9)
        assert found.high == pytest.approx(whole.high, abs=1e-9)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in MERGEABLE])
def test_others_say_that_they_need_the_window(name, fitted, window):
    with pytest.raises(ValueError, match="pass the whole window to estimate"):
        fitted[name].state(window[0])


def test_states_of_others_are_refused(fitted, window):
    state = fitted["ac"].state(window[0])
    with pytest.raises(ValueError, match="state must be one of doc with 4 classes, got one of ac"):
        fitted["doc"].estimate_state(state)
    with pytest.raises(ValueError, match="states must come from the same estimator"):
        _ = state + fitted["doc"].state(window[0])
    with pytest.raises(ValueError, match="state must be what `state` returns, got int"):
        fitted["ac"].estimate_state(3)


@pytest.mark.parametrize("name", NAMES)
def test_not_fitted(name, window):
    estimator = make_estimator(name)
    assert "not fitted" in estimator.describe()[0]
    with pytest.raises(NotFittedError, match="is not fitted; call fit"):
        ask(estimator, window[0], window[1])


@pytest.mark.parametrize("name", NAMES)
def test_description_is_of_sentences(name, fitted):
    sentences = fitted[name].describe()
    assert len(sentences) >= 2
    assert all(sentence.endswith(".") for sentence in sentences)
    assert "temperature" in sentences[0]


@pytest.mark.parametrize("name", NAMES)
def test_clean_labels_alone(name, tuning, window):
    logits, y, _, second = (array[tuning[2] == 0] for array in tuning)
    kind = ESTIMATORS[name]
    estimator = learn(name, logits, y, None, second)
    found = ask(estimator, *window[:2])
    assert estimator.n_environments_ == 0
    assert "as on other networks" in estimator.describe()[-1]
    reach = 1.95 * 1.4 * kind.usual_error * abs(found.below_clean)
    assert found.value - found.low >= min(found.value, reach)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_other_classes_are_left_out(name, fitted, tuning, window):
    z, y, environment, second = tuning
    extra = np.random.default_rng(3).normal(size=(50, 4))
    again = learn(
        name,
        np.vstack([z, extra]),
        np.r_[y, np.full(50, -1)],
        np.r_[environment, np.full(50, 9)],
        np.vstack([second, extra]),
    )
    assert ask(again, *window[:2]) == ask(fitted[name], *window[:2])


@pytest.mark.parametrize("name", [n for n in NAMES if hasattr(ESTIMATORS[n](), "scaled")])
def test_without_temperature_the_logits_are_read_as_they_are(name, tuning, window):
    logits, y, environment, _ = tuning
    estimator = ESTIMATORS[name](scaled=False).fit(logits, y, environment)
    scaled = ESTIMATORS[name]().fit(logits / estimator.temperature_, y, environment)
    # With the temperature taken out beforehand, both are the same.
    plain = ESTIMATORS[name](scaled=False).fit(logits / estimator.temperature_, y, environment)
    z = window[0] / estimator.temperature_
    assert plain.estimate(z).value == pytest.approx(scaled.estimate(z).value, abs=6e-3)
    assert estimator.estimate(window[0]).n == 200
