#!/usr/bin/env python3
"""Every header compiles alone as C11; public ones also without our flags, and as C++17.

headers.py CC [CXX]; without a C++ compiler that half is skipped.
"""

from __future__ import annotations

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any

TOP = pathlib.Path(__file__).resolve().parents[2]


def refused(command: list[str], text: str) -> Any:
    run = subprocess.run(
        command + ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-"],
        input=text,
        text=True,
        capture_output=True,
        check=False,
    )
    return run.stderr if run.returncode else ""


def main() -> int:
    cc = shlex.split(sys.argv[1])
    cxx = (
        shlex.split(sys.argv[2])
        if len(sys.argv) > 2 and shutil.which(sys.argv[2].split()[0])
        else None
    )
    complaints = []
    internal = sorted((TOP / "src").rglob("*.h"))
    for header in internal:
        name = header.relative_to(TOP / "src")
        flags = [
            "-xc",
            "-std=c11",
            "-D_GNU_SOURCE",
            "-DRUSH_ISA_X86",
            "-Wno-unused-function",
            f"-I{TOP / 'src'}",
            f"-I{TOP / 'include'}",
        ]
        complaints.append(refused(cc + flags, f'#include "{name}"\n#include "{name}"\n'))
    for header in sorted((TOP / "include").rglob("*.h")):
        text = f'#include "{header.relative_to(TOP / "include")}"\n' * 2
        complaints.append(
            refused(cc + ["-xc", "-std=c11", "-pedantic", f"-I{TOP / 'include'}"], text)
        )
        if cxx:
            complaints.append(
                refused(cxx + ["-xc++", "-std=c++17", "-pedantic", f"-I{TOP / 'include'}"], text)
            )
        bare = [
            m
            for m in re.findall(r"^#define (\w+)", header.read_text(), re.M)
            if not m.startswith(("RUSH", "rush_"))
        ]
        if bare:
            complaints.append(
                f"{header.name}: public macros without the prefix: {', '.join(bare)}\n"
            )
    complaints = [c for c in complaints if c]
    print("".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
