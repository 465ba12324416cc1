"""Messages of the Open Inference Protocol, version 2, and its binary tensors."""

import zlib
from math import prod
from typing import Annotated, Any, Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from wildcal.core.exceptions import InputError

HEADER: Final = "inference-header-content-length"
DEFAULT_STREAM: Final = "default"
# dtypes by name. NumPy has no BF16, which is the upper half of a float32.
DTYPES: Final = {"FP16": "f2", "BF16": "u2", "FP32": "f4", "FP64": "f8", "INT64": "i8", "BOOL": "?"}
_NAMES: Final = {np.dtype(dtype): name for name, dtype in DTYPES.items()}

Size = Annotated[int, Field(strict=True, ge=0, lt=1 << 40)]
# No control characters, which could forge lines of a log.
StreamName = Annotated[
    str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")
]
Message = TypeVar("Message", bound=BaseModel)


class Parameters(BaseModel):
    """Parameters of a request, a tensor or a requested output."""

    stream: StreamName = DEFAULT_STREAM
    """The stream that the samples belong to, such as a camera or a tenant."""
    binary_data_output: StrictBool = False
    binary_data: StrictBool | None = None
    binary_data_size: Size | None = None


class InputTensor(BaseModel):
    """A tensor: numbers in `data`, or bytes behind the JSON part."""

    name: StrictStr
    datatype: Literal["FP16", "BF16", "FP32", "FP64"]
    shape: list[Size] = Field(min_length=1, max_length=8)
    parameters: Parameters | None = None
    data: Any = None
    """Numbers, flat or nested as the shape."""


class RequestedOutput(BaseModel):
    """An output of an answer."""

    name: StrictStr
    parameters: Parameters | None = None


class InferRequest(BaseModel):
    """Samples to be calibrated."""

    id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Id of the samples, for their labels."""
    parameters: Parameters | None = None
    inputs: list[InputTensor] = Field(min_length=1, max_length=8)
    outputs: list[RequestedOutput] | None = None

    @property
    def stream(self) -> str:
        """The name of the stream."""
        return self.parameters.stream if self.parameters else DEFAULT_STREAM


class OutputTensor(BaseModel):
    """A tensor of an answer."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Any] | None = None
    data: list[Any] | None = None


class InferResponse(BaseModel):
    """Calibrated samples."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


class Labels(BaseModel):
    """Labels of the samples of an earlier request."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    labels: list[StrictInt | StrictBool | StrictStr | None]
    """One for each sample: a class index, a class name, or null if unknown."""
    stream: StreamName | None = None
    """Required only for a stream that was not used since the server started."""


class Feedback(BaseModel):
    """Delayed labels."""

    feedback: list[Labels]


class FeedbackResponse(BaseModel):
    """Result of adding labels."""

    accepted: int
    """Samples that got a label."""
    unknown: list[str]
    """Ids without samples that wait for labels."""
    streams: dict[str, dict[str, Any]]
    """The status of each stream."""


class ErrorResponse(BaseModel):
    """Error message of a refused request."""

    error: str


def parse(kind: type[Message], text: bytes | memoryview) -> Message:
    """Return a message; InputError with one line if it is not valid."""
    try:
        return kind.model_validate_json(bytes(text))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in found["loc"])
        message = found["msg"][:300]
        raise InputError(f"{place}: {message}." if place else f"{message}.") from None


def read_request(
    body: bytes, head_size: str | None
) -> tuple[InferRequest, dict[str, NDArray[Any]]]:
    """Return a request and its tensors by name."""
    if head_size is None:
        head, raw = body, memoryview(b"")
    else:
        size = int(head_size) if head_size.isdecimal() and len(head_size) < 16 else -1
        if not 0 <= size <= len(body):
            raise InputError(
                f"{HEADER} must be 0 to {len(body)}, the size of the body, got {head_size!r:.40}.",
            )
        head, raw = body[:size], memoryview(body)[size:]
    request = parse(InferRequest, head)
    for name, entries in (("inputs", request.inputs), ("outputs", request.outputs or [])):
        if len({entry.name for entry in entries}) < len(entries):
            raise InputError(f"{name} must have different names.")
    tensors, start = {}, 0
    for tensor in request.inputs:
        n_bytes = tensor.parameters.binary_data_size if tensor.parameters else None
        if n_bytes is None:
            tensors[tensor.name] = _from_numbers(tensor)
        else:
            tensors[tensor.name] = _from_bytes(tensor, raw[start:], n_bytes)
            start += n_bytes
    if start < len(raw):
        raise InputError(f"{len(raw) - start} bytes follow the last input.")
    return request, tensors


def _from_numbers(tensor: InputTensor) -> NDArray[Any]:
    try:
        array = np.array(tensor.data)
    except (ValueError, OverflowError):  # lists of different lengths, or nested too deep
        array = np.array(None)
    # Not converted to floats above: NumPy would read the text "1" as a number.
    if not isinstance(tensor.data, list) or array.dtype.kind not in "iuf":
        raise InputError(f"data of {tensor.name!r:.60} must be a list of numbers.")
    shape = tuple(tensor.shape)
    if array.size != prod(shape) or (array.ndim > 1 and array.shape != shape):
        raise InputError(
            f"data of {tensor.name!r:.60} must have {prod(shape)} numbers for shape {shape}, got"
            f" {array.shape}.",
        )
    dtype = "f4" if tensor.datatype == "BF16" else DTYPES[tensor.datatype]
    with np.errstate(over="ignore"):  # becomes infinite, and is refused as such
        return array.astype(dtype).reshape(shape)


def _from_bytes(tensor: InputTensor, raw: memoryview, size: int) -> NDArray[Any]:
    dtype = np.dtype(DTYPES[tensor.datatype]).newbyteorder("<")
    expected = dtype.itemsize * prod(tensor.shape)
    if tensor.data is not None:
        raise InputError(f"{tensor.name!r:.60} must have data or binary_data_size, got both.")
    if size != expected or size > len(raw):
        raise InputError(
            f"{tensor.name!r:.60} of shape {tensor.shape} must have {expected} bytes, got"
            f" binary_data_size {size} and {len(raw)} bytes.",
        )
    array = np.frombuffer(bytes(raw[:size]), dtype).reshape(tensor.shape)
    return (array.astype("u4") << 16).view("f4") if tensor.datatype == "BF16" else array


def write_response(
    model: str, version: str, request: InferRequest, outputs: dict[str, NDArray[Any]]
) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the size of its JSON part if bytes follow it."""
    default = bool(request.parameters and request.parameters.binary_data_output)
    wanted = {o.name: o.parameters.binary_data for o in request.outputs or [] if o.parameters}
    described, parts = [], []
    for name, array in outputs.items():
        datatype, shape = _NAMES[array.dtype], list(array.shape)
        entry: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
        binary = wanted.get(name)
        if default if binary is None else binary:
            parts.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
            entry["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            entry["data"] = array.ravel().tolist()
        described.append(entry)
    document: dict[str, Any] = {"model_name": model, "model_version": version}
    if request.id is not None:
        document["id"] = request.id
    document["outputs"] = described
    head = to_json(document)
    return (b"".join([head, *parts]), len(head)) if parts else (head, None)


def decompressed(body: bytes, encoding: str | None, limit: int) -> bytes:
    """Return a body without its Content-Encoding."""
    if encoding in (None, "", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise HTTPException(415, f"Content-Encoding must be gzip or deflate, got {encoding!r:.40}.")
    reader = zlib.decompressobj(wbits=47)  # either of them
    try:
        found = reader.decompress(body, limit + 1)
    except zlib.error:
        raise InputError(f"the body must be {encoding}, as its header says.") from None
    if len(found) > limit:
        raise too_large(limit)
    if not reader.eof:
        raise InputError(f"the body must be whole {encoding}, got a part.")
    return found


def too_large(limit: int) -> HTTPException:
    """Return the error of a body with too many bytes."""
    return HTTPException(413, f"the body must have at most {limit:,} bytes.")
