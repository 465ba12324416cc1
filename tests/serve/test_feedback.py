"""Delayed labels: each sample gets its label once, also after a restart."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(start):
    return start("window.json", "ts.json", "--state", "labels")


def test_labels_belong_to_their_samples(server, scaled, draw):
    z, y = draw(600)
    for start in range(0, 600, 100):
        server.infer(z[start : start + 100], stream="late", id=f"r{start}")
    entries = [{"id": f"r{s}", "labels": y[s : s + 100].tolist()} for s in range(0, 600, 100)]
    status, answer = server.feedback(*entries, {"id": "no", "labels": []})
    assert (status, answer["accepted"], answer["unknown"]) == (200, 600, ["no"])
    found = answer["streams"]["late"]
    assert found["realized_accuracy"] == pytest.approx((scaled.predict(z) == y).mean())
    assert found["calibration"] in ("calibrated", "too few labels")
    assert server.metric('wildcal_labels{model="ts",stream="late"}') == 600
    # Each sample gets its label once.
    assert server.feedback(entries[0])[1] == {"accepted": 0, "unknown": ["r0"], "streams": {}}
    assert server.streams()["late"]["n_labels"] == 600


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"id": 3, "labels": []}], "feedback.0.id"),
        ([{"id": "bad"}], "feedback.0.labels: Field required"),
        ([{"id": "bad", "labels": [1]}], "a label for each of the 2 samples of id 'bad', got 1"),
        ([{"id": "bad", "labels": [1, 10]}], "from 0 to 9 or None, got 10"),
        ([{"id": "bad", "labels": [1, True]}], "from 0 to 9 or None, got True"),
        ([{"id": "bad", "labels": [1, "cat"]}], "from 0 to 9 or None, got 'cat'"),
        ([{"id": "bad", "labels": [1, 2]}, 3], "feedback.1"),
    ],
)
def test_bad_feedback_changes_nothing(server, draw, entries, message):
    server.infer(draw(2)[0], stream="bad", id="bad")
    status, answer = server.feedback(*entries)
    assert status == 400
    assert message in answer["error"]
    status, answer = server.feedback({"id": "bad", "labels": [1, None]})
    assert (status, answer["accepted"]) == (200, 1)


def test_an_id_that_is_used_again(server, draw):
    server.infer(draw(2)[0], stream="first", id="again")
    server.infer(draw(3)[0], stream="second", id="again")
    _, answer = server.feedback({"id": "again", "labels": [1, 2, 3]})
    assert list(answer["streams"]) == ["second"]
    _, answer = server.feedback({"id": "again", "labels": [1, 2], "stream": "first"})
    assert answer["unknown"] == ["again"]


def test_wrong_labels_survive_a_restart(server, start, draw):
    y = np.random.default_rng(0).integers(0, 10, 300)
    server.infer(draw(300)[0], "window", stream="wrong", id="w")
    found = server.feedback({"id": "w", "labels": y.tolist()}, model="window")[1]
    assert found["streams"]["wrong"]["calibration"] == "not calibrated"
    server.stop()
    again = start("window.json", "ts.json", "--state", "labels")
    assert again.metric('wildcal_not_calibrated{model="window",stream="wrong"}') == 1
