"""How large the house is: lines, long functions, functions with many parameters.

python benchmarks/house.py [FOLDER] [--names]
"""

import ast
import sys
from pathlib import Path

LONGEST, MOST = 50, 6
Function = ast.FunctionDef | ast.AsyncFunctionDef


def n_lines(function: Function) -> int:
    """Return the lines of a function without its docstring."""
    text = ast.get_docstring(function, clean=False)
    return function.end_lineno - function.lineno + 1 - (text.count("\n") + 1 if text else 0)


def n_parameters(function: Function) -> int:
    """Return how many values a caller can give, self aside."""
    given = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return sum(argument.arg not in ("self", "cls") for argument in given)


def main() -> None:
    """Print the counts of src and tests below a folder, with --names the functions too."""
    words = [word for word in sys.argv[1:] if word != "--names"]
    root = Path(words[0]) if words else Path(__file__).parents[1]
    for part in ("src", "tests"):
        texts = {path: path.read_text("utf-8") for path in sorted((root / part).rglob("*.py"))}
        functions = [
            (path, node)
            for path, text in texts.items()
            for node in ast.walk(ast.parse(text))
            if isinstance(node, Function)
        ]
        long = [(p, f) for p, f in functions if n_lines(f) > LONGEST]
        many = [(p, f) for p, f in functions if n_parameters(f) > MOST]
        lines = sum(text.count("\n") for text in texts.values())
        print(
            f"{part}: {len(texts)} files, {lines:,} lines, {len(functions):,} functions,"
            f" {len(long)} above {LONGEST} lines, {len(many)} above {MOST} parameters"
        )
        if "--names" in sys.argv and part == "src":
            for kind, found, count in (
                ("lines", long, n_lines),
                ("parameters", many, n_parameters),
            ):
                for path, function in found:
                    place = f"{path.relative_to(root / part)}:{function.lineno}"
                    print(f"  {count(function):3d} {kind} {place} {function.name}")


if __name__ == "__main__":
    main()
