"""Decompositions (decompose_nn.py) of reductions, products, losses, statistics, linear algebra."""


def core(names: str, takes: str, *lines: str, returns: str = "Tensor") -> None:
    body = "".join(f"    {line}\n" for line in lines)
    decompose(names, f"def core({takes}) -> {returns}:\n{body}")


TWO = "Tuple[Tensor, Tensor]"
NONE = "none: List[int] = []"

# -- Reductions

core("all.dim", "self: Tensor, dim: int, keepdim: bool",
     "return torch.logical_not(torch.any(torch.logical_not(self), dim, keepdim))")
core("all.dims", "self: Tensor, dim: Optional[List[int]], keepdim: bool",
     "return torch.logical_not(torch.any(torch.logical_not(self), dim, keepdim))")
core("aminmax", "self: Tensor, dim: Optional[int], keepdim: bool",
     "dims: List[int] = []",
     "if dim is not None:",
     "    dims = [dim]",
     "return torch.amin(self, dims, keepdim), torch.amax(self, dims, keepdim)", returns=TWO)
core("count_nonzero", "self: Tensor, dim: Optional[int]",
     "dims: List[int] = []",
     "if dim is not None:",
     "    dims = [dim]",
     "return torch.sum(torch.ne(self, 0), dims)")
core("count_nonzero.dim_IntList", "self: Tensor, dim: List[int]",
     "return torch.sum(torch.ne(self, 0), dim)")
core("nansum", "self: Tensor, dim: Optional[List[int]], keepdim: bool, dtype: Optional[int]",
     "return torch.sum(torch.where(torch.isnan(self), 0, self), dim, keepdim, dtype=dtype)")
CORRECTION = "self: Tensor, dim: Optional[List[int]], correction: Optional[number], keepdim: bool"
core("var", "self: Tensor, unbiased: bool",
     "return torch.var(self, None, correction=1 if unbiased else 0, keepdim=False)")
core("std", "self: Tensor, unbiased: bool",
     "return torch.std(self, None, correction=1 if unbiased else 0, keepdim=False)")
core("std.correction", CORRECTION,
     "return torch.sqrt(torch.var(self, dim, correction=correction, keepdim=keepdim))")
for name in "var_mean", "std_mean":
    core(name, "self: Tensor, unbiased: bool",
         f"return torch.{name}(self, None, correction=1 if unbiased else 0, keepdim=False)",
         returns=TWO)
    core(f"{name}.dim", "self: Tensor, dim: Optional[List[int]], unbiased: bool, keepdim: bool",
         f"return torch.{name}(self, dim, correction=1 if unbiased else 0, keepdim=keepdim)",
         returns=TWO)
core("std_mean.correction", CORRECTION,
     "var = torch.var(self, dim, correction=correction, keepdim=keepdim)",
     "return torch.sqrt(var), torch.mean(self, dim, keepdim)", returns=TWO)
core("norm.Scalar", "self: Tensor, p: number", "return torch.linalg_vector_norm(self, p)")
core("norm.ScalarOpt_dtype", "self: Tensor, p: Optional[number], dtype: int",
     "return torch.linalg_vector_norm(self, 2 if p is None else p, None, False, dtype=dtype)")
core("norm.ScalarOpt_dim_dtype",
     "self: Tensor, p: Optional[number], dim: List[int], keepdim: bool, dtype: int",
     "return torch.linalg_vector_norm(self, 2 if p is None else p, dim, keepdim, dtype=dtype)")
core("frobenius_norm.dim", "self: Tensor, dim: List[int], keepdim: bool",
     "return torch.linalg_vector_norm(self, 2, dim, keepdim)")
core("sum_to_size", "self: Tensor, size: List[int]",
     "lead = self.dim() - len(size)",
     "dims = [i for i in range(lead)]",
     "for i in range(len(size)):",
     "    if size[i] == 1 and self.size(lead + i) != 1:",
     "        dims.append(lead + i)",
     "out = torch.sum(self, dims, True) if len(dims) > 0 else self",
     "return out.view(size) if lead > 0 else out")
core("isin.Tensor_Tensor",
     "elements: Tensor, test_elements: Tensor, assume_unique: bool, invert: bool",
     "found = torch.any(torch.eq(elements.unsqueeze(-1), torch.reshape(test_elements, [-1])), -1)",
     "return torch.logical_not(found) if invert else found")
core("isin.Tensor_Scalar",
     "elements: Tensor, test_element: number, assume_unique: bool, invert: bool",
     "return torch.ne(elements, test_element) if invert else torch.eq(elements, test_element)")
core("isin.Scalar_Tensor",
     "element: number, test_elements: Tensor, assume_unique: bool, invert: bool",
     "found = torch.any(torch.eq(torch.reshape(test_elements, [-1]), element))",
     "return torch.logical_not(found) if invert else found")
core("isclose", "self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool",
     "close = torch.eq(self, other)",
     "if equal_nan and (self.is_floating_point() or self.is_complex()):",
     "    close = torch.logical_or(close, torch.logical_and(torch.ne(self, self), "
     "torch.ne(other, other)))",
     "if rtol == 0.0 and atol == 0.0:",
     "    return close",
     "allowed = torch.add(torch.abs(torch.mul(other, rtol)), atol)",
     "gap = torch.abs(torch.sub(self, other))",
     "near = torch.logical_and(torch.lt(torch.abs(gap), float('inf')), torch.le(gap, allowed))",
     "return torch.logical_or(close, near)")

# -- Numbers beside tensors

core("where.Scalar", "condition: Tensor, self: number, other: number",
     NONE,
     "a = torch.full(none, self, device=condition.device)",
     "b = torch.full(none, other, device=condition.device)",
     "dtype = torch.promote_types(a.dtype, b.dtype)",
     "return torch.where(condition, a.to(dtype), b.to(dtype))")
for overload, tensor, number, args in (
    ("ScalarOther", "self", "other", "self: Tensor, other: number"),
    ("ScalarSelf", "other", "self", "self: number, other: Tensor"),
):
    core(f"where.{overload}", f"condition: Tensor, {args}",
         NONE,
         f"made = torch.full(none, {number}, device=condition.device)",
         f"if {tensor}.is_floating_point() and not made.is_complex():",
         f"    made = torch.full(none, {number}, dtype={tensor}.dtype, device=condition.device)",
         f"dtype = torch.result_type({tensor}, made)",
         f"return torch.where(condition, {'x' if tensor == 'self' else 'made'}.to(dtype), "
         f"{'made' if tensor == 'self' else 'x'}.to(dtype))".replace("x.to", f"{tensor}.to"))
for name in "xlogy", "special_xlogy", "special_xlog1py":
    for overload, tensor, number, args in (
        ("self", "other", "self", "self: number, other: Tensor"),
        ("other", "self", "other", "self: Tensor, other: number"),
    ):
        full = f"{name}.{overload}_scalar" if name != "xlogy" else (
            f"xlogy.Scalar_{overload.capitalize()}")
        pair = "made, other" if tensor == "other" else "self, made"
        core(full, args, NONE,
             f"made = torch.full(none, {number}, device={tensor}.device)",
             f"return torch.{name}({pair})")
core("special_xlogy", "self: Tensor, other: Tensor", "return torch.xlogy(self, other)")
core("special_log_ndtr", "self: Tensor",
     "t = torch.mul(self, 0.7071067811865476)",
     "low = torch.sub(torch.log(torch.mul(torch.special_erfcx(torch.neg(t)), 0.5)), "
     "torch.mul(t, t))",
     "high = torch.log1p(torch.mul(torch.erfc(t), -0.5))",
     "return torch.where(torch.lt(self, 1), low, high)")
core("nan_to_num", "self: Tensor, nan: Optional[float], posinf: Optional[float], "
     "neginf: Optional[float]",
     "if self.is_complex():",
     "    return torch.complex(torch.nan_to_num(torch.real(self), nan, posinf, neginf),",
     "                         torch.nan_to_num(torch.imag(self), nan, posinf, neginf))",
     "if not self.is_floating_point():",
     "    return torch.clone(self)",
     "most = 3.4028234663852886e38",
     "if self.dtype == 7:",
     "    most = 1.7976931348623157e308",
     "if self.dtype == 5:",
     "    most = 65504.0",
     "if self.dtype == 15:",
     "    most = 3.3895313892515355e38",
     "least = -most",
     "zero = 0.0",
     "if posinf is not None:",
     "    most = posinf",
     "if neginf is not None:",
     "    least = neginf",
     "if nan is not None:",
     "    zero = nan",
     "out = torch.where(torch.eq(self, float('inf')), most, self)",
     "out = torch.where(torch.eq(self, float('-inf')), least, out)",
     "return torch.where(torch.isnan(self), zero, out)")

# -- Products

core("mv", "self: Tensor, vec: Tensor", "return torch.sum(torch.mul(self, vec), [1])")
core("dot", "self: Tensor, tensor: Tensor", "return torch.sum(torch.mul(self, tensor), [0])")
core("vdot", "self: Tensor, other: Tensor",
     "return torch.sum(torch.mul(torch.conj(self), other), [0])")
core("baddbmm", "self: Tensor, batch1: Tensor, batch2: Tensor, beta: number, alpha: number",
     "out = torch.bmm(batch1, batch2)",
     "if alpha != 1:",
     "    out = torch.mul(out, alpha)",
     "if beta == 0:",
     "    return out",
     "return torch.add(out, self if beta == 1 else torch.mul(self, beta))")
core("_euclidean_dist", "x1: Tensor, x2: Tensor",
     "a = torch.sum(torch.mul(x1, x1), [-1], True)",
     "b = torch.sum(torch.mul(x2, x2), [-1], True)",
     "ones = torch.ones_like(a, memory_format=torch.contiguous_format)",
     "others = torch.ones_like(b, memory_format=torch.contiguous_format)",
     "left = torch.cat([torch.mul(x1, -2), a, ones], -1)",
     "right = torch.cat([x2, others, b], -1)",
     "return torch.sqrt(torch.clamp(torch.matmul(left, right.transpose(-2, -1)), 0, None))")
core("cdist", "x1: Tensor, x2: Tensor, p: float, compute_mode: Optional[int]",
     "return torch._cdist_forward(x1, x2, p, compute_mode)")
core("pdist", "self: Tensor, p: float", "return torch._pdist_forward(self, p)")

# -- Sequences of numbers

FACTORY = ("steps: int, dtype: Optional[int], layout: Optional[int], device: Optional[Device], "
           "pin_memory: Optional[bool]")
for overload, start, end in (
    ("Scalar_Tensor", "number", "Tensor"),
    ("Tensor_Scalar", "Tensor", "number"),
    ("Tensor_Tensor", "Tensor", "Tensor"),
):
    of = "start" if start == "Tensor" else "end"
    takes = f"start: {start}, end: {end}, "
    core(f"linspace.{overload}", takes + FACTORY,
         f"at = torch.arange(0.0, float(steps), 1.0, dtype=dtype, device={of}.device)",
         "if steps < 2:",
         "    return torch.add(torch.mul(at, 0), start).to(at.dtype)",
         "step = torch.div(torch.sub(end, start), steps - 1)" if end == "Tensor" else
         "step = torch.div(torch.rsub(start, end), steps - 1)",
         "return torch.add(torch.mul(at, step), start).to(at.dtype)")
    core(f"logspace.{overload}", takes + FACTORY.replace("dtype", "base: float, dtype", 1),
         "at = torch.linspace(start, end, steps, dtype=6, device=device)",
         "return torch.pow(base, at).to(6 if dtype is None else dtype)")
core("logspace", "start: number, end: number, "
     + FACTORY.replace("dtype", "base: float, dtype", 1),
     "at = torch.linspace(start, end, steps, dtype=7, device=device)",
     "return torch.pow(base, at).to(6 if dtype is None else dtype)")
core("eye.m", "n: int, m: int, dtype: Optional[int], layout: Optional[int], "
     "device: Optional[Device], pin_memory: Optional[bool]",
     "rows = torch.arange(0, n, 1, dtype=4, device=device).unsqueeze(1)",
     "columns = torch.arange(0, m, 1, dtype=4, device=device).unsqueeze(0)",
     NONE,
     "one = torch.full(none, 1.0, dtype=dtype, device=device)",
     "zero = torch.full(none, 0.0, dtype=dtype, device=device)",
     "return torch.where(torch.eq(rows, columns), one, zero)")

# -- Losses

LOSS = """
    dim = 0 if self.dim() == 1 else 1
    none: List[int] = []
    ignored = torch.eq(target, ignore_index)
    kept = torch.where(ignored, torch.full_like(target, 0), target)
    loss = torch.neg(torch.squeeze(torch.gather(self, dim, kept.unsqueeze(dim)), [dim]))
    if weight is not None:
        at: List[Optional[Tensor]] = [kept]
        shares = torch.index(weight, at)
        loss = torch.mul(loss, shares)
    else:
        shares = torch.full_like(loss, 1)
    loss = torch.where(ignored, torch.full_like(loss, 0), loss)
    shares = torch.where(ignored, torch.full_like(shares, 0), shares)
    if reduction == 0:
        return loss, torch.full(none, 0.0, dtype=self.dtype, device=self.device)
    total = torch.sum(shares, none)
    if reduction == 2:
        return torch.sum(loss, none), total
    return torch.div(torch.sum(loss, none), total), total
"""
decompose("nll_loss_forward nll_loss2d_forward", f"""
def core(self: Tensor, target: Tensor, weight: Optional[Tensor], reduction: int,
         ignore_index: int) -> Tuple[Tensor, Tensor]:
{LOSS}""")
REDUCED = """
    none: List[int] = []
    if reduction == 1:
        return torch.mean(loss)
    return torch.sum(loss, none) if reduction == 2 else loss
"""
decompose("multi_margin_loss", f"""
def core(self: Tensor, target: Tensor, p: number, margin: number, weight: Optional[Tensor],
         reduction: int) -> Tensor:
    rows = torch.atleast_2d(self)
    at = torch.reshape(torch.atleast_1d(target), [-1, 1])
    gap = torch.sub(rows, torch.gather(rows, 1, at))
    over = torch.clamp(torch.add(gap, margin), 0, None)
    if p != 1:
        over = torch.pow(over, p)
    if weight is not None:
        shares: List[Optional[Tensor]] = [at]
        over = torch.mul(over, torch.index(weight, shares))
    classes = torch.arange(0, rows.size(1), 1, dtype=4, device=self.device)
    over = torch.where(torch.eq(classes, at), torch.full_like(over, 0), over)
    loss = torch.mean(over, [1])
    if self.dim() < 2:
        loss = torch.squeeze(loss, [0])
{REDUCED}""")
decompose("multilabel_margin_loss_forward", """
def core(self: Tensor, target: Tensor, reduction: int) -> Tuple[Tensor, Tensor]:
    x, labels = torch.atleast_2d(self), torch.atleast_2d(target)
    n = x.size(1)
    at = torch.arange(0, n, 1, dtype=4, device=self.device)
    ends = torch.where(torch.eq(labels, -1), at, torch.full_like(at, n))
    end = torch.amin(ends, [-1], True)
    used = torch.lt(at, end)
    kept = torch.where(used, labels, torch.full_like(labels, 0))
    hits = torch.logical_and(torch.eq(kept.unsqueeze(-1), at), used.unsqueeze(-1))
    is_target = torch.any(hits, 1)
    picked = torch.gather(x, 1, kept)
    gap = torch.add(torch.sub(x.unsqueeze(1), picked.unsqueeze(-1)), 1)
    over = torch.clamp(gap, 0, None)
    counted = torch.logical_and(used.unsqueeze(-1), torch.logical_not(is_target).unsqueeze(1))
    over = torch.where(counted, over, torch.full_like(over, 0))
    loss = torch.div(torch.sum(over, [1, 2]), n)
    is_there = torch.reshape(is_target.to(self.dtype), target.size())
    if reduction == 1:
        return torch.mean(loss), is_there
    none: List[int] = []
    if reduction == 2:
        return torch.sum(loss, none), is_there
    return (torch.squeeze(loss, [0]) if self.dim() < 2 else loss), is_there
""")
core("multilabel_margin_loss", "self: Tensor, target: Tensor, reduction: int",
     "out, _ = torch.multilabel_margin_loss_forward(self, target, reduction)", "return out")

# -- Norms, quantization, chance

core("_safe_softmax", "self: Tensor, dim: int, dtype: Optional[int]",
     "out = torch.softmax(self, dim, dtype)",
     "is_none = torch.all(torch.eq(self, float('-inf')), dim, True)",
     "return torch.where(is_none, torch.full_like(out, 0), out)")
core("_fused_rms_norm",
     "input: Tensor, normalized_shape: List[int], weight: Optional[Tensor], eps: Optional[float]",
     "n, k = input.dim(), len(normalized_shape)",
     "dims = [n - k + i for i in range(k)]",
     "x = input",
     "by = 1.1920928955078125e-07",
     "if input.dtype == 7:",
     "    by = 2.220446049250313e-16",
     "if input.dtype == 5 or input.dtype == 15:",
     "    x = input.to(6)",
     "if eps is not None:",
     "    by = eps",
     "scale = torch.rsqrt(torch.add(torch.mean(torch.mul(x, x), dims, True), by))",
     "out = torch.mul(x, scale)",
     "if weight is not None:",
     "    out = torch.mul(out, weight)",
     "return out.to(input.dtype), scale", returns=TWO)
core("bernoulli", "self: Tensor, generator: Optional[Generator]",
     "return torch.lt(torch.rand_like(self), self).to(self.dtype)")
core("fake_quantize_per_tensor_affine",
     "self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int",
     "out, _ = torch.fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, "
     "quant_max)", "return out")
core("fake_quantize_per_channel_affine",
     "self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int",
     "out, _ = torch.fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, "
     "quant_min, quant_max)", "return out")

# -- Linear algebra

core("linalg_eigh", "self: Tensor, UPLO: str",
     "return torch._linalg_eigh(self, UPLO, True)", returns=TWO)
core("linalg_eigvals", "self: Tensor", "out, _ = torch.linalg_eig(self)", "return out")
core("linalg_slogdet", "A: Tensor",
     "a, b, _, _ = torch._linalg_slogdet(A)", "return a, b", returns=TWO)
core("slogdet", "self: Tensor", "return torch.linalg_slogdet(self)", returns=TWO)
core("linalg_solve_ex", "A: Tensor, B: Tensor, left: bool, check_errors: bool",
     "out, _, _, info = torch._linalg_solve_ex(A, B, left=left, check_errors=check_errors)",
     "return out, info", returns=TWO)
core("linalg_svd", "A: Tensor, full_matrices: bool, driver: Optional[str]",
     "return torch._linalg_svd(A, full_matrices, True, driver=driver)",
     returns="Tuple[Tensor, Tensor, Tensor]")
core("linalg_lu_factor", "A: Tensor, pivot: bool",
     "out, pivots, _ = torch.linalg_lu_factor_ex(A, pivot=pivot, check_errors=False)",
     "return out, pivots", returns=TWO)
core("linalg_ldl_factor", "self: Tensor, hermitian: bool",
     "out, pivots, _ = torch.linalg_ldl_factor_ex(self, hermitian=hermitian, check_errors=False)",
     "return out, pivots", returns=TWO)
core("qr", "self: Tensor, some: bool",
     'return torch.linalg_qr(self, "reduced" if some else "complete")', returns=TWO)
core("svd", "self: Tensor, some: bool, compute_uv: bool",
     "if not compute_uv:",
     "    raise RuntimeError('svd without its vectors')",
     "u, s, v = torch.linalg_svd(self, not some)",
     "return u, s, torch.adjoint(v)", returns="Tuple[Tensor, Tensor, Tensor]")
core("fake_quantize_per_tensor_affine.tensor_qparams",
     "self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int",
     "on = torch.full([1], 1, dtype=4, device=self.device)",
     "out, _ = torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(self, scale, "
     "zero_point, on, quant_min, quant_max)", "return out")
for name in "quantile", "nanquantile":
    core(f"{name}.scalar", "self: Tensor, q: float, dim: Optional[int], keepdim: bool, "
         "interpolation: str", NONE,
         "at = torch.full(none, q, dtype=self.dtype, device=self.device)",
         f"return torch.{name}(self, at, dim, keepdim, interpolation=interpolation)")
