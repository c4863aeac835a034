"""plain.py MODEL CALL OUT.npz: the call in CALL (write_call) of the archive MODEL, where torch
cannot be imported."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import numpy as np


def write_call(path: pathlib.Path, args: Any, kwargs: Any) -> None:
    """Arguments of torch as JSON; tensors beside it in an npz."""
    tensors: list[np.ndarray] = []

    def packed(x: Any) -> Any:
        if hasattr(x, "detach"):
            tensors.append(x.detach().numpy())
            return {"tensor": len(tensors) - 1}
        if isinstance(x, (list, tuple)):
            return {type(x).__name__: [packed(y) for y in x]}
        if isinstance(x, dict):
            return {"dict": {k: packed(v) for k, v in x.items()}}
        return {"value": x}

    path.write_text(json.dumps([packed(tuple(args)), packed(kwargs)]))
    np.savez(path.with_suffix(".npz"), *tensors)


def read_call(path: pathlib.Path) -> tuple[Any, Any]:
    with np.load(path.with_suffix(".npz")) as made:
        tensors = [made[k] for k in made.files]

    def unpacked(x: dict[str, Any]) -> Any:
        ((kind, inside),) = x.items()
        if kind == "tensor":
            return tensors[inside]
        if kind == "dict":
            return {k: unpacked(v) for k, v in inside.items()}
        if kind in ("list", "tuple"):
            return (
                [unpacked(y) for y in inside]
                if kind == "list"
                else tuple(unpacked(y) for y in inside)
            )
        return inside

    args, kwargs = json.loads(path.read_text())
    return unpacked(args), unpacked(kwargs)


def main() -> None:
    sys.modules["torch"] = None  # type: ignore[assignment]
    import rushlight
    from zoo import leaves

    model, call, out = sys.argv[1:]
    args, kwargs = read_call(pathlib.Path(call))
    rushlight.manual_seed(2)
    np.savez(out, *leaves(rushlight.load(model)(*args, **kwargs)))


if __name__ == "__main__":
    main()
