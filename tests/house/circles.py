#!/usr/bin/env python3
"""circles.py [ROOT]: files of python/ that need each other in a loop, and calls from C up into the
package.

A C file needs the file that defines a function it calls: functions that several files call begin
with `py_`, so the texts say it.  A Python file needs what it imports, also inside functions;
imports for type checkers alone count for nothing.  At most MOST files may need each other in a
loop: more cannot be read apart.  The extension imports nothing of the package, which hands it what
it may call.
"""

from __future__ import annotations

import ast
import pathlib
import re
import sys

MOST = 3
DEFINED = re.compile(r"^(?!static)[A-Za-z_][\w \*]*?\b(py_\w+)\((?![^;{]*;)", re.M)
CALLED = re.compile(r"\bpy_\w+\b")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
UPWARD = re.compile(r'PyImport_Import\w*\(\s*"rushlight')


def arrows_of_c(folder: pathlib.Path, complaints: list[str]) -> dict[str, set[str]]:
    texts = {p.name: COMMENT.sub("", p.read_text()) for p in sorted(folder.glob("*.c"))}
    home = {name: file for file, text in texts.items() for name in DEFINED.findall(text)}
    for file, text in texts.items():
        if UPWARD.search(text):
            complaints.append(f"{file}: imports a module of the package; see py_package_call")
    return {
        file: {home[name] for name in CALLED.findall(text) if name in home} - {file}
        for file, text in texts.items()
    }


def for_checkers(tree: ast.Module) -> set[ast.AST]:
    """All below `if TYPE_CHECKING:`."""
    return {
        below
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for below in ast.walk(node)
    }


def imported(node: ast.AST, package: str) -> list[str]:
    """Dotted names that may be modules."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    return [name for a in node.names for name in (f"{base}.{a.name}", base)]


def arrows_of_python(folder: pathlib.Path) -> dict[str, set[str]]:
    modules = {
        ".".join(p.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__"): p
        for p in sorted(folder.rglob("*.py"))
    }
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        tree = ast.parse(path.read_text())
        skipped = for_checkers(tree)
        found[name] = set()
        for node in ast.walk(tree):
            names = [] if node in skipped else imported(node, package)
            # `from . import x` needs x, and the package's own file only when x is none of its files
            if isinstance(node, ast.ImportFrom) and not node.module:
                names = [n for n in names if n != package.rpartition(".")[0] and n != package]
            found[name] |= {n for n in names if n in modules} - {name}
    return found


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected sets of more than one file (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(at: str) -> None:
        number[at] = low[at] = len(number)
        stack.append(at)
        for to in sorted(arrows[at]):
            if to not in number:
                visit(to)
                low[at] = min(low[at], low[to])
            elif to in stack:
                low[at] = min(low[at], number[to])
        if low[at] == number[at]:
            one = [stack.pop()]
            while one[-1] != at:
                one.append(stack.pop())
            if len(one) > 1:
                found.append(sorted(one))

    for name in arrows:
        if name not in number:
            visit(name)
    return found


def main() -> int:
    top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    top = top.parents[2] if top.is_file() else top
    complaints: list[str] = []
    c = arrows_of_c(top / "python" / "_rushlight", complaints)
    python = arrows_of_python(top / "python" / "rushlight")
    if not any(c.values()) or not any(python.values()):
        complaints.append("no arrows were found: are the files elsewhere now?")
    for one in circles(c) + circles(python):
        if len(one) > MOST:
            complaints.append(f"{len(one)} files need each other in a loop: {', '.join(one)}")
    for line in complaints:
        print(line)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
