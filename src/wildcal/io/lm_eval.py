"""Sample logs of lm-evaluation-harness (``--log_samples``) as samples.

A line has the log-likelihood of each option as text in `filtered_resps`, the prompts and options in
`arguments`, and `target`: an index, a letter or the text of an option.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wildcal.core.exceptions import InputError
from wildcal.io.formats import BATCH, Batch, JsonLinesSource, json_column

Record = Mapping[str, Any]


def read_log(
    records: Sequence[Record], *, normalize: bool = False, n_classes: int | None = None
) -> tuple[list[Record], NDArray[np.float64], NDArray[np.int64]]:
    """Return the records of the first filter, their logits and their labels.

    Parameters
    ----------
    records
        The lines of one or several logs.
    normalize
        Divide each log-likelihood by the number of characters of the option, as `acc_norm` does.
    n_classes
        Number of columns. Default: the largest number of options; missing ones are -inf.
    """
    kept = [r for r in records if r.get("filter") == records[0].get("filter")]
    options = [_options(record, i) for i, record in enumerate(kept)]
    width = max(len(texts) for texts, _ in options)
    if n_classes is not None and width > n_classes:
        raise InputError(
            f"the calibrator has {n_classes} classes, got a sample with {width} options.", "input"
        )
    logits = np.full((len(kept), max(n_classes or 0, width, 2)), -np.inf)
    for i, (texts, values) in enumerate(options):
        lengths = np.array([max(len(text), 1) for text in texts]) if normalize else 1
        logits[i, : len(values)] = values / lengths
    return kept, logits, _labels(kept, [texts for texts, _ in options])


def _options(record: Record, i: int) -> tuple[list[str], NDArray[np.float64]]:
    """Return the texts of the options and their log-likelihoods."""
    try:
        pairs = record["filtered_resps"]
        given = [record["arguments"][f"gen_args_{k}"] for k in range(len(pairs))]
        # Unconditional likelihoods, of metrics that subtract them, have an empty prompt.
        used = [k for k, argument in enumerate(given) if argument["arg_0"] != ""] or [
            *range(len(pairs))
        ]
        values = np.array([float(pairs[k][0]) for k in used])
        return [str(given[k]["arg_1"]).lstrip(" ") for k in used], values
    except (KeyError, IndexError, TypeError, ValueError):
        raise InputError(
            "filtered_resps must have the log-likelihood of each option, got"
            f" {record.get('filtered_resps')!r:.60} in sample {i}. Tasks that generate text have"
            " none.",
            "input",
        ) from None


def _labels(records: Sequence[Record], options: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Return which option is right; readings of `target` that contradict the log are left out."""
    readings = [
        [
            _position(str(record["target"]), texts, how)
            for record, texts in zip(records, options, strict=True)
        ]
        for how in ("text", "index", "letter")
    ]
    complete = [reading for reading in readings if None not in reading]
    fitting = [r for r in complete if _agrees(r, records)] or complete
    if not fitting:
        i = next(
            (
                i
                for i, each in enumerate(zip(*readings, strict=True))
                if not any(p is not None for p in each)
            ),
            0,
        )
        raise InputError(
            "target must be the index, letter or text of one option, got"
            f" {records[i]['target']!r:.60} in sample {i}.",
            "input",
        )
    if any(reading != fitting[0] for reading in fitting):
        raise InputError(
            "target must have one meaning: it is both the index and the text of an option, and the"
            " log has no acc that says which.",
            "input",
        )
    return np.array(fitting[0], dtype=np.int64)


def _position(target: str, texts: Sequence[str], how: str) -> int | None:
    if how == "text":
        places = [k for k, text in enumerate(texts) if text.strip() == target.strip()]
        return places[0] if len(places) == 1 else None
    if how == "index":
        k = int(target) if target.strip().isdecimal() else -1
    else:
        k = ascii_uppercase.find(target.strip()) if len(target.strip()) == 1 else -1
    return k if 0 <= k < len(texts) else None


def _agrees(labels: Sequence[int | None], records: Sequence[Record]) -> bool:
    """Return whether labels give the `acc` of each record."""
    for label, record in zip(labels, records, strict=True):
        if "acc" not in record:
            continue
        values = [float(pair[0]) for pair in record["filtered_resps"]]
        n = len(values)
        if record["arguments"].get(f"gen_args_{n - 1}", {}).get("arg_0") == "":
            values = values[: n // 2]
        if (int(np.argmax(values)) == label) != bool(record["acc"]):
            return False
    return True


class LogSource(JsonLinesSource):
    """A log as a table: `logits`, `label`, `doc_id`, the fields of the lines and of their `doc`."""

    def __init__(self, path: Path, normalize: bool, n_classes: int | None) -> None:
        super().__init__(path)
        self._normalize, self._n_classes = normalize, n_classes
        if "filtered_resps" not in self.first:
            raise InputError(
                "input='lm-eval' needs lines with filtered_resps, as its logger writes them.",
                "input",
            )
        document = self.first.get("doc")
        fields = document if isinstance(document, dict) else ()
        self.names = tuple(dict.fromkeys(["logits", "label", *self.names, *fields]))

    def batches(self, names: Sequence[str] | None = None) -> Iterator[Batch]:
        """Yield the samples of one filter, all at once: labels are read from the whole file."""
        records = [record for part in self._records(BATCH) for record in part]
        kept, logits, labels = read_log(
            records, normalize=self._normalize, n_classes=self._n_classes
        )

        def get(name: str) -> NDArray[Any]:
            if name in ("logits", "label"):
                return logits if name == "logits" else labels
            if name in kept[0]:
                return json_column(kept, name)
            return json_column([record["doc"] for record in kept], name)

        yield Batch(kept, self.names, get)
