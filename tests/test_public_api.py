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

_PROBE = """
import json, sys
import wildcal
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize(
    "module", [wildcal, wildcal.metrics, wildcal.evaluation, wildcal.io], ids=lambda m: m.__name__
)
def test_all_names_exist_once(module):
    assert all(hasattr(module, name) for name in module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)


def test_import_brings_little_besides_numpy():
    """No clock here (`benchmarks/import_time.py` has one): what is loaded decides the time.

    SciPy is loaded by the fit that needs it, the reader of suites and the protocol by their users.
    """
    out = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=True).stdout
    modules = json.loads(out)
    allowed = set(sys.stdlib_module_names) | {"wildcal", "numpy"}
    allowed |= {"cython_runtime"}  # comes with NumPy's compiled modules
    outside = {m for m in modules if not m.startswith("_")}
    assert {m.split(".")[0] for m in outside} - allowed == set()
    lazy = {"wildcal.io.suite", "wildcal.evaluation.protocol", "wildcal.stream", "wildcal.report"}
    assert lazy & outside == set()
    assert len(modules) < 400


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
        for words in ("name", "title", "reference", "stores"):
            assert getattr(kind, words)
        assert kind.__doc__
