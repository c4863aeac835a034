#!/usr/bin/env python3
"""install.py BUILD CC [CXX]: install into a folder, build the examples as users would (pkg-config
shared and static, C and C++, CMake's find_package), run them; and that the manual page and the
completions are installed."""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import Any

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = TOP / "examples"
INSTALLED = ("bin/rushlight", "share/man/man1/rushlight.1",
             "share/bash-completion/completions/rushlight",
             "share/zsh/site-functions/_rushlight",
             "share/fish/vendor_completions.d/rushlight.fish",
             "share/doc/rushlight/LICENSE", "share/doc/rushlight/docs/embedding.md")  # fmt: skip


def run(command: list[Any], **options: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        print("$", shlex.join(map(str, command)), "\n", done.stdout, done.stderr)
        sys.exit(1)
    return done.stdout


def build_all(
    work: pathlib.Path, root: pathlib.Path, cc: list[str], cxx: list[str] | None, env: dict
) -> list[pathlib.Path]:
    """Build every example that classifies."""
    lib = next(root.rglob("rushlight.pc")).parent.parent
    config = ["pkg-config", f"--define-variable=prefix={root}"]
    shared = run([*config, "--cflags", "--libs", "rushlight"], env=env).split()
    static = run([*config, "--cflags", "--libs", "--static", "rushlight"], env=env).split()
    static = [str(lib / "librushlight.a") if flag == "-lrushlight" else flag for flag in static]
    programs = []
    for compiler, source, kinds in (
        (cc, "classify.c", (shared, static)),
        (cxx, "classify.cpp", (shared, static)),
    ):
        for flags in kinds if compiler else ():
            programs.append(work / f"program{len(programs)}")
            standard = ["-std=c++17"] if source.endswith("pp") else []
            run(
                [
                    *compiler,
                    *standard,
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    EXAMPLES / source,
                    *flags,
                    "-o",
                    programs[-1],
                ]
            )
    run([*cc, EXAMPLES / "custom_op.c", *shared, "-lm", "-o", work / "custom_op"])
    if "1.7616" not in run([work / "custom_op"], env=env):
        sys.exit("custom_op: another answer")
    plugin = work / "pointwise_compiler.so"
    flags = run([*config, "--cflags", "rushlight"], env=env).split()
    run(
        [
            *cc,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            EXAMPLES / "pointwise_compiler.c",
            *flags,
            "-o",
            plugin,
        ]
    )
    run(
        [
            *cc,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
            EXAMPLES / "plugin_op.c",
            *flags,
            "-o",
            work / "plugin_op.so",
        ]
    )
    run([*cc, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", EXAMPLES / "row_compiler.c",
         *flags, "-lm", "-o", work / "row_compiler.so"])  # fmt: skip
    if shutil.which("cmake") and cxx:
        run(["cmake", "-S", EXAMPLES, "-B", work / "c", f"-DCMAKE_PREFIX_PATH={root}",
             f"-DCMAKE_C_COMPILER={cc[-1]}", f"-DCMAKE_CXX_COMPILER={cxx[-1]}"])  # fmt: skip
        run(["cmake", "--build", work / "c"])
        programs += [work / "c" / name for name in ("classify", "classify_static", "classify_cpp")]
    return programs


def main() -> int:
    build, cc = sys.argv[1], shlex.split(sys.argv[2])
    cxx = shlex.split(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[3] else None
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        run(
            [
                "meson",
                "install",
                "-C",
                build,
                "--no-rebuild",
                "-q",
                "--tags",
                "devel,runtime,command",
                "--destdir",
                work / "d",
            ]
        )
        pc = next((work / "d").rglob("rushlight.pc"))
        root = next((work / "d").rglob("include")).parent
        env = dict(
            os.environ, PKG_CONFIG_PATH=str(pc.parent), LD_LIBRARY_PATH=str(pc.parent.parent)
        )
        missing = [path for path in INSTALLED if not (root / path).exists()]
        if missing:
            sys.exit(f"not installed: {', '.join(missing)}")
        programs = build_all(work, root, cc, cxx, env)
        models = [TOP / "tests" / "data" / model for model in ("digits.pt", "digits.pt2")]
        answers = {run([program, model], env=env) for program in programs for model in models}
        if len(answers) != 1:
            sys.exit(f"different answers: {answers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
