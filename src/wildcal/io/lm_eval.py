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
from wildcal.io.formats import BATCH, Batch, JsonLinesSource, json_column, naming

Record = Mapping[str, Any]
Options = tuple[list[str], NDArray[np.float64]]
"""Texts and log-likelihoods."""


class LogSource(JsonLinesSource):
    """A log as a table: `logits`, `label`, `doc_id`, the fields of the lines and of their `doc`.

    Parameters
    ----------
    path
        The log.
    normalize
        Divide each log-likelihood by the number of characters of the option, as `acc_norm` does.
    n_classes
        Number of columns. Default: the largest number of options; missing ones are -inf.
    """

    def __init__(self, path: Path, normalize: bool, n_classes: int | None) -> None:
        super().__init__(path)
        self._normalize, self._n_classes = normalize, n_classes
        if "filtered_resps" not in self.first:
            raise InputError(
                f"{path} must have lines with filtered_resps, as lm-eval writes them.", "input"
            )
        document = self.first.get("doc")
        fields = document if isinstance(document, dict) else ()
        self.names = tuple(dict.fromkeys(["logits", "label", *self.names, *fields]))

    def batches(self, names: Sequence[str] | None) -> Iterator[Batch]:
        """Yield the samples of the first filter, all at once: all targets have the same meaning."""
        records = [record for part in self._records(BATCH) for record in part]
        kept = [r for r in records if r.get("filter") == self.first.get("filter")]
        with naming(self.path):
            options = [_options(record, i) for i, record in enumerate(kept)]

        def get(name: str) -> NDArray[Any]:
            if name == "logits":
                return self._logits(options)
            if name == "label":
                return _labels(kept, options)
            if name in self.first:
                return json_column(kept, name)
            return json_column([record["doc"] for record in kept], name)

        yield Batch(kept, self.names, get)

    def _logits(self, options: Sequence[Options]) -> NDArray[np.float64]:
        width = max(len(texts) for texts, _ in options)
        n_classes = max(width, 2) if self._n_classes is None else self._n_classes
        if width > n_classes:
            raise InputError(
                f"the calibrator has {n_classes} classes, got a sample with {width} options.",
                "input",
            )
        logits = np.full((len(options), n_classes), -np.inf)
        for i, (texts, values) in enumerate(options):
            lengths = [max(len(text), 1) for text in texts] if self._normalize else 1
            logits[i, : len(values)] = values / np.array(lengths)
        return logits


def _options(record: Record, i: int) -> Options:
    """Return the texts of the options and their log-likelihoods."""
    try:
        pairs = record["filtered_resps"]
        given = [record["arguments"][f"gen_args_{k}"] for k in range(len(pairs))]
        # Unconditional likelihoods, of metrics that subtract them, have an empty prompt.
        used = [k for k, argument in enumerate(given) if argument["arg_0"]] or range(len(pairs))
        values = np.array([float(pairs[k][0]) for k in used])
        return [str(given[k]["arg_1"]).lstrip(" ") for k in used], values
    except (KeyError, IndexError, TypeError, ValueError):
        raise InputError(
            "filtered_resps must have the log-likelihood of each option, got"
            f" {record.get('filtered_resps')!r:.60} at index {i}. Tasks that generate text have"
            " none.",
            "input",
        ) from None


def _labels(records: Sequence[Record], options: Sequence[Options]) -> NDArray[np.int64]:
    """Return the index of the correct option of each record.

    `target` is the text, the index or the letter of an option, the same in all records. Labels that
    contradict the logged accuracy are left out.
    """
    positions = [
        _positions(str(record.get("target")).strip(), texts)
        for record, (texts, _) in zip(records, options, strict=True)
    ]
    complete = [labels for labels in zip(*positions, strict=True) if None not in labels]
    fitting = [labels for labels in complete if _agrees(labels, records, options)] or complete
    if not fitting:
        i = next((i for i, each in enumerate(positions) if set(each) == {None}), 0)
        raise InputError(
            "target must be the index, letter or text of one option, got"
            f" {records[i].get('target')!r:.60} at index {i}.",
            "input",
        )
    if len(set(fitting)) > 1:
        raise InputError(
            "target must have one meaning: it is both the index and the text of an option, and the"
            " log has no acc to decide.",
            "input",
        )
    return np.array(fitting[0], dtype=np.int64)


def _positions(target: str, texts: Sequence[str]) -> tuple[int | None, ...]:
    """Return the option with this text, this index and this letter, None where there is none."""
    stripped = [text.strip() for text in texts]
    by_text = stripped.index(target) if stripped.count(target) == 1 else -1
    index = int(target) if target.isdecimal() else -1
    letter = ascii_uppercase.find(target) if len(target) == 1 else -1
    return tuple(k if 0 <= k < len(texts) else None for k in (by_text, index, letter))


def _agrees(
    labels: Sequence[int | None], records: Sequence[Record], options: Sequence[Options]
) -> bool:
    """Return whether labels give the `acc` of each record that has one."""
    return all(
        "acc" not in record or bool(record["acc"]) == (int(values.argmax()) == label)
        for label, record, (_, values) in zip(labels, records, options, strict=True)
    )
