"""Functions in TorchScript that gradient formulas and bodies share."""

# The conjugate of a number is written on the tensor's side: numbers have no conj().
helper("""
def times_conj(grad: Tensor, other: number) -> Tensor:
    return grad if other == 1 else torch.conj(torch.conj(grad) * other)
""")
