"""rushlight.script of live functions and classes beside torch.jit.script."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import pathlib
import sys
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
EXCEPT: dict[str, str] = {}
_numbers = itertools.count()


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


def imported(text: str, folder: pathlib.Path) -> Any:
    """A module made of a text that stands in a file."""
    name = f"rush_snippet_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def shown(value: Any) -> str:
    """The table's text of a value."""
    if isinstance(value, torch.Tensor):
        values = value.flatten().tolist()
        return f"T<{str(value.dtype)[6:]}>{list(value.shape)}({', '.join(map(repr, values))})"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(shown, value)) + (",)" if len(value) == 1 else ")")
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(k)}: {shown(v)}" for k, v in value.items()) + "}"
    return repr(value)


def outcome(source: str, inputs: str, status: str, folder: pathlib.Path, cache: dict[str, Any]) -> tuple[Any, str]:
    """(result, "") or (None, the error)."""
    try:
        if source not in cache:
            cache.clear()
            cache[source] = imported(PREAMBLE + source, folder)
            cache["f"] = rushlight.script(cache[source].f)
        f = cache.get("f") or rushlight.script(cache[source].f)
        if status in ("compile_error", "compiles"):
            return f, ""
        return f(*eval(inputs, {"torch": torch})), ""
    except Exception as e:  # noqa: BLE001
        return None, f"{type(e).__name__}: {e}"


@pytest.mark.skipif(not TABLE.exists(), reason="no ../shared/probes here")
def test_every_probe(tmp_path: pathlib.Path) -> None:
    wrong, taken, cache = [], 0, {}
    for name, source, inputs, status, want, message in rows():
        taken += 1
        got, error = outcome(source, inputs, status, tmp_path, cache)
        if name in EXCEPT:
            continue
        if status in ("ok", "compiles"):
            good = not error and (status == "compiles" or "T<" in want or shown(got) == want)
        elif status == "crash":
            good = True
        else:
            good = bool(error) and (status == "compile_error" or message.split(" Position:")[0].strip()[:60] in " ".join(error.split()))
        if not good:
            wrong.append(f"{name} {inputs}: {error or shown(got)} is not {want} {message}\n{source}")
    print(f"probes through the Python door: {taken} rows")
    assert not wrong, f"{len(wrong)} of {taken} differ:\n" + "\n".join(wrong)
