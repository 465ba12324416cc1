"""Whether a suite that is there can become the suite of a larger plan, row by row."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wildcal.io.suite import SuiteWriter
from wildcal.vision.cells import Plan
from wildcal.vision.datasets import Split


def grows(there: dict[str, Any], here: dict[str, Any]) -> bool:
    """Return whether images described as `here` are those described as `there`, and maybe more.

    Numbers of rows and sets of images may differ, but a set that both have must be the same one.
    Whether each split has become larger is seen when the splits are compared.
    """
    free = {"sizes", "ood", "extra", "sources"}
    if {key: value for key, value in there.items() if key not in free} != {
        key: value for key, value in here.items() if key not in free
    }:
        return False
    known, told = there.get("sources"), here.get("sources")
    if not isinstance(known, Mapping) or not isinstance(told, Mapping):
        return False
    return all(known[name] == told[name] for name in known if name in told)


def check_rows(folder: Path, plan: Plan) -> None:
    """Raise unless the lists of rows beside the suite go on as the plan's do, or end earlier."""
    for path, wanted in _lists(folder, plan).items():
        if not path.exists():
            continue
        found = Split.load(path)
        if not (wanted.continues(found) or found.continues(wanted)):
            raise ValueError(
                f"{folder} was extracted from other rows ({path.name}); a suite grows when each"
                " number of rows is at least what it was. Choose another folder."
            )


def save_rows(folder: Path, plan: Plan) -> None:
    """Keep the row numbers beside the suite; a file that has them already is not touched."""
    for path, wanted in _lists(folder, plan).items():
        if not path.exists() or not Split.load(path).continues(wanted):
            wanted.save(path)


def check_cells(writer: SuiteWriter, plan: Plan) -> None:
    """Raise if the folder holds splits that the plan has not, or more rows of one."""
    planned = {cell.name: len(cell.rows) for cell in plan.cells}
    for name in writer.names:
        if name not in planned:
            raise ValueError(
                f"{writer.folder} holds {name}, which was not asked for; choose another folder."
            )
        if writer.rows(name) > planned[name]:
            raise ValueError(
                f"{writer.folder} holds {writer.rows(name):,} rows of {name}, more than the"
                f" {planned[name]:,} asked for; choose another folder."
            )


def _lists(folder: Path, plan: Plan) -> dict[Path, Split]:
    return {folder / f"rows-{name}.json": split for name, split in plan.splits.items()}
