"""The noise of a suite: its strengths are searched once, and kept in the manifest."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.errors import FileFormatError
from wildcal.vision.batches import Normalizer
from wildcal.vision.cells import Cell, Plan
from wildcal.vision.noise import Noise
from wildcal.vision.noise_search import LARGEST, N_LEVELS, Accuracy, Level, find_levels

SEARCH: Final = "noise strengths"
"""What stands in place of a cell's name while they are searched."""


class NoiseRecord:
    """What the manifest says of the noise: every trial as soon as it is made, then the levels.

    A search that goes on after an interruption asks the same questions in the same order. Those it
    asked before are answered from the record, so it ends with the same levels.

    Parameters
    ----------
    about
        What the trials depend on: seed, space and rows.
    stored
        The record so far, as the manifest has it.
    keep
        Writes a record into the manifest.
    """

    def __init__(
        self,
        about: Mapping[str, Any],
        stored: Mapping[str, Any] | None,
        keep: Callable[[dict[str, Any]], None],
    ) -> None:
        self._about, self._keep = dict(about), keep
        self._tried: dict[float, float] = {}
        self._levels: tuple[Level, ...] = ()
        if stored is None:
            return
        try:
            self._read(stored)
        except (TypeError, ValueError, KeyError) as error:
            raise FileFormatError(
                "the manifest's field perturbation is not what this command writes"
                f" ({type(error).__name__}: {error}); choose another folder."
            ) from error

    def levels(
        self,
        accuracy: Accuracy,
        n_classes: int,
        *,
        on_expected: Callable[[int], None] = lambda passes: None,
    ) -> tuple[Level, ...]:
        """Return the levels: those of the record, or found now and recorded."""
        if not self._levels:

            def recorded(sigma: float) -> float:
                if sigma not in self._tried:
                    self._tried[sigma] = accuracy(sigma)
                    self._keep(self.to_dict())
                return self._tried[sigma]

            self._levels = find_levels(recorded, n_classes, on_expected=on_expected)
            self._keep(self.to_dict())
        return self._levels

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in the manifest."""
        return self._about | {
            "clean_accuracy": self._tried.get(0.0),
            "tried": [{"sigma": s, "accuracy": found} for s, found in self._tried.items()],
            "levels": [asdict(level) for level in self._levels],
        }

    def _read(self, stored: Mapping[str, Any]) -> None:
        for key, value in self._about.items():
            if stored[key] != value:
                raise ValueError(f"{key} is {stored[key]!r:.40}, not {value!r}")
        for trial in stored["tried"]:
            self._tried[_number(trial["sigma"], LARGEST)] = _number(trial["accuracy"], 1)
        levels = tuple(Level(**level) for level in stored["levels"])
        for level in levels:
            _number(level.sigma, LARGEST)
            _number(level.accuracy, 1)
            _number(level.target, 1)
        if [level.severity for level in levels] not in ([], [*range(1, N_LEVELS + 1)]):
            raise ValueError(f"levels must be those of severities 1 to {N_LEVELS}")
        self._levels = levels


def with_noise(
    plan: Plan,
    normalize: Normalizer,
    logits: Callable[[Cell], NDArray[np.float32]],
    *,
    stored: Mapping[str, Any] | None,
    keep: Callable[[dict[str, Any]], None],
    on_expected: Callable[[int], None] = lambda rows: None,
) -> Plan:
    """Return the plan with the strengths of its noise filled in; without such cells, as it is.

    Parameters
    ----------
    normalize
        What the network does to pixels.
    logits
        Runs the network on a cell.
    stored, keep
        As in `NoiseRecord`.
    on_expected
        Told how many rows the search is expected still to run.
    """
    cells = [cell for cell in plan.cells if isinstance(cell.change, Noise)]
    if not cells:
        return plan
    first = cells[0]
    noise = first.change
    assert isinstance(noise, Noise)
    labels = first.labels(first.source())

    def accuracy(sigma: float) -> float:
        found = logits(replace(first, name=SEARCH, change=noise.at(sigma, normalize)))
        return int((found.argmax(axis=1) == labels).sum()) / len(labels)

    about = {"seed": plan.seed, "space": noise.space, "rows": len(labels)}
    levels = NoiseRecord(about, stored, keep).levels(
        accuracy,
        len(plan.class_names),
        on_expected=lambda passes: on_expected(passes * len(labels)),
    )
    sigmas = {level.severity: level.sigma for level in levels}

    def filled(cell: Cell) -> Cell:
        if not isinstance(cell.change, Noise) or cell.severity is None:
            return cell
        return replace(cell, change=cell.change.at(sigmas[cell.severity], normalize))

    return replace(plan, cells=tuple(filled(cell) for cell in plan.cells))


def notes(perturbation: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each level whose accuracy is not near its target."""
    return [
        f"Noise level {level['severity']}: no sigma tried brings accuracy near"
        f" {level['target']:.1%}; the split has {level['accuracy']:.1%}, at sigma"
        f" {level['sigma']:.4g}."
        for level in perturbation.get("levels", ())
        if not level["met"]
    ]


def _number(value: Any, largest: float) -> float:
    if type(value) not in (int, float) or not 0 <= value <= largest:
        raise ValueError(f"{value!r:.40} must be a number from 0 to {largest:g}")
    return float(value)
