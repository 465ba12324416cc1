"""The OpenAPI document at `/openapi.json`: what clients, and those who fuzz us, may rely on."""

from collections.abc import Iterable
from typing import Any

from wildcal._old.serve.model import Model
from wildcal.version import __version__

Schema = dict[str, Any]


def _object(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


_TEXT: Schema = {"type": "string", "maxLength": 200}
_LABELS = _list({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]})
_ENTRY = _object({"id": _TEXT, "labels": _LABELS}, "id", "labels")
_FEEDBACK = _object({"feedback": _list(_ENTRY)}, "feedback")
_ERROR = {
    "description": "What must hold, in one line.",
    "content": {"application/json": {"schema": _object({"error": {"type": "string"}}, "error")}},
}


def _name(known: Iterable[str]) -> Schema:
    return {"type": "string", "enum": sorted(set(known))}


def _infer(models: Iterable[Model]) -> Schema:
    """Return what `/infer` takes; which of the names go together, the metadata of a model say."""
    inputs = [entry["name"] for model in models for entry in model.inputs()]
    outputs = [name for model in models for name in model.output_names]
    tensor = _object(
        {
            "name": _name(inputs),
            "datatype": _name(["FP16", "FP32", "FP64", "BF16"]),
            "shape": _list({"type": "integer", "minimum": 0}, minItems=2, maxItems=2),
            "data": _list({"type": "number"}),
            "parameters": _object({"binary_data_size": {"type": "integer", "minimum": 0}}),
        },
        "name",
        "datatype",
        "shape",
    )
    wanted = _object(
        {"name": _name(outputs), "parameters": _object({"binary_data": {"type": "boolean"}})},
        "name",
    )
    parameters = _object(
        {"stream": {**_TEXT, "minLength": 1}, "binary_data_output": {"type": "boolean"}}
    )
    return _object(
        {
            "id": _TEXT,
            "parameters": parameters,
            "inputs": _list(tensor, minItems=1),
            "outputs": _list(wanted, minItems=1),
        },
        "inputs",
    )


def _operation(
    summary: str, body: Schema | None = None, *, model: Schema | None, media: str
) -> Schema:
    found: Schema = {
        "summary": summary,
        "parameters": [] if model is None else [model],
        "responses": {"200": {"description": "Done.", "content": {media: {}} if media else {}}},
    }
    errors = ("404",) if body is None else ("400", "404", "408", "413", "415", "429")
    if model is not None:
        found["responses"] |= {status: _ERROR for status in errors}
    found["responses"]["401"] = _ERROR
    if body is not None:
        content = {"application/json": {"schema": body}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def document(models: dict[str, Model]) -> Schema:
    """Return the document of a server with some models."""
    one, json = "/v2/models/{model}", "application/json"
    named = {"name": "model", "in": "path", "required": True, "schema": _name(models)}
    get = {
        "/v2/health/live": ("Whether the server runs.", False, ""),
        "/v2/health/ready": ("Whether it answers.", False, ""),
        "/v2": ("What server this is.", False, json),
        one: ("Inputs and outputs of a model.", True, json),
        one + "/ready": ("Whether a model answers.", True, ""),
        one + "/config": ("The same in Triton's words.", True, json),
        one + "/streams": ("The streams of a model at this moment.", True, json),
        "/metrics": ("For Prometheus.", False, "text/plain"),
    }
    paths: Schema = {
        path: {"get": _operation(words, model=named if model else None, media=media)}
        for path, (words, model, media) in get.items()
    }
    taken = _infer(models.values())
    infer = _operation("Calibrate rows.", taken, model=named, media=json)
    feedback = _operation("Labels that come late.", _FEEDBACK, model=named, media=json)
    paths |= {one + "/infer": {"post": infer}, one + "/feedback": {"post": feedback}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "wildcal", "version": __version__},
        "paths": paths,
    }
