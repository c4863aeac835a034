"""The tests themselves without torch: every module is collected, and what needs torch is skipped,
never an error."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

# None in sys.modules makes an import fail as if the module were not installed.
COLLECT = """
import sys
sys.modules["torch"] = None
import pytest
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", sys.argv[1]]))
"""


def test_every_module_is_collected_without_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, str(HERE)],
        capture_output=True,
        text=True,
        timeout=300,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stdout[-3000:]
