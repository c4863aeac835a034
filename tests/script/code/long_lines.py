import torch
from typing import Dict, List, Optional, Tuple
def f(input_tensor: torch.Tensor, other_tensor: torch.Tensor) -> torch.Tensor:
    result = torch.relu(torch.add(torch.mul(input_tensor, other_tensor), torch.sub(input_tensor, other_tensor)).add_(input_tensor.sum()).sigmoid())
    text = "a text that is longer than forty characters stands first"
    assert input_tensor.dim() > 1, text
    return result + input_tensor.add_(1) * torch.cat([input_tensor, other_tensor, input_tensor], dim=1)[0].reshape(-1, 2)
