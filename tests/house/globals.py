#!/usr/bin/env python3
"""globals.py CORE.a: the library's writable data is the list below and nothing else (DESIGN: three
globals)."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

ALLOWED = {
    "default_context",
    "default_lock",  # base/context.c: the default context and its lock
    "fork_generation",  # base/threads.c: which child of a fork this is
    "one",  # base/threads.c: repairs locks in such a child
    "once",
    "features",  # base/cpu.c: what the machine has, read once
    "mine",  # base/memory.c: per thread, its shard of the accounts
    "look",  # base/context.c: per thread, when the host is asked next whether the call goes on
    "held",  # base/lock.c: per thread, the locks that it holds
    # tensor/storage.c: per thread, free tensor headers, flushed when the thread ends
    "caches",
    "caches_lock",
    "thread_end_key",
    "thread_end_once",
}
WRITABLE = re.compile(r"^\.(data|bss|tdata|tbss)(\.(?!rel\.ro)|$)")


def main() -> Any:
    text = subprocess.run(
        ["objdump", "-t", sys.argv[1]], capture_output=True, text=True, check=True
    ).stdout
    status, member = 0, ""
    for line in text.splitlines():
        if ":     file format" in line:
            member = line.split(":")[0]
        fields = re.match(r"^[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)\s+(?:\.hidden )?(\S+)$", line)
        if (
            not fields
            or not WRITABLE.match(fields[2])
            or int(fields[3], 16) == 0
            or "d" in fields[1]
        ):
            continue
        name = re.sub(r"\.\d+$", "", fields[4])
        if name not in ALLOWED:
            print(f"{member}: {name} is mutable ({fields[2]}, {int(fields[3], 16)} bytes)")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
