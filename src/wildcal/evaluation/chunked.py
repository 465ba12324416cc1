"""Evaluate files larger than memory: about 30 bytes of each sample are kept."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import softmax
from wildcal.core.conversion import to_logits
from wildcal.core.exceptions import InputError
from wildcal.evaluation.evaluate import evaluate_scores
from wildcal.evaluation.results import Evaluation
from wildcal.io.formats import ArrowSource, open_source
from wildcal.io.samples import SampleSet, list_files, read_file
from wildcal.io.schema import Columns
from wildcal.metrics._scores import Scores, check_scores
from wildcal.metrics.bootstrap import Options

if TYPE_CHECKING:
    from wildcal.core.calibrator import Calibrator

# A metric that needs all probabilities of each sample at once.
_NOT_STORED: Final = ("classwise_ece",)

Part = dict[str, Any]
"""The stored columns of some samples, and the names of their groups."""
Run = Callable[[Callable[..., Part], list[tuple[Any, ...]], Callable[[list[Part]], Part]], Part]
"""Calls a function with each tuple of arguments and combines the results, in order."""


@dataclass(frozen=True, eq=False)
class StoredScores(Scores):
    """`Scores` with stored losses instead of probabilities."""

    log_loss: NDArray[Any] | None = None  # type: ignore[assignment]
    squared_error: NDArray[Any] | None = None  # type: ignore[assignment]
    n_classes: int = 0


def evaluate_files(
    source: Any,
    columns: Columns,
    calibrator: "Calibrator | None" = None,
    *,
    metrics: Sequence[str] | None = None,
    run: Run | None = None,
    **options: Any,
) -> Evaluation:
    """Return metrics of the samples of files, read batch by batch.

    All metrics but class-wise ECE, to 1e-6 of those of `evaluate`.

    Parameters
    ----------
    source
        A path, folder, pattern or list of paths.
    columns
        Which column is what; `group_column` gives `Evaluation.groups`.
    calibrator
        Applied to the scores. Default: probabilities of the scores as they are.
    metrics
        As in `evaluate`.
    run
        Runs the tasks, one for each file or row group. Default: one after the other.
    **options
        `n_bins`, `n_bootstrap`, `level` and `seed`, as in `evaluate`.
    """
    if calibrator is not None and hasattr(calibrator, "adapt"):
        raise InputError("calibrator must be adapted to a window first.", "calibrator")
    tasks = [(path, part, columns, calibrator) for path, part in pieces(list_files(source))]
    found = (run or run_here)(score_file, tasks, merge)
    return evaluate_part(found, metrics=metrics, **options)


def evaluate_part(part: Part, *, metrics: Sequence[str] | None, **options: Any) -> Evaluation:
    """Return metrics of stored columns."""
    chosen = Options(**options)
    scores = _scores(part)
    groups = {}
    for code, name in sorted(enumerate(part["group_names"]), key=lambda item: str(item[1])):
        mask = (part["group"] == code) & ~scores.is_ood
        if mask.any():
            groups[str(name)] = scores.subset(mask)
    raw = part.get("raw")
    return evaluate_scores(scores, metrics, chosen, groups, without=_NOT_STORED, raw=raw)


def score_file(
    path: Path, row_groups: Sequence[int] | None, columns: Columns, calibrator: Any
) -> Part:
    """Return the stored columns of a file, or of some row groups of a Parquet file."""
    n_classes = None if calibrator is None else calibrator.n_classes_
    parts = [
        score_samples(samples, calibrator)
        for _, samples in read_file(path, columns, n_classes=n_classes, row_groups=row_groups)
    ]
    return merge(parts)


def score_samples(samples: SampleSet, calibrator: Any = None) -> Part:
    """Return the stored columns of samples."""
    y = samples.require_labels()
    p = probabilities(samples, calibrator)
    scores = check_scores(y, p, samples.sample_weight)
    part: Part = {
        "confidence": scores.confidence,  # float64: rounded ones lie on the edges of bins
        "correct": scores.correct,
        "weight": scores.weight.astype(np.float32),
        "y": np.zeros(len(y), np.int32) if scores.y is None else scores.y.astype(np.int32),
        "n_classes": scores.n_classes,
        "group_names": [],
    }
    if scores.n_classes:
        part["log_loss"] = scores.log_loss.astype(np.float32)
        part["squared_error"] = scores.squared_error.astype(np.float32)
    if calibrator is not None and not calibrator.preserves_accuracy and samples.X.ndim == 2:
        part["raw"] = samples.X.argmax(axis=1).astype(np.int32)
    if scores.n_classes == 2:
        part["proba"] = p.astype(np.float32)
    if samples.group is not None:
        names, codes = np.unique([str(g) for g in samples.group.tolist()], return_inverse=True)
        part["group"], part["group_names"] = codes.astype(np.int32), names.tolist()
    return part


def merge(parts: list[Part]) -> Part:
    """Return the stored columns of several parts, in their order."""
    names = list(dict.fromkeys(name for part in parts for name in part["group_names"]))
    index = {name: code for code, name in enumerate(names)}
    if any(part["n_classes"] != parts[0]["n_classes"] for part in parts):
        raise InputError("source must be files with the same classes.", "source")
    found: Part = {"n_classes": parts[0]["n_classes"], "group_names": names}
    for key, value in parts[0].items():
        if key == "group":
            codes = [np.array([index[n] for n in p["group_names"]], np.int32) for p in parts]
            each = [code[p["group"]] for code, p in zip(codes, parts, strict=True)]
            found[key] = np.concatenate(each)
        elif isinstance(value, np.ndarray):
            found[key] = np.concatenate([part[key] for part in parts])
    return found


def pieces(files: Iterable[Path]) -> list[tuple[Path, list[int] | None]]:
    """Return one task for each file, or for each row group of a Parquet file."""
    found: list[tuple[Path, list[int] | None]] = []
    for path in files:
        source = open_source(path)
        n_groups = source.n_row_groups if isinstance(source, ArrowSource) else 0
        found += [(path, [i]) for i in range(n_groups)] or [(path, None)]
    return found


def run_here(
    function: Callable[..., Part],
    tasks: list[tuple[Any, ...]],
    combine: Callable[[list[Part]], Part],
) -> Part:
    """Run tasks one after the other."""
    return combine([function(*task) for task in tasks])


def probabilities(samples: SampleSet, calibrator: Any = None) -> NDArray[Any]:
    """Return the probabilities by a calibrator, without one those of the scores as they are."""
    if calibrator is not None:
        more = {"knn_distances": samples.knn_distances} if calibrator.requires else {}
        return np.asarray(calibrator.predict_proba(samples.X, **more))
    if samples.input in ("proba", "confidence"):
        return samples.X
    return np.asarray(softmax(np, to_logits(np, samples.X, samples.input, 0.0)))


def _scores(part: Part) -> Scores:
    return StoredScores(
        confidence=part["confidence"],
        correct=part["correct"],
        weight=part["weight"].astype(np.float64),
        y=part["y"].astype(np.int64) if part["n_classes"] else None,
        proba=part.get("proba"),
        log_loss=part.get("log_loss"),
        squared_error=part.get("squared_error"),
        n_classes=part["n_classes"],
    )
