"""The leaderboard: every calibrator and every peer on real predictions.

    python -m benchmarks.leaderboard --published FOLDER
    python -m benchmarks.leaderboard --small

Continues an earlier run. README.md says what is compared and how.
"""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from benchmarks.leaderboard import models, networks, published, results, run, shift
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

ROOT = Path(__file__).parents[2]
N_SMALL = 16


def main() -> None:
    """Compute what is missing, then write the csv files of results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--published",
        type=Path,
        default=os.environ.get("WILDCAL_PUBLISHED"),
        help="folder with copies of the repositories that README.md names",
    )
    parser.add_argument("--small", action="store_true", help="a part of it, in five minutes")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "leaderboard")
    parser.add_argument("--output", type=Path, help="folder of the csv files of results")
    parser.add_argument("--only", choices=("iid", "shift", "results"), help="one part")
    options = parser.parse_args()
    folder = Path(options.published) if options.published else None

    iid = [*models.sources(), *networks.sources(), *published.sources(folder)]
    shifted = [*shift.sources(folder)]
    if options.small:
        iid, shifted = iid[:: len(iid) // N_SMALL], shifted[:4]
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        for part, run_part, sources in (("iid", run.run, iid), ("shift", shift.run, shifted)):
            if options.only in (None, part):
                task = bar.add_task(part, total=len(sources))
                advance = partial(bar.advance, task)
                run_part(sources, options.work, progress=lambda _, advance=advance: advance())
    output = options.output or (options.work / "small" if options.small else results.FOLDER)
    results.write(options.work, iid, shifted, folder, output)
    print(f"wrote {output}")
    for problem in (found := results.problems(options.work, iid)):
        print(problem, file=sys.stderr)
    sys.exit(bool(found) and options.small)


if __name__ == "__main__":
    main()
