from typing import Optional

import torch


def f(x: Optional[torch.Tensor]) -> torch.Tensor:
    return x.relu()
