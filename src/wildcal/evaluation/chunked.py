"""Evaluate files larger than memory: about 30 bytes of each sample are kept."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import softmax
from wildcal.core.conversion import to_logits
from wildcal.core.exceptions import InputError
from wildcal.evaluation.evaluate import evaluate_scores, predicted_classes, subsets
from wildcal.evaluation.results import Evaluation
from wildcal.io.formats import ArrowSource, open_source
from wildcal.io.samples import SampleSet, list_files, read_file
from wildcal.io.schema import Columns
from wildcal.metrics._scores import Scores, check_scores
from wildcal.metrics.bootstrap import Options

if TYPE_CHECKING:
    from wildcal.core.calibrator import Calibrator


@dataclass(frozen=True, eq=False)
class StoredScores(Scores):
    """`Scores` with the stored columns of samples instead of their probabilities."""

    log_loss: NDArray[Any] | None = None  # type: ignore[assignment]
    squared_error: NDArray[Any] | None = None  # type: ignore[assignment]
    n_classes: int = 0
    group: NDArray[Any] | None = None
    """Index of the group of each sample in `group_names`."""
    group_names: tuple[str, ...] = ()


def evaluate_files(
    source: Any,
    columns: Columns,
    calibrator: "Calibrator | None" = None,
    *,
    metrics: Sequence[str] | None = None,
    run: Callable[..., Iterable[StoredScores]] = starmap,
    **options: Any,
) -> Evaluation:
    """Return metrics of the samples of files, read batch by batch.

    Metrics equal those of `evaluate` to 1e-6. Class-wise ECE is left out above two classes.

    Parameters
    ----------
    source
        A path, folder, pattern or list of paths.
    columns
        Meaning of the columns; `group_column` gives `Evaluation.groups`.
    calibrator
        Applied to the scores. Default: the scores without calibration.
    metrics
        As in `evaluate`.
    run
        ``run(function, tasks)`` returns the results of ``function(*task)`` in the order of the
        tasks, one for each file or row group. Default: one after the other.
    **options
        `n_bins`, `n_bootstrap`, `level` and `seed`, as in `evaluate`.
    """
    if calibrator is not None and hasattr(calibrator, "adapt"):
        raise InputError("calibrator must be adapted to a window first.", "calibrator")
    tasks = [(path, part, columns, calibrator) for path, part in pieces(list_files(source))]
    scores = merge(list(run(score_file, tasks)))
    return evaluate_part(scores, metrics=metrics, **options)


def evaluate_part(
    scores: StoredScores, *, metrics: Sequence[str] | None, **options: Any
) -> Evaluation:
    """Return metrics of stored columns."""
    scores = replace(scores, weight=scores.weight.astype(np.float64))
    groups = {} if scores.group is None else subsets(scores, scores.group_names, scores.group)
    return evaluate_scores(scores, metrics, Options(**options), groups)


def score_file(
    path: Path, row_groups: Sequence[int] | None, columns: Columns, calibrator: Any
) -> StoredScores:
    """Return the stored columns of a file, or of some row groups of a Parquet file."""
    n_classes = None if calibrator is None else calibrator.n_classes_
    batches = read_file(path, columns, n_classes=n_classes, row_groups=row_groups)
    return merge([score_samples(samples, calibrator) for _, samples in batches])


def score_samples(samples: SampleSet, calibrator: Any = None) -> StoredScores:
    """Return the stored columns of samples."""
    y = samples.require_labels()
    scores = check_scores(y, probabilities(samples, calibrator), samples.sample_weight)
    more: dict[str, Any] = {}
    if scores.n_classes:
        more["log_loss"] = scores.log_loss.astype(np.float32)
        more["squared_error"] = scores.squared_error.astype(np.float32)
    if scores.n_classes == 2:
        more["proba"] = scores.proba.astype(np.float32)  # type: ignore[union-attr]
    if calibrator is not None and not calibrator.preserves_accuracy:
        more["uncalibrated"] = predicted_classes(samples.X, samples.input)
    if samples.group is not None:
        names, codes = np.unique([str(g) for g in samples.group.tolist()], return_inverse=True)
        more |= {"group": codes.astype(np.int32), "group_names": tuple(names.tolist())}
    return StoredScores(
        confidence=scores.confidence,  # float64: rounded ones lie on the edges of bins
        correct=scores.correct,
        weight=scores.weight.astype(np.float32),
        y=None if scores.y is None else scores.y.astype(np.int32),
        n_classes=scores.n_classes,
        **more,
    )


def merge(parts: Sequence[StoredScores]) -> StoredScores:
    """Return the stored columns of several parts, in their order."""
    if any(part.n_classes != parts[0].n_classes for part in parts):
        raise InputError("source must be files with the same classes.", "source")
    names = sorted({name for part in parts for name in part.group_names})
    found: dict[str, Any] = {"group_names": tuple(names)}
    for field in fields(StoredScores):
        columns = [getattr(part, field.name) for part in parts]
        if field.name == "group" and names:
            index = [np.searchsorted(names, part.group_names) for part in parts]
            columns = [i.astype(np.int32)[g] for i, g in zip(index, columns, strict=True)]
        if isinstance(columns[0], np.ndarray):
            found[field.name] = np.concatenate(columns)
    return replace(parts[0], **found)


def pieces(files: Iterable[Path]) -> list[tuple[Path, list[int] | None]]:
    """Return one task for each file, or for each row group of a Parquet file."""
    found: list[tuple[Path, list[int] | None]] = []
    for path in files:
        source = open_source(path)
        n_groups = source.n_row_groups if isinstance(source, ArrowSource) else 0
        found += [(path, [i]) for i in range(n_groups)] or [(path, None)]
    return found


def probabilities(samples: SampleSet, calibrator: Any = None) -> NDArray[Any]:
    """Return the probabilities of a calibrator, or those of the scores without calibration."""
    if calibrator is not None:
        more = {"knn_distances": samples.knn_distances} if calibrator.requires else {}
        return np.asarray(calibrator.predict_proba(samples.X, **more))
    if samples.input in ("proba", "confidence"):
        return samples.X
    return np.asarray(softmax(np, to_logits(np, samples.X, samples.input, 0.0)))
