"""A suite made of rows that a user has: to tune, to test, under named shifts, of other classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wildcal._old.core.arrays import OOD_LABEL
from wildcal._old.core.convert import softmax
from wildcal._old.io.suite.suite import Suite
from wildcal._old.io.suite.writer import SuiteWriter
from wildcal._old.io.tables.rows import InputRows
from wildcal.version import __version__

TUNE, TEST = "tune", "test"
"""What the clean splits are called."""
ZEROS = "zeros"
"""Under this name the description of the data says how probabilities of zero were read."""


@dataclass(frozen=True, slots=True)
class Shifted:
    """Test rows under a shift that has a name of its own: a hospital, a camera, a month."""

    rows: InputRows
    severity: int | None = None
    """Its strength, 1 to 5, where shifts come in strengths."""


def write_suite(
    folder: str | Path,
    tune: InputRows,
    test: InputRows,
    *,
    shifted: Sequence[tuple[str, Shifted]] = (),
    ood: Mapping[str, InputRows] | None = None,
    test_ood: Mapping[str, InputRows] | None = None,
    network: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
) -> Suite:
    """Write a suite to a folder and return it.

    Parameters
    ----------
    tune, test
        Labeled rows as the network meets them.
    shifted
        The name of each shift and its labeled test rows; with a severity, split NAME-SEVERITY.
    ood, test_ood
        Rows of other classes by the name of their set, to tune with and to test with.
    network, data
        Free descriptions, of plain JSON values.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from wildcal._old.io import as_rows
    >>> rows = as_rows([[2.0, -1.0], [0.5, 3.0]], [0, 1])
    >>> with TemporaryDirectory() as folder:
    ...     suite = write_suite(folder, rows, rows, shifted=[("night", Shifted(rows))])
    ...     [(split.name, split.shift) for split in suite.splits]
    [('tune', 'none'), ('test', 'none'), ('night', 'covariate')]
    """
    n_classes = tune.logits.shape[1]
    given = tune.classes or test.classes
    names = [str(k) for k in range(n_classes)] if given is None else list(given.names)
    writer = SuiteWriter(
        folder,
        network=dict(network or {}),
        data={"input": tune.kind, **_lifted(test), **(data or {})},
        seed=0,
        versions={"wildcal": __version__},
        n_classes=n_classes,
        class_names=names,
        dtype="float64" if tune.logits.dtype == np.float64 else "float32",
    )
    order = []

    def add(name: str, rows: InputRows, role: str, shift: str, **more: Any) -> None:
        y = np.full(len(rows.logits), OOD_LABEL) if shift == "semantic" else rows.y
        writer.add(name, rows.logits, y, role=role, shift=shift, **more)
        order.append(name)

    add(TUNE, tune, "tune", "none")
    add(TEST, test, "test", "none")
    for name, part in shifted:
        if part.severity is None:
            add(name, part.rows, "test", "covariate")
        else:
            level = part.severity
            add(f"{name}-{level}", part.rows, "test", "covariate", corruption=name, severity=level)
    for name, rows in (ood or {}).items():
        add(f"{name}-tune", rows, "tune", "semantic")
    for name, rows in (test_ood or {}).items():
        add(f"{name}-test", rows, "test", "semantic")
    writer.finish(order)
    return Suite.open(folder)


def _lifted(test: InputRows) -> dict[str, str]:
    """Return how zeros were read, and what that did: the logits cannot give probabilities back."""
    if test.proba is None or test.floor is None or not (test.proba < test.floor).any():
        return {}
    given, kept = (float(p.max(axis=1).mean()) for p in (test.proba, softmax(test.logits)))
    return {
        ZEROS: f"read as {test.floor:.3g}, so that mean confidence on {TEST} is {kept:.2%}, where"
        f" the model said {given:.2%}"
    }
