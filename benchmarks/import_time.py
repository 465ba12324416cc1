"""How long `import wildcal` takes, beside `import numpy`, each in fresh interpreters.

Example
-------
    python benchmarks/import_time.py
"""

import statistics
import subprocess
import sys

_CLOCK = "import time; start = time.process_time(); import {}; print(time.process_time() - start)"
_TURNS = 9


def _seconds(module: str) -> float:
    command = [sys.executable, "-c", _CLOCK.format(module)]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def main() -> None:
    turns = [(_seconds("wildcal"), _seconds("numpy")) for _ in range(_TURNS)]
    ours, numpy = (statistics.median(column) for column in zip(*turns, strict=True))
    ratio = statistics.median(a / b for a, b in turns)
    print(f"import wildcal {ours:.2f} CPU s, import numpy {numpy:.2f}: {ratio:.1f} times as long")
    print(f"(medians of {_TURNS} turns)")


if __name__ == "__main__":
    main()
