"""PyTorch's recorded answers to snippets of TorchScript (../shared/probes/jit_probes.tsv), and when
ours are the same."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from conftest import SHARED

torch = pytest.importorskip("torch")

TABLE = SHARED / "probes" / "jit_probes.tsv"
PREAMBLE = """import math
import torch
from enum import Enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union
"""


def unescaped(text: str) -> str:
    return text.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t").replace("\0", "\\")


def rows() -> Any:
    if not TABLE.exists():
        return
    source = ""
    with TABLE.open(encoding="utf-8", newline="") as f:
        for row in csv.reader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row[0] == "id":
                continue
            source = source if row[1] == '"' else unescaped(row[1])
            yield (
                row[0],
                source,
                unescaped(row[2]),
                row[3],
                unescaped(row[4]),
                row[5] if len(row) > 5 else "",
            )


def shown(v: Any) -> str:
    """A result as the table writes it."""
    if isinstance(v, torch.Tensor):
        return (
            f"T<{str(v.dtype)[6:]}>{list(v.shape)}("
            f"{', '.join(repr(x) for x in v.reshape(-1).tolist())})"
        )
    if isinstance(v, tuple) and hasattr(v, "_fields"):
        return (
            f"{type(v).__name__}("
            f"{', '.join(f'{n}={shown(x)}' for n, x in zip(v._fields, v, strict=True))})"
        )
    if isinstance(v, tuple):
        return f"({', '.join(shown(x) for x in v)}{',' if len(v) == 1 else ''})"
    if isinstance(v, list):
        return f"[{', '.join(shown(x) for x in v)}]"
    if isinstance(v, dict):
        return f"{{{', '.join(f'{shown(k)}: {shown(x)}' for k, x in v.items())}}}"
    return repr(v)


def is_as_recorded(status: str, want: str, message: str, got: tuple[str, str, str]) -> bool:
    result, cls, text = got
    if status == "compiles":
        return not cls
    if status == "ok":
        return not cls and result == want
    if status == "crash":  # PyTorch dies: an error
        return bool(cls)
    if status == "runtime_error" and want not in (cls, "UnicodeDecodeError"):
        return False
    # Types of the same name; the argument's value stands on a line of its own there; Python's
    # parser has its own words.
    stable = " ".join(message.split(" Position:")[0].split()).replace("probe.", "__torch__.")
    if "INTERNAL ASSERT" in message:  # of theirs
        return cls == "RuntimeError"
    return bool(cls) and (
        want in ("SyntaxError", "TypeError", "AttributeError") or stable[:60] in text
    )
