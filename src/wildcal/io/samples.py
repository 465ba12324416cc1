"""Read samples: scores, labels, weights, domains, groups and distances."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from wildcal.core.arrays import FloatArray
from wildcal.core.conversion import logits_from_logprobs
from wildcal.core.exceptions import FileFormatError, InputError
from wildcal.core.validation import check_distances, check_input
from wildcal.io import schema
from wildcal.io.formats import SOURCES, Batch, Source, ending, naming, open_source
from wildcal.io.frames import frame_batches, to_array
from wildcal.io.lm_eval import LogSource

_MIN_SAMPLE: Final = 200_000
_SAMPLES_PER_CLASS: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class SampleSet:
    """Samples as `fit` and `evaluate` take them.

    Examples
    --------
    >>> from wildcal import TemperatureScaling, read_samples
    >>> table = {"logit_cat": [2.0, 0.1], "logit_dog": [0.5, 1.0], "label": ["cat", "dog"]}
    >>> samples = read_samples(table)
    >>> samples.class_names, samples.y
    (('cat', 'dog'), array([0, 1]))
    """

    X: NDArray[Any]
    """Scores of shape (n_samples, n_classes), or (n_samples,) of a score or confidence."""
    y: NDArray[Any] | None = None
    """Class indices, -1 for OOD samples; with a confidence, whether the prediction was right."""
    input: str = "logits"
    class_names: tuple[str, ...] | None = None
    sample_weight: NDArray[Any] | None = None
    domain: NDArray[Any] | None = None
    group: NDArray[Any] | None = None
    id: NDArray[Any] | None = None
    knn_distances: NDArray[Any] | None = None
    n_total: int | None = None
    """Number of samples that these were drawn from, if not all were kept."""

    def __len__(self) -> int:
        return len(self.X)

    def take(self, index: Any) -> "SampleSet":
        """Return the samples at an index or mask."""
        arrays: dict[str, Any] = {name: value[index] for name, value in self._arrays().items()}
        return replace(self, **arrays)

    def require_labels(self) -> NDArray[Any]:
        """Return y, or raise."""
        if self.y is None:
            name = "correct_column" if self.input == "confidence" else "label_column"
            raise InputError(f"{name} must be given: no column is named label or y.", name)
        return self.y

    def _arrays(self) -> dict[str, NDArray[Any]]:
        each = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in each.items() if isinstance(value, np.ndarray)}


def read_samples(
    source: Any,
    y: Any = None,
    *,
    columns: schema.Columns | None = None,
    labels: bool = True,
    max_samples: int | Literal["fit"] | None = None,
    seed: int = 0,
    **declared: Any,
) -> SampleSet:
    """Return the samples of files, a frame or arrays.

    Parameters
    ----------
    source
        A path, a pattern such as ``data/*.parquet``, a folder, a list of paths, a frame (pandas,
        polars, pyarrow, Dask), a dict of arrays, or an array or tensor of scores.
    y
        Labels, if they are not in the source.
    columns
        The roles of the columns. Or the fields of `Columns` as arguments.
    labels
        Whether labels, weights, domains and groups are read.
    max_samples
        Draw at most so many samples, uniformly and in one pass; "fit" draws 200,000, or 1,000 for
        each class if that is more. Default: all.
    seed
        Seed of the draw.
    **declared
        Fields of `Columns`, such as ``score_columns=["cat", "dog"], label_column="species"``.

    Examples
    --------
    >>> from wildcal import read_samples
    >>> table = {"cat": [0.9, 0.2], "dog": [0.1, 0.8], "species": ["cat", "dog"], "row": [7, 8]}
    >>> read_samples(
    ...     table, input="proba", score_columns=["cat", "dog"], label_column="species"
    ... ).y
    array([0, 1])
    """
    declaration = schema.Columns(**declared) if columns is None else columns
    parts = iter_samples(source, declaration, labels=labels)
    found = _sample(parts, max_samples, seed) if max_samples else _concatenate(list(parts))
    if y is not None:
        given = to_array(y)
        if len(given) != len(found):
            raise InputError(f"y must have {len(found)} labels, got {len(given)}.", "y")
        names = declaration.class_names or found.class_names
        completed = replace(declaration, input=found.input, class_names=names)
        indices, names = schema.labels_of(given, "y", completed, _n_classes(found.X))
        found = replace(found, y=indices, class_names=names)
    return found


def iter_samples(
    source: Any, columns: schema.Columns, *, labels: bool = True, n_classes: int | None = None
) -> Iterator[SampleSet]:
    """Yield the samples of a source batch by batch."""
    if isinstance(source, str | Path) or _is_paths(source):
        for path in list_files(source):
            for _, samples in read_file(path, columns, labels=labels, n_classes=n_classes):
                yield samples
        return
    batches: Iterable[Mapping[str, NDArray[Any]]] | None = frame_batches(source)
    if batches is None:
        name = columns.score_columns[0] if columns.score_columns else "X"
        columns = replace(columns, score_columns=(name,), input=columns.input or "logits")
        batches, labels = [{name: to_array(source)}], False
    for batch in batches:
        yield to_samples(batch, schema.resolve(tuple(batch), columns, labels=labels))


def read_file(
    path: Path,
    columns: schema.Columns,
    *,
    labels: bool = True,
    n_classes: int | None = None,
    all_columns: bool = False,
    row_groups: Sequence[int] | None = None,
) -> Iterator[tuple[Batch, SampleSet]]:
    """Yield the batches of a file and their samples; errors name the file.

    `all_columns` also reads the columns that are not used, for writing them; `row_groups` reads
    only those of a Parquet file.
    """
    source, columns = open_table(path, columns, n_classes)
    source.row_groups, n = row_groups, 0
    with naming(path):
        resolved = schema.resolve(source.names, columns, labels=labels)
    for batch in source.read(None if all_columns else resolved.names):
        with naming(path):
            samples = to_samples(batch, resolved)
        yield batch, samples
        n += len(samples)
    if not n:
        raise InputError(f"{path}: there are no samples.")


def open_table(
    path: Path, columns: schema.Columns, n_classes: int | None = None
) -> tuple[Source, schema.Columns]:
    """Return a file as a source, and the declaration of its columns."""
    if columns.input != "lm-eval":
        return open_source(path), columns
    if columns.score_columns not in (None, ("acc",), ("acc_norm",)):
        raise InputError(
            "score_columns must be acc or acc_norm with input='lm-eval', got"
            f" {', '.join(columns.score_columns)}.",
            "score_columns",
        )
    source = LogSource(path, columns.score_columns == ("acc_norm",), n_classes)
    names = schema.Columns(input="logits", score_columns=("logits",), label_column="label")
    identifier = columns.id_column or ("doc_id" if "doc_id" in source.names else None)
    return source, names.or_else(replace(columns, id_column=identifier))


def to_samples(batch: Mapping[str, NDArray[Any]], resolved: schema.Resolved) -> SampleSet:
    """Return the samples of a batch, checked."""
    kind, names = resolved.input, resolved.columns.class_names
    if kind == "log_proba" and len(resolved.scores) == 1:
        first = batch[resolved.scores[0]]
        if first.dtype == object and _is_tokens(first[0]):
            if names is None:
                raise InputError("class_names must be given for lists of tokens.", "class_names")
            batch = {**batch, resolved.scores[0]: logits_from_logprobs(first.tolist(), names)}
    x = check_input(schema.scores_of(batch, resolved), kind)
    n_classes = _n_classes(x)
    if names is not None and len(names) != n_classes:
        raise InputError(f"class_names must be {n_classes} names, got {len(names)}.", "class_names")
    found: dict[str, Any] = {role: batch[name] for role, name in resolved.roles.items()}
    if "sample_weight" in found:
        name = resolved.roles["sample_weight"]
        found["sample_weight"] = schema.as_numbers(found["sample_weight"], name)
    if "label" in found:
        label = found.pop("label")
        found["y"], names = schema.labels_of(
            label, resolved.roles["label"], resolved.columns, n_classes
        )
    for role, values in found.items():
        if len(values) != len(x):
            raise InputError(f"{role} must have {len(x)} values, got {len(values)}.", role)
    if resolved.knn:
        found["knn_distances"] = check_distances(schema.numbers_of(batch, resolved.knn), len(x))
    return SampleSet(X=x, input=kind, class_names=names, **found)


def _is_tokens(value: Any) -> bool:
    """Return whether a value has the most likely tokens, as `logits_from_logprobs` takes them."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Mapping)


def list_files(source: Any) -> list[Path]:
    """Return the files of a path, a folder, a pattern or a list of those, sorted."""
    if not isinstance(source, str | Path):
        return [path for each in source for path in list_files(each)]
    path = Path(source)
    if path.is_dir():
        found = [p for p in path.iterdir() if ending(p) and p.is_file()]
        if (path / "manifest.json").exists():
            raise InputError(f"{path} is a suite, expected files of samples.")
    elif path.exists() or not set("*?[") & set(str(path)):
        return [path]
    else:
        root = Path(path.anchor)
        found = [p for p in root.glob(str(path.relative_to(root))) if p.is_file()]
    found = sorted(p for p in found if not p.name.startswith("."))
    if not found:
        raise FileFormatError(f"{source} has no files of samples ({' '.join(SOURCES)}).")
    return found


def _n_classes(x: NDArray[Any]) -> int:
    return 2 if x.ndim == 1 else int(x.shape[1])


def _is_paths(source: Any) -> bool:
    return isinstance(source, list | tuple) and bool(source) and isinstance(source[0], str | Path)


def _concatenate(parts: Sequence[SampleSet]) -> SampleSet:
    """Return all samples; those of logs with fewer options get masked classes."""
    if not parts:
        raise InputError("source must have samples, got none.", "source")
    first = parts[0]
    if len(parts) == 1:
        return first
    if any((p.class_names, p.input) != (first.class_names, first.input) for p in parts):
        raise InputError("source must be files with the same classes and scores.", "source")
    arrays: dict[str, Any] = {}
    for name in first._arrays():
        each = [part._arrays()[name] for part in parts]
        if name == "X" and len({x.shape[1:] for x in each}) > 1:
            width = max(x.shape[1] for x in each)
            missing = (np.full((len(x), width - x.shape[1]), -np.inf, x.dtype) for x in each)
            each = [np.hstack(pair) for pair in zip(each, missing, strict=True)]
        arrays[name] = np.concatenate(each)
    return replace(first, **arrays)


def _sample(parts: Iterable[SampleSet], max_samples: int | Literal["fit"], seed: int) -> SampleSet:
    """Return a uniform sample in one pass: each sample gets a random key, the smallest stay."""
    rng = np.random.default_rng(seed)
    kept: list[SampleSet] = []
    keys = np.empty(0)
    n_total, size = 0, max_samples if max_samples != "fit" else _MIN_SAMPLE
    for part in parts:
        if max_samples == "fit":
            size = max(_MIN_SAMPLE, _SAMPLES_PER_CLASS * _n_classes(part.X))
        n_total += len(part)
        kept.append(part)
        keys = np.append(keys, rng.random(len(part)))
        if len(keys) > 2 * size:
            kept, keys = _smallest(kept, keys, size)
    if n_total <= size:
        return _concatenate(kept)
    kept, _ = _smallest(kept, keys, size)
    return replace(kept[0], n_total=n_total)


def _smallest(
    parts: Sequence[SampleSet], keys: FloatArray, size: int
) -> tuple[list[SampleSet], FloatArray]:
    """Return the samples with the smallest keys in their order, and their keys."""
    index = np.sort(np.argpartition(keys, size - 1)[:size])
    return [_concatenate(parts).take(index)], keys[index]
