"""Small TorchScript programs as people write them, with the calls to make; they stand in script_programs_*.py
(test_programs.py compares with PyTorch)."""

from typing import Any, Dict, List, Tuple

PROGRAMS: Dict[str, Tuple[Any, List[tuple]]] = {}


def calls(*args: Any):
    """Register a function, or a module class without arguments, with argument tuples (or (method, args))."""

    def add(thing: Any) -> Any:
        PROGRAMS[thing.__name__] = (thing, [a if isinstance(a, tuple) else (a,) for a in args])
        return thing

    return add
