"""Requests and answers of `/infer`: a JSON part, and perhaps bytes behind it."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from wildcal._old.serve.refusal import bad
from wildcal._old.serve.tensors import Raw, layout, read_raw, read_tensor, write_binary, write_json

Arrays = dict[str, NDArray[Any]]
DEFAULT_STREAM: Final = "default"
_LONGEST_NAME: Final = 200
# Bytes of a JSON part that is remembered.
_SHORT_HEAD: Final = 2048
# Made once: `json.dumps` with options makes one for each call.
_encode: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Head:
    """The JSON part of a request, checked; what is in its bytes is not known yet."""

    id: str | None
    stream: str
    inputs: list[dict[str, Any]]
    raw: tuple[Raw, ...] | None
    """Where the inputs are in the bytes, if all of them are there."""
    outputs: Mapping[str, bool] | None
    """Whether each output goes out as bytes; None asks for all of them."""
    binary: bool
    """What goes for outputs that were not asked for by name."""
    answers: dict[tuple[Any, ...], bytes] = field(default_factory=dict)
    """The JSON parts of answers that are bytes, by model and by types and shapes of outputs."""


class Request(NamedTuple):
    """What a client asks: what it wants, and its tensors."""

    head: Head
    inputs: Arrays


def read_request(body: bytes, json_bytes: int | None) -> Request:
    """Return the request in a body whose JSON part has `json_bytes`, or all of them.

    Anything that is not one raises a Refusal that says what must hold.
    """
    if json_bytes is None:
        head, raw = _read_head(body), memoryview(b"")
    elif 0 <= json_bytes <= len(body):
        # Clients that send bytes send the same JSON part again and again.
        read = _known_head if json_bytes <= _SHORT_HEAD else _read_head
        head = read(body[:json_bytes])
        if head.raw is not None and len(body) - json_bytes == head.raw[-1].stop:
            return Request(head, {p.name: read_raw(p, body, json_bytes) for p in head.raw})
        raw = memoryview(body)[json_bytes:]
    else:
        raise bad(f"Inference-Header-Content-Length must be 0 to {len(body)}, got {json_bytes}.")
    return Request(head, _inputs(head.inputs, raw))


def _read_head(text: bytes) -> Head:
    document = read_object(text)
    parameters = _parameters(document)
    name = document.get("id")
    if name is not None and (not isinstance(name, str) or len(name) > _LONGEST_NAME):
        raise bad(f"id must be a text of at most {_LONGEST_NAME} characters.")
    binary = parameters.get("binary_data_output", False)
    if not isinstance(binary, bool):
        raise bad(f"binary_data_output must be true or false, got {binary!r:.40}.")
    stream, inputs = _stream(parameters), _entries(document, "inputs")
    return Head(name, stream, inputs, layout(inputs), _outputs(document, binary), binary)


_known_head = lru_cache(maxsize=512)(_read_head)


def read_object(text: bytes) -> dict[str, Any]:
    """Return the JSON object in a text."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # also what is not UTF-8, or nested without end
        raise bad("the body must be JSON; tensors as bytes go behind it.") from None
    if not isinstance(document, dict):
        raise bad(f"the body must be a JSON object, got {type(document).__name__}.")
    return document


def check_stream(name: Any) -> str:
    """Return the name of a stream; raise a Refusal unless it can be one."""
    good = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()
    if not good:
        raise bad(f"stream must be 1 to {_LONGEST_NAME} printable characters, got {name!r:.60}.")
    return str(name)


def _stream(parameters: dict[str, Any]) -> str:
    return check_stream(parameters.get("stream", DEFAULT_STREAM))


def _parameters(entry: dict[str, Any]) -> dict[str, Any]:
    parameters = entry.get("parameters")
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise bad(f"parameters must be an object, got {type(parameters).__name__}.")
    return parameters


def _entries(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = document.get(key)
    if not isinstance(entries, list) or not entries:
        raise bad(f"{key} must be a list with at least one entry.")
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise bad(f"each of {key} must be an object with a name.")
    if len({entry["name"] for entry in entries}) < len(entries):
        raise bad(f"{key} must have different names.")
    return entries


def _inputs(entries: list[dict[str, Any]], raw: memoryview) -> Arrays:
    """Return the tensors by name; those that are bytes follow one another in order."""
    found: Arrays = {}
    start = 0
    for entry in entries:
        name, size = str(entry["name"])[:_LONGEST_NAME], _parameters(entry).get("binary_data_size")
        if size is None:
            found[name] = read_tensor(name, entry, None)
            continue
        if type(size) is not int or not 0 <= size <= len(raw) - start:
            raise bad(
                f"binary_data_size of {name} must be at most the {len(raw) - start} bytes behind"
                f" the JSON part, got {size!r:.40}."
            )
        found[name] = read_tensor(name, entry, raw[start : start + size])
        start += size
    if start < len(raw):
        raise bad(f"{len(raw) - start} bytes follow the last input; are sizes missing?")
    return found


def _outputs(document: dict[str, Any], binary: bool) -> dict[str, bool] | None:
    if document.get("outputs") is None:
        return None
    wanted = {}
    for entry in _entries(document, "outputs"):
        flag = _parameters(entry).get("binary_data", binary)
        if not isinstance(flag, bool):
            raise bad(f"binary_data of {entry['name']!r:.60} must be true or false.")
        wanted[entry["name"]] = flag
    return wanted


def write_answer(
    model: str, version: str, request: Request, outputs: Arrays
) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return the headers and the body of an answer."""
    asked = request.head
    arrays = outputs.values()
    key = (model, *[array.dtype for array in arrays], *[array.shape for array in arrays])
    head = asked.answers.get(key)
    if head is not None:
        return _answer(head, [array.tobytes() for array in arrays])
    described, raws = [], []
    for name, array in outputs.items():
        if asked.binary if asked.outputs is None else asked.outputs[name]:
            entry, raw = write_binary(name, array)
            raws.append(raw)
        else:
            entry = write_json(name, array)
        described.append(entry)
    document: dict[str, Any] = {"model_name": model, "model_version": version}
    if asked.id is not None:
        document["id"] = asked.id
    document["outputs"] = described
    head = _encode(document).encode()
    if len(raws) == len(described) and sys.byteorder == "little":
        asked.answers[key] = head
    return _answer(head, raws)


def _answer(head: bytes, raws: list[bytes]) -> tuple[list[tuple[bytes, bytes]], bytes]:
    if not raws:
        return [(b"content-type", b"application/json")], head
    length = (b"inference-header-content-length", b"%d" % len(head))
    return [(b"content-type", b"application/octet-stream"), length], b"".join([head, *raws])
