"""Public names, and which modules are loaded with them."""

import importlib.resources
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import wildcal
import wildcal.evaluation
import wildcal.io
import wildcal.metrics

_PROBE = """
import json, sys
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize(
    "module",
    [wildcal, wildcal.metrics, wildcal.evaluation],
    ids=lambda m: m.__name__,
)
def test_all_names_exist_once(module):
    assert all(hasattr(module, name) for name in module.__all__)
    assert len(set(module.__all__)) == len(module.__all__)


def test_type_checkers_see_the_public_names():
    stub = (importlib.resources.files("wildcal") / "__init__.pyi").read_text("utf-8")
    assert sorted(re.findall(r" as (\w+)", stub)) == wildcal.__all__


def modules_of(code):
    out = subprocess.run(
        [sys.executable, "-c", code + _PROBE], capture_output=True, check=True, text=True
    ).stdout
    return set(json.loads(out.splitlines()[-1]))


def test_import_loads_nothing_else():
    """The loaded modules decide the time."""
    ours = {m for m in modules_of("import wildcal") if m.startswith(("wildcal", "numpy", "scipy"))}
    assert ours == {"wildcal", "wildcal.version"}


SLOW = ("scipy", "rich", "matplotlib", "torch", "sklearn")


def slow(modules):
    return {m for m in modules for name in SLOW if m == name or m.startswith(f"{name}.")}


def test_calibrators_files_and_evaluation_come_without_scipy():
    """SciPy is loaded by the fit that needs it."""
    modules = modules_of("from wildcal import TemperatureScaling, evaluate, load, read_samples")
    outside = {m.split(".")[0] for m in modules if not m.startswith("_")}
    # numpy.f2py, which array_api_compat.numpy imports, takes charset_normalizer where there is one.
    others = {"cython_runtime", "charset_normalizer", "coverage", "$coverage"}
    allowed = {*sys.stdlib_module_names, "wildcal", "numpy", "array_api_compat", *others}
    assert outside - allowed == set()
    assert slow(modules) == set()


def test_help_imports_no_command():
    modules = modules_of("from wildcal.cli.main import run\nrun(['--help'])")
    assert slow(modules) == set()
    assert {m for m in modules if m.startswith(("numpy", "wildcal.cal", "wildcal.io"))} == set()
    assert "wildcal.cli.fit" not in modules


def test_a_fit_of_one_temperature_imports_nothing_slow(tmp_path):
    logits = np.array([[3.0, 0.0], [3.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    np.savez(tmp_path / "rows.npz", logits=logits, y=np.array([0, 0, 1, 1]))
    words = ["fit", str(tmp_path / "rows.npz"), "--method", "ts", "-o", str(tmp_path / "ts.json")]
    modules = modules_of(f"from wildcal.cli.main import run\nassert run({words!r}) == 0")
    assert slow(modules) == set()


def test_dependencies_are_five():
    """With those of rich (markdown-it-py, mdurl, pygments) eight packages are installed."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    names = sorted(line.split(">")[0] for line in project["dependencies"])
    assert names == ["array-api-compat", "click", "numpy", "rich", "scipy"]


def test_typed_marker_is_shipped():
    assert (importlib.resources.files("wildcal") / "py.typed").is_file()


def test_every_calibrator_declares_its_promises():
    for name in wildcal.CALIBRATORS:
        calibrator = wildcal.get_calibrator(name)
        for promise in ("preserves_accuracy", "uses_ood", "requires_raw_logits"):
            assert isinstance(getattr(calibrator, promise), bool)
        assert calibrator.name == name
        assert calibrator.title
        assert calibrator.__doc__


def test_names_of_version_0_1_raise_with_the_new_name():
    with pytest.raises(AttributeError, match="renamed `get_calibrator` in 0.2"):
        _ = wildcal.make_calibrator
