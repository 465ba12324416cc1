"""Tables to compute with: numbers in full precision, one line each."""

import csv
import io
from collections.abc import Iterable, Sequence


def render(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Return lines of values.

    >>> render(["a", "b"], [[1.5, None]])
    'a,b\n1.5,\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return text.getvalue()
