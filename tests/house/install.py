#!/usr/bin/env python3
"""install.py BUILD CC: install into a folder, build the example as a user would (pkg-config shared and static, CMake), run it."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = str(TOP / "examples" / "classify.c")


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        print("$", shlex.join(map(str, command)), "\n", done.stdout, done.stderr)
        sys.exit(1)
    return done.stdout


def main():
    build, cc = sys.argv[1], shlex.split(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        run(["meson", "install", "-C", build, "--no-rebuild", "-q", "--tags", "devel,runtime", "--destdir", str(work / "d")])
        pc = next((work / "d").rglob("rushlight.pc"))
        lib = pc.parent.parent
        prefix = str(next((work / "d").rglob("include")).parent)
        env = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), LD_LIBRARY_PATH=str(lib))
        config = ["pkg-config", f"--define-variable=prefix={prefix}"]
        programs = [work / "shared", work / "static"]
        flags = run(config + ["--cflags", "--libs", "rushlight"], env=env).split()
        run([*cc, EXAMPLE, *flags, "-o", str(programs[0])])
        flags = run(config + ["--cflags", "--libs", "--static", "rushlight"], env=env).split()
        flags = [str(lib / "librushlight.a") if flag == "-lrushlight" else flag for flag in flags]
        run([*cc, EXAMPLE, *flags, "-o", str(programs[1])])
        if shutil.which("cmake"):
            run(["cmake", "-S", str(TOP / "examples"), "-B", str(work / "c"), f"-DCMAKE_PREFIX_PATH={prefix}",
                 f"-DCMAKE_C_COMPILER={cc[-1]}"])
            run(["cmake", "--build", str(work / "c")])
            programs += [work / "c" / "classify", work / "c" / "classify_static"]
        answers = {run([str(p), str(TOP / "tests" / "data" / model)], env=env)
                   for p in programs for model in ("digits.pt", "digits.pt2")}
        flags = run(config + ["--cflags", "--libs", "rushlight"], env=env).split()
        run([*cc, str(TOP / "examples" / "custom_op.c"), *flags, "-lm", "-o", str(work / "custom_op")])
        if "1.7616" not in run([str(work / "custom_op")], env=env):
            print("custom_op: another answer")
            sys.exit(1)
        if len(answers) != 1:
            print("different answers:", answers)
            sys.exit(1)


if __name__ == "__main__":
    main()
