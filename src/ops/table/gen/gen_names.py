"""The table names.py: Python's names in TorchScript (op_known of table.h).

    name("torch.jit.wait torch.jit._wait", op="aten::wait")

Each path is one row: what it is, a text, a number, and where its body begins.
"""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

# The keys, one for each kind of row; table.h has the kinds.
KEYS = "op form cast tensor module exception refused stays host dispatch body".split()


class NameError_(Exception):
    """A row is wrong."""


class Known(NamedTuple):
    """A row: `number` is a constant expression of C."""

    path: str
    kind: str
    text: str
    number: str
    body: str
    is_live: bool


def row_of(path: str, key: str, value: Any, where: str | None) -> tuple[str, str, str]:
    """Return the text, the number and the body of a row."""
    above, _, last = path.rpartition(".")
    if key == "op":
        named = value is not None and value[-2:] != "::"
        return value if named else (value or "aten::") + last, "0", ""
    if key == "form":
        return last.lstrip("_") if value is True else value, "0", ""
    if key == "cast":
        return value[0], f"TYPE_{value[1]}", ""
    if key == "tensor":
        return "", f"RUSH_{value}", ""
    if key == "module":
        return value, "0", ""
    if key == "exception":
        return "" if last == "AssertionError" else f"builtins.{last}", "0", ""
    if key == "dispatch":
        return value[0], str(value[1]), ""
    if key == "body":
        parts = [ast.unparse(part) + "\n" for part in ast.parse(value).body]
        return where or above, str(len(parts)), "\0".join(parts)
    return "", str(int(value)), ""


class Names:
    """All rows, by path."""

    def __init__(self) -> None:
        self.rows: dict[str, Known] = {}

    def add(self, paths: str, keys: dict[str, Any]) -> None:
        where, is_live = keys.pop("where", None), keys.pop("live", True)
        (key, value), *more = keys.items() if keys else [("op", None)]
        if more or key not in KEYS:
            raise NameError_(f"a name has one of the keys {', '.join(KEYS)}")
        for path in paths.split():
            if path in self.rows:
                raise NameError_(f"{path} has a row already")
            parts = row_of(path, key, value, where)
            self.rows[path] = Known(path, f"KNOWN_{key.upper()}", *parts, is_live)

    def live(self, *kinds: str) -> list[str]:
        """Return the paths where live Python looks for objects: of rows of these kinds."""
        return [r.path for r in self.rows.values() if r.is_live and r.kind[6:].lower() in kinds]

    def is_regular(self, row: Known) -> bool:
        """True if C finds out without a row what it is: an operator of its path's last name, or a
        function like all others."""
        above, _, last = row.path.rpartition(".")
        module = self.rows.get(above)
        has_prefix = module is not None and module.text != ""
        is_named = row.kind == "KNOWN_OP" and row.text == f"aten::{last}"
        return row.kind == "KNOWN_HOST" or (is_named and above != "" and not has_prefix)

    def write(self, w: Any, pool: Any, bodies: Any) -> None:
        rows = [row for row in sorted(self.rows.values()) if not self.is_regular(row)]
        w("const struct op_known op_known[] = {\n")
        for row in rows:
            w(
                f"  {{{pool.at(row.path)}, {pool.at(row.text)}, {bodies.offsets[row.body]}, "
                f"{row.number}, {row.kind}, {int(row.is_live)}}}, /* {row.path} */\n"
            )
        w(f"}};\nconst uint32_t op_n_known = {len(rows)};\n\n")
