"""The live page and its data."""

import time
from pathlib import Path
from typing import Any, Final

from wildcal.serve.streams import Streams

PAGE: Final = Path(__file__).with_name("dashboard.html")
MAX_SHOWN: Final = 30
POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:;"
    " connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content security policy: nothing is loaded from another host."""


def numbers(streams: Streams) -> dict[str, Any]:
    """Return status and history of the streams: alerting ones first, then the most recent."""
    found = [(stream, stream.monitor.status()) for stream in reversed(streams.all())]
    found.sort(key=lambda pair: not pair[1].drift_alert)
    return {
        "n_streams": len(found),
        "n_alerting": sum(status.drift_alert for _, status in found),
        "n_samples": sum(status.n_samples for _, status in found),
        "streams": [
            {
                "model": stream.model,
                "stream": stream.name,
                **status.to_dict(),
                "histogram": stream.monitor.histogram.tolist(),
                "histogram_at_calibration": stream.monitor.histogram_at_calibration.tolist(),
                "points": [*stream.points, stream.point(status, time.time())],
                "alerts": stream.alerts,
            }
            for stream, status in found[:MAX_SHOWN]
        ],
    }
