"""What a writer may find in its folder: the files of an interrupted run, or a strange suite."""

import json
import re
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wildcal._old.io.suite.manifest import MANIFEST, NAME, Manifest

_ARRAY = re.compile(rf"{NAME.pattern}\.(logits|labels|distances)\.npy", re.ASCII)
# The names that `replacing` gives while it writes; also to the lists of rows beside the suite.
_TEMPORARY = re.compile(
    rf"\.({_ARRAY.pattern}|manifest\.json|rows-[\w.-]+\.json)\.[a-z0-9_]{{8}}\.(npy|json)"
)
_ANOTHER = {
    "network": "from another network",
    "data": "from other data",
    "seed": "with another seed",
    "versions": "with other package versions",
    "n_classes": "with another number of classes",
    "class_names": "with other class names",
}


def remove_leftovers(folder: Path, kept: Collection[str]) -> None:
    """Remove files with names that only a writer gives, unless the manifest knows them."""
    for path in folder.iterdir():
        ours = _TEMPORARY.fullmatch(path.name) or _ARRAY.fullmatch(path.name)
        if ours and path.name not in kept and path.is_file() and not path.is_symlink():
            path.unlink()


def refuse_foreign_arrays(folder: Path) -> None:
    """Raise if there are arrays without a manifest: that is the first file a writer makes."""
    found = sorted(path.name for path in folder.iterdir() if _ARRAY.fullmatch(path.name))
    if found:
        raise ValueError(f"{folder} holds {found[0]} but no {MANIFEST}; choose another folder.")


def refuse_another_source(folder: Path, found: Manifest, wanted: Manifest, dtype: str) -> None:
    """Raise unless the suite in a folder comes from where the new splits come from."""
    there, here = asdict(found), asdict(wanted)
    for field, words in _ANOTHER.items():
        if there[field] != here[field]:
            _refuse(folder, words + _difference(there[field], here[field]))
    if any(entry.dtype != dtype for entry in found.splits):
        _refuse(folder, "with another dtype")


def refuse_other(folder: Path, what: str, there: Any, here: Any) -> None:
    """Raise because a folder holds distances that were made in another way."""
    raise ValueError(
        f"{folder} holds other {what}{_difference(there, here)}; choose another folder."
    )


def _refuse(folder: Path, words: str) -> None:
    raise ValueError(f"{folder} was extracted {words}; choose another folder.")


def _difference(there: Any, here: Any, above: str = "") -> str:
    """Return the first key in which two descriptions differ, in brackets; one.two if nested."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted({*there, *here}):
            if key not in there or key not in here or there[key] != here[key]:
                name = f"{above}{key}"
                return (
                    _difference(there.get(key), here.get(key), f"{name}.")
                    or f" ({name}: {_shown(there, key)} there, {_shown(here, key)} here)"
                )
    return ""


def _shown(document: dict[str, Any], key: str) -> str:
    return f"{json.dumps(document[key]):.60}" if key in document else "nothing"
