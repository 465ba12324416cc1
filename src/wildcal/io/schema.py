"""Which column of a table is what: declared once, else by name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from wildcal.core.conversion import INPUT_KINDS
from wildcal.core.exceptions import InputError

INPUTS = (*INPUT_KINDS, "lm-eval")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The declaration of columns; saved with a calibrator and the default of later reads.

    Parameters
    ----------
    input
        What the scores are: "logits", "proba", "log_proba", "score", "confidence", or "lm-eval"
        for sample logs of lm-evaluation-harness.
    score_columns
        Names of the columns in class order, or one prefix such as ``logit_*``. In files of arrays
        the name of one array of shape (n_samples, n_classes).
    label_column, group_column, domain_column, weight_column, id_column
        Names of single columns.
    positive_class
        With two classes, the label of class 1.
    correct_column
        With ``input="confidence"``: whether the prediction was right.
    percent
        Scores are 0 to 100.
    class_names
        Names of the classes in order. Default: the columns of the scores.
    """

    input: str | None = None
    score_columns: tuple[str, ...] | None = None
    label_column: str | None = None
    group_column: str | None = None
    domain_column: str | None = None
    weight_column: str | None = None
    id_column: str | None = None
    positive_class: str | None = None
    correct_column: str | None = None
    percent: bool = False
    class_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("score_columns", "class_names"):
            value = getattr(self, name)
            if isinstance(value, str):
                value = tuple(part.strip() for part in value.split(","))
            if value is not None:
                object.__setattr__(self, name, tuple(str(part) for part in value))
        if self.input is not None and self.input not in INPUTS:
            raise InputError(
                f"input must be one of {', '.join(INPUTS)}, got {self.input!r}.", "input"
            )

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the declaration that a calibrator file holds."""
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in document.items() if key in known})

    def to_dict(self) -> dict[str, Any]:
        """Return what is declared, as JSON."""
        return {key: value for key, value in asdict(self).items() if value not in (None, False)}

    def or_else(self, other: "Columns") -> "Columns":
        """Return this declaration, completed by another one."""
        mine = {f.name: getattr(self, f.name) for f in fields(self)}
        return Columns(
            **{key: value or getattr(other, key) for key, value in mine.items()}
        )
