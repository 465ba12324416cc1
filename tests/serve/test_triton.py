"""Requests of NVIDIA's client: JSON and bytes in three precisions."""

import numpy as np
import pytest
from tritonclient import http
from tritonclient.utils import InferenceServerException

from wildcal.monitor import Monitor

pytestmark = pytest.mark.slow

OUTPUTS = ("probabilities", "confidence", "label")


@pytest.fixture(scope="module")
def server(start):
    return start("window.json", "ts.json")


@pytest.fixture(scope="module")
def client(server):
    client = http.InferenceServerClient(server.url.removeprefix("http://"))
    yield client
    client.close()


def tensor(z, binary):
    kind = {"float16": "FP16", "float32": "FP32", "float64": "FP64"}[z.dtype.name]
    found = http.InferInput("logits", list(z.shape), kind)
    found.set_data_from_numpy(z, binary_data=binary)
    return found


def test_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("ts")
    assert not client.is_model_ready("other")
    assert client.get_server_metadata()["name"] == "wildcal"
    assert client.get_model_metadata("ts")["platform"] == "wildcal"


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_probabilities_are_those_of_the_calibrator(client, scaled, window, draw, dtype, binary):
    if dtype == "float16" and not binary:
        pytest.skip("the client sends half precision as bytes only")
    z = draw(64)[0].astype(dtype)
    wanted = [http.InferRequestedOutput(name, binary_data=binary) for name in OUTPUTS]
    wanted.append(http.InferRequestedOutput("temperature", binary_data=binary))
    answer = client.infer("ts", [tensor(z, binary)], outputs=wanted)
    for name, expected in (
        ("probabilities", scaled.predict_proba(z)),
        ("confidence", scaled.confidence(z)),
        ("temperature", scaled.temperatures(z)),
    ):
        np.testing.assert_allclose(answer.as_numpy(name), expected, atol=1e-6, rtol=0)
    np.testing.assert_array_equal(answer.as_numpy("label"), scaled.predict(z))
    name = f"{dtype} {binary}"
    outputs = [http.InferRequestedOutput(o) for o in ("probabilities", "drift_alert")]
    answer = client.infer(
        "window", [tensor(z, binary)], outputs=outputs, parameters={"stream": name}
    )
    expected = Monitor(window).update(z).probabilities
    np.testing.assert_allclose(answer.as_numpy("probabilities"), expected, atol=1e-6, rtol=0)
    assert answer.as_numpy("drift_alert").dtype == np.bool_


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_compressed_requests(client, scaled, draw, compression):
    z = draw(20)[0]
    answer = client.infer("ts", [tensor(z, True)], request_compression_algorithm=compression)
    np.testing.assert_allclose(answer.as_numpy("confidence"), scaled.confidence(z), atol=1e-6)


def test_errors_have_our_message(client, draw):
    z = draw(2)[0].copy()
    z[1, 3] = np.nan
    with pytest.raises(InferenceServerException, match="logits must be finite, got nan at index 1"):
        client.infer("ts", [tensor(z, True)])
