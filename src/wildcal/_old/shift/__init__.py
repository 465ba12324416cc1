"""Images in, shifted images out: 19 common corruptions at 5 severities, 24 transforms to tune on.

No network, no calibration, nothing of the rest of the package; needs the `shift` extra.
"""

try:
    import cv2 as _cv2  # noqa: F401
    import PIL as _pil  # noqa: F401
except ImportError as error:
    raise ImportError(
        'wildcal._old.shift needs Pillow and OpenCV. Install them with: pip install "wildcal[shift]"'
    ) from error

from wildcal._old.shift.corrupt import corrupt
from wildcal._old.shift.parameters import CORRUPTIONS, SEVERITIES, VALIDATION_CORRUPTIONS
from wildcal._old.shift.transform import transform
from wildcal._old.shift.tuning import TUNING_TRANSFORMS

__all__ = [
    "CORRUPTIONS",
    "SEVERITIES",
    "TUNING_TRANSFORMS",
    "VALIDATION_CORRUPTIONS",
    "corrupt",
    "transform",
]
