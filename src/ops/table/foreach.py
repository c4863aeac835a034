"""Operators of lists of tensors: a formula for one tensor of each list, run in a loop.

The table's operators of one tensor are the formulas, so that dtypes, errors, bits and gradients are
theirs.  PyTorch's CPU does the same ("slow path" in ForeachOpsKernels.cpp).
"""

import re

EMPTY = """    if len(self) == 0:
        raise RuntimeError("Tensor list must have at least one tensor.")
"""
LISTS = """    if len(self) != len(NAME):
        raise RuntimeError("Tensor lists must have the same number of tensors, got " +
                           str(len(self)) + " and " + str(len(NAME)))
"""
NUMBERS = """    if len(self) != len(NAME):
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
"""
TYPES = {"Tensor[]": "List[Tensor]", "Scalar[]": "List[number]", "Scalar": "number",
         "ScalarType?": "Optional[int]", "MemoryFormat?": "Optional[int]"}
ZERO_DIM = """    if other.dim() != 0 or other.numel() != 1:
        raise RuntimeError("scalar tensor expected to be 0 dim but it has " + str(other.dim()) +
                           " dimensions and " + str(other.numel()) + " elements.")
"""
PACKED = """    if scalars.dim() != 1:
        raise RuntimeError("Expected packed scalar Tensor to be of dimension 1. Got " +
                           str(scalars.dim()) + " instead.")
    if not scalars.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    if scalars.size(0) != len(self):
        raise RuntimeError("Expected length of scalars to match input of length " +
                           str(len(self)) + " but got " + str(scalars.size(0)) + " instead.")
"""


def declare(args):
    """Return the parameters of a body for the types and names of PyTorch's schema."""
    pairs = [a.rsplit(" ", 1) for a in args.split(", ")]
    return ", ".join(f"{name}: {TYPES.get(kind, kind)}" for kind, name in pairs)


def each(full, args, value, more="", first="", in_place=True):
    """Add the operator _foreach_<full> of the arguments `args` behind `self`: `value` is the call
    for tensor i, torch.<value> or, of the in-place form, <name>_(<the rest>).  `first` and `more`
    are checks before and behind those of the lists' lengths."""
    name, dot, overload = full.partition(".")
    kinds = [a.rsplit(" ", 1) for a in args.split(", ")] if args else []
    lists = "".join(LISTS.replace("NAME", a) for kind, a in kinds if kind == "Tensor[]")
    numbers = "".join(NUMBERS.replace("NAME", a) for kind, a in kinds if kind == "Scalar[]")
    checks = first + lists + EMPTY + numbers + more
    params = "self: List[Tensor]" + (", " + declare(args) if args else "")
    op(f"aten::_foreach_{full}", family="foreach", body=f"""
def _foreach_{name}({params}) -> List[Tensor]:
{checks}    made: List[Tensor] = []
    for i in range(len(self)):
        made.append(torch.{value})
    return made
""")
    if in_place:
        write = re.sub(r"^(\w+)\(self\[i\](, )?", r"self[i].\1_(", value)
        op(f"aten::_foreach_{name}_{dot}{overload}", family="foreach", body=f"""
def _foreach_{name}_({params}):
{checks}    for i in range(len(self)):
        {write}
""")


for name in """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p
    log2 neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split():
    each(name, "", f"{name}(self[i])")

for name in "add", "sub":
    each(f"{name}.List", "Tensor[] other, Scalar alpha", f"{name}(self[i], other[i], alpha=alpha)")
each("add.Tensor", "Tensor other, Scalar alpha", "add(self[i], other, alpha=alpha)", ZERO_DIM)
for name in "mul", "div":
    each(f"{name}.List", "Tensor[] other", f"{name}(self[i], other[i])")
    each(f"{name}.Tensor", "Tensor other", f"{name}(self[i], other)", ZERO_DIM)
for name in "add", "sub", "mul", "div":
    each(f"{name}.Scalar", "Scalar scalar", f"{name}(self[i], scalar)")
    each(f"{name}.ScalarList", "Scalar[] scalars", f"{name}(self[i], scalars[i])")
# maximum and minimum have no form for numbers; PyTorch clamps, too.
for name, one in (("clamp_min", "clamp_min"), ("clamp_max", "clamp_max"), ("maximum", "clamp_min"),
                  ("minimum", "clamp_max")):
    each(f"{name}.List", "Tensor[] other", f"{one}(self[i], other[i])")
    each(f"{name}.Scalar", "Scalar scalar", f"{one}(self[i], scalar)")
    each(f"{name}.ScalarList", "Scalar[] scalars", f"{one}(self[i], scalars[i])")
each("pow.List", "Tensor[] exponent", "pow(self[i], exponent[i])")
each("pow.Scalar", "Scalar exponent", "pow(self[i], exponent)")
each("pow.ScalarList", "Scalar[] exponent", "pow(self[i], exponent[i])")
each("lerp.List", "Tensor[] tensors1, Tensor[] weights", "lerp(self[i], tensors1[i], weights[i])")
each("lerp.Scalar", "Tensor[] tensors1, Scalar weight", "lerp(self[i], tensors1[i], weight)")
each("lerp.ScalarList", "Tensor[] tensors1, Scalar[] weight",
     "lerp(self[i], tensors1[i], weight[i])")
for name in "addcmul", "addcdiv":
    one = f"{name}(self[i], tensor1[i], tensor2[i], value="
    lists = "Tensor[] tensor1, Tensor[] tensor2, "
    each(f"{name}.Scalar", lists + "Scalar value", one + "value)")
    each(f"{name}.ScalarList", lists + "Scalar[] scalars", one + "scalars[i])")
    each(f"{name}.Tensor", lists + "Tensor scalars", one + "scalars[i].item())", first=PACKED)

each("clone", "MemoryFormat? memory_format", "clone(self[i], memory_format=memory_format)",
     in_place=False)
each("max", "", "max(self[i])", """    for t in self:
        if t.numel() == 0:
            raise RuntimeError("_foreach_max cannot compute the maximum of an empty tensor; " +
                               "max over zero elements is undefined.")
""", in_place=False)
each("norm.Scalar", "Scalar ord, ScalarType? dtype",
     "linalg_vector_norm(self[i], ord, None, False, dtype=dtype)", """    for t in self:
        if t.numel() == 0 and (float(ord) < 0 or float(ord) == math.inf):
            raise RuntimeError("_foreach_norm cannot compute the infinity norm on an empty " +
                               "tensor because the operation does not have an identity")
""", in_place=False)

op("aten::_foreach_pow.ScalarAndTensor", family="foreach", body=f"""
def _foreach_pow(self: number, exponent: List[Tensor]) -> List[Tensor]:
{EMPTY.replace("self", "exponent")}    return [torch.pow(self, t) for t in exponent]
""")
op("aten::_foreach_zero_", family="foreach", body=f"""
def _foreach_zero_(self: List[Tensor]):
{EMPTY}    for t in self:
        t.zero_()
""")
op("aten::_foreach_zero", family="foreach", body=f"""
def _foreach_zero(self: List[Tensor]) -> List[Tensor]:
{EMPTY}    return [torch.zeros_like(t) for t in self]
""")
op("aten::_foreach_copy_", family="foreach", body=f"""
def _foreach_copy_(self: List[Tensor], src: List[Tensor], non_blocking: bool):
{LISTS.replace("NAME", "src")}{EMPTY}    for i in range(len(self)):
        self[i].copy_(src[i], non_blocking)
""")
op("aten::_foreach_copy", family="foreach", body=f"""
def _foreach_copy(self: List[Tensor], src: List[Tensor], non_blocking: bool) -> List[Tensor]:
{LISTS.replace("NAME", "src")}{EMPTY}    return [torch.copy(self[i], src[i], non_blocking)
            for i in range(len(self))]
""")
op("aten::_foreach_mm", family="foreach", body="""
def _foreach_mm(self: List[Tensor], mat2: List[Tensor]) -> List[Tensor]:
    if len(self) == 0 or len(mat2) == 0:
        raise RuntimeError("_foreach_mm requires non-empty tensor lists")
    if len(self) != len(mat2):
        raise RuntimeError("_foreach_mm: self and mat2 must have the same number of tensors")
    return [torch.mm(self[i], mat2[i]) for i in range(len(self))]
""")

# What torch.amp.GradScaler calls: gradients are divided by the scale, and `found_inf` becomes 1 if
# one of them is not finite.
op("aten::_amp_foreach_non_finite_check_and_unscale_", family="foreach", effects=["no_grad"],
   body="""
def _amp_foreach_non_finite_check_and_unscale_(self: List[Tensor], found_inf: Tensor,
                                               inv_scale: Tensor):
    if inv_scale.numel() != 1:
        raise RuntimeError("inv_scale must be a 1-element tensor.")
    if found_inf.numel() != 1:
        raise RuntimeError("found_inf must be a 1-element tensor.")
    if found_inf.dtype != torch.float:
        raise RuntimeError("found_inf must be a float tensor.")
    if inv_scale.dtype != torch.float:
        raise RuntimeError("inv_scale must be a float tensor.")
    for t in self:
        if not bool(torch.isfinite(t).all()):
            found_inf.fill_(1.0)
        if float(inv_scale) != 1.0:
            t.mul_(float(inv_scale))
""")
op("aten::_amp_foreach_non_finite_check_and_unscale", family="foreach", effects=["no_grad"],
   body="""
def _amp_foreach_non_finite_check_and_unscale(self: List[Tensor], found_inf: Tensor,
                                              inv_scale: Tensor) -> Tuple[List[Tensor], Tensor]:
    made = [torch.clone(t) for t in self]
    found = torch.clone(found_inf)
    torch._amp_foreach_non_finite_check_and_unscale_(made, found, inv_scale)
    return made, found
""")
