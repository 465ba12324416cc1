"""The import path of the runner. The other files of this folder are no tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
collect_ignore = ["adapter.py", "runner.py"]
