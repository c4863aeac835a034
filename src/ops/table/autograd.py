"""Operators of derivatives as graphs: gradients that may be undefined."""

UNDEFINED = "an undefined tensor has no facts"
op("prim::AutogradZero", family="control", kernel="kernel_autograd_zero", no_rule=UNDEFINED)
for name in ("any_non_zero", "all_non_zero", "all_zero"):
    op("prim::Autograd" + name.title().replace("_", ""), family="control",
       kernel=f"kernel_autograd_{name}", effects=["no_grad"])
op("prim::AutogradAdd", family="control", kernel="kernel_autograd_add", no_rule=UNDEFINED,
   effects=["returns_arg"])
op("aten::_grad_sum_to_size", family="control", effects=["returns_arg"], body="""
def grad_sum_to_size(self: Tensor, size: Optional[List[int]]) -> Tensor:
    return self if size is None else self.sum_to_size(size)
""")
