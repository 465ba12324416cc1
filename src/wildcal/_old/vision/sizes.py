"""How many rows the parts of a suite have."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How many rows the parts of a suite have; None takes all there are.

    The rows of each part are taken from the beginning of an order that depends on the seed alone.

    Parameters
    ----------
    validation, test
        Clean rows; of ImageNet's validation images a quarter each, unless told.
    corrupted
        Rows of each corrupted test cell.
    tuning
        Rows of each corrupted or transformed tuning cell.
    ood
        Rows of each OOD set that are for tuning, at most half of them; by default as many as
        `usual_ood_rows` says.
    ood_test
        Rows of each OOD set that are for tests, of the others.
    """

    validation: int | None = None
    test: int | None = None
    corrupted: int | None = None
    tuning: int | None = 1000
    ood: int | None = None
    ood_test: int | None = None


def usual_ood_rows(n_classes: int) -> int:
    """Return the rows of other classes that the paper tunes on: 100, 400 or 3,500.

    These are its numbers for 10, 100 and 1000 classes.
    """
    return 100 if n_classes < 100 else 400 if n_classes < 1000 else 3500
