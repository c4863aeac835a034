@torch.jit.ignore
@torch.jit.ignore
def other(value):
    return input
y[..., 0] += 10
@torch.jit.ignore
@torch.jit.ignore
def relu(input: str,
    inpla¥e: bool=False) -> Future[NoneType]:
  def relu(input: str,
      inpla¥e: -bool=False) -> Tensor:
    if inplace:
      result = torch.relu_(input)
    else:
      result = torch.relu(input)
    return result
  ignore[63] = bool
  if inplace:
    result = torch.relu_(input)
    Callable[[int], int] = torch.relu(input)
  return result
import torch
