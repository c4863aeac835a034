#!/usr/bin/env python3
"""run_tests.py BUILD: run all tests, the fastest first, and print a last line: N passed, N failed.

Order: meson's suites (C unit tests, the house's rules), then tests/python with pytest. Tests that
cannot run here (no pytest, no torch, no corpus) are named, and count as neither.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

TOP = pathlib.Path(__file__).resolve().parent.parent
PYTEST_SECONDS = 2400


def meson_tests(build: pathlib.Path) -> tuple[int, int]:
    """Return (passed, failed) of `meson test`: cases of cmocka programs are counted one by one,
    other programs as one."""
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    # The limits of tests detect hangs; a machine with other work gets four times as long.
    subprocess.run(
        ["meson", "test", "-C", str(build), "--no-rebuild", "-q", "--print-errorlogs", "-t", "4"],
        check=False,
    )
    passed = failed = 0
    if not log.exists():
        return 0, 1
    for line in log.read_text().splitlines():
        one = json.loads(line)
        text = one.get("stdout", "") + one.get("stderr", "")
        good = len(re.findall(r"^\[ +OK \]", text, re.M))
        bad = len(set(re.findall(r"^\[  FAILED  \] (\w+)$", text, re.M)))
        if one["result"] == "SKIP":
            print(
                f"skipped: {one['name']}: {text.strip().splitlines()[-1] if text.strip() else ''}"
            )
        elif one["result"] in ("OK", "EXPECTEDFAIL"):
            passed += max(good, 1)
        else:
            passed += good
            failed += max(bad, 1)
            print(f"FAILED: {one['name']}")
    return passed, failed


def python_has(module: str) -> bool:
    return (
        subprocess.run(
            [sys.executable, "-c", f"import {module}"], capture_output=True, check=False
        ).returncode
        == 0
    )


def print_failures(suite: ElementTree.Element) -> None:
    """Print one line per failed test, after everything else: the end of a log then lists all
    failures."""
    for case in suite.iter("testcase"):
        for kind in ("failure", "error"):
            for fault in case.iter(kind):
                words = " ".join(fault.get("message", "").split())
                print(f"FAILED: {case.get('classname')}::{case.get('name')[:100]}: {words[-300:]}")


def python_tests(build: pathlib.Path) -> tuple[int, int]:
    folder = TOP / "tests" / "python"
    if not any(folder.glob("test_*.py")):
        return 0, 0
    if not python_has("pytest"):
        print("skipped: tests/python: no pytest here")
        return 0, 0
    if not python_has("torch"):
        print("skipped: comparisons with PyTorch: no torch here (set PYTHON, or RUSH_GET_TORCH=1)")
    if not (
        pathlib.Path(os.environ.get("RUSHLIGHT_SHARED", TOP.parent / "shared")) / "corpus"
    ).is_dir():
        print("skipped: the corpus: no ../shared here (nor RUSHLIGHT_SHARED)")
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    env = dict(
        os.environ,
        RUSH_BUILD_DIR=str(build),
        PYTHONPATH=os.pathsep.join([str(build / "python"), os.environ.get("PYTHONPATH", "")]),
    )
    try:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x" if os.environ.get("RUSH_STOP") else "-q",
                "-p",
                "no:cacheprovider",
                f"--junitxml={report}",
                str(folder),
            ],
            env=env,
            check=False,
            timeout=PYTEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        print(f"tests/python took longer than {PYTEST_SECONDS} seconds")
        return 0, 1
    if not report.exists():
        return 0, 1
    passed = failed = 0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        bad = int(suite.get("failures")) + int(suite.get("errors"))
        failed += bad
        passed += int(suite.get("tests")) - bad - int(suite.get("skipped"))
        reasons = collections.Counter(
            skip.get("message", "").strip() for skip in suite.iter("skipped")
        )
        for reason, n in sorted(reasons.items()):
            print(f"skipped: {n} of tests/python: {reason}")
        print_failures(suite)
    return passed, failed


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    results = [meson_tests(build)]
    if results[0][1] == 0:
        results.append(python_tests(build))
    else:
        print("skipped: tests/python, until the tests above pass")
    passed, failed = (sum(column) for column in zip(*results, strict=True))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
