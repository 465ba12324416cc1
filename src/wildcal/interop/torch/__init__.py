"""Fitted calibrators as torch modules (extra `torch`)."""

from wildcal.core.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        'wildcal.interop.torch needs PyTorch. Install it with: pip install "wildcal[torch]"'
    ) from error

from wildcal.interop.maps import context_vector
from wildcal.interop.torch.attach import CalibratedModel, attach
from wildcal.interop.torch.module import CalibratorModule, as_module

__all__ = ["CalibratedModel", "CalibratorModule", "as_module", "attach", "context_vector"]
