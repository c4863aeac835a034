"""Write src/export/decomposed.def: the operators that PyTorch's run_decompositions decomposes.

    python tools/dump_decomposed.py > src/export/decomposed.def

These are the keys of the default table, and operators that PyTorch has as composites only: views
and what may return its argument are not in the table, but are entered all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.export.decomp_utils import PRESERVED_ATEN_CIA_OPS

COMMENT = """\
/* export/decomposed.def -- operators that PyTorch 2.13 decomposes by default, in the order of
 * strcmp: those of aten among the keys of torch.export.default_decompositions(), and its composites
 * (CompositeImplicitAutograd): DECOMPOSED_ALWAYS are those that no table has, since they return
 * what they are given or write to it.  Written by tools/dump_decomposed.py. */"""


def composites() -> set[Any]:
    found = set()
    for full in torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd"):
        name, _, overload = full.removeprefix("aten::").partition(".")
        packet = getattr(torch.ops.aten, name, None) if full.startswith("aten::") else None
        if packet is not None:
            found.add(getattr(packet, overload or "default"))
    return found - set(PRESERVED_ATEN_CIA_OPS)


def names_of(operators: Iterable[Any]) -> set[str]:
    schemas = [o._schema for o in operators if hasattr(o, "_schema")]
    return {f"{s.name}.{s.overload_name}".rstrip(".") for s in schemas}


def main() -> None:
    listed = names_of(torch.export.default_decompositions())
    names = listed | names_of(composites())
    print(COMMENT)
    for name in sorted(names):  # sizes stay nodes
        if name.startswith("aten::") and not name.startswith("aten::sym_"):
            print(f'{"DECOMPOSED" if name in listed else "DECOMPOSED_ALWAYS"}("{name}")')


if __name__ == "__main__":
    main()
