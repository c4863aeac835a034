#!/usr/bin/env python3
"""weight.py LIB.so COMMAND: the stripped library has at most 5 MB and links libc, libm, pthreads
and zlib only; the command runs a model within 4 GiB of address space."""

from __future__ import annotations

import pathlib
import re
import resource
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 5_000_000
ADDRESS_SPACE = 4 << 30
MAY_NEED = re.compile(r"^(libc|libm|libpthread|libz|ld-linux-x86-64|ld-linux-aarch64)\.so")


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def main() -> int:
    library, command = sys.argv[1:]
    needs = re.findall(
        r"NEEDED\s+(\S+)",
        subprocess.run(["objdump", "-p", library], capture_output=True, text=True).stdout,
    )
    others = [name for name in needs if not MAY_NEED.match(name)]
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, library], check=True)
        size = pathlib.Path(stripped.name).stat().st_size
    print(f"{size} bytes stripped; links {' '.join(needs)}")
    model = TOP / "tests" / "data" / "digits.pt"
    run = subprocess.run(
        [command, "run", str(model), "zeros(64,1,8,8)", "--threads=8"],
        capture_output=True,
        text=True,
        preexec_fn=limited,
    )
    print(f"in 4 GiB of address space: exit code {run.returncode} {run.stderr}")
    return 1 if others or not needs or size > MOST_BYTES or run.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
