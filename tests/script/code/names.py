import torch
from typing import Dict, List, Optional, Tuple
def helper(x: torch.Tensor, bool_: bool = True) -> torch.Tensor:
    return x if bool_ else -x
def f(input: torch.Tensor, sorted: bool, out: List[torch.Tensor]) -> List[torch.Tensor]:
    _ = input.sum()
    input = input + 1
    input = helper(input, bool_=sorted)
    values, indices = torch.sort(input, descending=sorted)
    out.append(values)
    r = [helper(v) for v in out]
    return r
