"""Gradients of reductions, running sums, orders and softmaxes (README.md, Gradients)."""

# -- Sums

# As before a reduction over `dim` (none or an empty list: all).
helper("""
def widen(x: Tensor, n: int, dim: Optional[List[int]], keepdim: bool) -> Tensor:
    if keepdim or n == 0:
        return x
    out = x
    if dim is None or len(dim) == 0:
        for d in range(n):
            out = out.unsqueeze(0)
        return out
    for d in range(n):
        if d in dim or d - n in dim:
            out = out.unsqueeze(d)
    return out
""")
helper("""
def dims_of(n: int, dim: Optional[List[int]]) -> List[int]:
    if dim is not None and len(dim) > 0:
        return dim
    return list(range(n))
""")
helper("""
def reduced_numel(sizes: List[int], dim: Optional[List[int]]) -> int:
    n = 1
    for d in dims_of(len(sizes), dim):
        if len(sizes) > 0:
            n *= sizes[d]
    return n
""")
grad("sum", self="grad.expand(self_sizes)")
grad("sum_to_size", self="grad.expand(self_sizes)")
grad("sum.dim_IntList", self="widen(grad, len(self_sizes), dim, keepdim).expand(self_sizes)")
grad("nansum", self="widen(grad, self.dim(), dim, keepdim) * torch.logical_not(self.isnan())")
grad("mean", self="grad.expand(self_sizes) / reduced_numel(self_sizes, None)")
grad("mean.dim",
     self="widen(grad, len(self_sizes), dim, keepdim).expand(self_sizes) / "
          "reduced_numel(self_sizes, dim)")
# The product of all others along `dim`, which zeros don't disturb: of those before by those behind.
helper("""
def product_of_others(x: Tensor, dim: int) -> Tensor:
    n = x.size(dim)
    if n == 0:
        return x
    one = torch.ones_like(x.narrow(dim, 0, 1))
    before = torch.cumprod(torch.cat([one, x.narrow(dim, 0, n - 1)], dim), dim)
    behind = torch.cumprod(torch.cat([one, torch.flip(x, [dim]).narrow(dim, 0, n - 1)], dim), dim)
    return before * torch.flip(behind, [dim])
""")
grad("prod", self="grad * product_of_others(self.reshape([-1]), 0).reshape(self.size()).conj()")
grad("prod.dim_int", self="""
if self.dim() == 0:
    return grad
widen(grad, self.dim(), [dim], keepdim) * product_of_others(self, dim).conj()
""")

# -- Deviations

helper("""
def var_gradient(grad: Tensor, self: Tensor, dim: Optional[List[int]], correction: number,
                 keepdim: bool) -> Tensor:
    n = float(reduced_numel(self.size(), dim)) - float(correction)
    d = self - self.mean(dims_of(self.dim(), dim), True)
    return (widen(grad, self.dim(), dim, keepdim) * d *
            (2 / n if n > 0 else math.nan if n == 0 else math.inf))
""")
helper("""
def std_gradient(grad: Tensor, self: Tensor, result: Tensor, dim: Optional[List[int]],
                 correction: number, keepdim: bool) -> Tensor:
    return var_gradient(torch.where(result == 0, 0, grad / (2 * result)), self, dim, correction,
                        keepdim)
""")
for KIND, DIM, CORRECTION, KEEP in (("", "None", "1 if unbiased else 0", "False"), (".dim", "dim",
                                                                                    "1 if unbiased "
                                                                                    "else 0",
                                                                                    "keepdim"),
                                    (".correction", "dim",
                                     "1 if correction is None else correction", "keepdim")):
    TAIL = f"{DIM}, {CORRECTION}, {KEEP})"
    MEAN = (
        f" + widen(grad1, self.dim(), {DIM}, {KEEP}).expand(self.size()) / "
        f"reduced_numel(self.size(), {DIM})"
    )
    grad(f"var{KIND}", self=f"var_gradient(grad, self, {TAIL}")
    grad(f"std{KIND}", self=f"std_gradient(grad, self, result, {TAIL}")
    grad(f"var_mean{KIND}", self=f"var_gradient(grad0, self, {TAIL}{MEAN}")
    grad(f"std_mean{KIND}", self=f"std_gradient(grad0, self, result0, {TAIL}{MEAN}")

# -- Extremes: those found by index get all, those found by value share

helper("""
def to_index(grad: Tensor, index: Tensor, dim: int, keepdim: bool, sizes: List[int]) -> Tensor:
    if len(sizes) == 0:
        return grad
    g = grad if keepdim else grad.unsqueeze(dim)
    i = index if keepdim else index.unsqueeze(dim)
    return g.new_zeros(sizes).scatter(dim, i, g)
""")
helper("""
def to_equals(grad: Tensor, result: Tensor, self: Tensor, dim: Optional[List[int]],
              keepdim: bool) -> Tensor:
    r = widen(result, self.dim(), dim, keepdim)
    same = torch.logical_or(self == r, torch.logical_and(self.isnan(), r.isnan()))
    return widen(grad, self.dim(), dim, keepdim) * same / same.sum(dims_of(self.dim(), dim), True)
""")
grad("max min median nanmedian", self="to_equals(grad, result, self, None, False)")
grad("amax amin", self="to_equals(grad, result, self, dim, keepdim)")
grad("aminmax", self="""
d = [dim] if dim is not None else dims_of(self.dim(), None)
to_equals(grad0, result0, self, d, keepdim) + to_equals(grad1, result1, self, d, keepdim)
""")
grad("_aminmax",
     self="to_equals(grad0, result0, self, None, False) + to_equals(grad1, result1, self, None, "
          "False)")
grad("_aminmax.dim",
     self="to_equals(grad0, result0, self, [dim], keepdim) + to_equals(grad1, result1, self, "
          "[dim], keepdim)")
grad("max.dim min.dim median.dim nanmedian.dim mode kthvalue",
     self="to_index(grad0, result1, dim, keepdim, self_sizes)")
grad("topk sort sort.stable", self="to_index(grad0, result1, dim, True, self_sizes)")
grad("msort", self="to_index(grad, torch.sort(self, 0)[1], 0, True, self.size())")

# -- Norms

helper("""
def norm_gradient(grad: Tensor, self: Tensor, result: Tensor, p: number, dim: Optional[List[int]],
                  keepdim: bool) -> Tensor:
    g = widen(grad, self.dim(), dim, keepdim)
    r = widen(result, self.dim(), dim, keepdim)
    q = float(p)
    if q == 0.0:
        return torch.zeros_like(self)
    if q == 1.0:
        return g * self.sgn()
    if q == 2.0:
        return torch.where(r == 0, 0, g * (self / r))
    a, s = self.abs(), torch.where(r == 0, 1, r)
    if q == math.inf or q == -math.inf:
        same = torch.logical_or(a == r, torch.logical_and(a.isnan(), r.isnan()))
        return self.sgn() * (g / same.sum(dims_of(self.dim(), dim), True)) * same
    if q < 1.0:
        return torch.where(self == 0, 0, self.sgn() * torch.pow(a, q - 1) * g * torch.pow(r, 1 - q))
    if q < 2.0:
        return torch.where(r == 0, 0, self.sgn() * torch.pow(a, q - 1) * g / torch.pow(s, q - 1))
    return torch.where(r == 0, 0, self * torch.pow(a, q - 2) * g / torch.pow(s, q - 1))
""")
grad("linalg_vector_norm", self="norm_gradient(grad, self, result, ord, dim, keepdim)")
grad("norm.Scalar", self="norm_gradient(grad, self, result, p, None, False)")
grad("norm.ScalarOpt_dtype",
     self="norm_gradient(grad, self, result, 2 if p is None else p, None, False)")
grad("norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype",
     self="norm_gradient(grad, self, result, 2 if p is None else p, dim, keepdim)")
grad("frobenius_norm.dim", self="norm_gradient(grad, self, result, 2, dim, keepdim)")
grad("logsumexp special_logsumexp", self="""
r = widen(result, self.dim(), dim, keepdim)
widen(grad, self.dim(), dim, keepdim) * torch.exp(self -
                                                  torch.where(r.abs() == math.inf, 0, r)).conj()
""")

# -- Running ones

helper("""
def sum_behind(x: Tensor, dim: int) -> Tensor:
    return (x if x.dim() == 0 or x.numel() == 0 else
            torch.flip(torch.cumsum(torch.flip(x, [dim]), dim), [dim]))
""")
# With zeros there is nothing to divide by: then from the end, r[k] = g[k] + x[k + 1] r[k + 1],
# times the product before k.
helper("""
def cumprod_gradient(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    if self.dim() == 0:
        return grad
    if self.numel() == 0:
        return torch.zeros_like(self)
    x = self.to(result.dtype).conj().resolve_conj()
    if not bool(torch.any(x == 0)):
        return sum_behind(grad * result.conj(), dim) / x
    n = x.size(dim)
    before = torch.cumprod(torch.cat([torch.ones_like(x.narrow(dim, 0, 1)),
                                      x.narrow(dim, 0, n - 1)], dim), dim)
    r = grad.select(dim, n - 1)
    out = [r]
    for i in range(n - 1):
        r = grad.select(dim, n - 2 - i) + x.select(dim, n - 1 - i) * r
        out.append(r)
    return torch.flip(torch.stack(out, dim), [dim]) * before
""")
grad("cumsum", self="sum_behind(grad, dim)")
grad("cumprod", self="cumprod_gradient(grad, self, result, dim)")
grad("cummax cummin",
     self="grad0 if len(self_sizes) == 0 else grad0.new_zeros(self_sizes).scatter_add(dim, "
          "result1, grad0)")
# From the end, r[k] = g[k] + exp(result[k] - result[k + 1]) r[k + 1]: complex numbers have no parts
# above and below zero.
helper("""
def logcumsumexp_gradient(grad: Tensor, self: Tensor, result: Tensor, dim: int) -> Tensor:
    n = self.size(dim)
    r = grad.select(dim, n - 1)
    out = [r]
    for i in range(n - 1):
        k = n - 2 - i
        r = (grad.select(dim, k) +
             torch.exp(result.select(dim, k) - result.select(dim, k + 1)).conj() * r)
        out.append(r)
    return torch.flip(torch.stack(out, dim), [dim]) * torch.exp(self - result).conj()
""")
# The parts of the gradient above and below zero apart, in logarithms.
grad("logcumsumexp _logcumsumexp", self="""
if self.dim() == 0 or self.numel() == 0:
    return grad
if self.is_complex() or torch.is_grad_enabled():
    return logcumsumexp_gradient(grad, self, result, dim)
low = torch.scalar_tensor(-math.inf, dtype=grad.dtype)
up = torch.where(grad > 0, torch.log(grad), low) - result
down = torch.where(grad < 0, torch.log(-grad), low) - result
up = torch.flip(torch.logcumsumexp(torch.flip(up, [dim]), dim), [dim])
down = torch.flip(torch.logcumsumexp(torch.flip(down, [dim]), dim), [dim])
torch.exp(up + self) - torch.exp(down + self)
""")

# -- Softmax

SOFTMAX = "(grad - (grad * result).sum([dim], True)) * result"
grad("softmax.int special_softmax _softmax _safe_softmax", self=SOFTMAX)
grad("log_softmax.int special_log_softmax _log_softmax",
     self="grad - torch.exp(result) * grad.sum([dim], True)")
grad("_softmax_backward_data", grad_output="(grad - (grad * output).sum([dim], True)) * output",
     output="""
grad * (grad_output - (grad_output * output).sum([dim], True)) - grad_output * (grad *
      output).sum([dim], True)
""")
grad("_log_softmax_backward_data", grad_output="grad - (grad * torch.exp(output)).sum([dim], True)",
     output="-grad * torch.exp(output) * grad_output.sum([dim], True)")
