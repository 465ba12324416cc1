"""`--save-every`: after so many seconds, or rows."""

import re
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class SaveEvery:
    """When a window is saved: one of the two is known."""

    seconds: float | None = None
    rows: int | None = None


class _SaveEvery(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "SECONDSs|ROWS"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> SaveEvery:
        """Return what 10s or 500 stands for."""
        if isinstance(value, SaveEvery):
            return value
        text = str(value).strip()
        if re.fullmatch(r"[0-9]{1,9}", text) and int(text) > 0:
            return SaveEvery(rows=int(text))
        if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?s", text) and float(text[:-1]) > 0:
            return SaveEvery(seconds=float(text[:-1]))
        self.fail(f"give seconds such as 10s, or rows such as 500, got {value!r}.", param, ctx)


SAVE_EVERY = _SaveEvery()
