"""Functions in TorchScript that gradient formulas and bodies share."""

# conj() is written on the tensor's side: numbers do not have it.
helper("""
def times_conj(grad: Tensor, other: number) -> Tensor:
    return grad if other == 1 else torch.conj(torch.conj(grad) * other)
""")
