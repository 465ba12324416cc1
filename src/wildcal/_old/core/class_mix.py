"""Whether the classes that were predicted in a window refute the class mix of the clean rows."""

from typing import Final

import numpy as np

from wildcal._old.core.arrays import FloatArray, Labels

DEFAULT_SLOPE: Final = 2.0
"""Share of rows that change class for each unit that mean confidence falls, where no environment
tells. The largest on the tuning splits of the shipped suites is 1.85."""
_FALSE_ALARMS: Final = 0.01
_LEAST_SLOPE: Final = 1.0
_MARGIN: Final = 1.25


def class_distance(counts: Labels, clean_counts: Labels | FloatArray) -> float:
    """Return the total variation between two sets of class counts, ½ Σ |share - clean share|."""
    return float(np.abs(counts / counts.sum() - clean_counts / clean_counts.sum()).sum() / 2)


def chance_distance(n: int, clean_counts: Labels | FloatArray) -> float:
    """Return a distance that n rows of the clean class mix exceed at most once in a hundred.

    The mean is at most ½ Σ √(q (1 - q) (1/n + 1/n₀)), by Jensen; one row moves the distance by at
    most 1/n, so √(log(100) / 2n) is added, by McDiarmid's inequality.
    """
    n_clean = clean_counts.sum()
    q = clean_counts / n_clean
    mean = 0.5 * np.sqrt(q * (1 - q) * (1 / n + 1 / n_clean)).sum()
    return float(mean + np.sqrt(np.log(1 / _FALSE_ALARMS) / (2 * n)))


def unexplained(
    counts: Labels,
    clean_counts: Labels | FloatArray,
    fall: float,
    fall_error: float,
    slope: float,
) -> float:
    """Return how far the class mix is off beyond chance and beyond what lost confidence explains.

    A network that errs more may well err towards some classes, and then its confidence falls too.
    So d > d_chance + slope · max(0, fall + 1.64 standard errors) refutes the clean mix. With fewer
    rows than classes no distance is beyond chance; there one class that has far too many rows does.
    """
    by_chance = chance_distance(int(counts.sum()), clean_counts)
    explained = slope * max(0.0, fall + 1.64 * fall_error)
    if by_chance >= 1:
        return _of_one_class(counts, clean_counts, explained)
    return class_distance(counts, clean_counts) - by_chance - explained


def _of_one_class(counts: Labels, clean_counts: Labels | FloatArray, explained: float) -> float:
    """Return by how much one class has too large a share, or -1 if chance may do that.

    So many rows of a class as are left without the explained ones come less than once in a hundred
    windows, over all classes together.
    """
    from scipy.special import bdtrc  # here: `import wildcal` stays quick

    n, k = int(counts.sum()), len(counts)
    # A class that no clean row had may still come.
    usual = (clean_counts + 1) / (clean_counts.sum() + k)
    left = counts - np.ceil(explained * n)
    at_least = bdtrc(np.maximum(left - 1, -1), n, usual)
    too_many = np.where((left > 0) & (at_least < _FALSE_ALARMS / k), left / n - usual, -1.0)
    return float(too_many.max())


def slope_of(cells: list[tuple[Labels, float, float]], clean_counts: Labels) -> float:
    """Return the slope that leaves none of the environments refuted, and a quarter more.

    `cells` holds the counts, the fall of confidence and its standard error of each environment.
    """
    slopes = [
        (class_distance(counts, clean_counts) - chance_distance(int(counts.sum()), clean_counts))
        / max(fall + 1.64 * error, 1e-3)
        for counts, fall, error in cells
    ]
    return max(_LEAST_SLOPE, _MARGIN * max(slopes)) if slopes else DEFAULT_SLOPE
