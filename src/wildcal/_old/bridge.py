"""New calibrators for callers that still expect the interface of version 0.1."""

import copy
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import array_api_compat.numpy as np_compat
import numpy as np

from wildcal._old.core.arrays import FloatArray, Labels, Proba, working_dtype
from wildcal._old.core.block import Block
from wildcal._old.core.bound import Bound
from wildcal._old.core.calibrator import Calibrator as OldCalibrator
from wildcal._old.core.calibrator import FitSummary
from wildcal._old.core.labels import ClassNames
from wildcal._old.core.rows import Rows
from wildcal.core.arrays import masked_apply, unmask
from wildcal.core.calibrator import Calibrator, TemperatureCalibrator
from wildcal.core.exceptions import InputError
from wildcal.core.registry import get_calibrator
from wildcal.core.validation import Samples, check_distances, check_weight

_FLOOR = 1e-30


class Bridged(OldCalibrator):
    """A new calibrator with the methods of an old one; `new` is the new one."""

    method: str = ""
    shift_invariant = True
    stores = "its fitted values"

    def __init__(self, new: Calibrator | None = None, **options: Any) -> None:
        self.new = get_calibrator(self.method, **options) if new is None else new
        if self.new.is_fitted:
            self._copy_fit()

    @property
    def name(self) -> str:  # type: ignore[override]
        """Short name."""
        return str(self.new.name)

    @property
    def title(self) -> str:  # type: ignore[override]
        """What to call it."""
        return str(self.new.title)

    @property
    def reference(self) -> str:  # type: ignore[override]
        """Where it was published."""
        return str(self.new.reference)

    @property
    def preserves_accuracy(self) -> bool:  # type: ignore[override]
        """Whether the predicted class never changes."""
        return bool(self.new.preserves_accuracy)

    @property
    def accepts_ood(self) -> bool:  # type: ignore[override]
        """Whether fits use OOD samples without being asked to by an option."""
        return self.takes_ood and not self.new.get_params(deep=False).get("ood", False)

    @property
    def takes_ood(self) -> bool:
        """Whether fits use OOD samples."""
        return bool(self.new.uses_ood)

    @property
    def needs_raw_logits(self) -> bool:  # type: ignore[override]
        """Whether it reads the energy."""
        return bool(self.new.requires_raw_logits)

    @property
    def takes_log_proba(self) -> bool:
        """Whether normalized scores serve it."""
        return not self.new.requires_raw_logits

    @property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        """The columns it reads."""
        more = {"distances"} if self.new.requires else set()
        if _is_window(self.new):
            more |= {"environment", "window"}
        return frozenset({"logits", *more})

    @property
    def can_do_without(self) -> frozenset[str]:  # type: ignore[override]
        """Optional columns."""
        return frozenset({"window"})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options."""
        return self.new.get_params(deep)

    def set_params(self, **params: Any) -> "Bridged":
        """Set options."""
        self.new.set_params(**params)
        return self

    def describe(self) -> list[str]:
        """Return the fitted numbers in words."""
        if not self.is_fitted:
            return [f"{self.title.capitalize()}, not fitted."]
        return [self.new.describe() or f"{self.title.capitalize()}."]

    def check_options(self) -> None:
        """Raise if an option has a value that is not allowed."""
        self.new._check_options()

    def _fit(self, rows: Rows) -> FitSummary:
        rows = rows.loaded()
        weight, notes = check_weight(rows.weight, len(rows))
        domain = rows.environment
        if domain is not None:
            domain = np.where(rows.labels < 0, -1, domain)
        samples = Samples(
            logits=unmask(np.asarray(rows.logits, np.float64)),
            y=np.asarray(rows.labels),
            weight=weight,
            domain=domain,
            knn_distances=rows.distances,
            warnings=tuple(notes),
        )
        samples = samples.subset(weight > 0)
        self.new.fit_samples(samples)
        self._copy_fit()
        return replace(self.fit_, n_rows=0, n_ood=0, n_shifted=0)

    def _copy_fit(self) -> None:
        info = self.new.fit_info_
        self.n_classes_ = self.new.n_classes_
        self.fit_ = FitSummary(
            loss=info.loss,
            loss_before=_number(info.loss_before),
            loss_after=_number(info.loss_after),
            iterations=info.n_iter,
            converged=info.converged,
            notes=info.warnings,
            n_rows=info.n_samples,
            n_ood=info.n_ood,
            n_shifted=info.n_domains - 1,
            reason=info.message,
        )

    def _bind(self, rows: Rows) -> Bound:
        new: Any = self.new
        if rows.distances is not None:
            near = rows.distances if rows.in_memory else rows.distances[:1]
            check_distances(near, len(near), getattr(new, "n_layers", None))
        window, found = _adapted(new, rows) if _is_window(new) else (None, [new])
        dtype = working_dtype(rows.logits.dtype)
        adapted = [each.converted(np_compat, np.empty(0, dtype)) for each in found]
        fitted = adapted[0]

        def inputs(block: Block) -> tuple[FloatArray, ...]:
            return () if not new.requires else (rows.distances[block.rows],)  # type: ignore[index]

        def proba(block: Block) -> Proba:
            z, more = np.asarray(block.original, dtype), inputs(block)
            if window is None:
                return np.asarray(masked_apply(np_compat, fitted.formula, z, *more))
            p = np.empty_like(z)
            for number in np.unique(window[block.rows]):
                mine = window[block.rows] == number
                own = [x[mine] for x in (z, *more)]
                p[mine] = masked_apply(np_compat, adapted[number].formula, *own)
            return p

        def fill(block: Block, out: Proba) -> None:
            out[...] = proba(block)

        def confidence(block: Block) -> FloatArray:
            return np.asarray(proba(block).max(axis=1), np.float64)

        def top(block: Block) -> tuple[FloatArray, Labels]:
            p = proba(block)
            return np.asarray(p.max(axis=1), np.float64), p.argmax(axis=1)

        def temperature(block: Block) -> FloatArray:
            z = unmask(np.asarray(block.original, dtype))
            t = np.asarray(fitted._temperatures(np_compat, z, *inputs(block)), np.float64)
            return np.broadcast_to(t, (block.n, 1))[:, 0]

        has_temperature = isinstance(fitted, TemperatureCalibrator)
        return Bound(
            rows.logits,
            fill,
            confidence,
            temperature if has_temperature else None,
            None if new.preserves_accuracy else top,
        )

    @property
    def who(self) -> str:
        """The name of the class, for messages."""
        return type(self.new).__name__

    def adapted_to(self, logits: Any) -> "Bridged":
        """Return a calibrator that is adapted to a window, for a method that reads windows."""
        return Bridged(_adapted(self.new, Rows(logits))[1][0])

    def _reads_energy(self) -> bool:
        return bool(self.new.requires_raw_logits)


def wrap(calibrator: Any) -> Any:
    """Return a new calibrator with the interface of 0.1; others are returned as they are."""
    return Bridged(calibrator) if isinstance(calibrator, Calibrator) else calibrator


def unwrap(calibrator: Any) -> Any:
    """Return the new calibrator inside a wrapped one; others are returned as they are."""
    return calibrator.new if isinstance(calibrator, Bridged) else calibrator


@cache
def bridged_class(name: str) -> type[Bridged]:
    """Return a class that makes wrapped calibrators of a registered method."""
    return type(f"Bridged_{name}", (Bridged,), {"method": name})


def _adapted(calibrator: Any, rows: Rows) -> tuple[Labels, list[Any]]:
    """Return the window of each row, and a calibrator for each window; without any it is one."""
    new = copy.copy(calibrator)
    new.input_ = "logits"  # whatever the samples were, these are logits
    logits, distances = np.asarray(rows.logits[:]), rows.distances
    given = np.zeros(len(logits), np.int64) if rows.window is None else rows.window
    numbers, window = np.unique(given, return_inverse=True)
    found = []
    for number in range(len(numbers)):
        mine = window == number
        near = None if distances is None else distances[mine]
        found.append(new.adapt(logits[mine], knn_distances=near))
    return window, found


def _is_window(calibrator: Any) -> bool:
    return hasattr(calibrator, "window_statistics")


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


_KINDS = {"logits": "logits", "proba": "proba", "log_proba": "logprobs", "score": "score"}
"""Kinds of input of 0.2 and their names in 0.1."""


def is_new_file(path: Path) -> bool:
    """Return whether a file is a calibrator of 0.2."""
    from wildcal.io.artifact import FORMAT_VERSION

    try:
        with path.open("rb") as file:
            found = re.search(rb'"format_version": *([0-9]+)', file.read(200))
    except OSError:
        return False
    return found is not None and int(found[1]) >= FORMAT_VERSION


def save(calibrator: Bridged, path: Any, about: Any) -> None:
    """Write a wrapped calibrator as a file of 0.2."""
    from wildcal.io.artifact import save as save_new  # wildcal.io imports this module

    new = copy.copy(calibrator.new)
    new.input_ = {old: kind for kind, old in _KINDS.items()}[about.kind]
    new.eps_ = _FLOOR if about.floor is None else about.floor
    new.class_names_ = None if about.classes is None else about.classes.names
    save_new(new, path, metadata=dict(about.notes))


def describe(calibrator: Bridged) -> dict[str, Any]:
    """Return a wrapped calibrator as JSON values."""
    from wildcal.io.artifact import encode

    return {"method": calibrator.name, "calibrator": encode(calibrator.new)}


def load(path: Path) -> tuple[Bridged, dict[str, Any]]:
    """Return a wrapped calibrator of a file of 0.2, and what the reader of 0.1 wants to know."""
    from wildcal.io.artifact import load as load_new

    new, info = load_new(path, return_info=True)
    return Bridged(new), {**input_of(new), "notes": info.metadata}


def input_of(calibrator: Any) -> dict[str, Any]:
    """Return how 0.1 reads the input of a new or wrapped calibrator: `About` without notes."""
    new = unwrap(calibrator)
    if not isinstance(new, Calibrator):
        return {}
    if new.input_ not in _KINDS:
        raise InputError(
            f"calibrator must be fitted on {', '.join(_KINDS)} here, got input={new.input_!r}. Try"
            " predict_proba in Python.",
            "calibrator",
        )
    names = None if new.class_names_ is None else ClassNames(new.class_names_)
    floor = new.eps_ if new.input_ == "proba" else None
    return {"classes": names, "kind": _KINDS[new.input_], "floor": floor}
