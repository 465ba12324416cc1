"""What a server refuses because it is too slow or too much: bodies that dawdle, streams, pages."""

import asyncio
import json
import socket

import pytest

from wildcal.interop.asgi import Limits, Settings, app


def posted(application, path, *messages):
    """Return status, headers and body of an answer; after the messages the client says nothing."""

    async def ask():
        waiting, sent = list(messages), []

        async def receive():
            if not waiting:
                await asyncio.Event().wait()
            return {"type": "http.request", **waiting.pop(0)}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
        scope |= {"root_path": "", "query_string": b"", "headers": [(b"host", b"x")]}
        await application(scope, receive, send)
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], dict(sent[0]["headers"]), json.loads(body)

    return asyncio.run(ask())


@pytest.mark.parametrize("messages", [[], [{"body": b'{"inputs"', "more_body": True}]])
@pytest.mark.parametrize("what", ["infer", "feedback"])
def test_a_body_that_does_not_come(scaled, messages, what):
    slow = app({"a": scaled}, Settings(limits=Limits(request_seconds=0.05)))
    status, headers, said = posted(slow, f"/v2/models/a/{what}", *messages)
    assert (status, said) == (408, {"error": "the body took too long to arrive."})
    assert headers[b"connection"] == b"close"  # the rest of the body is not the next request


def test_more_streams_than_may_be_saved(tmp_path, context, clean):
    limits = Limits(streams=1, saved_streams=2)
    service = app({"c": context}, Settings(limits=limits, state=tmp_path, save_rows=1))
    z = clean.logits[:2].astype(float)
    tensor = {"name": "logits", "datatype": "FP64", "shape": list(z.shape), "data": z.tolist()}

    def read(stream):
        document = {"inputs": [tensor], "parameters": {"stream": stream}}
        return posted(service, "/v2/models/c/infer", {"body": json.dumps(document).encode()})

    assert [read(name)[0] for name in ("a", "b")] == [200, 200]
    status, _, said = read("c")
    assert (status, said) == (429, {"error": "there are 2 streams already."})
    assert read("a")[0] == 200  # those that are known go on


def test_more_pages_than_are_told(start):
    server = start("ts.json")
    ask = b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"
    held = []
    for _ in range(50):
        held.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        held[-1].sendall(ask)
        assert held[-1].recv(4096).startswith(b"HTTP/1.1 200")
    status, _, body = server.request("/live")
    assert (status, json.loads(body)) == (429, {"error": "50 pages are open already."})
    for page in held:
        page.close()
    assert server.request("/v2/health/live")[0] == 200
