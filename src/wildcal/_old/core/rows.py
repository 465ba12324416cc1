"""One row and all that is known of it: what calibrators are fitted on and asked about.

A column more is a field more of `Rows`, and its check in `CHECKS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wildcal._old.core.arrays import OOD_LABEL, FloatArray, Labels, Source
from wildcal._old.core.blocks import partly
from wildcal._old.core.checks import (
    check_distances,
    check_environment,
    check_labels,
    check_logits,
    check_some_known,
    check_weight,
    check_window,
)
from wildcal._old.core.columns import in_memory, loaded, map_columns


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of logits with their columns; those that are not known are None.

    Columns are arrays. Where the logits are a source that is read piece by piece, so are they: then
    they can be cut by a slice and nothing else, until `loaded` has read them.
    """

    logits: Source
    y: Labels | None = None
    """Labels; -1 where a row belongs to none of the classes."""
    weight: FloatArray | None = None
    environment: Labels | None = None
    """Which labeled rows belong together: a camera, a hospital, a corruption; 0 is clean."""
    distances: FloatArray | None = None
    """How far each row is from the training rows, squared; a column for each layer."""
    window: Labels | None = None
    """Which unlabeled rows arrived together; None where each row is read alone."""
    context: Any = None
    """No column, but what was seen before of the window that all of these rows are part of."""

    def __len__(self) -> int:
        return len(self.logits)

    def __getitem__(self, rows: slice | NDArray[Any]) -> "Rows":
        """Return some of the rows."""
        cut = {name: column[rows] for name, column in self.columns().items()}
        # Only arrays are cut by a mask; a slice serves every source.
        return replace(self, logits=self.logits[rows], **cut)  # type: ignore[index]

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return int(self.logits.shape[1])

    @property
    def labels(self) -> Labels:
        """The labels, of rows that must have them."""
        assert self.y is not None  # `check_rows` was asked for them
        return self.y

    @property
    def n_ood(self) -> int:
        """How many rows belong to none of the classes."""
        if self.y is None:
            return 0
        return int(map_columns(lambda y: (y == OOD_LABEL).sum(), self.y))

    @property
    def n_shifted(self) -> int:
        """How many environments besides the clean one have labeled rows."""
        if self.environment is None:
            return 0
        if self.y is None:
            known = map_columns(lambda e: e, self.environment, combine=distinct)
        else:
            known = map_columns(
                lambda e, y: e[y != OOD_LABEL], self.environment, self.y, combine=distinct
            )
        return int((known > 0).sum())

    def tuning(self) -> tuple[Any, Labels, FloatArray | None]:
        """Return what most fits read: logits, labels and weights, each an array or not."""
        return self.logits, self.labels, self.weight

    @property
    def in_memory(self) -> bool:
        """Whether logits and columns are arrays."""
        return in_memory(self.logits, *self.columns().values())

    def loaded(self) -> "Rows":
        """Return the rows as arrays, read now if they were not."""
        if self.in_memory:
            return self
        columns = {name: loaded(column) for name, column in self.columns().items()}
        return replace(self, logits=np.asarray(self.logits[:]), **columns)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns that are known, by name, the logits aside."""
        columns = (f.name for f in fields(self) if f.name not in ("logits", "context"))
        named = ((name, getattr(self, name)) for name in columns)
        return {name: column for name, column in named if column is not None}


@partly
def distinct(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the values that occur in any of the parts, in their order."""
    return np.unique(np.concatenate([np.unique(part) for part in parts]))


def join(parts: Sequence[Rows]) -> Rows:
    """Return several sets of rows as one; a column is kept where all of them have it."""
    if len(parts) == 1:
        return parts[0]
    shared = set.intersection(*(set(part.columns()) for part in parts))
    columns = {
        name: np.concatenate([part.columns()[name] for part in parts]) for name in sorted(shared)
    }
    return Rows(np.concatenate([part.logits[:] for part in parts]), **columns)


def is_source(logits: Any) -> bool:
    """Return whether logits are read piece by piece: they say whether elsewhere too."""
    return not isinstance(logits, np.ndarray) and hasattr(logits, "portable")


def own_column(logits: Any, name: str) -> Any:
    """Return a column that a source brings, None where it has none or where it is no source."""
    return getattr(logits, name, None) if is_source(logits) else None


CHECKS: Final[dict[str, Callable[[ArrayLike, int], NDArray[Any]]]] = {
    "distances": check_distances,
    "window": check_window,
}
"""How a column of so many rows is checked that needs nothing but its values; labels, weights and
environments are checked together."""


def check_rows(
    logits: Any,
    *,
    n_classes: int | None = None,
    y: Any = None,
    weight: ArrayLike | None = None,
    environment: ArrayLike | None = None,
    accepts_ood: bool = True,
    who: str = "this method",
    **columns: ArrayLike | None,
) -> Rows:
    """Return what a user handed over as checked rows; the one door of fits and predictions.

    With labels, every logit is looked at now and some row must have a class; without, the kernel
    sees them on its way through. Logits may be a source, with its columns or others beside it.
    """
    if is_source(logits):
        from wildcal._old.core.source_rows import check_source

        beside = {"y": y, "weight": weight, "environment": environment, **columns}
        return check_source(logits, beside, n_classes=n_classes, accepts_ood=accepts_ood, who=who)
    z = check_logits(logits, n_classes=n_classes, fitting=y is not None)
    rows = Rows(z)
    if y is not None:
        labels = check_labels(y, *z.shape, accepts_ood=accepts_ood, who=who)
        weights = check_weight(weight, len(z))
        check_some_known(labels, weights)
        groups = None if environment is None else check_environment(environment, labels, weights)
        rows = replace(rows, y=labels, weight=weights, environment=groups)
    given = {
        name: CHECKS[name](column, len(z)) for name, column in columns.items() if column is not None
    }
    return replace(rows, **given) if given else rows
