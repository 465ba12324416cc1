"""What happens to sentences in the wild: letters mistyped, words left out, in five strengths."""

import numpy as np

LETTERS = (0.02, 0.05, 0.1, 0.15, 0.2)
"""The share of letters that are mistyped, at severities 1 to 5."""
WORDS = (0.1, 0.2, 0.3, 0.4, 0.5)
"""The share of words that are left out."""
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEAR = {
    letter: row[max(0, i - 1) : i] + row[i + 1 : i + 2]
    for row in _ROWS
    for i, letter in enumerate(row)
}


def mistyped(text: str, severity: int, rng: np.random.Generator) -> str:
    """Return a text in which letters are swapped, left out, doubled or struck beside the key."""
    letters, i = list(text), 0
    while i < len(letters):
        letter = letters[i]
        if letter.lower() in _NEAR and rng.random() < LETTERS[severity - 1]:
            kind = rng.integers(4)
            if kind == 0 and i + 1 < len(letters):
                letters[i], letters[i + 1] = letters[i + 1], letter
                i += 1
            elif kind == 1:
                letters[i] = ""
            elif kind == 2:
                letters[i] = letter * 2
            else:
                near = _NEAR[letter.lower()]
                letters[i] = near[rng.integers(len(near))]
        i += 1
    return "".join(letters)


def terse(text: str, severity: int, rng: np.random.Generator) -> str:
    """Return a text without some of its words; one at least stays."""
    words = text.split()
    kept = [word for word in words if rng.random() >= WORDS[severity - 1]]
    return " ".join(kept or words[:1])


KINDS = {"typos": mistyped, "missing-words": terse}
