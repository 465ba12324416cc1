"""`/feedback` of a server: labels find their answers, once, and survive a restart."""

import json

import numpy as np
import pytest

import wildcal


@pytest.fixture(scope="module")
def server(start):
    return start("context.json", "ts.json", "--state", "labels")


def post(server, document, model="ts"):
    status, _, body = server.request(f"/v2/models/{model}/feedback", json.dumps(document).encode())
    return status, json.loads(body)


def test_labels_find_their_answers(server, scaled, clean):
    z, y = clean.logits[:600], clean.y[:600]
    for start in range(0, 600, 100):
        server.infer(z[start : start + 100], "ts", stream="late", id=f"r{start}")
    entries = [{"id": f"r{s}", "labels": y[s : s + 100].tolist()} for s in range(0, 600, 100)]
    status, answer = post(server, {"feedback": [*entries, entries[0], {"id": "no", "labels": []}]})
    assert (status, answer["accepted"], answer["unknown"]) == (200, 600, ["no"])
    found = answer["streams"]["late"]
    right = scaled.predict(z) == y
    assert found["accuracy"] == pytest.approx(right.mean())
    assert found["ece"] == pytest.approx(
        wildcal._old.metrics.ece(right, scaled.confidence(z)), abs=1e-6
    )
    assert found["verdict"] in ("still calibrated", "too few labels")
    assert (
        'wildcal_stream_labels{model="ts",stream="late"} 600.0' in server.get("/metrics").decode()
    )
    # Each answer has its labels once.
    assert post(server, entries[0])[1] == {"accepted": 0, "unknown": ["r0"], "streams": {}}
    (shown,) = json.loads(server.get("/v2/models/ts/streams"))["streams"]
    assert (shown["stream"], shown["labels"]) == ("late", 600)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"id": 3, "labels": []}, "with the id of a request"),
        ({"id": "bad"}, "must be a list, one for each row"),
        ({"id": "bad", "labels": [1]}, "one for each of its 2 rows"),
        ({"id": "bad", "labels": [1, 10]}, "numbers from 0 to 9 or null, got 10"),
        ({"id": "bad", "labels": [1, True]}, "numbers from 0 to 9 or null, got True"),
        ({"id": "bad", "labels": [1, "cat"]}, "numbers from 0 to 9 or null, got 'cat'"),
        ({"feedback": 3}, "feedback must be a list"),
        ({"feedback": [{"id": "bad", "labels": [1, 2]}, 3]}, "feedback must be"),
    ],
)
def test_bad_feedback_changes_nothing(server, clean, document, message):
    server.infer(clean.logits[:2], "ts", stream="bad", id="bad")
    status, answer = post(server, document)
    assert status == 400
    assert message in answer["error"]
    status, answer = post(server, {"id": "bad", "labels": [1, None]})
    assert (status, answer["accepted"]) == (200, 1)


def test_wrong_labels_say_refit_and_survive(server, start, clean):
    y = np.random.default_rng(0).integers(0, 10, 300)
    server.infer(clean.logits[:300], stream="wrong", id="w")
    found = post(server, {"id": "w", "labels": y.tolist()}, "context")[1]["streams"]["wrong"]
    assert found["verdict"] == "re-fit"
    server.stop()
    again = start("context.json", "ts.json", "--state", "labels")
    text = again.get("/metrics").decode()
    assert 'wildcal_stream_refit{model="context",stream="wrong"} 1.0' in text
