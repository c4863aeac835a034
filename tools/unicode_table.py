#!/usr/bin/env python3
"""Write src/base/unicode_table.inc: the code points that Python's str.isprintable refuses.

Run it by hand, with the oldest supported Python; the result is committed, because the table must
not depend on the Python that builds the library.
"""

from __future__ import annotations

import sys
import unicodedata


def main() -> None:
    ranges = []
    for c in range(0x80, 0x110000):
        if not chr(c).isprintable():
            if ranges and ranges[-1][1] == c - 1:
                ranges[-1][1] = c
            else:
                ranges.append([c, c])
    print(
        f"/* From tools/unicode_table.py, Unicode {unicodedata.unidata_version}: first and last of "
        f"each range. */"
    )
    line = ""
    for a, b in ranges:
        item = f"{{0x{a:x}, 0x{b:x}}}, "
        if len(line) + len(item) > 99:
            print(line.rstrip())
            line = ""
        line += item
    print(line.rstrip())


if __name__ == "__main__":
    sys.exit(main())
