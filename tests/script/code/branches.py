import torch
from typing import Dict, List, Optional, Tuple
def f(x: torch.Tensor, c: bool, k: Optional[int] = None) -> torch.Tensor:
    if k is not None:
        y = x * k
        z = y + 1
    elif c:
        y = x - 1
        z = x
    else:
        y, z = x, x
    w: Optional[torch.Tensor] = None
    if c:
        w = y
    if w is None:
        return z
    return w + y
