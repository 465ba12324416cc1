"""The leaderboard: every calibrator and every peer on real predictions.

    python -m benchmarks.leaderboard --published FOLDER
    python -m benchmarks.leaderboard --small

Continues an earlier run. README.md says what is compared and how.
"""

import argparse
import os
from pathlib import Path

from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from benchmarks.leaderboard import models, networks, published, results, run, shift

ROOT = Path(__file__).parents[2]
N_SMALL = 12


def main() -> None:
    """Compute what is missing, then write the csv files of results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--published",
        type=Path,
        default=os.environ.get("WILDCAL_PUBLISHED"),
        help="folder with copies of the repositories that published.py names",
    )
    parser.add_argument("--small", action="store_true", help="a twentieth, in five minutes")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "leaderboard")
    parser.add_argument("--output", type=Path, help="folder of the csv files of results")
    parser.add_argument("--only", choices=("iid", "shift", "results"), help="one part")
    options = parser.parse_args()
    folder = Path(options.published) if options.published else None

    iid = [*models.sources(), *networks.sources(), *published.sources(folder)]
    shifted = [*shift.sources(folder)]
    if options.small:
        iid, shifted = iid[:: len(iid) // N_SMALL], shifted[:: max(1, len(shifted) // 4)]
    with Progress(
        *Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn()
    ) as bar:
        if options.only in (None, "iid"):
            task = bar.add_task("in-distribution", total=len(iid))
            run.run(iid, options.work, progress=lambda _: bar.advance(task))
        if options.only in (None, "shift"):
            task = bar.add_task("shifted", total=len(shifted))
            shift.run(shifted, options.work, progress=lambda _: bar.advance(task))
    output = options.output or (options.work / "small" if options.small else results.FOLDER)
    results.write(options.work, iid, shifted, folder, output)
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
