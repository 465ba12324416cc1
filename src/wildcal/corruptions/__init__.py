"""Common corruptions of images, 19 types at 5 severities, and 24 transforms for validation images.

Nothing here depends on a network or on calibration. Needs the extra `corruptions`.
"""

from wildcal.core.exceptions import needs_extra

with needs_extra("wildcal.corruptions", "corruptions"):
    import cv2 as _cv2  # noqa: F401
    import PIL as _pil  # noqa: F401

from wildcal.corruptions.corrupt import corrupt, transform
from wildcal.corruptions.parameters import (
    CORRUPTIONS,
    SEVERITIES,
    VALIDATION_CORRUPTIONS,
    VALIDATION_TRANSFORMS,
)

__all__ = [
    "CORRUPTIONS",
    "SEVERITIES",
    "VALIDATION_CORRUPTIONS",
    "VALIDATION_TRANSFORMS",
    "corrupt",
    "transform",
]
