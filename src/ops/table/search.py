"""Search in sorted rows, distinct elements, counts (search.c, unique.c), and operators built from
them."""


def search(name, kernel, out=None, shape="search", results="rule"):
    op(f"aten::{name}", family="search", shape=shape, kernel=f"kernel_{kernel}",
       variants={"out": f"aten::{out}"} if out else {},
       **({"results": results} if results else {}))


search("searchsorted.Tensor", "searchsorted", "searchsorted.Tensor_out")
search("searchsorted.Scalar", "searchsorted", "searchsorted.Scalar_out")
search("bucketize.Tensor", "bucketize", "bucketize.Tensor_out")
search("bucketize.Scalar", "bucketize", "bucketize.Scalar_out")
search("isin.Tensor_Tensor", "isin", "isin.Tensor_Tensor_out", "isin")
search("isin.Tensor_Scalar", "isin", "isin.Tensor_Scalar_out", "isin")
search("isin.Scalar_Tensor", "isin", "isin.Scalar_Tensor_out", "isin")
search("bincount", "bincount", "bincount.out", "bincount", results=None)  # the data tell the size
search("histc", "histc", "histc.out", "histc")
search("histogram.bin_ct", "histogram_count", "histogram.bin_ct_out", "histogram")
search("histogram.bins_tensor", "histogram_edges", "histogram.bins_tensor_out", "histogram")
for name, shape in (("_unique", "unique_pair"), ("_unique2", "unique"), ("unique_dim",
    "unique_dim"),
        ("unique_consecutive",
            "unique_runs"),
                    ("unique_dim_consecutive", "unique_dim")):
    op(f"aten::{name}", family="search", shape=shape, kernel=f"kernel_{name}",
       effects=["data_size"], variants={"out": f"aten::{name}.out"})

# -- Differences and areas
# ----------------------------------------------------------------------------

op("aten::diff", family="scan", shape="diff", variants={"out": "aten::diff.out"}, body="""
def diff(self: Tensor, n: int, dim: int, prepend: Optional[Tensor],
         append: Optional[Tensor]) -> Tensor:
    if self.dim() < 1:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError("order must be non-negative but got " + str(n))
    parts: List[Tensor] = []
    if prepend is not None:
        if prepend.dim() != self.dim():
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        parts.append(prepend)
    parts.append(self)
    if append is not None:
        if append.dim() != self.dim():
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        parts.append(append)
    if n == 0:  # neither is looked at
        return self.clone()
    x = torch.cat(parts, dim) if len(parts) > 1 else self
    if n > x.size(dim):
        n = x.size(dim)
    for i in range(n):
        length = x.size(dim) - 1
        if x.dtype == torch.bool:
            x = torch.logical_xor(x.narrow(dim, 1, length), x.narrow(dim, 0, length))
        else:
            x = x.narrow(dim, 1, length) - x.narrow(dim, 0, length)
    return x
""")

BODY_BOOL = """
    if y.dtype == torch.bool:
        raise RuntimeError("{0}: received a bool input for `y`, but bool is not supported")
"""
EMPTY_LIKE = """
    if y.size(dim) == 0:
        sizes = y.size()
        sizes.pop(dim)
        return torch.zeros(sizes, dtype=y.dtype)
"""
STEPS = """
    if x.dim() == 1:
        if x.size(0) != y.size(dim):
            raise RuntimeError("{0}: There must be one `x` value for each sample point")
        shape = [1] * y.dim()
        shape[dim] = x.size(0)
        x = x.view(shape)
    elif x.dim() < y.dim():
        x = x.view([1] * (y.dim() - x.dim()) + x.size())
    steps = x.narrow(dim, 1, x.size(dim) - 1) - x.narrow(dim, 0, x.size(dim) - 1)
    length = y.size(dim) - 1
    pairs = y.narrow(dim, 0, length) + y.narrow(dim, 1, length)
"""
op("aten::trapezoid.x", family="scan", shape="trapezoid", same=["aten::trapz.x"], body="""
def trapezoid(y: Tensor, x: Tensor, dim: int) -> Tensor:"""
   + EMPTY_LIKE + BODY_BOOL.format("trapezoid") + STEPS.format("trapezoid") + """
    return (pairs * steps).sum([dim]) / 2
""")
op("aten::trapezoid.dx", family="scan", shape="trapezoid", same=["aten::trapz.dx"], body="""
def trapezoid(y: Tensor, dx: number, dim: int) -> Tensor:"""
   + EMPTY_LIKE + BODY_BOOL.format("trapezoid") + """
    return (y.sum([dim]) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5) * dx
""")
op("aten::cumulative_trapezoid.x", family="scan", shape="cumulative_trapezoid", body="""
def cumulative_trapezoid(y: Tensor, x: Tensor, dim: int) -> Tensor:"""
   + BODY_BOOL.format("cumulative_trapezoid") + STEPS.format("cumulative_trapezoid") + """
    return (pairs * steps).cumsum(dim) / 2
""")
op("aten::cumulative_trapezoid.dx", family="scan", shape="cumulative_trapezoid", body="""
def cumulative_trapezoid(y: Tensor, dx: number, dim: int) -> Tensor:"""
   + BODY_BOOL.format("cumulative_trapezoid") + """
    length = y.size(dim) - 1
    return dx / 2. * (y.narrow(dim, 1, length) + y.narrow(dim, 0, length)).cumsum(dim)
""")

# -- Quantiles
# -------------------------------------------------------------------------------------------

QUANTILE = """
    if self.numel() == 0:
        raise RuntimeError("{0}() input tensor must be non-empty")
    if q.dim() > 1:
        raise RuntimeError("{0}() q must be a scalar or 1D tensor")
    if self.dtype != torch.float and self.dtype != torch.double:
        raise RuntimeError("{0}() input tensor must be either float or double dtype")
    if self.dtype != q.dtype:
        raise RuntimeError("{0}() q tensor must be same dtype as the input tensor")
    if not ["linear", "lower", "higher", "midpoint", "nearest"].count(interpolation) == 1:
        raise RuntimeError("{0}() interpolation must be one of linear, lower, higher, midpoint or "
                           "nearest, but got " + interpolation)
    if bool(torch.any(torch.logical_or(q < 0, q > 1))):
        raise RuntimeError("{0}() q values must be in the range [0, 1]")
    out_shape: List[int] = []
    if dim is None:
        if keepdim:
            out_shape = [1] * self.dim()
        x = torch.sort(self.flatten())[0]
    else:
        wrapped = dim + self.dim() if dim < 0 else dim
        if self.dim() > 0:
            out_shape = self.size()
            if keepdim:
                out_shape[wrapped] = 1
            else:
                out_shape.pop(wrapped)
            x = torch.sort(self.unsqueeze(-1).transpose(wrapped, -1).squeeze(wrapped), -1)[0]
        else:
            x = torch.sort(self.flatten())[0]
    if q.dim() > 0:
        out_shape.insert(0, q.numel())
    last = x.size(-1) - 1
    if {1}:
        ranks = q.reshape(-1) * (x.isnan().logical_not().sum([-1], True) - 1).to(q.dtype)
        ranks = torch.where(ranks < 0, torch.zeros_like(ranks), ranks)
    else:
        ranks = (q.reshape(-1) * last).expand(x.size()[:-1] + [q.numel()])
        ranks = torch.where(x.isnan().any(-1, True), torch.full_like(ranks, last), ranks)
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.to(torch.long)
    values = x.gather(-1, below)
    if interpolation == "linear" or interpolation == "midpoint":
        weights = torch.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
        values = torch.lerp(values, x.gather(-1, ranks.ceil().to(torch.long)), weights)
    if q.dim() == 0:
        values = values.squeeze(-1)
    else:
        values = values.unsqueeze(0).transpose(0, -1).squeeze(-1)
    return values.reshape(out_shape)
"""
for name, ignore_nan in (("quantile", "False"), ("nanquantile", "True")):
    op(f"aten::{name}", family="sort", shape="quantile", variants={"out": f"aten::{name}.out"},
       body=f"""
def {name}(self: Tensor, q: Tensor, dim: Optional[int], keepdim: bool,
           interpolation: str) -> Tensor:"""
       + QUANTILE.replace("{0}", name).replace("{1}", ignore_nan))
    op(f"aten::{name}.scalar", family="sort", shape="quantile",
       variants={"out": f"aten::{name}.scalar_out"}, body=f"""
def {name}(self: Tensor, q: float, dim: Optional[int], keepdim: bool, interpolation: str) -> Tensor:
    if not (q >= 0 and q <= 1):
        raise RuntimeError("{name}() q must be in the range [0, 1] but got " + str(q))
    return torch.{name}(self, torch.tensor(q, dtype=self.dtype), dim, keepdim,
                        interpolation=interpolation)
""")

# -- Histograms of points
# -----------------------------------------------------------------------------

op("aten::_histogramdd_bin_edges", family="search", body="""
def histogramdd_bin_edges(self: Tensor, bins: List[int], extent: Optional[List[float]],
                          weight: Optional[Tensor], density: bool) -> List[Tensor]:
    if self.dim() < 2:
        raise RuntimeError("torch.histogramdd(): input tensor should have at least 2 dimensions, "
                           "but got " + str(self.dim()))
    points = self.reshape([-1, self.size(-1)])
    n = points.size(1)
    if len(bins) != n:
        raise RuntimeError("torch.histogramdd(): expected " + str(n) +
                           " sequences of bin edges for a " + str(n)
                           + "-dimensional histogram but got " + str(len(bins)))
    if extent is not None and len(extent) != 2 * n:
        raise RuntimeError("torch.histogramdd(): for a " + str(n) +
                           "-dimensional histogram range should have " + str(2 *
                                 n) + " elements, but got " + str(len(extent)))
    edges: List[Tensor] = []
    for d in range(n):
        if bins[d] < 1:
            raise RuntimeError("torch.histogramdd(): bins must be > 0, but got " + str(bins[d]) +
                               " for dimension " + str(d))
        low, high = 0.0, 1.0
        if extent is not None:
            low, high = extent[2 * d], extent[2 * d + 1]
            if low > high:
                raise RuntimeError("torch.histogramdd(): min should not exceed max, but got min " +
                                   str(low) + " max " + str(high) + " for dimension " + str(d))
        elif points.size(0) > 0:
            low, high = float(points.select(1, d).min()), float(points.select(1, d).max())
        if low == high:
            low -= 0.5
            high += 0.5
        edges.append(torch.linspace(low, high, bins[d] + 1, dtype=self.dtype))
    return edges
""")
op("aten::_histogramdd_from_bin_tensors", family="search", body="""
def histogramdd_from_bin_tensors(self: Tensor, bins: List[Tensor], weight: Optional[Tensor],
                                 density: bool) -> Tensor:
    if self.dim() < 2:
        raise RuntimeError("torch.histogramdd(): input tensor should have at least 2 dimensions, "
                           "but got " + str(self.dim()))
    points = self.reshape([-1, self.size(-1)])
    if len(bins) != points.size(1):
        raise RuntimeError("torch.histogramdd(): expected " + str(points.size(1)) +
                           " sequences of bin edges for a " + str(points.size(1))
                           + "-dimensional histogram but got " + str(len(bins)))
    at = torch.zeros([points.size(0)], dtype=torch.long)
    inside = torch.ones([points.size(0)], dtype=torch.bool)
    sizes: List[int] = []
    total = 1
    for d in range(len(bins)):
        edges = bins[d]
        if edges.dim() != 1 or edges.dtype != self.dtype:
            raise RuntimeError("torch.histogramdd(): bins should be 1-dimensional tensors of the "
                               "input's dtype")
        n = edges.numel() - 1
        x = points.select(1, d).contiguous()
        inside = inside & (x >= edges[0]) & (x <= edges[-1])
        at = at * n + (torch.bucketize(x, edges, right=True) - 1).clamp(0, n - 1)
        sizes.append(n)
        total *= n
    weights = (torch.ones([points.size(0)], dtype=self.dtype) if weight is None else
               weight.reshape([-1]))
    if weights.numel() != points.size(0) or weights.dtype != self.dtype:
        raise RuntimeError("torch.histogramdd(): if weight tensor is provided it should have the "
                           "shape of the input tensor excluding its innermost dimension and its "
                           "dtype")
    hist = torch.zeros([total], dtype=self.dtype).scatter_add(0, at[inside],
        weights[inside]).reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for d in range(len(bins)):
            shape = [1] * len(bins)
            shape[d] = sizes[d]
            hist = hist / torch.diff(bins[d]).reshape(shape)
    return hist
""", variants={"out": "aten::_histogramdd_from_bin_tensors.out"})
op("aten::_histogramdd_from_bin_cts", family="search", body="""
def histogramdd_from_bin_cts(self: Tensor, bins: List[int], extent: Optional[List[float]],
                             weight: Optional[Tensor], density: bool) -> Tensor:
    edges = torch.ops.aten._histogramdd_bin_edges(self, bins, range=extent)
    return torch.ops.aten._histogramdd_from_bin_tensors(self, edges, weight=weight, density=density)
""", variants={"out": "aten::_histogramdd_from_bin_cts.out"})
op("aten::histogramdd", family="search", body="""
def histogramdd(self: Tensor, bins: List[int], extent: Optional[List[float]],
                weight: Optional[Tensor], density: bool) -> Tuple[Tensor, List[Tensor]]:
    edges = torch.ops.aten._histogramdd_bin_edges(self, bins, range=extent)
    return torch.ops.aten._histogramdd_from_bin_tensors(self, edges, weight=weight,
        density=density), edges
""")
op("aten::histogramdd.int_bins", family="search", body="""
def histogramdd_int(self: Tensor, bins: int, extent: Optional[List[float]],
                    weight: Optional[Tensor], density: bool) -> Tuple[Tensor, List[Tensor]]:
    edges = torch.ops.aten._histogramdd_bin_edges(self, [bins] * self.size(-1), range=extent)
    return torch.ops.aten._histogramdd_from_bin_tensors(self, edges, weight=weight,
        density=density), edges
""")
op("aten::histogramdd.TensorList_bins", family="search", body="""
def histogramdd_edges(self: Tensor, bins: List[Tensor], extent: Optional[List[float]],
                      weight: Optional[Tensor], density: bool) -> Tuple[Tensor, List[Tensor]]:
    return torch.ops.aten._histogramdd_from_bin_tensors(self, bins, weight=weight,
        density=density), bins
""")

# Facts about these operators that other parts read.
known("nanquantile nanquantile.scalar quantile quantile.scalar", autocast="float32")
