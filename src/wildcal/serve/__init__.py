"""Serve calibrators by the Open Inference Protocol; needs the extra `serve`."""

from wildcal.core.exceptions import needs_extra

with needs_extra("wildcal.serve", "serve"):
    import fastapi  # noqa: F401
    import httptools  # noqa: F401
    import prometheus_client  # noqa: F401
    import uvicorn  # noqa: F401

from wildcal.serve.app import make_app
from wildcal.serve.settings import Settings

__all__ = ["Settings", "make_app"]
