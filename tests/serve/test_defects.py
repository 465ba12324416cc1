"""Regression tests of faults in the server of version 0.1."""

import asyncio
import json
import os
import resource
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from wildcal.serve.run import listen

pytestmark = pytest.mark.slow


def wait_until(condition):
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("the condition was not met in 10 s")


def test_connections_send_without_delay():
    """Linux hands TCP_NODELAY of the loop to sockets whose protocol is TCP."""
    listener = listen("127.0.0.1", 0, 5)
    assert listener.proto == socket.IPPROTO_TCP

    async def accepted():
        found = asyncio.get_running_loop().create_future()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport):
                own = transport.get_extra_info("socket")
                found.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                transport.close()

        server = await asyncio.get_running_loop().create_server(Protocol, sock=listener)
        _, writer = await asyncio.open_connection(*listener.getsockname())
        value = await found
        writer.close()
        server.close()
        return value

    assert asyncio.run(accepted())


@pytest.mark.parametrize("model", ["ts", "window"])
def test_an_idle_stream_after_a_restart(start, draw, tmp_path, model):
    options = (f"{model}.json", "--state", tmp_path / "state")
    server = start(*options)
    server.infer(draw(1)[0], model, stream="one")
    before = server.streams(model)["one"]
    assert server.stop() == 0
    again = start(*options)
    assert again.streams(model)["one"] == before
    assert "NaN" not in again.get("/metrics").decode()
    live = json.loads(again.get("/live"))
    assert live["streams"][0]["points"]


def test_feedback_while_a_save_runs(start, draw, tmp_path):
    server = start("ts.json", "--state", tmp_path / "state", "--save-every", "0.05s")
    z, y = draw(50)
    problems = []

    def work(name):
        for i in range(40):
            status, _ = server.infer(z, stream=name, id=f"{name}-{i}")
            found, answer = server.feedback({"id": f"{name}-{i}", "labels": y.tolist()})
            if (status, found, answer.get("accepted")) != (200, 200, 50):
                problems.append(answer)

    threads = [threading.Thread(target=work, args=(f"s{t}",)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert server.metric("wildcal_task_failures_total") == 0
    assert server.stop() == 0
    again = start("ts.json", "--state", tmp_path / "state")
    assert [s["n_labels"] for s in again.streams().values()] == [2000] * 4


def test_a_connection_that_closes_early_is_a_bad_request(start):
    server = start("ts.json")
    head = b"POST /v2/models/ts/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head)
        time.sleep(0.2)
    wait_until(lambda: server.metric('wildcal_requests_total{model="ts",status="400"}') == 1)
    assert server.stop() == 0
    assert server.lines[1:] == ["Stopped."]  # no traceback


def test_an_internal_error_is_logged_once(scaled, caplog):
    """The server that runs the application gets the error after the answer, and logs it."""
    from wildcal.serve.app import Service
    from wildcal.serve.settings import Settings

    service, sent = Service({"ts": scaled}, Settings(), {}), []
    service.streams.all = None
    scope = {"type": "http", "method": "GET", "path": "/live", "query_string": b""}
    scope["headers"] = [(b"host", b"localhost")]

    async def send(message):
        sent.append(message)

    with pytest.raises(TypeError):
        asyncio.run(service.app(scope, None, send))
    assert sent[0]["status"] == 500
    assert json.loads(sent[1]["body"])["error"].startswith("internal error")
    assert caplog.records == []


def test_refused_requests_open_no_stream(start, draw):
    server = start("ts.json", "--max-streams", "100")
    for i in range(4):
        server.infer(draw(50, seed=i)[0], stream="camera-7")
    bad = json.dumps(
        {
            "parameters": {"stream": "STREAM"},
            "inputs": [{"name": "logits", "datatype": "FP32", "shape": [1, 1], "data": [1]}],
        }
    )
    for i in range(300):
        body = bad.replace("STREAM", f"w{i}").encode()
        assert server.request("/v2/models/ts/infer", body)[0] == 400
    assert list(server.streams()) == ["camera-7"]
    assert server.streams()["camera-7"]["n_samples"] == 200


def test_streams_out_of_memory_have_no_series(start, draw):
    server = start("ts.json", "--max-streams", "100")
    z = draw(1)[0]
    for i in range(100):
        server.infer(z, stream=f"old{i}")
    server.get("/metrics")
    for i in range(100):
        server.infer(z, stream=f"new{i}")
    assert server.metric('wildcal_stream_samples{model="ts",stream="old1"}') is None
    assert server.metric('wildcal_stream_samples{model="ts",stream="new99"}') == 1


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:80", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
        ("10.0.0.7:8000", 200),
        ("calibration.example", 200),
        ("evil.com:8000", 403),
        ("localhost.evil.com", 403),
        ("127.0.0.1.evil.com", 403),
        ("", 403),
        ("[", 403),
    ],
)
def test_host_header(named, host, status):
    assert named.request("/v2", headers={"Host": host})[0] == status
    origin = {"Host": host, "Origin": f"http://{host}"}
    assert named.request("/metrics", headers=origin)[0] == status


@pytest.fixture(scope="module")
def named(start):
    return start("ts.json", "--allow-host", "calibration.example")


def test_a_save_does_not_list_the_folder(start, draw, tmp_path, scaled, monkeypatch):
    """After the start nothing reads the folder, however many streams are in it."""
    from wildcal.serve.app import Service
    from wildcal.serve.settings import Settings

    service = Service({"ts": scaled}, Settings(state=tmp_path, max_streams=2), {})

    def listing(*_, **__):
        raise AssertionError("the folder was listed")

    for owner, name in ((os, "listdir"), (os, "scandir"), (Path, "iterdir"), (Path, "glob")):
        monkeypatch.setattr(owner, name, listing)
    model = service.models["ts"]

    async def use():
        for i in range(5):
            stream = await service.streams.open(model, f"s{i}")
            stream.monitor.update(draw(3)[0])
            stream.note(3)
        assert [s.name for s in service.streams.all()] == ["s3", "s4"]
        assert (await service.streams.open(model, "s0")).monitor.n_samples == 3

    asyncio.run(use())


def test_streams_out_of_memory_lose_no_samples(draw, tmp_path, scaled):
    """Clients use ten streams at once, and three of them are in memory."""
    from wildcal.serve.app import Service
    from wildcal.serve.settings import Settings

    service = Service({"ts": scaled}, Settings(state=tmp_path, max_streams=3), {})
    model, x = service.models["ts"], draw(1)[0]

    async def client(seed):
        for k in np.random.default_rng(seed).integers(0, 10, 40).tolist():
            stream = await service.streams.ready(model, f"s{k}")
            stream.monitor.update(x)
            stream.note(1)
            assert len(service.streams.all()) <= 3
            await asyncio.sleep(0)

    async def run():
        await asyncio.gather(*map(client, range(8)), service.streams.save_all())
        return [(await service.streams.open(model, f"s{k}")).monitor.n_samples for k in range(10)]

    assert sum(asyncio.run(run())) == 8 * 40


def test_a_full_disk(start, draw, tmp_path):
    """The limit of streams holds, and samples count only with status 200."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    server = start(
        *("ts.json", "--state", tmp_path / "state", "--save-every", "10", "--max-streams", "5"),
        before=small_files,
    )
    accepted, z = 0, draw(4)[0]
    for i in range(60):
        status, answer = server.infer(z, stream=f"s{i % 20}")
        assert status in (200, 503), answer
        accepted += 4 * (status == 200)
    assert len(server.streams()) <= 5
    assert server.metric('wildcal_samples_total{model="ts"}') == accepted
    assert sum(s["n_samples"] for s in server.streams().values()) == accepted > 0
    assert server.metric("wildcal_save_failures_total") > 0
    assert server.stop() == 1
    assert "could not be saved" in server.lines[-1]


def test_ids_of_delayed_labels_survive_a_restart(start, draw, tmp_path):
    options = ("ts.json", "--state", tmp_path / "state", "--max-streams", "2")
    server = start(*options)
    z, y = draw(30)
    for i in range(3):
        server.infer(z, stream=f"s{i}", id=f"late-{i}")
    assert server.stop() == 0
    again = start(*options)
    for i in (1, 2):
        status, answer = again.feedback({"id": f"late-{i}", "labels": y.tolist()})
        assert (status, answer["accepted"], answer["unknown"]) == (200, 30, [])
    # It is not in memory, so its stream is named.
    status, answer = again.feedback({"id": "late-0", "stream": "s0", "labels": y.tolist()})
    assert (status, answer["accepted"]) == (200, 30)


def test_alerts_run_a_shell_and_failures_are_counted(start, draw, tmp_path):
    file = tmp_path / "alerts.log"
    server = start("ts.json", "--on-alert", f"cat >> '{file}' && echo >> '{file}'")
    server.infer(draw(500, 0.3)[0], stream="a b")
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    event = json.loads(file.read_text())
    assert (event["model"], event["stream"], event["drift_alert"]) == ("ts", "a b", True)
    assert "drift since sample" in event["message"]
    assert server.metric('wildcal_alerts_total{model="ts"}') == 1
    failing = start("ts.json", "--on-alert", "exit 7")
    failing.infer(draw(500, 0.3)[0])
    wait_until(lambda: failing.metric("wildcal_notification_failures_total") == 1)
    failing.stop()
    assert any("exit 7 did not get an alert: it ended with exit code 7" in x for x in failing.lines)


def test_a_background_task_that_fails_is_counted_and_continues(scaled):
    from wildcal.serve.app import Service
    from wildcal.serve.settings import Settings

    service, calls = Service({"ts": scaled}, Settings(save_seconds=0.001), {}), []

    async def save_all():
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("deque mutated")
        raise asyncio.CancelledError

    service.streams.save_all = save_all
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(service.save_regularly())
    assert len(calls) == 2
    assert service.metrics.task_failures._value.get() == 1


def test_kill_loses_at_most_the_samples_since_the_last_save(start, draw, tmp_path):
    import signal

    options = ("ts.json", "--state", tmp_path / "state", "--save-every", "20")
    z, n = draw(7)[0], 0
    for _ in range(3):
        server = start(*options)
        for _ in range(11):
            assert server.infer(z, stream="a")[0] == 200
        server.stop(signal.SIGKILL)
        n += 77
        found = json.loads(next((tmp_path / "state").glob("*.json")).read_text())
        kept = found["state"]["drift"]["n_samples"]
        assert n - 20 < kept <= n
        n = kept
    assert np.isfinite(kept)
