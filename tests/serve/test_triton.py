"""NVIDIA's client, unchanged: JSON and bytes, in three precisions, the numbers of Python."""

import numpy as np
import pytest
from tritonclient import http
from tritonclient.utils import InferenceServerException

import wildcal

OUTPUTS = ("probabilities", "confidence", "label", "temperature")


@pytest.fixture(scope="module")
def server(start):
    return start("context.json", "ts.json")


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


def test_the_client_finds_its_way(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("ts")
    assert not client.is_model_ready("other")
    assert client.get_server_metadata()["name"] == "wildcal"
    assert client.get_model_metadata("ts")["platform"] == "wildcal"
    assert client.get_model_config("ts")["name"] == "ts"
    assert [m["name"] for m in client.get_model_repository_index()] == ["context", "ts"]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_numbers_of_python(client, scaled, context, clean, dtype, binary):
    if dtype == "float16" and not binary:
        pytest.skip("the client itself sends half precision as bytes only")
    z = clean.logits[:64].astype(dtype)
    wanted = [http.InferRequestedOutput(name, binary_data=binary) for name in OUTPUTS]
    answer = client.infer("ts", [tensor(z, binary)], outputs=wanted)
    np.testing.assert_allclose(
        answer.as_numpy("probabilities"), scaled.predict_proba(z), atol=1e-6, rtol=0
    )
    np.testing.assert_allclose(
        answer.as_numpy("confidence"), scaled.confidence(z), atol=1e-6, rtol=0
    )
    np.testing.assert_array_equal(answer.as_numpy("label"), scaled.predict(z))
    name = f"{dtype} {binary}"
    answer = client.infer("context", [tensor(z, binary)], parameters={"stream": name})
    expected = wildcal.Stream(context, alarm="sequential")(z)
    np.testing.assert_allclose(answer.as_numpy("probabilities"), expected, atol=1e-6, rtol=0)
    assert answer.as_numpy("alarm").dtype == np.bool_


@pytest.mark.parametrize("packed", ["gzip", "deflate"])
def test_packed_requests(client, scaled, clean, packed):
    z = clean.logits[:20].astype(np.float32)
    answer = client.infer("ts", [tensor(z, True)], request_compression_algorithm=packed)
    np.testing.assert_allclose(answer.as_numpy("confidence"), scaled.confidence(z), atol=1e-6)


def test_its_errors_are_our_messages(client, clean):
    z = clean.logits[:2].astype(np.float32).copy()
    z[1, 3] = np.nan
    with pytest.raises(InferenceServerException, match="logits must be finite, but row 1 holds"):
        client.infer("ts", [tensor(z, True)])
