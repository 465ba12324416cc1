"""A method is a calibrator and the rows it sees, written ``CALIBRATOR[+CALIBRATOR][@ROWS]``."""

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from wildcal._old.bridge import wrap
from wildcal._old.calibrators import (
    CALIBRATORS,
    DENSITY_METHODS,
    PAPER_METHODS,
    make_calibrator,
)
from wildcal._old.calibrators.own import add_own
from wildcal._old.core.calibrator import Calibrator

ROWS: Final = ("clean", "ood", "shifted")
"""The kinds of tuning rows: clean, of no class, and clean ones under shift."""
_OOD: Final = frozenset({"ood"})
_LABELED: Final = frozenset(ROWS) - _OOD
_WITH_SHIFTED: Final = "-all"
_WITHOUT_OOD: Final = "-no-ood"
_UNFITTED: Final = "identity"
SHORT_LISTS: Final = {
    "paper": PAPER_METHODS,
    "all": tuple(CALIBRATORS),
}
"""Names that stand for several methods."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method that takes part: an unfitted calibrator, and the rows that it is fitted on.

    >>> str(Method("mine", make_calibrator("ts"), rows={"shifted", "clean"}))
    'ts@clean,shifted'
    """

    name: str
    """What tables call it."""
    calibrator: Calibrator
    rows: Iterable[str] | None = None
    """Which of `ROWS` it sees; by default all that it can use without being asked to."""
    window: int | None = None
    """How many test rows share a context, where the method reads one; None for a whole split."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "calibrator", wrap(self.calibrator))
        if self.window is not None and self.window < 1:
            raise ValueError(f"window must be at least 1 row, got {self.window}.")
        usual = usual_rows(self.calibrator)
        given = usual if self.rows is None else frozenset(self.rows)
        unknown = sorted(given - set(ROWS))
        if unknown:
            raise ValueError(f"rows must be of {', '.join(ROWS)}, got {', '.join(unknown)}.")
        name = self.calibrator.name
        if given != usual and not usual:
            raise ValueError(f"{name} is not fitted, so it sees no rows.")
        if usual and not given & _LABELED:
            raise ValueError(f"{name} needs labeled rows: clean or shifted ones.")
        if "ood" in given and "ood" in self.calibrator.get_params(deep=False):
            asked = copy.deepcopy(self.calibrator).set_params(ood=True)
            object.__setattr__(self, "calibrator", asked)
        if "ood" in given and not self.calibrator.takes_ood:
            raise ValueError(f"{name} does not use out-of-distribution rows; leave out ood.")
        object.__setattr__(self, "rows", given)

    def sees(self, kind: str) -> bool:
        """Whether it is fitted on a kind of rows."""
        return kind in (self.rows or ())

    def __str__(self) -> str:
        """Return the short form, which `parse` understands."""
        name = short_name(self.calibrator)
        seen = frozenset(self.rows or ())
        if seen == usual_rows(self.calibrator):
            return name
        return f"{name}@{','.join(kind for kind in ROWS if kind in seen)}"


def usual_rows(calibrator: Calibrator) -> frozenset[str]:
    """Return the rows that a calibrator sees unless told otherwise."""
    if calibrator.name == _UNFITTED:
        return frozenset()
    needed = calibrator.reads - calibrator.can_do_without
    kinds = {"ood": calibrator.accepts_ood, "shifted": "environment" in needed}
    return frozenset({"clean", *(kind for kind, used in kinds.items() if used)})


def short_name(calibrator: Calibrator) -> str:
    """Return the name that `make_calibrator` knows a calibrator by, its base included.

    >>> short_name(make_calibrator("dac-first+ets"))
    'dac-first+ets'
    """
    first = calibrator.get_params(deep=False).get("neighbor") == "first"
    return calibrator.name.replace("dac", "dac-first", 1) if first else calibrator.name


def parse(text: str) -> Method:
    """Return the method of a short form; tables will call it as it is written.

    The rows after @ are a list of `ROWS`. Without them a method sees the clean rows, those of no
    class where it uses such rows, and the shifted ones where it reads environments. Other words:
    NAME-all sees the shifted rows too, NAME-no-ood none of no class.

    >>> str(parse("ts-all")), str(parse("energy-no-ood")), str(parse("dac+ets@shifted,clean"))
    ('ts@clean,shifted', 'energy@clean', 'dac+ets@clean,shifted')
    """
    name, at, listed = text.strip().partition("@")
    if at:
        return Method(text.strip(), _calibrator(name), [r.strip() for r in listed.split(",")])
    if name.endswith(_WITH_SHIFTED) and _is_known(name.removesuffix(_WITH_SHIFTED)):
        calibrator = _calibrator(name.removesuffix(_WITH_SHIFTED))
        return Method(name, calibrator, usual_rows(calibrator) | {"clean", "shifted"})
    if name.endswith(_WITHOUT_OOD) and _is_known(name.removesuffix(_WITHOUT_OOD)):
        calibrator = _calibrator(name.removesuffix(_WITHOUT_OOD))
        return Method(name, calibrator, usual_rows(calibrator) - _OOD)
    return Method(name, _calibrator(name))


def split_list(text: str) -> Iterator[str]:
    """Yield the short forms in a list with commas; a kind of rows belongs to the form before it.

    >>> list(split_list("paper,ts@clean,shifted,ets"))[-2:]
    ['ts@clean,shifted', 'ets']
    """
    forms: list[str] = []
    for word in (word.strip() for word in text.split(",")):
        if word in ROWS and forms and "@" in forms[-1]:
            forms[-1] += f",{word}"
        elif word:
            forms.append(word)
    for form in forms:
        yield from SHORT_LISTS.get(form, (form,))


def choose_methods(names: Sequence[str] | None = None) -> list[Method]:
    """Return methods by their short forms, by default those of the paper's first table.

    Examples
    --------
    >>> [method.sees("shifted") for method in choose_methods(["ts", "ts-all", "window"])]
    [False, True, True]
    """
    return [parse(name) for name in (PAPER_METHODS if names is None else names)]


def _is_known(name: str) -> bool:
    ours = name in CALIBRATORS or name in DENSITY_METHODS
    return ours or add_own(name, CALIBRATORS) is not None


def _calibrator(name: str) -> Calibrator:
    if _is_known(name):
        return make_calibrator(name)
    near = get_close_matches(name, [*CALIBRATORS, *DENSITY_METHODS], 1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"there is no method {name!r}; {guess}`wildcal.CALIBRATORS` has their names.")
