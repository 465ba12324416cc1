"""`Monitor`: the window, estimates, labels, adaptation and state."""

import json

import numpy as np
import pytest

import wildcal
from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.monitor import Monitor


def draw(n, scale=1.0, seed=0, k=5):
    """Return logits that are 2 times too large and their labels; a smaller scale is a shift."""
    rng = np.random.default_rng(seed)
    z = 2.5 * scale * rng.normal(size=(n, k))
    y = (z + rng.gumbel(size=(n, k))).argmax(axis=1)
    return (2 * z).astype(np.float32), y


@pytest.fixture(scope="module")
def calibrator():
    return wildcal.TemperatureScaling().fit(*draw(3000, seed=1))


@pytest.fixture(scope="module")
def window_calibrator():
    parts = [draw(1000, scale, seed=i) for i, scale in enumerate((1, 0.8, 0.6, 0.4))]
    z, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return wildcal.WindowScaling().fit(z, y, domain=np.repeat(range(4), 1000))


def test_the_window_holds_the_last_buckets(calibrator):
    monitor = Monitor(calibrator, window=100)
    z, _ = draw(1000)
    for n in (3, 97, 1, 250, 13):
        monitor.update(z[:n])
    status = monitor.status()
    assert status.n_samples == 364
    assert 95 <= status.n_window <= 100
    together = Monitor(calibrator, window=100)
    everything = np.concatenate([z[:n] for n in (3, 97, 1, 250, 13)])
    together.update(everything)
    assert together.status() == status
    inside = everything[364 - status.n_window :]
    assert status.confidence == pytest.approx(calibrator.confidence(inside).mean(), rel=1e-5)
    assert monitor.histogram.sum() == status.n_window


def test_splitting_the_samples_changes_nothing(calibrator):
    z = np.concatenate([draw(300)[0], draw(100, 0.3)[0]])
    whole = Monitor(calibrator, window=100)
    alerts = whole.update(z).alerts
    assert alerts
    for cuts in (range(1, 400), [1, 4, 9, 11, 30, 31, 200], [8, 16]):
        monitor, found = Monitor(calibrator, window=100), []
        for i, part in enumerate(np.split(z, cuts)):
            found += monitor.update(part).alerts
            if i % 3 == 0:  # reading does not change the state
                monitor.status()
        assert tuple(found) == alerts
        assert monitor.status().message == whole.status().message
        ours, theirs = monitor.to_dict(), whole.to_dict()
        np.testing.assert_allclose(ours["buckets"]["sums"], theirs["buckets"]["sums"], rtol=1e-6)
        np.testing.assert_allclose(ours["drift"]["classes"], theirs["drift"]["classes"])


def test_results_are_those_of_the_calibrator(calibrator):
    z, _ = draw(50)
    found = Monitor(calibrator).update(z)
    np.testing.assert_array_equal(found.probabilities, calibrator.predict_proba(z))
    np.testing.assert_array_equal(found.predicted, calibrator.predict(z))
    assert found.probabilities.dtype == np.float32


def test_estimated_accuracy_of_the_profile_is_atc(calibrator):
    z, _ = draw(400, 0.5)
    monitor = Monitor(calibrator)
    monitor.update(z)
    z = z.astype(float)
    confidence = np.exp(z.max(1)) / np.exp(z).sum(1)
    value = (confidence >= calibrator.profile_.atc_threshold).mean()
    found = monitor.estimated_accuracy()
    assert found.value == pytest.approx(value, abs=0.003)
    assert found.low < found.value < found.high


def test_drift_alert_and_message(calibrator):
    monitor = Monitor(calibrator)
    monitor.update(draw(1000, seed=2)[0])
    before = monitor.status()
    assert not before.drift_alert
    assert "as at calibration time" in before.message
    z, y = draw(1000, 0.4, seed=3)
    result = monitor.update(z)
    status = monitor.status()
    assert status.drift_alert
    assert result.alerts == (status.alert_since,)
    assert 1000 < status.alert_since < 1200
    assert status.estimated_accuracy_low <= (result.predicted == y).mean()
    points = round(100 * (status.accuracy_at_calibration - status.estimated_accuracy))
    low, high = (100 * v for v in (status.estimated_accuracy_low, status.estimated_accuracy_high))
    assert status.message == (
        f"estimated accuracy {100 * status.estimated_accuracy:.0f} % ({low:.0f} to {high:.0f}),"
        f" {points} points below calibration time, drift since sample {status.alert_since:,}"
    )


@pytest.mark.parametrize("name", ["AC", "DoC", "ATC", "CBPE"])
def test_saved_estimators(calibrator, name, tmp_path):
    z, y = draw(2000, seed=4)
    estimator = getattr(wildcal.accuracy, name)().fit(z, y)
    wildcal.save(estimator, tmp_path / "estimator.json")
    estimator = wildcal.load(tmp_path / "estimator.json")
    monitor = Monitor(calibrator, window=400, estimator=estimator)
    shifted = draw(700, 0.6)[0]
    monitor.update(shifted[:350])
    monitor.update(shifted[350:])
    inside = shifted[700 - monitor.status().n_window :]
    found, expected = monitor.estimated_accuracy(), estimator.estimate(inside)
    assert found.value == pytest.approx(expected.value)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert monitor.status().accuracy_at_calibration == estimator.source_accuracy_


def test_estimators_without_additive_statistics_are_refused(calibrator):
    z, y = draw(500)
    gde = wildcal.accuracy.GDE().fit(z, y)
    with pytest.raises(InputError, match="estimator must have statistics that are sums, got GDE"):
        Monitor(calibrator, estimator=gde)
    other = wildcal.accuracy.AC().fit(*draw(500, k=3))
    with pytest.raises(InputError, match="logits of 5 classes as the calibrator, got logits of 3"):
        Monitor(calibrator, estimator=other)


def test_a_window_calibrator_is_adapted_to_the_window(window_calibrator):
    monitor = Monitor(window_calibrator, window=200)
    z, _ = draw(900, 0.5)
    monitor.update(z[:500])
    found = monitor.update(z[500:]).probabilities
    inside = z[900 - monitor.status().n_window :]
    adapted = window_calibrator.adapt(inside)
    assert monitor.adapted().adjustment_ == pytest.approx(adapted.adjustment_)
    np.testing.assert_allclose(found, adapted.predict_proba(z[500:]), rtol=1e-5)


def test_labels(calibrator):
    monitor = Monitor(calibrator)
    z, y = draw(900)
    result = monitor.update(z[:600], ids=[f"a{i}" for i in range(600)])
    monitor.update(z[600:], ids="batch")
    assert monitor.pending["batch"] == 300
    assert monitor.label([f"a{i}" for i in range(300)], y[:300]) == 300
    status = monitor.status()
    assert status.realized_accuracy == pytest.approx((result.predicted == y[:600])[:300].mean())
    assert monitor.label(["a0", "nobody"], [1, 1]) == 0  # each id counts once
    assert monitor.label("batch", [*y[600:800], *[None] * 100]) == 200
    assert monitor.status().n_labels == 500
    assert monitor.status().calibration in ("calibrated", "too few labels")
    assert monitor.status().ece < 3 * monitor.status().noise_floor
    with pytest.raises(InputError, match="class indices from 0 to 4 or None, got 5"):
        monitor.label(["a400"], [5])
    monitor.update(z[:2], ids="two")
    with pytest.raises(InputError, match="a label for each of the 2 samples of id 'two', got 3"):
        monitor.label("two", [1, 1, 1])
    with pytest.raises(InputError, match="ids must be unique"):
        monitor.update(z[:2], ids=["b", "b"])


def test_wrong_labels_contradict_the_confidence(calibrator):
    monitor = Monitor(calibrator)
    z, y = draw(300)
    monitor.update(z, ids="all")
    monitor.label("all", (y + 1) % 5)
    assert monitor.status().calibration == "not calibrated"
    assert "fit again" in monitor.status().message


def test_an_alert_restarts_the_calibration_test(calibrator):
    monitor = Monitor(calibrator)
    z, y = draw(2500)
    monitor.update(z, ids="all")
    monitor.label("all", y)
    assert monitor.status().calibration == "calibrated"
    monitor.update(draw(500, 0.3)[0])
    assert monitor.status().drift_alert
    assert monitor.status().calibration == "too few labels"


def test_class_names_and_confidences():
    pd = pytest.importorskip("pandas")
    z, y = draw(2000, k=2)
    names = np.array(["cat", "dog"])
    named = wildcal.TemperatureScaling().fit(pd.DataFrame(z, columns=names), names[y])
    monitor = Monitor(named)
    monitor.update(z[:4], ids=[1, 2, None, 3])
    assert monitor.label([1, 2], ["cat", "dog"]) == 2
    for wrong in ("-1", "bird", -1, True, np.True_):
        with pytest.raises(InputError, match="from 0 to 1, class names or None, got"):
            monitor.label([3], [wrong])
    right = z.argmax(1) == y
    confidence = 1 / (1 + np.exp(-np.abs(z[:, 0] - z[:, 1])))
    alone = wildcal.TemperatureScaling().fit(confidence, right, input="confidence")
    monitor = Monitor(alone)
    result = monitor.update(confidence[:100], ids="all")
    assert result.probabilities.shape == (100,)
    assert monitor.label("all", right[:100].tolist()) == 100
    assert monitor.status().realized_accuracy == right[:100].mean()


@pytest.mark.parametrize("kind", ["calibrator", "window_calibrator"])
def test_state_continues(request, kind, tmp_path):
    fitted = request.getfixturevalue(kind)
    z, y = draw(1500)
    whole, part = Monitor(fitted, window=300), Monitor(fitted, window=300)
    whole.update(z[:900], ids="early")
    part.update(z[:900], ids="early")
    part.save(tmp_path / "state.json")
    again = Monitor.load(tmp_path / "state.json", fitted)
    assert again.to_dict() == part.to_dict()
    for monitor in (whole, again):
        monitor.update(z[900:])
        monitor.label("early", y[:900])
    assert again.status() == whole.status()


def test_states_of_others_and_damaged_states_are_refused(calibrator, window_calibrator, tmp_path):
    path = tmp_path / "state.json"
    monitor = Monitor(calibrator)
    monitor.update(draw(100)[0])
    monitor.save(path)
    with pytest.raises(FileFormatError, match="of another calibrator"):
        Monitor.load(path, window_calibrator)
    with pytest.raises(InputError, match="window must be 400 as in"):
        Monitor(calibrator, window=300).restored(monitor.to_dict())
    with pytest.raises(InputError, match="false_alert_rate must be 0.01 as in"):
        Monitor(calibrator, false_alert_rate=0.1).restored(monitor.to_dict())
    text = path.read_text()
    path.write_text(text.replace('"n_samples":100', '"n_samples":900'))
    with pytest.raises(FileFormatError, match="checksum"):
        Monitor.load(path, calibrator)
    path.write_text(text[:300])
    with pytest.raises(FileFormatError, match="not a monitor state"):
        Monitor.load(path, calibrator)
    document = monitor.to_dict()
    document["buckets"]["sums"][0][0] = float("nan")
    with pytest.raises(FileFormatError, match="finite"):
        monitor.restored(json.loads(json.dumps(document)))


def test_merged(calibrator, window_calibrator):
    z, y = draw(400)
    for fitted in (calibrator, window_calibrator):
        a, b = Monitor(fitted), Monitor(fitted)
        a.update(z[:150], ids="a")
        b.update(z[150:], ids="b")
        both = a.merged(b)
        assert (both.n_samples, both.status().n_window) == (400, 400)
        whole = Monitor(fitted)
        whole.update(z)
        assert both.estimated_accuracy() == whole.estimated_accuracy()
        assert both.label("a", y[:150]) == 150
        both.update(z)
        assert both.n_samples == 800
    with pytest.raises(InputError, match="same calibrator, estimator and window"):
        Monitor(calibrator).merged(Monitor(window_calibrator))


def test_tensors_with_gradients(calibrator):
    torch = pytest.importorskip("torch")
    z, _ = draw(30)
    for n in (3, 30):
        found = Monitor(calibrator).update(torch.from_numpy(z[:n]).requires_grad_())
        np.testing.assert_array_equal(found.predicted, calibrator.predict(z[:n]))


def test_refused_samples_change_nothing(calibrator):
    monitor = Monitor(calibrator)
    monitor.update(draw(30)[0])
    before = monitor.to_dict()
    for bad in (np.full((2, 5), np.nan), np.zeros((2, 4)), calibrator.predict_proba(draw(30)[0])):
        with pytest.raises(InputError):
            monitor.update(bad)
    with pytest.raises(InputError, match="ids must have one id per sample"):
        monitor.update(draw(3)[0], ids=[1])
    assert monitor.to_dict() == before


def test_options(calibrator):
    with pytest.raises(InputError, match="window must be an integer"):
        Monitor(calibrator, window=10)
    with pytest.raises(InputError, match="false_alert_rate must be a number"):
        Monitor(calibrator, false_alert_rate=0.0)
    with pytest.raises(InputError, match="calibrator must be a Calibrator, got dict"):
        Monitor({})
    matching = wildcal.get_calibrator("match").fit(*draw(500))
    with pytest.raises(InputError, match="adapt to sums over a window, got ConfidenceMatching"):
        Monitor(matching)
    Monitor(matching.adapt(draw(100)[0])).update(draw(100)[0])
