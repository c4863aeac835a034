"""Operators that are short programs over others."""


def compose(full, body, same=(), effects=(), shape=None, **variants):
    op(f"aten::{full}", family="compose", shape=shape, body=body, same=[f"aten::{n}" for n in same],
       effects=list(effects), variants={k: f"aten::{v}" for k, v in variants.items()})


# -- Statistics
# ---------------------------------------------------------------------------------------

compose("cov", """
def cov(self: Tensor, correction: int, fweights: Optional[Tensor],
        aweights: Optional[Tensor]) -> Tensor:
    if self.dim() > 2:
        raise RuntimeError("cov(): expected input to have two or fewer dimensions but got an input "
                           "with " + str(self.dim()) + " dimensions")
    if self.dtype == torch.bool:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = self.view([1, -1]) if self.dim() < 2 else self
    n = x.size(1)
    w: Optional[Tensor] = None
    if fweights is not None:
        if fweights.dim() > 1:
            raise RuntimeError("cov(): expected fweights to have one or fewer dimensions but got "
                               "fweights with " + str(fweights.dim()) + " dimensions")
        if fweights.is_floating_point() or fweights.is_complex() or fweights.dtype == torch.bool:
            raise RuntimeError("cov(): expected fweights to have integral dtype but got fweights "
                               "with another dtype")
        if fweights.numel() != n:
            raise RuntimeError("cov(): expected fweights to have the same numel as there are "
                               "observations in the input but got " + str(fweights.numel()) + " != "
                               + str(n))
        if n > 0 and bool(torch.min(fweights) < 0):
            raise RuntimeError("cov(): fweights cannot be negative")
        w = fweights
    if aweights is not None:
        if aweights.dim() > 1:
            raise RuntimeError("cov(): expected aweights to have one or fewer dimensions but got "
                               "aweights with " + str(aweights.dim()) + " dimensions")
        if not aweights.is_floating_point():
            raise RuntimeError("cov(): expected aweights to have floating point dtype but got "
                               "aweights with another dtype")
        if aweights.numel() != n:
            raise RuntimeError("cov(): expected aweights to have the same numel as there are "
                               "observations in the input but got " + str(aweights.numel()) + " != "
                               + str(n))
        if n > 0 and bool(torch.min(aweights) < 0):
            raise RuntimeError("cov(): aweights cannot be negative")
        w = aweights if w is None else w * aweights
    total = torch.scalar_tensor(n, dtype=torch.int64)
    if w is not None:
        total = torch.sum(w)
        if n > 0 and bool(total == 0):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        mean = torch.sum(x * w, [1]) / total
    else:
        mean = torch.sum(x, [1]) / n
    norm = total - correction
    if w is not None and aweights is not None and correction != 0:
        norm = total - correction * torch.sum(w * aweights) / total
    norm = torch.clamp_min(norm, 0)
    d = x - mean.unsqueeze(1)
    c = torch.mm(d, (d if w is None else d * w).t().conj())
    return torch.true_divide(c, norm).squeeze()
""", shape="cov")
compose("corrcoef", """
def corrcoef(self: Tensor) -> Tensor:
    if self.dim() > 2:
        raise RuntimeError("corrcoef(): expected input to have two or fewer dimensions but got an "
                           "input with " + str(self.dim()) + " dimensions")
    c = torch.cov(self)
    if c.dim() == 0:
        return c / c
    d = c.diag()
    s = torch.sqrt(torch.real(d) if d.is_complex() else d)
    c = c / s.reshape([-1, 1]) / s.reshape([1, -1])
    if c.is_complex():
        r = torch.view_as_real(c)
        return torch.view_as_complex(r.clamp(-1, 1))
    return c.clamp(-1, 1)
""", shape="cov")

# -- Shapes and joining
# ---------------------------------------------------------------------------------

compose("pad_sequence", """
def pad_sequence(sequences: List[Tensor], batch_first: bool, padding_value: float,
                 padding_side: str) -> Tensor:
    if len(sequences) == 0:
        raise RuntimeError("received an empty list of sequences")
    if padding_side != "left" and padding_side != "right":
        raise RuntimeError("Expected padding_side to be one of left or right, but got " +
                           padding_side + ".")
    longest = 0
    for s in sequences:
        longest = max(longest, s.size(0))
    lead = [len(sequences), longest] if batch_first else [longest, len(sequences)]
    first = sequences[0]
    out = torch.full(lead + first.size()[1:], padding_value, dtype=first.dtype)
    for i in range(len(sequences)):
        n = sequences[i].size(0)
        at = longest - n if padding_side == "left" else 0
        row = out.select(0 if batch_first else 1, i)
        row.narrow(0, at, n).copy_(sequences[i])
    return out
""", shape="pad_sequence")
compose("fill_diagonal_", """
def fill_diagonal_(self: Tensor, fill_value: number, wrap: bool) -> Tensor:
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    least = self.size(0)
    step = 0
    for d in range(self.dim()):
        if self.dim() > 2 and self.size(d) != self.size(0):
            raise RuntimeError("all dimensions of input must be of equal length")
        least = min(least, self.size(d))
        step += self.stride(d)
    torch.as_strided(self, [least], [step], self.storage_offset()).fill_(fill_value)
    if wrap and self.dim() == 2 and self.size(0) > self.size(1) + 1:
        rows, cols = self.size(0), self.size(1)
        at = cols + 1
        while at < rows:
            k = min(cols, rows - at)
            torch.as_strided(self, [k], [step], self.storage_offset() + at *
                             self.stride(0)).fill_(fill_value)
            at += cols + 1
    return self
""", shape="itself")
compose("_stack", """
def _stack(tensors: List[Tensor], dim: int) -> Tensor:
    return torch.stack(tensors, dim)
""", out="_stack.out", shape="stack")
compose("_shape_as_tensor", """
def _shape_as_tensor(self: Tensor) -> Tensor:
    return torch.tensor(self.size(), dtype=torch.long)
""")
compose("_reshape_from_tensor", """
def _reshape_from_tensor(self: Tensor, shape: Tensor) -> Tensor:
    sizes: List[int] = []
    for s in shape:
        sizes.append(int(s))
    return self.reshape(sizes)
""")
compose("_reshape_copy", """
def _reshape_copy(self: Tensor, size: List[int]) -> Tensor:
    return self.reshape(size).clone()
""", shape="reshape_copy")
compose("_dim_arange", """
def _dim_arange(like: Tensor, dim: int) -> Tensor:
    return torch.arange(like.size(dim), dtype=torch.long)
""")
compose("mH", """
def mH(self: Tensor) -> Tensor:
    if self.dim() < 2:
        raise RuntimeError("tensor.mH is only supported on matrices or batches of matrices. Got " +
                           str(self.dim()) + "-D tensor.")
    return torch.transpose(self, -2, -1).conj()
""", same=["mH.a"], shape="adjoint")
for name, dtype in (("Byte", "uint8"), ("Char", "int8"), ("Double", "double"), ("Float", "float"),
                    ("Half", "half"), ("Int", "int"), ("Long", "long"), ("Short", "short")):
    compose(f"_cast_{name}", f"""
def _cast_{name}(self: Tensor, non_blocking: bool) -> Tensor:
    return self.to(torch.{dtype})
""", shape=f"to_{dtype}")
compose("vander", """
def vander(x: Tensor, N: Optional[int], increasing: bool) -> Tensor:
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.size(0) if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    y = x if x.is_floating_point() or x.is_complex() else x.to(torch.long)
    out = torch.ones([x.size(0), n], dtype=y.dtype)
    if n > 1:
        out.narrow(1, 1, n - 1).copy_(y.unsqueeze(1))
        out.narrow(1, 1, n - 1).copy_(torch.cumprod(out.narrow(1, 1, n - 1).clone(), 1))
    return out if increasing else out.flip([1])
""", shape="vander")
compose("linalg_vander", """
def linalg_vander(x: Tensor, N: Optional[int]) -> Tensor:
    if x.dtype == torch.bool:
        raise RuntimeError("linalg.vander supports floating point, complex, and integer tensors, "
                           "but got Bool")
    x = x.unsqueeze(0) if x.dim() == 0 else x
    n = x.size(-1) if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    t = x if x.is_floating_point() or x.is_complex() else x.to(torch.long)
    if t.dim() == 0:
        t = t.unsqueeze(0)
    powers = t.unsqueeze(-1).expand(t.size() + [n - 1])
    return torch.cat([torch.ones(t.size() + [1], dtype=t.dtype), torch.cumprod(powers, -1)], -1)
""", shape="vander")

# -- Operators of export's decompositions
# -----------------------------------------------------------------

compose("log_sigmoid_forward", """
def log_sigmoid_forward(self: Tensor) -> Tuple[Tensor, Tensor]:
    low = torch.clamp_max(self, 0)
    buffer = torch.exp(-self.abs())
    return low - torch.log1p(buffer), buffer
""")
compose("_unsafe_masked_index", """
def _unsafe_masked_index(self: Tensor, mask: Tensor, indices: List[Optional[Tensor]],
                         fill: number) -> Tensor:
    if self.numel() == 0:
        return torch.full(mask.size(), fill, dtype=self.dtype)
    clamped: List[Optional[Tensor]] = []
    for d in range(len(indices)):
        i = indices[d]
        if i is None:
            clamped.append(None)
        else:
            clamped.append(torch.where(mask, torch.clamp(i, -self.size(d), self.size(d) - 1),
                                       torch.zeros_like(i)))
    return torch.index(self, clamped).masked_fill(mask.logical_not(), fill)
""")
compose("_unsafe_masked_index_put_accumulate", """
def _unsafe_masked_index_put_accumulate(self: Tensor, mask: Tensor,
                                        indices: List[Optional[Tensor]], values: Tensor) -> Tensor:
    if self.numel() == 0:
        return self.clone()
    clamped: List[Optional[Tensor]] = []
    for d in range(len(indices)):
        i = indices[d]
        if i is None:
            clamped.append(None)
        else:
            clamped.append(torch.where(mask, torch.clamp(i, -self.size(d), self.size(d) - 1),
                                       torch.zeros_like(i)))
    return torch.index_put(self, clamped, values.masked_fill(mask.logical_not(), 0), True)
""")
compose("native_norm", """
def native_norm(self: Tensor, p: number) -> Tensor:
    return torch.norm(self, p)
""", out="native_norm.out", shape="reduce_real")
compose("nuclear_norm", """
def nuclear_norm(self: Tensor, keepdim: bool) -> Tensor:
    return (torch.linalg_svdvals(self).sum([-1], False) if not keepdim else
            torch.linalg_svdvals(self).sum([-1], True).unsqueeze(-1))
""", out="nuclear_norm.out", shape="reduce_real")
for name in ("special_round",):
    compose(name, shape="like", body=f"""
def {name}(self: Tensor, decimals: int) -> Tensor:
    return torch.round(self, decimals=decimals)
""", out=f"{name}.out")
compose("chalf", """
def chalf(self: Tensor, memory_format: Optional[int]) -> Tensor:
    return (self.to(torch.complex32) if memory_format is None else
            self.to(torch.complex32, memory_format=memory_format))
""", shape="to_complex32")
compose("data", """
def data(self: Tensor) -> Tensor:
    return self.detach()
""", shape="alias")
compose("_list_to_tensor", """
def _list_to_tensor(self: List[int]) -> Tensor:
    return torch.tensor(self, dtype=torch.long)
""")
compose("_tensor_to_list", """
def _tensor_to_list(self: Tensor) -> List[int]:
    out: List[int] = []
    for v in self:
        out.append(int(v))
    return out
""")
compose("_masked_scale", """
def _masked_scale(self: Tensor, mask: Tensor, scale: float) -> Tensor:
    return self * mask * scale
""", out="_masked_scale.out", shape="together")
for kind in ("Tensor", "Scalar"):
    other = {"Tensor": "Tensor", "Scalar": "number"}[kind]
    compose(f"_add_relu.{kind}", f"""
def _add_relu(self: Tensor, other: {other}, alpha: number) -> Tensor:
    return torch.relu(torch.add(self, other, alpha=alpha))
""", inplace=f"_add_relu_.{kind}",
out="_add_relu.out" if kind == "Tensor" else "_add_relu.Scalar_out", shape="together")
compose("_masked_softmax", """
def _masked_softmax(self: Tensor, mask: Tensor, dim: Optional[int],
                    mask_type: Optional[int]) -> Tensor:
    kind = 2 if mask_type is None else mask_type
    m = mask
    if kind == 1 and self.dim() == 4 and mask.dim() == 2:
        m = mask.view([mask.size(0), 1, 1, mask.size(1)])
    d = self.dim() - 1 if dim is None else dim
    return torch.softmax(self.masked_fill(m, -float("inf")), d)
""", out="_masked_softmax.out", shape="like_rows")

# -- gradient: finite differences
# -------------------------------------------------------------------------

compose("gradient.scalarrayarray", """
def gradient_uniform(self: Tensor, spacing: List[number], dim: List[int],
                     edge_order: int) -> List[Tensor]:
    if edge_order != 1 and edge_order != 2:
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if len(spacing) != len(dim):
        raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar or it's "
                           "spacing and dim arguments to have the same length, but got a spacing "
                           "argument of length " + str(len(spacing)) + " and a dim argument of "
                           "length " + str(len(dim)) + ".")
    seen: List[int] = []
    out: List[Tensor] = []
    for i in range(len(dim)):
        d = dim[i] + self.dim() if dim[i] < 0 else dim[i]
        n = self.size(d)
        if d in seen:
            raise RuntimeError("dim " + str(d) + " appears multiple times in the list of dims")
        seen.append(d)
        if n < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least "
                               "edge_order+1")
        h = spacing[i]
        first = self.narrow(d, 1, 1) - self.narrow(d, 0, 1)
        last = self.narrow(d, n - 1, 1) - self.narrow(d, n - 2, 1)
        if edge_order == 2:
            first = (self.narrow(d, 1, 1) * 2 - self.narrow(d, 0, 1) * 1.5 - self.narrow(d, 2, 1) *
                     0.5)
            last = (self.narrow(d, n - 1, 1) * 1.5 - self.narrow(d, n - 2, 1) * 2 +
                    self.narrow(d, n - 3, 1) * 0.5)
        center = (self.narrow(d, 2, n - 2) - self.narrow(d, 0, n - 2)) / 2
        out.append(torch.cat([first / h, center / h, last / h], d))
    return out
""", shape="gradients")
compose("gradient.tensorarray", """
def gradient_coordinates(self: Tensor, spacing: List[Tensor], dim: List[int],
                         edge_order: int) -> List[Tensor]:
    if edge_order != 1 and edge_order != 2:
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if len(spacing) != len(dim):
        raise RuntimeError("torch.gradient expected spacing and dim arguments to have the same "
                           "length, but got a spacing argument of length " + str(len(spacing))
                           + " and a dim argument of length " + str(len(dim)) + ".")
    out: List[Tensor] = []
    for i in range(len(dim)):
        d = dim[i] + self.dim() if dim[i] < 0 else dim[i]
        n = self.size(d)
        if spacing[i].dim() != 1:
            raise RuntimeError("torch.gradient expected each element of spacing to have one "
                               "dimension, but got an element with " + str(spacing[i].dim())
                               + " dimensions.")
        if n < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least "
                               "edge_order+1")
        shape: List[int] = []
        for k in range(self.dim()):
            shape.append(n - 2 if k == d else 1)
        h = torch.diff(spacing[i])
        h1 = h.narrow(0, 0, n - 2)
        h2 = h.narrow(0, 1, n - 2)
        a = (-h2 / (h1 * (h1 + h2))).reshape(shape)
        b = ((h2 - h1) / (h1 * h2)).reshape(shape)
        c = (h1 / (h2 * (h1 + h2))).reshape(shape)
        center = (a * self.narrow(d, 0, n - 2) + b * self.narrow(d, 1, n - 2) + c *
                  self.narrow(d, 2, n - 2))
        first = (self.narrow(d, 1, 1) - self.narrow(d, 0, 1)) / h[0]
        last = (self.narrow(d, n - 1, 1) - self.narrow(d, n - 2, 1)) / h[-1]
        if edge_order == 2:
            p, q = h[0], h[1]
            first = (-(2.0 * p + q) / (p * (p + q)) * self.narrow(d, 0, 1) + (p + q) / (p * q) *
                     self.narrow(d, 1, 1) - p / (q * (p + q)) * self.narrow(d, 2, 1))
            p, q = h[-2], h[-1]
            last = (q / (p * (p + q)) * self.narrow(d, n - 3, 1) - (p + q) / (p * q) *
                    self.narrow(d, n - 2, 1) + (2.0 * q + p) / (q * (p + q)) * self.narrow(d, n -
                          1, 1))
        out.append(torch.cat([first, center, last], d))
    return out
""", shape="gradients")
compose("gradient.scalarint", """
def gradient_one(self: Tensor, spacing: Optional[number], dim: Optional[int],
                 edge_order: int) -> List[Tensor]:
    dims = list(range(self.dim())) if dim is None else [dim]
    steps: List[number] = []
    for d in dims:
        steps.append(1 if spacing is None else spacing)
    return torch.gradient(self, spacing=steps, dim=dims, edge_order=edge_order)
""", shape="gradients")
compose("gradient.scalararray", """
def gradient_scalar_dims(self: Tensor, spacing: number, dim: List[int],
                         edge_order: int) -> List[Tensor]:
    steps: List[number] = []
    for d in dim:
        steps.append(spacing)
    return torch.gradient(self, spacing=steps, dim=dim, edge_order=edge_order)
""", shape="gradients")
compose("gradient.array", """
def gradient_dims(self: Tensor, dim: List[int], edge_order: int) -> List[Tensor]:
    steps: List[number] = []
    for d in dim:
        steps.append(1)
    return torch.gradient(self, spacing=steps, dim=dim, edge_order=edge_order)
""", shape="gradients")
GRADIENT_ALL = """
def gradient_all(self: Tensor, spacing: List[KIND], dim: Optional[int],
                 edge_order: int) -> List[Tensor]:
    dims = list(range(self.dim())) if dim is None else [dim]
    if len(spacing) != len(dims):
        raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar, or a list "
                           "of length equal to 'self.dim() = " + str(self.dim())
                           + "', since dim argument was not given, but got a list of length "
                           + str(len(spacing)))
    return torch.gradient(self, spacing=spacing, dim=dims, edge_order=edge_order)
"""
compose("gradient.scalarrayint", GRADIENT_ALL.replace("KIND", "number"), shape="gradients")
compose("gradient.tensorarrayint", GRADIENT_ALL.replace("KIND", "Tensor"), shape="gradients")

# -- Interpolation as archives before 1.5 call it
# -----------------------------------------------------------

RESIZE = """
    spatial = input.dim() - 2
    sizes: Optional[List[int]] = None
    scales: Optional[List[float]] = None
    if size is not None:
        sizes = {size}
    if scale_factor is not None:
        scales = {scale}
    if sizes is None and scales is None:
        raise RuntimeError("either size or scale_factor should be defined")
    if recompute_scale_factor is not None and recompute_scale_factor and scales is not None:
        made: List[int] = []
        for i in range(spatial):
            made.append(int(float(input.size(i + 2)) * scales[i]))
        sizes = made
        scales = None
    if mode == "nearest":
        if spatial == 1:
            return torch.upsample_nearest1d(input, sizes, scales)
        elif spatial == 2:
            return torch.upsample_nearest2d(input, sizes, scales)
        return torch.upsample_nearest3d(input, sizes, scales)
    if mode == "area":
        target: List[int] = []
        for i in range(spatial):
            if sizes is not None:
                target.append(sizes[i])
            elif scales is not None:
                target.append(int(float(input.size(i + 2)) * scales[i]))
        if spatial == 1:
            return torch.adaptive_avg_pool1d(input, target)
        elif spatial == 2:
            return torch.adaptive_avg_pool2d(input, target)
        return torch.adaptive_avg_pool3d(input, target)
    corners = False if align_corners is None else align_corners
    if mode == "linear":
        return torch.upsample_linear1d(input, sizes, corners, scales)
    elif mode == "bilinear":
        if antialias:
            return torch._upsample_bilinear2d_aa(input, sizes, corners, scales)
        return torch.upsample_bilinear2d(input, sizes, corners, scales)
    elif mode == "bicubic":
        if antialias:
            return torch._upsample_bicubic2d_aa(input, sizes, corners, scales)
        return torch.upsample_bicubic2d(input, sizes, corners, scales)
    elif mode == "trilinear":
        return torch.upsample_trilinear3d(input, sizes, corners, scales)
    raise RuntimeError("interpolation of mode " + mode + " of an input of " + str(input.dim()) +
                       " dimensions")
"""
for kind in ("", ".size_list", ".scale_list", ".size_list_scale_list"):
    size, scale = "size_list" in kind, "scale_list" in kind
    rest = RESIZE.replace("{size}", "size" if size else "[size] * spatial").replace(
        "{scale}", "scale_factor" if scale else "[float(scale_factor)] * spatial")
    sizes = "Optional[List[int]]" if size else "Optional[int]"
    compose(f"__interpolate{kind}", f"""
def __interpolate(input: Tensor, size: {sizes},
      scale_factor: {"Optional[List[float]]" if scale else
            "Optional[float]"}, mode: str, align_corners: Optional[bool],
            recompute_scale_factor: Optional[bool], antialias: bool) -> Tensor:""" + rest)
    rest = rest.replace("[float(scale_factor)] * spatial",
                        "[float(scale_factor)] * spatial").replace(
        "scales = scale_factor", "scales = [float(f) for f in scale_factor]")
    fixed = "\n    recompute_scale_factor: Optional[bool] = None\n    antialias = False"
    if not scale:
        compose(f"__upsample{kind}", f"""
def __upsample(input: Tensor, size: {sizes}, scale_factor: Optional[int], mode: str,
               align_corners: Optional[bool]) -> Tensor:""" + fixed + rest)
    for name, mode, corners in (("bilinear", "bilinear", "True"), ("nearest", "nearest", "None")):
        if name == "nearest" and scale:
            continue
        compose(f"__upsample_{name}{kind}", f"""
def __upsample_{name}(input: Tensor, size: {sizes},
                      scale_factor: {"Optional[List[int]]" if scale else
                                     "Optional[int]"}) -> Tensor:""" + fixed + f"""
    mode = "{mode}"
    align_corners: Optional[bool] = {corners}""" + rest)

# -- Lists of tensors
# ---------------------------------------------------------------------------------

compose("flatten_dense_tensors", """
def flatten_dense_tensors(tensors: List[Tensor]) -> Tensor:
    flat: List[Tensor] = []
    for t in tensors:
        flat.append(t.contiguous().view([-1]))
    return torch.cat(flat)
""", shape="flatten_all")
compose("unflatten_dense_tensors", """
def unflatten_dense_tensors(flat: Tensor, tensors: List[Tensor]) -> List[Tensor]:
    outs: List[Tensor] = []
    start = 0
    for t in tensors:
        n = t.numel()
        if n == 0:
            outs.append(torch.empty([0], dtype=flat.dtype))
        else:
            outs.append(flat.narrow(0, start, n).view_as(t))
        start += n
    return outs
""")
compose("_chunk_cat", """
def _chunk_cat(tensors: List[Tensor], dim: int, num_chunks: int) -> Tensor:
    parts: List[Tensor] = []
    for t in tensors:
        d = dim + t.dim() if dim < 0 else dim
        n = (t.size(d) + num_chunks - 1) // num_chunks
        missing = n * num_chunks - t.size(d)
        if missing > 0:
            sizes = t.size()
            sizes[d] = missing
            t = torch.cat([t, torch.zeros(sizes, dtype=t.dtype)], d)
        lead: List[int] = []
        for i in range(d):
            lead.append(t.size(i))
        parts.append(t.reshape(lead + [num_chunks, -1]))
    return torch.cat(parts, parts[0].dim() - 1)
""", out="_chunk_cat.out")

# -- Matrices
# -----------------------------------------------------------------------------------------

compose("nuclear_norm.dim", """
def nuclear_norm_dim(self: Tensor, dim: List[int], keepdim: bool) -> Tensor:
    return torch.linalg_matrix_norm(self, "nuc", dim, keepdim)
""", out="nuclear_norm.dim_out", shape="matrix_norm")

# -- Copies
# ------------------------------------------------------------------------------------------

compose("conj_physical", """
def conj_physical(self: Tensor) -> Tensor:
    return torch._conj_physical(self) if self.is_complex() else self
""", out="conj_physical.out", effects=["returns_arg"], shape="conj")
compose("resize", """
def resize(self: Tensor, size: List[int], memory_format: Optional[int]) -> Tensor:
    return self.clone().resize_(size)
""", out="resize.out", shape="sized")
compose("resize_as", """
def resize_as(self: Tensor, the_template: Tensor, memory_format: Optional[int]) -> Tensor:
    return self.clone().resize_(the_template.size())
""", out="resize_as.out", shape="resize_as")
compose("to_dense", """
def to_dense(self: Tensor, dtype: Optional[int], masked_grad: Optional[bool]) -> Tensor:
    return self if dtype is None else self.to(dtype)
""", effects=["returns_arg"], shape="like")

# Facts about these operators that other parts read.
known("special_round", synonym_of="round")
known("nuclear_norm.*", script_autocast="float32")
known("mH", property=True)

# What in-place and out= forms demand of what they write to (../README.md).
written("exact", "conj_physical")
written("cast", "_chunk_cat")
