""".safetensors and .pt: tensors, read without running anything that a file says."""

import zipfile
from collections.abc import Sequence
from pickle import UnpicklingError
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from wildcal._old.core.errors import FileFormatError, MissingExtraError
from wildcal._old.io.tables.source import Arrays, Source, bare_source, check_expansion, damage

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_SAVE_TENSORS = "Save tensors alone: torch.save({'logits': logits, 'y': y}, path)."


def read_safetensors(file: IO[bytes], title: str) -> Source:
    """Return the tensors of a .safetensors file, bfloat16 as float32."""
    try:
        from safetensors import deserialize
    except ImportError:
        raise MissingExtraError(
            "reading .safetensors needs safetensors. Install it with:"
            ' pip install "wildcal[safetensors]"'
        ) from None
    with damage(title, ".safetensors", "Was it cut short?"):
        tensors = dict(deserialize(file.read()))  # type: ignore[no-untyped-call]

    def load(names: Sequence[str]) -> Arrays:
        return {name: _array(tensors[name], f"{title} (array {name})") for name in names}

    return Source(title, tuple(tensors), load)


def _array(tensor: dict[str, Any], title: str) -> NDArray[Any]:
    if tensor["dtype"] == "BF16":  # the upper half of a float32
        upper = np.frombuffer(tensor["data"], "<u2").astype(np.uint32)
        return (upper << 16).view(np.float32).reshape(tensor["shape"])
    if tensor["dtype"] not in TYPES:
        raise FileFormatError(
            f"cannot read {title}: numbers of type {tensor['dtype']}. Save it as float32."
        )
    return np.frombuffer(tensor["data"], TYPES[tensor["dtype"]]).reshape(tensor["shape"])


def read_torch(file: IO[bytes], title: str) -> Source:
    """Return the tensors of a .pt file, by the reader that builds tensors and runs nothing."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            'reading .pt needs torch. Install it with: pip install "wildcal[torch]"'
        ) from None
    with damage(title, ".pt", "Was it cut short?"):
        start = file.read(2)
        file.seek(0)
        # In a whole archive, or a bare pickle, what the reader refuses is what the file holds.
        zipped = zipfile.is_zipfile(file)
        if zipped:
            for member in zipfile.ZipFile(file).infolist():
                check_expansion(title, member.filename, member.compress_size, member.file_size)
        file.seek(0)
        try:
            content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:
            objects = isinstance(error, UnpicklingError) and zipped
            if not objects and start[:1] != b"\x80":
                raise
            raise FileFormatError(
                f"cannot read {title}: it holds Python objects, which are not read. {_SAVE_TENSORS}"
            ) from error
    if isinstance(content, torch.Tensor):
        _refuse_expanded(content, title, "the tensor")
        return bare_source(title, from_torch(content, title))
    if not isinstance(content, dict):
        raise FileFormatError(
            f"cannot read {title}: it holds a {type(content).__name__}, not a tensor or a dict of"
            f" tensors. {_SAVE_TENSORS}"
        )
    named = {str(k): v for k, v in content.items() if isinstance(v, torch.Tensor)}
    for name, tensor in named.items():
        _refuse_expanded(tensor, title, f"tensor {name}")

    def load(names: Sequence[str]) -> Arrays:
        return {name: from_torch(named[name], f"{title} (tensor {name})") for name in names}

    return Source(title, tuple(named), load)


def _refuse_expanded(tensor: Any, title: str, what: str) -> None:
    """Raise for a tensor that repeats few numbers until they fill the memory."""
    if str(tensor.layout) != "torch.strided":
        return
    stored = tensor.untyped_storage().nbytes() // tensor.element_size()
    if tensor.numel() > stored:
        raise FileFormatError(
            f"cannot read {title}: {what} claims {tensor.numel()} numbers and stores {stored}. Save"
            " tensor.contiguous()."
        )


def from_torch(tensor: Any, title: str) -> NDArray[Any]:
    """Return a tensor of any kind as an array: detached, from its device, bfloat16 as float32."""
    if str(tensor.device) == "meta":
        raise FileFormatError(f"{title} has no numbers: it lives on the device 'meta'.")
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    if str(plain.layout) != "torch.strided":
        plain = plain.to_dense()
    plain = plain.cpu()
    if plain.is_floating_point() and str(plain.dtype) not in (
        "torch.float64",
        "torch.float32",
        "torch.float16",
    ):
        plain = plain.float()  # bfloat16 and the kinds of eight bits, which NumPy has not
    array: NDArray[Any] = plain.resolve_conj().resolve_neg().numpy()
    return array
