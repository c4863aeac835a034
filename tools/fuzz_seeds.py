#!/usr/bin/env python3
"""fuzz_seeds.py TARGET FOLDER: first inputs for a fuzz target, from the fixtures and from this file."""

from __future__ import annotations

import pathlib
import pickle
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

TOP = pathlib.Path(__file__).resolve().parent.parent
TEXT = """
class M(Module):
  __parameters__ = ["w", ]
  w : Tensor
  training : bool
  def forward(self: __torch__.M, x: Tensor, k: Optional[List[int]]=None) -> Tuple[Tensor, Dict[str, int]]:
    if torch.gt(x, 0):
      y = ops.prim.NumToTensor(1)
    else:
      y, z = annotate(List[int], []), {"a": 1.5e-3, "b": "\\303\\251"}
    for i in range(10):
      y = torch.add(x, y[1:, ..., None], alpha=-2j) if not True else f"{x}"
    while not bool(y) and x is not None: x += 1
    return (y, z)
"""
JSON = b'{"a": [1, -2.5e10, null, true, "\\u00e9\\ud83d\\ude00"], "b": {"c": {}}, "d": NaN}'


def seeds(target: Any) -> Iterator[Any]:
    archives = sorted((TOP / "tests" / "data").glob("*.pt*"))
    if target == "fuzz_json":
        yield JSON
    elif target == "fuzz_script":
        yield TEXT.encode()
    elif target == "fuzz_unit":
        yield from (path.read_bytes() for path in sorted((TOP / "tests" / "script").glob("*/*.py")))
    elif target == "fuzz_pickle":
        for protocol in range(6):
            yield pickle.dumps([1, 2**70, 1.5, "x", b"y", (None, True), {"a": {1, 2}}, 1j, range(3)], protocol)
    else:
        yield from (path.read_bytes() for path in archives)
    suffix = {"fuzz_json": ".json", "fuzz_script": ".py", "fuzz_pickle": ".pkl"}.get(target)
    for path in archives:
        try:
            with zipfile.ZipFile(path) as z:
                yield from (z.read(n) for n in z.namelist() if suffix and n.endswith(suffix))
        except zipfile.BadZipFile:
            pass


def main() -> None:
    folder = pathlib.Path(sys.argv[2])
    for i, data in enumerate(seeds(sys.argv[1])):
        if len(data) <= 65536:
            (folder / f"seed{i}").write_bytes(data)


if __name__ == "__main__":
    main()
