"""Hundreds of snippets of TorchScript with PyTorch's recorded answers (../shared/probes/jit_probes.tsv)."""

from __future__ import annotations

import csv
import pathlib
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")

TABLE = pathlib.Path(__file__).resolve().parents[3] / "shared" / "probes" / "jit_probes.tsv"
PREAMBLE = """import math
import torch
from enum import Enum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union
"""
# Where we answer otherwise, and why.
EXCEPT = {
    "int.023": "our strings keep the byte", "int.027": "x //= y on integers works here", "float.060": "PyTorch takes a == a for true, also of NaN",
    "flow.338": "keyword-only defaults work here", "flow.341": "constants of the file work here",
    "flow.348": "a number is taken for a tensor at the border", "args.434": "1 is no bool at our border",
    "args.436": "a list is no tuple at our border", "args.439": "a number is taken for a tensor at the border, None is not",
    "rej_syntax.451": "async functions are Python's", "rej_syntax.478": "type() is not known", "rej_syntax.485": "object() is not known",
    "rej_syntax.497": "memoryview() is not known", "rej_def.607": "functions compile when first called", "rej_def.612": "functions compile when first called",
}


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
            yield row[0], source, unescaped(row[2]), row[3], unescaped(row[4]), row[5] if len(row) > 5 else ""


def outcome(source: str, inputs: str, status: str, path: pathlib.Path) -> tuple[Any, str]:
    """(result, "") or (None, the error)."""
    path.write_text(PREAMBLE + source, encoding="utf-8")
    try:
        f = rushlight.load(str(path)).f
        if status in ("compile_error", "compiles"):
            return f.graph, ""
        return f(*eval(inputs, {"torch": torch})), ""
    except Exception as e:  # noqa: BLE001
        return None, f"{type(e).__name__}: {e}"


@pytest.mark.skipif(not TABLE.exists(), reason="no ../shared/probes here")
def test_answers_as_pytorch(tmp_path: pathlib.Path) -> None:
    wrong = []
    for name, source, inputs, status, want, message in rows():
        if status == "crash" or name in EXCEPT:
            continue
        got, error = outcome(source, inputs, status, tmp_path / "probe.py")
        if status in ("ok", "compiles"):
            tensors = "T<" in want or "ensor" in repr(got)
            good = not error and (status == "compiles" or tensors or repr(got) == want)
        else:
            # Types of the same name; the argument's value stands on a line of its own there.
            good = bool(error) and (status == "compile_error" or message.split(" Position:")[0].strip()[:60] in " ".join(error.split())
                                    or name.startswith("args."))
        if not good:
            wrong.append(f"{name} {inputs}: {error or repr(got)} is not {want} {message}\n{source}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:20])
