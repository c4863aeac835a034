#!/usr/bin/env python3
"""The keys and effects that entries of the operator table may have are those that src/ops/README.md
explains, and each is used; C outside src/ops compares few names of operators (style.py)."""

from __future__ import annotations

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "src/ops/table"))
import gen  # noqa: E402
import style  # noqa: E402


def explained(text: str, head: str) -> set[str]:
    """The first words of the rows of the table that `head` begins."""
    rows = text.partition(f"| {head} |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| (\w+) \|", rows, re.M))


def main() -> int:
    text = (TOP / "src/ops/README.md").read_text()
    tables = "".join(
        p.read_text() for p in (TOP / "src/ops/table").rglob("*.py") if "gen" not in p.name
    )
    complaints = []
    for what, head, accepted in (
        ("key", "key", gen.KEYS),
        ("effect", "effect", set(gen.EFFECTS)),
        ("rule", "rule", set(gen.WRITTEN)),
    ):
        in_text = explained(text, head)
        complaints += [f"src/ops/README.md: no {what} {w}" for w in sorted(accepted - in_text)]
        complaints += [f"gen.py: no {what} {w}" for w in sorted(in_text - accepted)]
    for key in sorted(gen.KEYS):
        if not re.search(rf"\b{key}=|\"{key}\":", tables):
            complaints.append(f"no entry has the key {key}")
    style.check_operator_names(complaints)
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
