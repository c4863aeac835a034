import torch
from typing import Dict, List, Optional, Tuple
def f(a: int, b: float, z: complex) -> Tuple[float, complex, str, bool]:
    c = float(a) / 3 + 1e-5 + 1e20 - b ** 2
    d = int(b) // 2 % 5 - (-7)
    w = z * (1 + 2.5j) - 3j
    s = "quote \" and \\ and \n" + str(d)
    t = not (a > 1 and b < 2.0) or a != d
    return c, w, s, t
