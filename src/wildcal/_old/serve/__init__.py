"""A calibrator as a service: the Open Inference Protocol, live windows, metrics (extra `serve`)."""

from wildcal._old.core.errors import MissingExtraError

try:
    import prometheus_client as _prometheus_client  # noqa: F401
    import starlette as _starlette  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        "wildcal._old.serve needs Starlette, uvicorn and prometheus-client. Install them with:"
        ' pip install "wildcal[serve]"'
    ) from error
