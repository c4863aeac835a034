"""Products of matrices and vectors (matmul.c, einsum.c)."""


def product(name, shape=None, kernel=None, inplace=False, effects=()):
    variants = {"inplace": f"aten::{name}_"} if inplace else {}
    op(f"aten::{name}", family="matmul", results="rule", shape=shape or name,
       kernel=f"kernel_{kernel or name}", effects=list(effects),
       variants={**variants, "out": f"aten::{name}.out"})


product("mm")
product("addmm", inplace=True)
product("_addmm_activation", shape="addmm")
product("_int_mm", shape="int_mm")
product("bmm")
product("baddbmm", inplace=True)
product("addbmm", inplace=True)
product("mv")
product("addmv", inplace=True)
SCALED = """    if self.dim() != 2 or mat2.dim() != 2 or self.size(1) != mat2.size(0):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (" + str(self.size()) +
                           " and " + str(mat2.size()) + ")")
"""
op("aten::_scaled_mm", family="matmul", variants={"out": "aten::_scaled_mm.out"}, body=f"""
def scaled_mm(self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Optional[Tensor],
              scale_result: Optional[Tensor],
              out_dtype: Optional[int], use_fast_accum: bool) -> Tensor:
{SCALED}    dtype = self.dtype if out_dtype is None else out_dtype
    y = torch.mm(self.to(torch.float32) * scale_a, mat2.to(torch.float32) * scale_b)
    if bias is not None:
        y = y + bias.to(torch.float32)
    return y.to(dtype)
""")
op("aten::_scaled_mm_v2", family="matmul", variants={"out": "aten::_scaled_mm_v2.out"}, body=f"""
def scaled_mm(self: Tensor, mat2: Tensor, scale_a: List[Tensor], recipe_a: List[int],
              swizzle_a: List[int], scale_b: List[Tensor],
              recipe_b: List[int], swizzle_b: List[int], bias: Optional[Tensor],
              out_dtype: Optional[int], contraction_dim: List[int],
              use_fast_accum: bool) -> Tensor:
{SCALED}    dtype = self.dtype if out_dtype is None else out_dtype
    y = torch.mm(self.to(torch.float32) * scale_a[0], mat2.to(torch.float32) * scale_b[0])
    if bias is not None:
        y = y + bias.to(torch.float32)
    return y.to(dtype)
""")
product("dot")
product("vdot", shape="dot")
product("matmul")
product("linalg_matmul", shape="matmul", kernel="matmul")
product("linear", effects=["nested_rows"])
product("mkldnn_linear", shape="linear", kernel="linear")
op("aten::einsum", family="matmul", shape="einsum", kernel="kernel_einsum")
op("aten::tensordot", family="matmul", shape="tensordot", variants={"out": "aten::tensordot.out"},
   body="""
def tensordot(self: Tensor, other: Tensor, dims_self: List[int], dims_other: List[int]) -> Tensor:
    if len(dims_self) != len(dims_other):
        raise RuntimeError("both dimension lists should have same length")
    if self.dtype != other.dtype:
        raise RuntimeError("tensordot: both inputs should have same dtype")
    a, b = self, other
    contracted = 1
    in_a: List[int] = []
    in_b: List[int] = []
    for i in range(len(dims_self)):
        da = dims_self[i] + a.dim() if dims_self[i] < 0 else dims_self[i]
        db = dims_other[i] + b.dim() if dims_other[i] < 0 else dims_other[i]
        sa, sb = a.size(da), b.size(db)
        if sb == 1 and sa != 1:
            a = torch.sum(a, [da], True, dtype=a.dtype)
        elif sa == 1 and sb != 1:
            b = torch.sum(b, [db], True, dtype=b.dtype)
        elif sa != sb:
            raise RuntimeError("contracted dimensions need to match, but first has size " +
                  str(sa) + " in dim " + str(dims_self[i]) + " and second has size "
                  + str(sb) + " in dim " + str(dims_other[i]))
        else:
            contracted *= sa
        in_a.append(da)
        in_b.append(db)
    free_a: List[int] = []
    free_b: List[int] = []
    sizes: List[int] = []
    n_a, n_b = 1, 1
    for d in range(a.dim()):
        if d not in in_a:
            free_a.append(d)
            sizes.append(a.size(d))
            n_a *= a.size(d)
    for d in range(b.dim()):
        if d not in in_b:
            free_b.append(d)
            sizes.append(b.size(d))
            n_b *= b.size(d)
    left = a.permute(free_a + in_a).reshape([n_a, contracted])
    right = b.permute(in_b + free_b).reshape([contracted, n_b])
    return torch.mm(left, right).reshape(sizes)
""")
op("aten::bilinear", family="matmul", shape="bilinear", body="""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    if input1.dim() != input2.dim():
        raise RuntimeError("bilinear(): input dimensions do not match: got " + str(input1.dim()) +
                           " and " + str(input2.dim()))
    for i in range(input1.dim() - 1):
        if input1.size(i) != input2.size(i):
            raise RuntimeError("bilinear(): input batch dimensions do not match at dim " + str(i) +
                               ": got " + str(input1.size(i)) + " and " + str(input2.size(i)))
    if input1.size(-1) != weight.size(1):
        raise RuntimeError("bilinear(): input1 size does not match weight size: got " +
                           str(input1.size(-1)) + " but expected " + str(weight.size(1)))
    if input2.size(-1) != weight.size(2):
        raise RuntimeError("bilinear(): input2 size does not match weight size: got " +
                           str(input2.size(-1)) + " but expected " + str(weight.size(2)))
    if bias is not None and bias.size(0) != weight.size(0):
        raise RuntimeError("bilinear(): bias size does not match weight size: got " +
                           str(bias.size(0)) + " but expected " + str(weight.size(0)))
    sizes = input1.size()[:-1] + [weight.size(0)]
    a = input1.reshape([-1, input1.size(-1)])
    b = input2.reshape([-1, input2.size(-1)])
    out = torch.einsum("noj,nj->no", [torch.einsum("ni,oij->noj", [a, weight]), b]).reshape(sizes)
    if bias is not None:
        return out + bias
    return out
""")
op("aten::_trilinear", family="matmul", variants={"out": "aten::_trilinear.out"}, body="""
def trilinear(i1: Tensor, i2: Tensor, i3: Tensor, expand1: List[int], expand2: List[int],
              expand3: List[int],
              sumdim: List[int], unroll_dim: int) -> Tensor:
    a, b, c = i1, i2, i3
    for d in range(i1.dim() + len(expand1)):
        if d in expand1:
            a = a.unsqueeze(d)
        if d in expand2:
            b = b.unsqueeze(d)
        if d in expand3:
            c = c.unsqueeze(d)
    if len(sumdim) == 0:
        return a * b * c
    return torch.sum(a * b * c, sumdim, False)
""")
op("aten::outer", family="matmul", shape="outer", variants={"out": "aten::outer.out"}, body="""
def outer(self: Tensor, vec2: Tensor) -> Tensor:
    if self.dim() != 1 or vec2.dim() != 1:
        raise RuntimeError("outer: Expected 1-D argument " +
              ("self" if self.dim() != 1 else
               "vec2") + ", but got " + str(self.dim() if self.dim() != 1 else vec2.dim()) + "-D")
    return torch.mul(self.unsqueeze(1), vec2)
""")
op("aten::ger", family="matmul", shape="outer", variants={"out": "aten::ger.out"}, body="""
def ger(self: Tensor, vec2: Tensor) -> Tensor:
    return torch.outer(self, vec2)
""")
op("aten::inner", family="matmul", shape="inner", variants={"out": "aten::inner.out"}, body="""
def inner(self: Tensor, other: Tensor) -> Tensor:
    if self.dim() == 0 or other.dim() == 0:
        return self * other
    if self.size(-1) != other.size(-1):
        raise RuntimeError("inner() the last dimension must match on both input tensors but got "
                           "shapes " + str(self.size()) + " and " + str(other.size()))
    return torch.tensordot(self, other, [-1], [-1])
""")
op("aten::addr", family="matmul", shape="addr", variants={"inplace": "aten::addr_",
    "out": "aten::addr.out"}, body="""
def addr(self: Tensor, vec1: Tensor, vec2: Tensor, beta: number, alpha: number) -> Tensor:
    if vec1.dim() != 1 or vec2.dim() != 1:
        raise RuntimeError("addr: Expected 1-D argument " +
              ("vec1" if vec1.dim() != 1 else
               "vec2") + ", but got " + str(vec1.dim() if vec1.dim() != 1 else vec2.dim()) + "-D")
    product = torch.outer(vec1, vec2)
    if self.dtype == torch.bool and product.dtype == torch.bool:
        if float(alpha) == 0.0:
            product = torch.zeros_like(product)
        return product if float(beta) == 0.0 else torch.logical_or(self, product)
    dtype = torch.promote_types(self.dtype, product.dtype)
    product = torch.outer(vec1 * torch.full([], alpha, dtype=dtype), vec2)
    if float(beta) == 0.0:
        return product
    return self * torch.full([], beta, dtype=dtype) + product
""")
op("aten::kron", family="matmul", shape="kron", variants={"out": "aten::kron.out"}, body="""
def kron(self: Tensor, other: Tensor) -> Tensor:
    n = max(self.dim(), other.dim())
    sizes: List[int] = []
    a_sizes: List[int] = []
    b_sizes: List[int] = []
    for i in range(n):
        sa = self.size(i - (n - self.dim())) if i >= n - self.dim() else 1
        sb = other.size(i - (n - other.dim())) if i >= n - other.dim() else 1
        a_sizes += [sa, 1]
        b_sizes += [1, sb]
        sizes.append(sa * sb)
    return torch.mul(self.reshape(a_sizes), other.reshape(b_sizes)).reshape(sizes)
""")

# Weights of 4 bits (kernels/int4.c), and products of groups of rows or columns with a matrix each:
# mixtures of experts.
op("aten::_convert_weight_to_int4pack_for_cpu", family="matmul", shape="int4pack", results="rule",
   kernel="kernel_convert_weight_to_int4pack_for_cpu")
op("aten::_weight_int4pack_mm_for_cpu", family="matmul", shape="int4pack_mm", results="rule",
   kernel="kernel_weight_int4pack_mm_for_cpu")
helper("""
def group_ends(offs: Tensor, most: int) -> List[int]:
    ends: List[int] = []
    last = 0
    for i in range(offs.size(0)):
        end = int(offs[i])
        if end < last or end > most:
            raise RuntimeError("grouped_mm: offsets must not fall, and end within the " +
                               str(most) + " rows or columns")
        ends.append(end)
        last = end
    return ends
""")
op("aten::_grouped_mm", family="matmul", shape="grouped_mm", body="""
def _grouped_mm(self: Tensor, mat2: Tensor, offs: Optional[Tensor], bias: Optional[Tensor],
                out_dtype: Optional[int]) -> Tensor:
    if self.dtype != torch.float and self.dtype != torch.bfloat16 and self.dtype != torch.half:
        raise RuntimeError("Expected mat_a to be Float32, BFloat16 or Float16 matrix")
    if self.dtype != mat2.dtype:
        raise RuntimeError("expected m1 and m2 to have the same dtype")
    if self.dim() != 2 and self.dim() != 3:
        raise RuntimeError("mat_a has to be 2 or 3d")
    if mat2.dim() != 2 and mat2.dim() != 3:
        raise RuntimeError("mat_b has to be 2 or 3d")
    if self.size(-1) != mat2.size(-2):
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype != self.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if (offs is None) != (self.dim() == 3 and mat2.dim() == 3):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both "
                           "matrices are 3d")
    if offs is None:
        return torch.bmm(self, mat2)
    if offs.dim() != 1:
        raise RuntimeError("offs has to be 1D")
    if offs.dtype != torch.int:
        raise RuntimeError("Offsets have to be int32")
    if ((self.dim() == 3 and self.size(0) != offs.size(0)) or
        (mat2.dim() == 3 and mat2.size(0) != offs.size(0))):
        raise RuntimeError("matrix batch sizes have to match")
    parts: List[Tensor] = []
    first = 0
    if self.dim() == 2 and mat2.dim() == 2:
        for end in group_ends(offs, self.size(1)):
            parts.append(torch.mm(self[:, first:end], mat2[first:end]))
            first = end
        return (torch.stack(parts) if len(parts) > 0 else
                self.new_zeros([0, self.size(0), mat2.size(1)]))
    if self.dim() == 2:
        for i, end in enumerate(group_ends(offs, self.size(0))):
            parts.append(torch.mm(self[first:end], mat2[i]))
            first = end
        parts.append(self.new_zeros([self.size(0) - first, mat2.size(2)]))
        return torch.cat(parts)
    for i, end in enumerate(group_ends(offs, mat2.size(1))):
        parts.append(torch.mm(self[i], mat2[:, first:end]))
        first = end
    parts.append(self.new_zeros([self.size(1), mat2.size(1) - first]))
    return torch.cat(parts, 1)
""")
op("transformers::grouped_mm_fallback",
   schema="transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor",
   family="matmul", shape="grouped_mm", body="""
def grouped_mm_fallback(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    if weight.size(0) != offs.size(0):
        raise RuntimeError("grouped_mm_fallback: as many offsets as weights are expected")
    parts: List[Tensor] = []
    first = 0
    for i, end in enumerate(group_ends(offs, input.size(0))):
        parts.append(torch.mm(input[first:end], weight[i]))
        first = end
    parts.append(input.new_zeros([input.size(0) - first, weight.size(2)]))
    return torch.cat(parts)
""")

# Facts about these operators that other parts read.
known("linalg_matmul", synonym_of="matmul")
known("ger", synonym_of="outer")
known("_addmm_activation addbmm addmm baddbmm bmm linear matmul mm", autocast="lower")
known("bilinear.* dot.* tensordot.*", script_autocast="float32")
known("addbmm.* addmm.* addmv.* addr.* baddbmm.* bmm.* linear.* matmul.* mm.* mv.*",
      script_autocast="lower")

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "addr", "kron", "outer")
written("overlap", "bmm", "linear", "matmul", "mm", "mv", "tensordot")

op("prim::MMTreeReduce", family="matmul", kernel="kernel_mm_tree_reduce",
   no_rule="the number of its arguments varies")
