"""What the library says of its parameters, in the words of the command line."""

import re
from typing import Final

FLAGS: Final = {
    "kind": "--input",
    "columns": "--columns",
    "label_column": "--label-column",
    "id_column": "--id-column",
    "arrays": "--arrays",
    "classes": "--classes",
    "pos_label": "--pos-label",
    "labels": "--labels",
    "second": "--second",
    "logits_output": "--logits-output",
    "layers": "--layers",
    "train": "--train",
    "size": "--size",
    "crop": "--crop",
}
"""Parameters of the library that are flags of a command."""
COMMANDS: Final = {
    "an extraction with features": "`wildcal extract --features`",
    "an extraction with more sets": "`wildcal extract --extra`",
    "Open the suite, and take the distances to one neighbor": "`wildcal suite rows` writes those"
    " of one neighbor, with the logits",
    "its training first": "`wildcal train --resume`",
    "`wildcal.CALIBRATORS` has their names": "`wildcal methods` lists them",
    "`wildcal.save`": "`wildcal fit`",
    "wildcal.core.registry.register": "--use MODULE:CLASS",
}
"""What the library advises, as commands."""
# A name with its value: a text, a list, a dict, plain words with commas, or nothing.
_WORD = re.compile(
    rf"\b({'|'.join(FLAGS)})=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|{{[^}}]*}}|[\w.,:/-]*\w)?"
)


def as_flags(text: str) -> str:
    """Return a message with the library's `name=value` as the flag that sets it.

    What it advises to do is the command that does it.

    >>> as_flags("These are probabilities: pass kind='proba', or choose with columns=.")
    'These are probabilities: pass --input proba, or choose with --columns.'
    >>> as_flags("Give classes=['yes', 'no'].")
    'Give --classes yes,no.'
    """

    def flag(found: re.Match[str]) -> str:
        value = re.sub(r"[\[\]{}'\"]", "", found[2] or "")
        value = value.replace(": ", "=").replace(", ", ",")
        return f"{FLAGS[found[1]]} {value}".strip()

    for words, command in COMMANDS.items():
        text = text.replace(words, command)
    return _WORD.sub(flag, text)
