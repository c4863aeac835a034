"""Gradients of choosing and writing by index and mask (README.md, Gradients)."""

INDEX = "torch.index_put(grad.new_zeros(self_sizes), indices, grad, True)"
grad("index.Tensor index.Tensor_hacked_twin _unsafe_index.Tensor _unsafe_index.Tensor_hacked_twin",
     self=INDEX)
for NAME in ("index_put", "index_put.hacked_twin", "_unsafe_index_put",
             "_unsafe_index_put.hacked_twin", "_index_put_impl"):
    grad(NAME,
         self="grad if accumulate else torch.index_put(grad, indices, "
              "grad.new_zeros(values_sizes), False)",
         values="torch.index(grad, indices)")
grad("index_select", self="grad.new_zeros(self_sizes).index_add(dim, index, grad)")
grad("index_add", self="grad",
     source="times_conj(grad.index_select(dim, index), alpha).reshape(source_sizes)")
grad("index_copy", self="grad.index_fill(dim, index, 0)",
     source="grad.index_select(dim, index).reshape(source_sizes)")
grad("index_fill.int_Scalar", self="grad.index_fill(dim, index, 0)")
grad("index_fill.int_Tensor", self="grad.index_fill(dim, index, 0)",
     value="grad * torch.zeros_like(grad).index_fill(dim, index, 1)")
grad("take", self="torch.put(grad.new_zeros(self_sizes), index, grad, True)")
grad("put",
     self="grad if accumulate else torch.put(grad, index, grad.new_zeros(source_sizes), False)",
     source="torch.take(grad, index).reshape(source_sizes)")

# An index may be smaller than what it chooses from.
helper("""
def gathered(grad: Tensor, dim: int, index: Tensor, sizes: List[int]) -> Tensor:
    if index.size() == sizes:
        return torch.gather(grad, dim, index)
    out = grad.new_zeros(sizes)
    if index.numel() == 0:
        return out
    part = torch.gather(grad, dim, index)
    widths: List[int] = []
    for d in range(len(sizes)):
        last = len(sizes) - 1 - d
        widths.append(0)
        widths.append(sizes[last] - part.size(last))
    return torch.constant_pad_nd(part, widths, 0)
""")
grad("gather", self="grad.new_zeros(self_sizes).scatter_add(dim, index, grad)")
grad("take_along_dim", self="""
if dim is None:
    n = 1
    for s in self_sizes:
        n *= s
    flat = indices.reshape([-1])
    return grad.new_zeros([n]).scatter_add(0, torch.where(flat < 0, flat + n, flat),
                                           grad.reshape([-1])).reshape(self_sizes)
d = dim + grad.dim() if dim < 0 else dim
sizes = grad.size()
shown = indices.size()
shown = sizes[:d] + [shown[d]] + sizes[d + 1:]
sizes[d] = self_sizes[d]
at = torch.where(indices < 0, indices + sizes[d], indices)
grad.new_zeros(sizes).scatter_add(d, at.expand(shown), grad)
""")
grad("scatter.src", self="grad.scatter(dim, index, 0)", src="gathered(grad, dim, index, src_sizes)")
grad("scatter.value", self="grad.scatter(dim, index, 0)")
grad("scatter_add", self="grad", src="gathered(grad, dim, index, src_sizes)")

# What was reduced into one place shares as the reduction says.  `spread(x)` reads a result's place
# for each source, `into` adds sources up; both reductions differ in nothing else.
REDUCE = """
def NAME(grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str,
         include_self: bool, result: Tensor)\
 -> Tuple[Tensor, Tensor]:
    kept = INTO(torch.ones_like(self) if include_self else torch.zeros_like(self),
                torch.zeros_like(src))
    g = grad
    if not include_self:
        touched = INTO(torch.zeros_like(self), torch.ones_like(src))
        own = torch.where(touched > 0, 0, 1).to(grad.dtype)
    else:
        own = torch.ones_like(self)
    if reduce == 'sum':
        return g * own, SPREAD(g)
    if reduce == 'mean':
        n = torch.clamp_min(INTO(own, torch.ones_like(src)), 1)
        return g / n * own, SPREAD(g / n)
    if reduce == 'prod':
        # The other of two zeros stands in the gradient, for second derivatives.
        x = torch.where(own > 0, self, 1)
        usual, there = torch.where(x == 0, 1, x), torch.where(src == 0, 1, src)
        zeros = torch.where(src == 0, src, 0)
        n = SPREAD(INTO(torch.zeros_like(self), (src == 0).to(grad.dtype)))
        rest = SPREAD(REDUCED(x, there))
        other = SPREAD(INTO(torch.zeros_like(self), zeros)) - zeros
        d_self = REDUCED(usual, src) / usual
        d_zero = torch.where(n == 1, rest, torch.where(n == 2, other * rest, 0))
        d_src = torch.where(src == 0, d_zero, SPREAD(result) / there)
        return g * d_self * own, SPREAD(g) * d_src
    same = (self == result) * own
    hits = src == SPREAD(result)
    n = INTO(same, hits.to(grad.dtype))
    share = g / torch.clamp_min(n, 1)
    return share * same, SPREAD(share) * hits
"""
REDUCE = REDUCE.replace("    kept = INTO(torch.ones_like(self) if include_self else "
                        "torch.zeros_like(self), torch.zeros_like(src))\n", "")
helper(REDUCE.replace("NAME", "scatter_reduce_gradient").replace("REDUCED(",
    "torch.scatter_reduce_two_(").replace("INTO(", "scatter_into(dim, index, ")
       .replace("SPREAD(",
                "scatter_spread(dim, index, src.size(), ").replace("torch.scatter_reduce_two_(",
                    "scatter_product(dim, index, "))
helper("""
def scatter_into(dim: int, index: Tensor, self: Tensor, src: Tensor) -> Tensor:
    return self.scatter_add(dim, index, src)
""")
helper("""
def scatter_product(dim: int, index: Tensor, self: Tensor, src: Tensor) -> Tensor:
    return torch.scatter_reduce(self, dim, index, src, 'prod')
""")
helper("""
def scatter_spread(dim: int, index: Tensor, sizes: List[int], x: Tensor) -> Tensor:
    return gathered(x, dim, index, sizes)
""")
helper(REDUCE.replace("NAME", "index_reduce_gradient").replace("INTO(", "index_into(dim, index, ")
       .replace("SPREAD(", "index_spread(dim, index, ").replace("REDUCED(",
           "index_product(dim, index, "))
helper("""
def index_into(dim: int, index: Tensor, self: Tensor, src: Tensor) -> Tensor:
    return self.index_add(dim, index, src)
""")
helper("""
def index_product(dim: int, index: Tensor, self: Tensor, src: Tensor) -> Tensor:
    return torch.index_reduce(self, dim, index, src, 'prod')
""")
helper("""
def index_spread(dim: int, index: Tensor, x: Tensor) -> Tensor:
    return x.index_select(dim, index)
""")
grad("scatter_reduce.two",
     {"self, src": "scatter_reduce_gradient(grad, self, dim, index, src, reduce, include_self, "
                   "result)"})
grad("index_reduce",
     {"self, source": "index_reduce_gradient(grad, self, dim, index, source, reduce, include_self, "
                      "result)"})

# -- Masks

grad("masked_select", self="""
sizes = torch.broadcast_tensors([self, mask])[0].size()
grad.new_zeros(sizes).masked_scatter(mask.expand(sizes), grad)
""")
grad("masked_scatter", self="grad.masked_fill(mask, 0)", source="""
n = 1
for s in source_sizes:
    n *= s
got = torch.masked_select(grad, mask)
torch.constant_pad_nd(got, [0, n - got.numel()], 0).reshape(source_sizes)
""")
