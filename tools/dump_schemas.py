#!/usr/bin/env python3
"""Write src/ops/table/schemas.txt, PyTorch's schemas, one per line, and the names that are
functions of `torch`.

Lines are sorted by operator name; overloads of one name keep the order in which PyTorch registered
them, which is the order in which schema matching tries them. The second file lists the operators
that are functions of `torch`, which the schemas do not contain; rushlight's functions are those of
them that can run. Needs torch 2.13:

    python tools/dump_schemas.py src/ops/table/schemas.txt python/functions.txt
"""

from __future__ import annotations

import collections
import sys
import types

import torch


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    by_name = collections.defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        by_name[schema.name].append(schema)
    n = 0
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for name in sorted(by_name):
            texts = [str(s) for s in by_name[name]]
            registered = [str(s) for s in torch._C._jit_get_schemas_for_operator(name)]
            if texts != registered:
                sys.exit(f"{name}: the two lists of PyTorch disagree about the order")
            for text in texts:
                if "\n" in text:
                    sys.exit(f"{name}: a schema with a line break")
                out.write(text + "\n")
                n += 1
    functions = [
        name for name in dir(torch) if not name.startswith("_") and f"aten::{name}" in by_name
    ]
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.writelines(
            f"{name}\n"
            for name in functions
            if not isinstance(getattr(torch, name), (type, types.ModuleType))
        )
    print(f"{n} schemas, {len(by_name)} names, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
