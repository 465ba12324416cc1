"""JSON lines: one object a line, such as {"logits": [0.1, 2.3], "label": "cat"}.

The standard library reads them, not pyarrow: it takes NaN and -Infinity, which log probabilities
have, names the line that is wrong, and keeps the tokens of each row to that row, where columns for
every token of every row would fill the memory.
"""

import json
from typing import Any

from wildcal._old.core.errors import FileFormatError
from wildcal._old.io.tables.objects import as_object_column
from wildcal._old.io.tables.source import Source, arrays_source, bare_source


def read_json_lines(data: bytes, title: str) -> Source:
    """Return the fields of the objects as columns, a missing field as a gap."""
    rows = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            rows.append(_parse(line, number, title))
    if not rows:
        raise FileFormatError(f"cannot read {title}: it is empty.")
    odd = next((i for i, row in enumerate(rows) if type(row) is not type(rows[0])), None)
    if odd is not None:
        raise FileFormatError(
            f"cannot read {title}: row {odd} is a {type(rows[odd]).__name__}, the first a"
            f" {type(rows[0]).__name__}. Write every line alike."
        )
    if isinstance(rows[0], list):
        matrix = as_object_column(rows)
        if matrix.ndim != 2:
            raise FileFormatError(
                f"cannot read {title}: its lists must be numbers and of one length. Name the"
                ' fields instead: {"logits": [...], "y": ...} on each line.'
            )
        return bare_source(title, matrix)
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: as_object_column([row.get(name) for row in rows]) for name in names}
    return arrays_source(title, columns, columnar=True)


def _parse(line: bytes, number: int, title: str) -> Any:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        hint = " One object a line is wanted, not one list around all." if number <= 2 else ""
        raise FileFormatError(
            f"cannot read {title}: line {number} is not whole JSON.{hint}"
        ) from None
    if not isinstance(row, dict | list):
        raise FileFormatError(
            f"cannot read {title}: line {number} must be an object such as"
            f' {{"logits": [0.1, 2.3], "y": 1}}, got {type(row).__name__}.'
        )
    return row
