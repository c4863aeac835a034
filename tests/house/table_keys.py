#!/usr/bin/env python3
"""The keys and effects that entries of the operator table may have are those that
src/ops/README.md explains, and each is used; the words of the key `family` that imply something are
explained, too; an entry without a shape rule has a reason; C outside src/ops compares few names of
operators (style.py)."""

from __future__ import annotations

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "src/ops/table/gen"))
import gen_names  # noqa: E402
import gen_table  # noqa: E402
import style  # noqa: E402


def explained(text: str, head: str) -> set[str]:
    """The first words of the rows of the table that `head` begins."""
    rows = text.partition(f"| {head} |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| (\w+) \|", rows, re.M))


def refused(**keys: str) -> str:
    """What gen.py says to an entry with a kernel that returns a tensor."""
    table = gen_table.Table({}, None, {"like": 1})
    try:
        schema = "mine::f(Tensor x) -> Tensor"
        table.add("mine::f", "here:1", {"schema": schema, "kernel": "kernel_f", **keys})
    except gen_table.TableError as error:
        return str(error)
    return ""


def check_reasons(complaints: list[str]) -> None:
    expected = {
        "expected a shape rule (shape=...), or the reason": {"family": "loss"},
        "has a shape rule, and no_rule": {"family": "loss", "shape": "like", "no_rule": "none"},
    }
    for text, keys in expected.items():
        if text not in refused(**keys):
            complaints.append(f"gen.py: expected {text!r} for {keys}, got {refused(**keys)!r}")
    for keys in ({"family": "loss", "no_rule": "none"}, {"family": "sparse"}):
        if refused(**keys):
            complaints.append(refused(**keys))


def main() -> int:
    text = (TOP / "src/ops/README.md").read_text()
    tables = "".join(
        p.read_text() for p in (TOP / "src/ops/table").rglob("*.py") if "gen" not in p.name
    )
    complaints = []
    for what, head, accepted in (
        ("key", "key", gen_table.KEYS),
        ("effect", "effect", set(gen_table.EFFECTS)),
        ("family word", "family word", set(gen_table.FAMILIES)),
        ("rule", "rule", set(gen_table.WRITTEN)),
        ("key of name()", "a name", set(gen_names.KEYS)),
    ):
        in_text = explained(text, head)
        complaints += [f"src/ops/README.md: no {what} {w}" for w in sorted(accepted - in_text)]
        complaints += [f"gen.py: no {what} {w}" for w in sorted(in_text - accepted)]
    for key in sorted(gen_table.KEYS):
        if not re.search(rf"\b{key}=|\"{key}\":", tables):
            complaints.append(f"no entry has the key {key}")
    check_reasons(complaints)
    style.check_operator_names(complaints)
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
