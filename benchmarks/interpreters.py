"""Keep how the tests went on an interpreter, for docs/reliability.md.

    python3.12 -m pytest | tee tests.log
    python3.12 -m benchmarks.interpreters tests.log

Run by the interpreter that ran the tests, so that the versions are those. Writes its entry of
benchmarks/interpreters.json.
"""

import json
import platform
import re
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

OUTPUT = Path(__file__).with_name("interpreters.json")
PACKAGES = ("numpy", "scipy", "torch", "onnxruntime", "pyarrow")


def counts(said: str) -> dict[str, int]:
    """Return the counts of the last line of pytest.

    >>> counts("2 failed, 812 passed, 3 skipped in 61.20s (0:01:01)")
    {'failed': 2, 'passed': 812, 'skipped': 3}
    """
    last = said.strip().splitlines()[-1]
    return {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}


def main() -> None:
    """Add an entry, or replace the one of this interpreter."""
    lines = [line for line in Path(sys.argv[1]).read_text().splitlines() if " passed" in line]
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            pass
    kept = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    tests = {"skipped": 0, "failed": 0} | counts(lines[-1])
    entry = {"date": date.today().isoformat(), "versions": versions, "tests": tests}
    kept[platform.python_version()] = entry
    OUTPUT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
