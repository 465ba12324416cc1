"""Windows that outlive the process, and rows of many clients that neither mix nor get lost."""

import asyncio
import http.client
import json
import logging
import re
import signal
import socket
import threading
import time

import numpy as np
import pytest

import wildcal
from wildcal._old.serve.lanes import Lanes, Windows
from wildcal._old.serve.limits import Limits
from wildcal._old.serve.model import Model
from wildcal._old.serve.saved import Saved
from wildcal._old.stream.folder import stream_files


def arrays(document):
    return {o["name"]: np.array(o["data"]).reshape(o["shape"]) for o in document["outputs"]}


def keep_sending(server, z, stream, answered):
    """Send five rows at a time until the server is gone."""
    try:
        for start in range(0, len(z), 5):
            status, _ = server.infer(z[start : start + 5], stream=stream)
            assert status == 200
            answered[stream] = start + 5
    except (OSError, http.client.HTTPException):
        pass


def test_killed_under_load(start, files, context, clean):
    """What was answered is lost to at most `--save-every` rows; the rest has the same bits."""
    z = clean.logits[:4000].astype(np.float64)
    options = ("context.json", "--state", "killed", "--save-every", "40", "--window", "64")
    server = start(*options)
    answered = {"a": 0, "b": 0}
    threads = [threading.Thread(target=keep_sending, args=(server, z, s, answered)) for s in "ab"]
    for thread in threads:
        thread.start()
    while min(answered.values()) < 300 and threads[0].is_alive():
        time.sleep(0.01)
    server.stop(signal.SIGKILL)
    for thread in threads:
        thread.join()
    again = start(*options)
    for name in "ab":
        found = arrays(again.infer(z[:1], stream=name, outputs=[{"name": "drift"}])[1])
        (said,) = [line for line in again.process_lines() if f"stream '{name}'" in line]
        row = int(re.search(r"after row ([\d,]+)", said)[1].replace(",", ""))
        assert answered[name] - 40 < row <= answered[name] + 5
        ours = wildcal.Stream(context, 64, alarm="sequential")
        ours.read(z[:row])
        assert found["drift"][0] == ours.read(z[:1]).drift[0]
        more = arrays(again.infer(z[row : row + 200], stream=name)[1])
        expected = ours.read(z[row : row + 200])
        np.testing.assert_array_equal(more["confidence"], expected.confidence)
        np.testing.assert_array_equal(more["alarm"], expected.alarm)
    assert again.stop() == 0
    assert again.said[-1] == "Stopped; windows are in killed."
    window = stream_files(files / "killed", "context", "b")[1]
    assert wildcal.Stream.load(window, context).seen == row + 201


def test_the_least_recently_used_go_to_disk(start, files, context, clean):
    z = clean.logits[:64].astype(np.float64)
    server = start("context.json", "--state", "few", "--max-streams", "2", "--save-every", "99s")
    names = ["one", "../two", "<b>three</b>", "four"]
    for name in names:
        server.infer(z[:32], stream=name)
    assert b"wildcal_streams 2.0" in server.get("/metrics")
    ours = wildcal.Stream(context, alarm="sequential")
    ours.read(z[:32])
    expected = ours.read(z[32:]).drift
    for name in names:
        found = arrays(server.infer(z[32:], stream=name)[1])
        np.testing.assert_array_equal(found["drift"], expected)
    assert server.stop() == 0
    kept = sorted(path.name for path in (files / "few").iterdir())
    assert kept.pop() == "server.lock"
    assert len(kept) == 8
    assert all(re.fullmatch(r"[0-9a-f]{64}\.(stream|window)\.json", name) for name in kept)


def test_a_folder_belongs_to_one_server(start, files, clean):
    options = ("context.json", "--state", "mine", "--save-every", "1")
    first = start(*options)
    first.infer(clean.logits[:5])
    with pytest.raises(RuntimeError) as refused:
        start(*options)
    (line,) = str(refused.value).splitlines()
    assert f"mine belongs to another server (process {first.process.pid})" in line
    assert first.infer(clean.logits[:1])[0] == 200
    first.stop(signal.SIGKILL)  # after which the folder is free
    again = start(*options)
    assert 'rows{model="context",stream="default"} 6.0' in again.get("/metrics").decode()
    again.stop()


def test_a_damaged_window_is_set_aside(tmp_path, context, clean, caplog):
    model = Model("m", context)

    async def read():
        lanes = Lanes(Windows(), Limits(), Saved(tmp_path))
        async with lanes.turn(model, "s") as lane:
            answer = model.answer_in(lane.live, clean.logits[:9], None)
            lane.note(answer.confidence, answer.rows)
        await lanes.save_all()

    asyncio.run(read())
    window = stream_files(tmp_path, "m", "s")[1]
    window.write_text("{")
    with caplog.at_level(logging.WARNING):
        asyncio.run(read())
    assert "stream 's' of m begins anew" in caplog.text
    assert (tmp_path / (window.name + ".refused")).read_text() == "{"
    assert json.loads(window.read_text())["seen"] == 9


@pytest.fixture(scope="module")
def server(start):
    return start("context.json", "ts.json", "--max-connections", "100")


def test_eight_clients_and_no_row_lost_or_doubled(server, clean):
    """Clients share two streams; each row is counted in exactly one place."""
    z = clean.logits[:1000]
    right = {"even": [], "odd": []}

    def send(client):
        name = ("even", "odd")[client % 2]
        for start in range(0, 60, 3):
            _, answer = server.infer(z[start : start + 3], stream=name, id=f"{client} {start}")
            assert answer["id"] == f"{client} {start}"
            right[name].append(
                arrays(answer)["label"].tolist() == z[start : start + 3].argmax(1).tolist()
            )

    threads = [threading.Thread(target=send, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(right["even"] + right["odd"])
    assert len(right["even"]) == len(right["odd"]) == 80
    text = server.get("/metrics").decode()
    for name in ("even", "odd"):
        assert f'wildcal_stream_rows{{model="context",stream="{name}"}} 240.0' in text


HEAD = b"POST /v2/models/ts/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n"


def test_half_sent_bodies_and_dropped_connections(server, clean):
    held = []
    for text in (b"", b"POST", HEAD[:40], HEAD, HEAD + b'{"inputs"') * 15:
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.sendall(text)
        held.append(connection)
    assert server.infer(clean.logits[:2], "ts")[0] == 200
    for connection in held:
        connection.close()
    assert server.infer(clean.logits[:2], "ts")[0] == 200
    assert server.request("/v2/health/live")[0] == 200


def test_a_head_without_end(server):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(20)
        connection.sendall(b"GET / HTTP/1.1\r\n")
        try:
            for _ in range(100):
                connection.sendall(b"X-Long: " + b"a" * 1000 + b"\r\n")
            answer = connection.recv(100)
        except OSError:  # it was closed while we were speaking
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_too_many_connections_are_told_and_do_not_flood_the_log(start, clean):
    server = start("ts.json", "--max-connections", "2")
    ask = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as held:
        held.sendall(ask)
        assert held.recv(100).startswith(b"HTTP/1.1 200")
        held.sendall(ask[:20])  # and is waited for
        statuses = [server.request("/v2/health/live")[0] for _ in range(12)]
    assert statuses == [503] * 12
    while server.request("/v2/health/live")[0] == 503:
        statuses.append(503)  # till the server has seen that the other one left
    assert server.infer(clean.logits[:2], "ts")[0] == 200
    assert server.stop() == 0
    said = [line for line in server.said if "concurrency" in line]
    assert len(said) == len([n for n in (1, 10, 100, 1000) if n <= len(statuses)])
    assert said[1].endswith("(10 times)")
