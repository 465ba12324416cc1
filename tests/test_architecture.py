"""Who may import whom, held as a table."""

import ast
import re
import sys
from pathlib import Path

import wildcal

SRC = Path(wildcal.__file__).parent

# Imports go down only.
LAYERS = {
    "core": set(),
    "calibrators": {"core"},
    "window": {"core", "calibrators"},
    "io": {"core"},
    "interop": {"core", "window", "io", "metrics", "serve"},
    "testing.py": {"core", "io"},
    "metrics": {"core"},
    "tables": set(),
    "engine": {"core", "io"},
    "evaluation": {"core", "metrics", "io", "tables"},
    "accuracy": {"core", "io"},
    "stream": {"core", "metrics", "io"},
    "serve": {"core", "io", "stream"},
    "shift": set(),
    "vision": {"core", "io", "shift"},
    "report": {"core", "metrics", "io", "evaluation", "tables"},
    "plots": {"core", "metrics", "io", "evaluation", "report", "stream"},
    "suites.py": {"core", "io"},
    "cli": {
        *("core", "metrics", "io", "evaluation", "accuracy", "window", "stream", "serve", "shift"),
        *("suites", "vision", "report", "interop", "tables", "testing", "engine"),
    },
}
# Rows of the table in docs/architecture.md.
DOCUMENTED = ("core", "calibrators", "window", "io", "interop", "testing.py")
# Packages and modules that still use the core of version 0.1. The others never import it.
UNPORTED = {
    *("accuracy", "cli", "engine", "evaluation", "metrics", "plots", "report", "serve", "stream"),
    *("suites.py", "vision", "io/__init__.py", "io/files.py", "io/sources", "io/suite"),
    *("io/tables", "interop/asgi.py", "interop/torchmetrics.py", "interop/transformers.py"),
}
# What each layer may take from outside the standard library.
OUTSIDE = {layer: {"numpy", "scipy"} for layer in LAYERS} | {
    **{
        layer: {"array_api_compat", "numpy", "scipy"} for layer in ("core", "calibrators", "window")
    },
    "evaluation": {"numpy", "scipy", "pandas"},
    "serve": {"numpy", "starlette", "uvicorn", "prometheus_client"},
    "io": {"numpy", "scipy", "safetensors", "torch", "pyarrow", "zarr", "dask"},
    "engine": {"numpy", "distributed", "cloudpickle"},
    "shift": {"numpy", "scipy", "PIL", "cv2"},
    "vision": {"numpy", "scipy", "PIL", "torch", "safetensors", "onnxruntime", "onnx", "faiss"},
    "report": {"numpy", "scipy", "matplotlib"},
    "interop": {
        *("array_api_compat", "numpy", "rich", "sklearn", "torch", "ndonnx", "onnx", "onnxruntime"),
        *("starlette", "torchmetrics", "lightning", "pytorch_lightning", "transformers"),
    },
    "plots": {"numpy", "scipy", "matplotlib"},
    "tables": {"rich"},
    "cli": {"numpy", "click", "rich"},
}
EVERYWHERE = {"version"}


def files(layer):
    path = SRC / layer
    return [path] if path.suffix else sorted(path.rglob("*.py"))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            yield node.module


def is_unported(path):
    parts = path.relative_to(SRC).parts
    return parts[0] in UNPORTED or "/".join(parts[:2]) in UNPORTED


def test_layers():
    wrong = []
    for layer, allowed in LAYERS.items():
        own = layer.removesuffix(".py")
        for path in files(layer):
            old = {"_old"} if is_unported(path) else set()
            for name in imports(path):
                first, *rest = name.split(".")
                if first != "wildcal":
                    continue
                target = rest[0] if rest else "wildcal"
                if target not in allowed | EVERYWHERE | old | {own}:
                    wrong.append(f"{path.relative_to(SRC)} imports {name}")
    assert wrong == []


def test_the_unported_use_the_old_core():
    """A package that no longer does leaves the list."""
    using = {
        entry
        for entry in UNPORTED
        for path in files(entry)
        if any(name.startswith("wildcal._old") for name in imports(path))
    }
    assert using == UNPORTED


def test_outside_packages():
    wrong = [
        f"{path.relative_to(SRC)} imports {name}"
        for layer, allowed in OUTSIDE.items()
        for path in files(layer)
        for name in imports(path)
        if name.split(".")[0] not in allowed | {"wildcal"} | set(sys.stdlib_module_names)
    ]
    assert wrong == []


def test_the_page_has_the_same_table():
    text = (SRC.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    table = text.partition("## Packages")[2].partition("\n\nThe registry")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    shown = {row[1].strip(" `"): set(re.findall(r"`(\w+)`", row[3])) for row in rows}
    assert shown == {layer.removesuffix(".py"): LAYERS[layer] for layer in DOCUMENTED}


def test_every_module_is_in_the_table():
    parts = {p.name for p in SRC.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert parts <= set(LAYERS) | {"__init__.py", "__main__.py", "version.py", "_old"}


def test_calibrators_import_each_other_without_circles():
    names = {p.stem for p in (SRC / "calibrators").glob("*.py")} - {"__init__"}
    needs = {
        name: {
            i.split(".")[2]
            for i in imports(SRC / "calibrators" / f"{name}.py")
            if i.startswith("wildcal.calibrators.")
        }
        for name in names
    }
    while needs:
        free = [name for name, wanted in needs.items() if not wanted & set(needs)]
        assert free, f"a circle among {sorted(needs)}"
        for name in free:
            del needs[name]


def test_private_methods_of_calibrators_stay_in_their_rooms():
    homes = [SRC / "core" / "calibrator.py", *files("calibrators"), *files("window")]
    private = {
        member.name
        for path in homes
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for member in node.body
        if isinstance(member, ast.FunctionDef) and re.match(r"_[a-z]", member.name)
    }
    # Estimators of accuracy are no calibrators, and have methods of the same names.
    for path in sorted(set(SRC.rglob("*.py")) - {*homes, *files("accuracy"), *files("_old")}):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in private:
                owner = getattr(node.value, "id", "")
                assert owner in ("self", "cls"), f"{path.name}:{node.lineno} calls {node.attr}"


def test_calibrators_leave_input_errors_to_the_door():
    """Fitted values and options are theirs to judge; logits and labels are not."""
    for path in files("calibrators"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name in ("_fit", "_bind"):
                raised = [n for n in ast.walk(node) if isinstance(n, ast.Raise)]
                assert not raised, f"{path.name}: {node.name} raises"


def test_the_library_knows_no_command_line():
    """What it advises is said in words; `wildcal.cli.words` makes them commands."""
    for path in SRC.rglob("*.py"):
        if path.relative_to(SRC).parts[0] == "cli":
            continue
        raised = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Raise)]
        texts = [n for r in raised for n in ast.walk(r) if isinstance(n, ast.Constant)]
        named = [n for n in texts if re.search(r" --[a-z]|`wildcal [a-z]", str(n.value))]
        assert not named, f"{path.name}:{named[0].lineno} names a command or a flag"
