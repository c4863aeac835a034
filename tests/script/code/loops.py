import torch
from typing import Dict, List, Optional, Tuple
def f(xs: List[int], n: int) -> int:
    total = 0
    for i in range(n):
        if i == 3:
            break
        if i == 1:
            continue
        total += xs[i]
    for x in xs:
        total += x
    while total > n and n > 0:
        total -= n
    return total
