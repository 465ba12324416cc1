"""Options that no one would give: refused by their name, or promises are kept all the same."""

from dataclasses import fields
from typing import Any

import numpy as np
from benchmarks.campaign.attack import Attack, FindingError
from benchmarks.campaign.calibrator_files import labeled
from benchmarks.campaign.promises import check_promises

from wildcal import make_calibrator
from wildcal.calibrators import CALIBRATORS

ODD: list[Any] = [
    None, True, "", "x", b"x", -1, 0, 1, 0.5, 1.5, 10**9, -(10**9), 10**400, 1e-320, 1e300, -1e300,
    float("nan"), float("inf"), np.float32(2), np.int8(3), (), (1,), (2, 1), (1e-7, 2), [1, 2], {},
]  # fmt: skip


def _odd_option(rng: np.random.Generator) -> None:
    name = list(CALIBRATORS)[int(rng.integers(len(CALIBRATORS)))]
    calibrator = make_calibrator(name)
    options = [field.name for field in fields(calibrator) if field.init]  # type: ignore[arg-type]
    if not options:
        return
    option, value = str(rng.choice(options)), ODD[int(rng.integers(len(ODD)))]
    logits, y, _ = labeled(100)
    try:
        calibrator.set_params(**{option: value}).fit(logits, y)
    except ValueError as error:
        if option not in str(error):
            raise FindingError(f"{name}, {option}={value!r:.30}: {error}") from error
        raise
    check_promises(calibrator)


ATTACKS = [Attack("numbers/options", _odd_option, (ValueError,))]
