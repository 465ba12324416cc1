"""Predict files batch by batch: memory does not grow with the number of samples."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.calibrator import Calibrator
from wildcal.core.exceptions import InputError
from wildcal.io.formats import ending, naming
from wildcal.io.samples import SampleSet, iter_samples, open_table, read_file
from wildcal.io.schema import Columns, resolve
from wildcal.io.writers import open_writer, output_name


def columns_for(calibrator: Calibrator, columns: Columns) -> Columns:
    """Return a declaration, completed by the kind of input and the classes of a calibrator."""
    kind = columns.input or calibrator.input_
    if kind not in (calibrator.input_, "lm-eval"):
        raise InputError(
            f"input must be {calibrator.input_!r}, as the calibrator was fitted, got {kind!r}.",
            "input",
        )
    names = columns.class_names or calibrator.class_names_
    return replace(columns, input=kind, class_names=names)


def results(
    calibrator: Calibrator, samples: SampleSet, *, proba: bool = False, as_array: bool = False
) -> dict[str, NDArray[Any]]:
    """Return the columns that predictions add: confidence, predicted and, if asked for, proba_*.

    With `as_array` the probabilities are one array.
    """
    more = {} if not calibrator.requires else {"knn_distances": samples.knn_distances}
    p = np.asarray(calibrator.predict_proba(samples.X, **more))
    if p.ndim == 1:
        return {"confidence": p}
    names = samples.class_names or calibrator.class_names_
    predicted = p.argmax(axis=1)
    found: dict[str, NDArray[Any]] = {"confidence": p.max(axis=1), "predicted": predicted}
    if names is not None:
        found["predicted"] = np.array(names, dtype=object)[predicted]
    if proba and as_array:
        found["proba"] = p
    elif proba:
        each = names or tuple(map(str, range(p.shape[1])))
        found |= {f"proba_{name}": p[:, k] for k, name in enumerate(each)}
    return found


def result_names(existing: Sequence[str], added: Sequence[str]) -> dict[str, str]:
    """Return the names of added columns; one that exists gets the prefix `calibrated_`.

    >>> result_names(["confidence"], ["confidence", "predicted"])
    {'confidence': 'calibrated_confidence', 'predicted': 'predicted'}
    """
    names = {name: f"calibrated_{name}" if name in existing else name for name in added}
    double = [name for name in names.values() if name in existing]
    if double:
        raise InputError(f"columns must not include {double[0]!r}, which is a result.", "columns")
    return names


def output_paths(files: Sequence[Path], output: Path, columns: Columns) -> list[Path]:
    """Return the result of each file: `output` itself for one file, else a file in the folder."""
    names = [output_name(path, open_table(path, columns)[0]) for path in files]
    if len(files) == 1 and not output.is_dir() and output.suffix:
        if output.suffix != Path(names[0]).suffix:
            raise InputError(
                f"output must end in {Path(names[0]).suffix}, as the input does, got {output}.",
                "output",
            )
        return [output]
    if len(set(names)) < len(names):
        raise InputError("source must be files of different names.", "source")
    if (output.exists() or ending(output)) and not output.is_dir():
        raise InputError(f"output must be a folder for {len(files)} files, got {output}.", "output")
    return [output / name for name in names]


def predict_file(
    path: Path, target: Path, calibrator: Calibrator, columns: Columns, *, proba: bool = False
) -> tuple[int, float]:
    """Write a file with the columns of predictions added.

    Returns
    -------
    tuple of int and float
        Number of samples and the sum of their confidences.
    """
    source, _ = open_table(path, columns, calibrator.n_classes_)
    n, total = 0, 0.0
    with open_writer(target, source) as write:
        for batch, samples in read_file(
            path, columns, labels=False, n_classes=calibrator.n_classes_, all_columns=True
        ):
            as_array = source.kind == "arrays"
            found = results(calibrator, samples, proba=proba, as_array=as_array)
            names = result_names(source.names, list(found))
            write(batch, {names[name]: values for name, values in found.items()})
            n += len(samples)
            total += float(found["confidence"].sum(dtype=np.float64))
    return n, total


def window_statistics(files: Sequence[Path], calibrator: Any, columns: Columns) -> Any:
    """Return the statistics of all samples of files, for `adapt`."""
    parts = iter_samples(files, columns, labels=False, n_classes=calibrator.n_classes_)
    return reduce(add, (calibrator.window_statistics(samples.X) for samples in parts))


def check_columns(path: Path, columns: Columns) -> None:
    """Raise if the columns of a file do not have the declared roles."""
    source, columns = open_table(path, columns)
    with naming(path):
        resolve(source.names, columns, labels=False)
