"""Fitted calibrators as ONNX graphs (extra `onnx`)."""

from wildcal.core.errors import MissingExtraError

try:
    import onnx as _onnx  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        'wildcal.interop.onnx needs onnx. Install it with: pip install "wildcal[onnx]"'
    ) from error

from wildcal.interop.maps import context_vector
from wildcal.interop.onnx.attach import attach
from wildcal.interop.onnx.export import export

__all__ = ["attach", "context_vector", "export"]
