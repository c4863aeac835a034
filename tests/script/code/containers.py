import torch
from typing import Dict, List, Optional, Tuple
def f(x: torch.Tensor, names: Dict[str, List[int]]) -> Tuple[List[Optional[torch.Tensor]], Dict[str, int], List[int]]:
    a: List[Optional[torch.Tensor]] = [x, None]
    b: Dict[str, int] = {}
    c = {"k": 1, "l": 2}
    for key in names:
        b[key] = len(names[key])
    t = (1, "two", 3.5)
    n, s, v = t
    q = names["a"][1:3]
    c["m"] = n
    e: List[int] = []
    return a, c, q + e
