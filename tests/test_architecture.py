"""Imports between packages, and the size of the source."""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

import wildcal

SRC = Path(wildcal.__file__).parent

# Imports go down only.
LAYERS = {
    "core": set(),
    "tables": set(),
    "calibrators": {"core"},
    "metrics": {"core"},
    "io": {"core"},
    "suites.py": {"core", "io"},
    "testing.py": {"core", "io"},
    "corruptions": {"core"},
    "accuracy": {"core", "calibrators"},
    "window": {"core", "calibrators", "accuracy"},
    "evaluation": {"core", "metrics", "io", "tables"},
    "interop": {"core", "window", "io", "metrics", "evaluation"},
    "monitor": {"core", "io", "accuracy", "window"},
    "serve": {"core", "io", "accuracy", "monitor"},
    "plots": {"core", "metrics", "io", "evaluation", "monitor"},
    "report": {"core", "metrics", "io", "evaluation", "tables", "plots"},
    "vision": {"core", "io", "corruptions"},
    "cli": {
        *("core", "metrics", "io", "evaluation", "accuracy", "window", "monitor", "serve"),
        *("corruptions", "suites", "vision", "report", "plots", "interop", "tables", "testing"),
    },
}
NUMERIC = {"array_api_compat", "numpy", "scipy"}
# What each layer may take from outside the standard library.
OUTSIDE = {layer: NUMERIC for layer in LAYERS} | {
    "tables": {"rich"},
    "evaluation": {*NUMERIC, "pandas"},
    "serve": {
        *("numpy", "fastapi", "starlette", "pydantic", "pydantic_core", "uvicorn"),
        *("httptools", "prometheus_client"),
    },
    "io": {*NUMERIC, "safetensors", "torch", "pyarrow", "dask", "pandas", "polars"},
    "corruptions": {"numpy", "scipy", "PIL", "cv2"},
    "vision": {
        *NUMERIC,
        "PIL",
        "cv2",
        "torch",
        "safetensors",
        "onnxruntime",
        "onnx",
        "faiss",
        "distributed",
    },
    "plots": {*NUMERIC, "matplotlib", "pandas"},
    "report": {*NUMERIC, "matplotlib", "jinja2"},
    "interop": {
        *NUMERIC,
        *(
            "sklearn",
            "torch",
            "ndonnx",
            "onnx",
            "onnxruntime",
            "spox",
            "dask",
            "distributed",
        ),
        *("starlette", "torchmetrics", "lightning", "transformers"),
    },
    "cli": {"numpy", "click", "rich"},
}
EVERYWHERE = {"version"}


def files(layer):
    path = SRC / layer
    return [path] if path.suffix and path.exists() else sorted(path.rglob("*.py"))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            packages = node.module == "wildcal"
            yield from (f"wildcal.{a.name}" for a in node.names) if packages else (node.module,)


def test_layers():
    wrong = []
    for layer, allowed in LAYERS.items():
        own = layer.removesuffix(".py")
        for path in files(layer):
            for name in imports(path):
                first, *rest = name.split(".")
                if first != "wildcal":
                    continue
                target = rest[0] if rest else "wildcal"
                if target not in allowed | EVERYWHERE | {own}:
                    wrong.append(f"{path.relative_to(SRC)} imports {name}")
    assert wrong == []


def test_outside_packages():
    wrong = [
        f"{path.relative_to(SRC)} imports {name}"
        for layer, allowed in OUTSIDE.items()
        for path in files(layer)
        for name in imports(path)
        if name.split(".")[0] not in allowed | {"wildcal"} | set(sys.stdlib_module_names)
    ]
    assert wrong == []


def test_documented_layers():
    text = (SRC.parents[1] / "docs" / "architecture.md").read_text("utf-8")
    table = text.partition("## Packages")[2].partition("\n\nThe registry")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    shown = {row[1].strip(" `"): set(re.findall(r"`(\w+)`", row[3])) for row in rows}
    layers = {layer.removesuffix(".py"): allowed for layer, allowed in LAYERS.items()}
    shown["cli"] = set(layers) - {"cli", *shown["cli"]}  # the row names the only exception
    assert shown == layers


def test_every_module_is_in_the_table():
    parts = {p.name for p in SRC.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert parts <= set(LAYERS) | {"__init__.py", "__main__.py", "version.py"}


def test_no_circular_imports_of_calibrators():
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


def test_calibrators_do_not_check_input():
    """`core.validation` checks logits and labels; a method checks its options."""
    for path in files("calibrators"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name in ("_fit", "_bind"):
                raised = [n for n in ast.walk(node) if isinstance(n, ast.Raise)]
                assert not raised, f"{path.name}: {node.name} raises"


def test_the_library_names_no_command_line_options():
    """Errors carry `.param`, and the command line says which option that is."""
    for path in SRC.rglob("*.py"):
        if path.relative_to(SRC).parts[0] in ("cli",):
            continue
        raised = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Raise)]
        texts = [n for r in raised for n in ast.walk(r) if isinstance(n, ast.Constant)]
        named = [n for n in texts if re.search(r" --[a-z]|`wildcal [a-z]", str(n.value))]
        assert not named, f"{path.name}:{named[0].lineno} names a command or a flag"


NOT_CODE = ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")


def code_lines(path):
    """Return the lines without comments, docstrings and blank lines."""
    text = path.read_text("utf-8")
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokenize.tok_name[token.type] not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(
            node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        ) and ast.get_docstring(node):
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    every = text.splitlines()
    return [every[number - 1].strip() for number in sorted(lines)]


def test_size():
    sizes = {path.relative_to(SRC): len(code_lines(path)) for path in SRC.rglob("*.py")}
    assert sum(sizes.values()) <= 20_000
    assert len(sizes) <= 220
    assert {path: size for path, size in sizes.items() if size > 400} == {}


def test_no_ten_lines_are_written_twice():
    places = {}
    for path in SRC.rglob("*.py"):
        lines = code_lines(path)
        for i in range(len(lines) - 9):
            places.setdefault(tuple(lines[i : i + 10]), []).append(path.name)
    assert [found for found in places.values() if len(found) > 1] == []
