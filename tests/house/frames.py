#!/usr/bin/env python3
"""frames.py BUILD: no function of src/ has a stack frame of more than 8 KB, or one whose size
depends on input.

Reads the files that -fstack-usage wrote next to the objects of a release build (gcc's or clang's).
Calls must fit into small threads (docs/limits.md), so larger scratch memory comes from the context.
"""

from __future__ import annotations

import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 8192


def frames(folder: pathlib.Path) -> list[tuple[str, int, str]]:
    """Return (place, bytes, kind) of every function; kind is "static", "dynamic,bounded" or
    "dynamic"."""
    found = []
    for path in sorted(folder.rglob("*.su")):
        if not path.with_suffix(".o").exists():
            continue  # of a source that is gone
        for line in path.read_text().splitlines():
            place, n_bytes, kind = line.rsplit("\t", 2)
            found.append((place, int(n_bytes), kind))
    return found


def main() -> int:
    found = frames(pathlib.Path(sys.argv[1]) / "src")
    if len(found) < 1000:
        print(f"{len(found)} functions in {sys.argv[1]}: -fstack-usage wrote nothing there")
        return 1
    bad = sorted({f for f in found if f[1] > MOST_BYTES or f[2] == "dynamic"}, key=lambda f: -f[1])
    for place, n_bytes, kind in bad:
        what = f"a frame of {n_bytes} bytes" if n_bytes > MOST_BYTES else "a frame without a bound"
        print(
            f"{place.removeprefix('../')}: {what} ({kind}); large scratch comes from the context "
            f"(mem_alloc_data)"
        )
    print(
        f"{len(found)} functions, the largest frame has {max(f[1] for f in found)} bytes; at most "
        f"{MOST_BYTES}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
