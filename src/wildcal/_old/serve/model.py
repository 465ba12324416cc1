"""A calibrator as a model of the Open Inference Protocol: its inputs, its outputs, its answers."""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wildcal._old.bridge import input_of, wrap_for_server
from wildcal._old.calibrators.context import WindowMap
from wildcal._old.core.arrays import Labels, Logits, working_dtype
from wildcal._old.core.calibrator import Calibrator
from wildcal._old.core.checks import check_logits
from wildcal._old.core.one_row import RowMap
from wildcal._old.core.softmax import softmax_at
from wildcal._old.io.artifact import About
from wildcal._old.io.tables.interpret import interpret
from wildcal._old.serve.messages import Arrays
from wildcal._old.serve.refusal import bad
from wildcal._old.stream import Stream, StreamRows

VERSION: Final = "1"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FEW: Final = 16
_ROW_OUTPUTS: Final = {
    "estimated_accuracy": "accuracy",
    "estimated_accuracy_low": "accuracy_low",
    "estimated_accuracy_high": "accuracy_high",
    "drift": "drift",
    "alarm": "alarm",
}
"""What a window adds, and where `StreamRows` has it."""


class Answer(NamedTuple):
    """What is said of the rows of a request."""

    outputs: Arrays
    """Those that were asked for."""
    label: Labels
    confidence: NDArray[Any]
    rows: StreamRows | None = None
    """All that a window said of them."""


class Model:
    """A fitted calibrator with a name, and what its file says of its rows."""

    def __init__(self, name: str, calibrator: Calibrator, about: About | None = None) -> None:
        calibrator = wrap_for_server(calibrator)
        calibrator.check_is_fitted()
        if not _NAME.fullmatch(name):
            raise ValueError(
                "the name of a model must be letters, digits, dots, dashes and underscores, got"
                f" {name!r:.80}. Give NAME=FILE."
            )
        self.name, self.calibrator = name, calibrator
        self.about = About(**input_of(calibrator)) if about is None else about
        self.window_map = calibrator if isinstance(calibrator, WindowMap) else None
        """The calibrator, where it reads a window."""
        self._inputs = {entry["name"] for entry in self.inputs()}
        self._row = self._row_map()
        self.output_names = self._output_names()
        """The outputs in the order of an answer that has them all."""

    @property
    def scores(self) -> str:
        """The name of the input: what the numbers are."""
        return self.about.kind

    def inputs(self) -> list[dict[str, Any]]:
        """Return name, type and shape of each input, as the metadata have them."""
        columns = 1 if self.scores == "score" else self.calibrator.n_classes_
        found = [{"name": self.scores, "datatype": "FP32", "shape": [-1, columns]}]
        if "distances" in self.calibrator.reads:
            found.append({"name": "distances", "datatype": "FP32", "shape": [-1, -1]})
        return found

    def outputs(self) -> list[dict[str, Any]]:
        """Return name, type and shape of each output; numbers are FP64 where the scores are."""
        types = {"label": "INT64", "alarm": "BOOL"}
        return [
            {
                "name": name,
                "datatype": types.get(name, "FP32"),
                "shape": [-1, self.calibrator.n_classes_] if name == "probabilities" else [-1],
            }
            for name in self.output_names
        ]

    def _row_map(self) -> RowMap | None:
        """Return what says all of one row in a few calls, where that looks at nothing beside it."""
        if self.calibrator.reads & {"distances", "window"}:
            return None
        return self.calibrator.row_map()

    def _output_names(self) -> list[str]:
        names = ["probabilities", "confidence", "label"]
        if self.window_map is not None:
            return [*names, "temperature", *_ROW_OUTPUTS]
        # Any row tells whether there is a temperature.
        layers = getattr(self.calibrator, "n_layers", 1)
        distances = np.ones((1, layers)) if "distances" in self.calibrator.reads else None
        probe = np.zeros((1, self.calibrator.n_classes_))
        found = self.calibrator.apply(probe, distances=distances, proba=False)
        return [*names, "temperature"] if "temperature" in found else names

    def read(self, inputs: Arrays, most_rows: int) -> tuple[Logits, NDArray[Any] | None]:
        """Return the logits that the inputs stand for, and the distances."""
        if inputs.keys() != self._inputs:
            raise bad(
                f"inputs of {self.name} must be {' and '.join(sorted(self._inputs))}, got"
                f" {', '.join(repr(name[:40]) for name in inputs)}."
            )
        scores = inputs[self.scores]
        if len(scores) > most_rows:
            raise bad(f"{self.scores} must have at most {most_rows:,} rows, got {len(scores):,}.")
        if self.scores != "logits":
            classes, floor = self.about.classes, self.about.floor
            scores = interpret(scores, None, self.scores, classes, floor=floor, judge=True).logits
        return scores, inputs.get("distances")

    def answer(
        self, logits: Logits, distances: NDArray[Any] | None, wanted: Iterable[str] | None
    ) -> Answer:
        """Return the outputs that are wanted, each row read alone."""
        names = self._wanted(wanted)
        if len(logits) <= _FEW and "temperature" not in names:
            few = self._few(logits, distances, "probabilities" in names)
            return Answer({name: few[name] for name in names}, few["label"], few["confidence"])
        found = self.calibrator.apply(logits, distances=distances, proba="probabilities" in names)
        found["label"] = found.pop("pred")
        if "proba" in found:
            found["probabilities"] = found.pop("proba")
        outputs = {name: found[name] for name in names}
        return Answer(outputs, found["label"], found["confidence"])

    def _few(self, logits: Logits, distances: NDArray[Any] | None, proba: bool) -> Arrays:
        """Return what is said of a few rows, sooner than all columns."""
        if self._row is not None and not proba and len(logits) == 1:
            row = check_logits(logits, n_classes=self.calibrator.n_classes_)
            confidence, at = self._row.top(row)
            return {"confidence": confidence, "label": np.array([at])}
        found = self.calibrator.predict_proba(logits, distances=distances)
        label = (logits if self.calibrator.preserves_accuracy else found).argmax(axis=1)
        confidence = found[np.arange(len(label)), label]
        return {"probabilities": found, "confidence": confidence, "label": label}

    def answer_in(self, stream: Stream, logits: Logits, wanted: Iterable[str] | None) -> Answer:
        """Take rows into a stream and return the outputs that are wanted."""
        names = self._wanted(wanted)
        rows = stream.read(logits)  # which raises before the window has changed
        found: dict[str, Any] = {"label": rows.pred}
        dtype = working_dtype(np.asarray(logits).dtype)
        for name, column in {**_ROW_OUTPUTS, "confidence": "", "temperature": ""}.items():
            if name in names:
                values = getattr(rows, column or name)
                found[name] = values if name == "alarm" else values.astype(dtype)
        if "probabilities" in names:
            found["probabilities"] = softmax_at(logits, lambda b: rows.temperature[b.rows])
        return Answer({name: found[name] for name in names}, rows.pred, rows.confidence, rows)

    def _wanted(self, wanted: Iterable[str] | None) -> list[str]:
        known = self.output_names
        if wanted is None:
            return known
        names = list(wanted)
        for name in names:
            if name not in known:
                raise bad(f"{self.name} has no output {name!r:.60}; it has {', '.join(known)}.")
        return names
