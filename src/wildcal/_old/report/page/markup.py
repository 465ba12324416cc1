"""Write elements of HTML and SVG; whatever comes from a suite is escaped on its way in."""

import json
from html import escape
from typing import Any


def words(value: object) -> str:
    """Return text that may stand between tags."""
    return escape(str(value), quote=False)


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an element around children that are markup already.

    Attributes that are None are left out; `class_` and underscores are as Python needs them.

    >>> tag("td", words("a < b"), class_="left", data_value=1.5, title=None)
    '<td class="left" data-value="1.5">a &lt; b</td>'
    """
    opened = [name]
    for key, value in attributes.items():
        if value is not None:
            shown = f"{value:.6g}" if isinstance(value, float) else str(value)
            opened.append(f'{key.rstrip("_").replace("_", "-")}="{escape(shown)}"')
    return f"<{' '.join(opened)}>{''.join(children)}</{name}>"


def script_json(value: Any) -> str:
    """Return JSON that may stand in a script element, which no text inside can close."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")
