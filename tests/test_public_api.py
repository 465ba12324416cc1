"""What a user imports: the names, how fast, and how little comes with them."""

import importlib.metadata
import importlib.resources
import json
import subprocess
import sys

import pytest

import wildcal
import wildcal.evaluation
import wildcal.io
import wildcal.metrics

# Processor time, which a busy machine does not stretch; a lazy import that became eager does.
_PROBE = """
import json, sys, time
start = time.process_time()
import wildcal
print(json.dumps([time.process_time() - start, sorted({m.split(".")[0] for m in sys.modules})]))
"""


@pytest.mark.parametrize(
    "module", [wildcal, wildcal.metrics, wildcal.evaluation, wildcal.io], ids=lambda m: m.__name__
)
def test_all_names_exist_once(module):
    assert all(hasattr(module, name) for name in module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)


def test_import_is_quick_and_brings_numpy_and_scipy_only():
    runs = [
        json.loads(
            subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=True).stdout
        )
        for _ in range(3)
    ]
    allowed = set(sys.stdlib_module_names) | {"wildcal", "numpy", "scipy"}
    allowed |= {"cython_runtime"}  # comes with SciPy's compiled modules
    outside = {name for name in runs[0][1] if not name.startswith("_")} - allowed
    assert outside == set()
    assert min(seconds for seconds, _ in runs) < 0.4


def test_dependencies_are_four():
    """Which install seven packages: rich brings markdown-it-py, mdurl and pygments."""
    required = [r for r in importlib.metadata.requires("wildcal") if "extra ==" not in r]
    assert sorted(r.split(">")[0] for r in required) == ["click", "numpy", "rich", "scipy"]


def test_typed_marker_is_shipped():
    assert (importlib.resources.files("wildcal") / "py.typed").is_file()


def test_every_calibrator_declares_its_promises():
    for kind in wildcal.CALIBRATORS.values():
        for promise in ("preserves_accuracy", "shift_invariant", "accepts_ood"):
            assert isinstance(getattr(kind, promise), bool)
        for words in ("name", "title", "reference", "cost"):
            assert getattr(kind, words)
        assert kind.__doc__
