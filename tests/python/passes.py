"""The passes' cases: tests/passes/PASS/CASE.ir, graph text before and behind a line `---`.

Lines that begin with `#` are the case's comment.  `# torch: NAME` compares with
torch._C._jit_pass_NAME on the same text, up to the numbers of values; `# torch: NAME(x)` passes
Python values; `# torch: no, WHY` does not.  `--update` writes what the passes give, and the table
of docs/passes.md:

    python tests/python/passes.py --update [PASS...]      then read the difference
"""

from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
CASES = TOP / "tests" / "passes"


def tool(build: pathlib.Path) -> pathlib.Path:
    return build / "tests" / "pass_tool"


def run(build: pathlib.Path, passes: str, texts: list[str], timed: bool = False) -> list[str]:
    """Each graph's text after the passes, or `error: ...`."""
    command = [str(tool(build)), *(["--time"] if timed else []), passes]
    done = subprocess.run(
        command, input="\n---\n".join(texts), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [text.strip() + "\n" for text in done.stdout.split("\n---")][: len(texts)]


def listed(build: pathlib.Path, of_functions: bool = False) -> dict[str, str]:
    """Name and line of each pass; of_functions: without those that change what a graph takes."""
    done = subprocess.run([str(tool(build)), "--list"], capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {name: what for name, what, signature, _ in rows if not (of_functions and signature)}


def rounding(build: pathlib.Path) -> set[str]:
    """Names of the passes after which results may be rounded differently."""
    done = subprocess.run([str(tool(build)), "--list"], capture_output=True, text=True, check=True)
    return {line.split("\t")[0] for line in done.stdout.splitlines() if line.endswith("rounds")}


def normal(text: str) -> str:
    """Without names and places of values and layout."""
    seen: dict[str, str] = {}
    text = re.sub(r" # .*", "", text)
    text = re.sub(r"%([\w.]+)", lambda m: seen.setdefault(m[0], f"%{len(seen)}"), text)
    return re.sub(r"\s+", " ", text).strip()


class Case:
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.name = path.parent.name
        before, _, self.after = path.read_text().partition("\n---\n")
        self.comment = [line for line in before.splitlines() if line.startswith("#")]
        self.text = (
            "\n".join(line for line in before.splitlines() if not line.startswith("#")) + "\n"
        )
        wanted = [line[len("# torch: ") :] for line in self.comment if line.startswith("# torch: ")]
        self.torch = wanted[0] if wanted and not wanted[0].startswith("no") else ""

    def write(self, after: str) -> None:
        self.path.write_text("\n".join([*self.comment, self.text.rstrip("\n"), "---", after]))

    def of_torch(self) -> str:
        import torch

        match = re.fullmatch(r"(\w+)(\(.*\))?", self.torch)
        assert match, self.torch
        graph = torch._C.parse_ir(self.text)
        arguments = ast.literal_eval(match[2][:-1] + ",)") if match[2] and match[2] != "()" else ()
        result = getattr(torch._C, f"_jit_pass_{match[1]}")(graph, *arguments)
        return str(result if isinstance(result, torch._C.Graph) else graph)


def cases(name: str = "*") -> list[Case]:
    return [Case(path) for path in sorted(CASES.glob(f"{name}/*.ir"))]


def write_table(build: pathlib.Path) -> None:
    page = TOP / "docs" / "passes.md"
    rounds = rounding(build)
    rows = "".join(
        f"| `{name}` | {'no' if name in rounds else 'yes'} | {what} |\n"
        for name, what in listed(build).items()
    )
    text = re.sub(r"^\| `\w+` \| (yes|no) \|.*\n", "", page.read_text(), flags=re.M)
    page.write_text(text.replace("|---|---|---|\n", "|---|---|---|\n" + rows))


if __name__ == "__main__":
    build = pathlib.Path(os.environ.get("RUSH_BUILD_DIR", TOP / "build")).resolve()
    names = [word for word in sys.argv[1:] if word != "--update"]
    for case in [case for name in names or ["*"] for case in cases(name)]:
        got = run(build, case.name, [case.text])[0]
        if got != case.after:
            print(f"{case.path.relative_to(TOP)} differs")
        if "--update" in sys.argv:
            case.write(got)
    if "--update" in sys.argv:
        write_table(build)
