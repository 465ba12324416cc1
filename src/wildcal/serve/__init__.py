"""Serve calibrators by the Open Inference Protocol; needs the extra `serve`."""

from wildcal.core.exceptions import MissingExtraError

try:
    import fastapi  # noqa: F401
    import httptools  # noqa: F401
    import prometheus_client  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        f'wildcal.serve needs {error.name}. Install it with: pip install "wildcal[serve]"'
    ) from error

from wildcal.serve.app import make_app
from wildcal.serve.settings import Settings

__all__ = ["Settings", "make_app"]
