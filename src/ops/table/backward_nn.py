"""Gradients of layers that programs call by name: short programs over other operators, and the
inverses of resize.c and grid.c."""


def backward(name, body, out=None, same=(), **more):
    found = [f"aten::{name}.{o}" for o in ((out,) if out else ("grad_input",
        "out")) if registered(f"aten::{name}.{o}")]
    op(f"aten::{name}", family="backward", body=body, same=[f"aten::{n}" for n in same],
       variants={"out": found[0]} if found else {}, **more)


# -- Softmax. 16-bit floats are summed in float32, and rounded once.

HALF = (
    "VALUE.to(torch.float) if VALUE.dtype == torch.half or VALUE.dtype == torch.bfloat16 else "
    "VALUE"
)


def wide(name):
    return HALF.replace("VALUE", name)


backward("_softmax_backward_data", shape="gradient_softmax", body=f"""
def softmax_backward(grad_output: Tensor, output: Tensor, dim: int, input_dtype: int) -> Tensor:
    o = {wide("output")}
    g = {wide("grad_output")}
    t = g * o
    return (t - o * t.sum([dim], True)).to(input_dtype).contiguous()
""", out="out")
backward("_log_softmax_backward_data", shape="gradient_softmax", body=f"""
def log_softmax_backward(grad_output: Tensor, output: Tensor, dim: int, input_dtype: int) -> Tensor:
    o = {wide("output")}
    g = {wide("grad_output")}
    return (g - torch.exp(o) * g.sum([dim], True)).to(input_dtype).contiguous()
""", out="out")
backward("_masked_softmax_backward", """
def masked_softmax_backward(grad_output: Tensor, output: Tensor, mask: Tensor,
                            dim: Optional[int]) -> Tensor:
    d = output.dim() - 1 if dim is None else dim
    t = grad_output * output
    return (t - output * t.sum([d], True)).masked_fill(mask, 0)
""")

# -- Normalizations

backward("native_layer_norm_backward", f"""
def layer_norm_backward(grad_out: Tensor, input: Tensor, normalized_shape: List[int], mean: Tensor,
                        rstd: Tensor,
                        weight: Optional[Tensor], bias: Optional[Tensor],
                        output_mask: List[bool]) -> Tuple[Optional[Tensor], Optional[Tensor],
                        Optional[Tensor]]:
    k = input.dim() - len(normalized_shape)
    inner: List[int] = []
    outer: List[int] = []
    for d in range(input.dim()):
        if d < k:
            outer.append(d)
        else:
            inner.append(d)
    x = {wide("input")}
    g = {wide("grad_out")}
    r = rstd.reshape(input.size()[:k] + [1] * len(normalized_shape)).to(x.dtype)
    x = (x - mean.reshape(r.size()).to(x.dtype)) * r
    gi: Optional[Tensor] = None
    gw: Optional[Tensor] = None
    gb: Optional[Tensor] = None
    if output_mask[1] and weight is not None:
        gw = ((g * x).sum(outer) if k > 0 else g * x).to(weight.dtype)
    if output_mask[2] and bias is not None:
        gb = (g.sum(outer) if k > 0 else g).to(bias.dtype)
    if output_mask[0]:
        if weight is not None:
            g = g * weight
        n = 1
        for size in normalized_shape:
            n *= size
        gi = ((g - (g.sum(inner, True) + x * (g * x).sum(inner, True)) / n) *
              r).to(input.dtype).contiguous()
    return gi, gw, gb
""")
backward("_fused_rms_norm_backward", f"""
def rms_norm_backward(grad_out: Tensor, input: Tensor, normalized_shape: List[int], rstd: Tensor,
                      weight: Optional[Tensor],
                      output_mask: List[bool]) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    k = input.dim() - len(normalized_shape)
    inner: List[int] = []
    outer: List[int] = []
    for d in range(input.dim()):
        if d < k:
            outer.append(d)
        else:
            inner.append(d)
    x = {wide("input")}
    g = {wide("grad_out")}
    r = rstd.reshape(input.size()[:k] + [1] * len(normalized_shape)).to(x.dtype)
    x = x * r
    gi: Optional[Tensor] = None
    gw: Optional[Tensor] = None
    if output_mask[1] and weight is not None:
        gw = ((g * x).sum(outer) if k > 0 else g * x).to(weight.dtype)
    if output_mask[0]:
        if weight is not None:
            g = g * weight
        n = 1
        for size in normalized_shape:
            n *= size
        gi = ((g - x * (g * x).sum(inner, True) / n) * r).to(input.dtype).contiguous()
    return gi, gw
""")
backward("native_group_norm_backward", f"""
def group_norm_backward(grad_out: Tensor, input: Tensor, mean: Tensor, rstd: Tensor,
                        weight: Optional[Tensor], N: int, C: int,
                        HxW: int, group: int, output_mask: List[bool]) -> Tuple[Optional[Tensor],
                              Optional[Tensor], Optional[Tensor]]:
    x = {wide("input")}
    g = {wide("grad_out")}
    each = [N, group, C // group, HxW]
    r = rstd.reshape([N, group, 1, 1]).to(x.dtype)
    x = (x.reshape(each) - mean.reshape([N, group, 1, 1]).to(x.dtype)) * r
    g = g.reshape(each)
    dtype = input.dtype if weight is None else weight.dtype
    gi: Optional[Tensor] = None
    gw: Optional[Tensor] = None
    gb: Optional[Tensor] = None
    if output_mask[1]:
        gw = (g * x).sum([0, 3]).reshape([C]).to(dtype)
    if output_mask[2]:
        gb = g.sum([0, 3]).reshape([C]).to(dtype)
    if output_mask[0]:
        if weight is not None:
            g = g * weight.reshape([1, group, C // group, 1])
        n = C // group * HxW
        gi = ((g - (g.sum([2, 3], True) + x * (g * x).sum([2, 3], True)) / n) *
              r).reshape(input.size()).to(input.dtype)
    return gi, gw, gb
""")
BATCH_NORM = f"""
def batch_norm_backward(SIGNATURE) -> Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
    others: List[int] = []
    shape: List[int] = []
    n = 1
    for d in range(input.dim()):
        shape.append(input.size(d) if d == 1 else 1)
        if d != 1:
            others.append(d)
            n *= input.size(d)
    x = {wide("input")}
    g = {wide("grad_out")}
    m = save_mean if train else running_mean
    r = save_invstd
    if not train:
        r = torch.rsqrt(torch._unwrap_optional(running_var).to(x.dtype) + eps)
    scale = torch._unwrap_optional(r).to(x.dtype).reshape(shape)
    x = (x - torch._unwrap_optional(m).to(x.dtype).reshape(shape)) * scale
    dtype = input.dtype if weight is None else weight.dtype
    gb = g.sum(others)
    gw = (g * x).sum(others)
    gi: Optional[Tensor] = None
    if output_mask[0]:
        if train:
            g = g - (gb.reshape(shape) + x * gw.reshape(shape)) / n
        if weight is not None:
            scale = scale * weight.to(x.dtype).reshape(shape)
        gi = (g * scale).to(input.dtype)
        if not input.is_contiguous():
            gi = torch.empty_like(input).copy_(gi)
    return gi, gw.to(dtype) if output_mask[1] else None, gb.to(dtype) if output_mask[2] else None
"""
backward("native_batch_norm_backward", BATCH_NORM.replace("SIGNATURE",
    """grad_out: Tensor, input: Tensor, weight: Optional[Tensor],
        running_mean: Optional[Tensor], running_var: Optional[Tensor], save_mean: Optional[Tensor],
        save_invstd: Optional[Tensor],
        train: bool, eps: float, output_mask: List[bool]"""))
backward("batch_norm_backward", BATCH_NORM.replace("SIGNATURE",
    """grad_out: Tensor, input: Tensor, weight: Optional[Tensor],
        running_mean: Optional[Tensor], running_var: Optional[Tensor], save_mean: Optional[Tensor],
        save_invstd: Optional[Tensor],
        train: bool, eps: float, output_mask: List[bool], reserve: Tensor"""))
backward("_batch_norm_impl_index_backward", BATCH_NORM.replace("SIGNATURE",
    """impl_index: int, input: Tensor, grad_out: Tensor,
        weight: Optional[Tensor], running_mean: Optional[Tensor], running_var: Optional[Tensor],
        save_mean: Optional[Tensor],
        save_invstd: Optional[Tensor], train: bool, eps: float, output_mask: List[bool],
        reservedSpace: Tensor"""))
WEIGHT_NORM = """
def weight_norm_backward(grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor,
                         dim: int) -> Tuple[Tensor, Tensor]:
    others: List[int] = []
    for d in range(saved_v.dim()):
        if d != dim:
            others.append(d)
    along = (grad_w * saved_v).sum(others, True)
    gv = saved_g / saved_norms * (grad_w - saved_v * (along / (saved_norms * saved_norms)))
    return gv.to(saved_v.dtype), (along / saved_norms).to(saved_g.dtype)
"""
backward("_weight_norm_interface_backward", WEIGHT_NORM)
backward("_weight_norm_differentiable_backward", WEIGHT_NORM)

# -- Convolutions. The incoming gradient passes through the other convolution; a weight's gradient
# is the convolution of the input with the incoming gradient, batch and channels exchanged, steps
# and spacing too.

backward("convolution_backward", """
def convolution_backward(grad_output: Tensor, input: Tensor, weight: Tensor,
                         bias_sizes: Optional[List[int]], stride: List[int],
                         padding: List[int], dilation: List[int], transposed: bool,
                         output_padding: List[int], groups: int,
                         output_mask: List[bool]) -> Tuple[Optional[Tensor], Optional[Tensor],
                             Optional[Tensor]]:
    k = weight.dim() - 2
    zeros = [0] * k
    step = stride if len(stride) == k else stride * k
    pad = padding if len(padding) == k else padding * k
    apart = dilation if len(dilation) == k else dilation * k
    gi: Optional[Tensor] = None
    gw: Optional[Tensor] = None
    gb: Optional[Tensor] = None
    if output_mask[2]:
        others: List[int] = []
        for d in range(k + 2):
            if d != 1:
                others.append(d)
        gb = grad_output.sum(others)
    if input.numel() == 0 or grad_output.numel() == 0:
        if output_mask[0]:
            gi = torch.zeros_like(input)
        if output_mask[1]:
            gw = torch.zeros_like(weight)
        return gi, gw, gb
    if output_mask[0]:
        w = weight.conj().resolve_conj() if weight.is_complex() else weight
        if transposed:
            made = torch.convolution(grad_output, w, None, step, pad, apart, False, zeros, groups)
            for d in range(k):
                made = made.narrow(d + 2, 0, input.size(d + 2))
        else:
            extra: List[int] = []
            for d in range(k):
                reach = ((grad_output.size(d + 2) - 1) * step[d] - 2 * pad[d] + apart[d] *
                         (weight.size(d + 2) - 1) + 1)
                extra.append(input.size(d + 2) - reach)
            made = torch.convolution(grad_output, w, None, step, pad, apart, True, extra, groups)
        gi = made
    if output_mask[1]:
        x, g = input, grad_output
        if x.is_complex():
            x = x.conj().resolve_conj()
        if transposed:
            x, g = g, x
        n, c = x.size(0), x.size(1) // groups
        # windows of one pixel: a product of matrices
        points = weight.numel() == weight.size(0) * weight.size(1)
        for d in range(k):
            points = points and pad[d] == 0
        if points:
            for d in range(k):
                x = torch.slice(x, d + 2, 0, (g.size(d + 2) - 1) * step[d] + 1, step[d])
            a = g.reshape([n, groups, g.size(1) // groups, -1]).permute([1, 2, 0, 3]).flatten(2)
            b = x.reshape([n, groups, c, -1]).permute([1, 2, 0, 3]).flatten(2)
            gw = torch.bmm(a, b.transpose(1, 2)).reshape(weight.size())
        elif (k == 2 and groups == 1 and not transposed and
              (x.dtype == torch.float32 or x.dtype == torch.float64) and
              weight.size(2) * weight.size(3) * 4 <= g.size(2) * g.size(3)):
            # few taps, many pixels: products of matrices, with the windows of as many images in
            # memory as the cache holds
            window = [weight.size(2), weight.size(3)]
            each = x.numel() // n * window[0] * window[1]
            some = max(1, min(n, 262144 // each))
            total = torch.zeros([weight.size(0), weight.numel() // weight.size(0)], dtype=x.dtype)
            for i in range(0, n, some):
                cols = torch.im2col(torch.slice(x, 0, i, i + some), window, apart, pad, step)
                rows = torch.slice(g, 0, i, i + some).flatten(2)
                total = total + torch.bmm(rows, cols.transpose(1, 2)).sum([0])
            gw = total.reshape(weight.size())
        else:
            space = x.size()[2:]
            x = x.reshape([n, groups, c] + space).transpose(0, 2).reshape([c, groups * n] + space)
            g = g.transpose(0, 1).contiguous()
            made = torch.convolution(x, g, None, apart, pad, step, False, zeros, groups)
            for d in range(k):
                made = made.narrow(d + 2, 0, weight.size(d + 2))
            gw = made.transpose(0, 1).contiguous()
    return gi, gw, gb
""")
backward("_slow_conv2d_backward.output_mask", """
def slow_conv2d_backward(grad_output: Tensor, self: Tensor, weight: Tensor, kernel_size: List[int],
                         stride: List[int],
                         padding: List[int], output_mask: List[bool]) -> Tuple[Optional[Tensor],
                               Optional[Tensor], Optional[Tensor]]:
    return torch.convolution_backward(grad_output, self, weight, None, stride, padding, [1, 1],
                                      False, [0, 0], 1, output_mask)
""")
backward("conv_tbc_backward", """
def conv_tbc_backward(self: Tensor, input: Tensor, weight: Tensor, bias: Tensor,
                      pad: int) -> Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
    gi, gw, gb = torch.convolution_backward(self.permute([1, 2, 0]), input.permute([1, 2, 0]),
                                            weight.permute([2, 1, 0]), None, [1],
                                            [pad], [1], False, [0], 1, [True, True, True])
    return gi.permute([2, 0, 1]).contiguous(), gw.permute([2, 1, 0]).contiguous(), gb
""")

# -- Pooling: gradients of maxima are added to the maxima's elements

for n in 2, 3:
    for name, more in ((f"max_pool{n}d_with_indices",
                        "kernel_size: List[int], stride: List[int], padding: List[int], "
                        "dilation: List[int], ceil_mode: bool, "), (f"adaptive_max_pool{n}d", ""),
                       (f"fractional_max_pool{n}d",
                        "kernel_size: List[int], output_size: List[int], ")):
        backward(f"{name}_backward", f"""
def max_backward(grad_output: Tensor, self: Tensor, {more}indices: Tensor) -> Tensor:
    if grad_output.size() != indices.size():
        raise RuntimeError("{name}_backward(): expected grad_output and indices of one size, but "
                           "got " + str(grad_output.size()) + " and " + str(indices.size()))
    made = torch.zeros_like(self, memory_format=torch.contiguous_format).flatten(-{n})
    if grad_output.numel() != 0:
        made = made.scatter_add(-1, indices.flatten(-{n}), grad_output.flatten(-{n}))
    made = made.reshape(self.size())
    if (self.dim() == {n} + 2 and not self.is_contiguous() and
        self.is_contiguous(memory_format=torch.{"channels_last" if n == 2 else
                                                "channels_last_3d"})):
        return torch.empty_like(self).copy_(made)
    return made
""",
grad={"grad_output": f"grad.flatten(-{n}).gather(-1, indices.flatten(-{n}))"
                     ".reshape(indices.size())", "self": "torch.zeros_like(self)"})

# -- Padding: gradients of the same element are added

for n in 1, 2, 3:
    for kind, at in (("reflection", "n - 1 - (n - 1 - at.abs()).abs()"), ("replication",
        "at.clamp(0, n - 1)")):
        backward(f"{kind}_pad{n}d_backward", f"""
def pad_backward(grad_output: Tensor, self: Tensor, padding: List[int]) -> Tensor:
    made = grad_output
    for i in range({n}):
        d = self.dim() - 1 - i
        n = self.size(d)
        if made.size(d) != n + padding[2 * i] + padding[2 * i + 1]:
            raise RuntimeError("grad_output has a size of " + str(made.size(d)) +
                               " at dimension " + str(d) + ", expected " + str(n + padding[2 * i] +
                                     padding[2 * i + 1]))
        at = torch.arange(-padding[2 * i], n + padding[2 * i + 1])
        shape = made.size()
        shape[d] = n
        made = torch.zeros(shape, dtype=made.dtype).index_add(d, {at}, made)
    return made
""")

# -- Embeddings

backward("embedding_dense_backward", shape="gradient_embedding", body="""
def embedding_dense_backward(grad_output: Tensor, indices: Tensor, num_weights: int,
                             padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    at = indices.reshape([-1]).to(torch.long)
    g = grad_output.reshape([at.numel(), grad_output.size(-1)])
    if scale_grad_by_freq:
        g = g / torch.bincount(at, None, num_weights).index_select(0, at).unsqueeze(1).to(g.dtype)
    if padding_idx >= 0:
        g = g.masked_fill((at == padding_idx).unsqueeze(1), 0)
    return torch.zeros([num_weights, g.size(1)], dtype=g.dtype).index_add(0, at, g)
""")
BAGS = """
    bags = offset2bag
    if bags.numel() == 0 and indices.numel() != 0:
        bags = (torch.searchsorted(offsets, torch.arange(indices.numel()).to(offsets.dtype),
                                   right=True) - 1)
"""
BAG = """
    at = indices.to(torch.long)
    made = torch.zeros([num_weights, grad.size(1)], dtype=grad.dtype)
    if mode == 2:
        kept = (bag_size != 0).unsqueeze(1)
        to = torch.where(kept, maximum_indices.to(torch.long),
                         torch.zeros_like(maximum_indices, dtype=torch.long))
        return made.scatter_add(0, to, grad.masked_fill(kept.logical_not(), 0))
    g = grad.index_select(0, bags)
    if mode == 1:
        g = g / bag_size.index_select(0, bags).unsqueeze(1).to(g.dtype)
    if per_sample_weights is not None:
        g = g * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq and at.numel() != 0:
        # as PyTorch counts: the k-th distinct index is divided by how often the k-th smallest of
        # all occurs
        rank = torch._unique2(at, True, True)[1]
        counted = torch.sort(at)[0].index_select(0, rank)
        g = (g / torch.bincount(at, None, num_weights).index_select(0,
            counted).unsqueeze(1).to(g.dtype))
    if padding_idx >= 0:
        g = g.masked_fill((at == padding_idx).unsqueeze(1), 0)
    return made.index_add(0, at, g)
"""
backward("_embedding_bag_backward", """
def embedding_bag_backward(grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor,
                           bag_size: Tensor,
                           maximum_indices: Tensor, num_weights: int, scale_grad_by_freq: bool,
                           mode: int, sparse: bool,
                           per_sample_weights: Optional[Tensor], padding_idx: int) -> Tensor:
    if sparse:
        raise NotImplementedError("sparse gradients are not supported")
""" + BAGS.lstrip("\n") + BAG.lstrip("\n"))
backward("_embedding_bag_dense_backward", shape="gradient_embedding", body="""
def embedding_bag_dense_backward(grad: Tensor, indices: Tensor, offset2bag: Tensor,
                                 bag_size: Tensor, maximum_indices: Tensor,
                                 num_weights: int, scale_grad_by_freq: bool, mode: int,
                                 per_sample_weights: Optional[Tensor],
                                 padding_idx: int) -> Tensor:
    bags = offset2bag
""" + BAG.lstrip("\n"))
backward("_embedding_bag_per_sample_weights_backward", """
def embedding_bag_weights_backward(grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor,
                                   offset2bag: Tensor, mode: int,
                                   padding_idx: int) -> Tensor:
""" + BAGS.lstrip("\n") + """
    at = indices.to(torch.long)
    made = (grad.index_select(0, bags) * weight.index_select(0, at)).sum([1])
    return made.masked_fill(at == padding_idx, 0) if padding_idx >= 0 else made
""")

# -- Distances

SLOPE = """
    z = diff.abs()
    if p == 0.0:
        g = torch.zeros_like(diff)
    elif p == 1.0:
        g = torch.sign(diff) * by
    elif p == math.inf:
        g = torch.sign(diff) * (z == far).to(z.dtype) * by
    elif p == 2.0:
        g = torch.where(far == 0, torch.zeros_like(diff), diff / far * by)
    else:
        g = torch.where(torch.logical_or(far == 0, z == 0), torch.zeros_like(diff),
                        torch.sign(diff) * torch.pow(z / far, p - 1) * by)
"""
backward("_cdist_backward", """
def cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    diff = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    far = cdist.unsqueeze(-1)
    by = grad.unsqueeze(-1)
""" + SLOPE.lstrip("\n") + "    return g.sum([-2]).sum_to_size(x1.size())\n")
backward("_pdist_backward", """
def pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    n = self.size(0)
    pairs = torch.triu_indices(n, n, 1)
    i, j = pairs[0], pairs[1]
    diff = self.index_select(0, i) - self.index_select(0, j)
    far = pdist.unsqueeze(-1)
    by = grad.unsqueeze(-1)
""" + SLOPE.lstrip("\n") + "    return torch.zeros_like(self).index_add(0, i, g).index_add(0, j, "
                           "-g)\n")

# -- Views and indexing

PLACED = "grad_output: Tensor, input_sizes: List[int]"
backward("select_backward", f"""
def select_backward({PLACED}, dim: int, index: int) -> Tensor:
    made = torch.zeros(input_sizes, dtype=grad_output.dtype)
    made.select(dim, index).copy_(grad_output)
    return made
""")
backward("slice_backward", f"""
def slice_backward({PLACED}, dim: int, start: int, end: int, step: int) -> Tensor:
    made = torch.zeros(input_sizes, dtype=grad_output.dtype)
    torch.slice(made, dim, start, end, step).copy_(grad_output)
    return made
""")
backward("diagonal_backward", f"""
def diagonal_backward({PLACED}, offset: int, dim1: int, dim2: int) -> Tensor:
    made = torch.zeros(input_sizes, dtype=grad_output.dtype)
    made.diagonal(offset, dim1, dim2).copy_(grad_output)
    return made
""")
backward("trace_backward", """
def trace_backward(grad: Tensor, sizes: List[int]) -> Tensor:
    if len(sizes) != 2:
        raise RuntimeError("expected matrix input")
    made = torch.zeros(sizes, dtype=grad.dtype)
    made.diagonal().copy_(grad)
    return made
""")
backward("index_select_backward", """
def index_select_backward(grad: Tensor, self_sizes: List[int], dim: int, index: Tensor) -> Tensor:
    return torch.zeros(self_sizes, dtype=grad.dtype).index_add(dim, index, grad)
""")
backward("masked_select_backward", """
def masked_select_backward(grad: Tensor, input: Tensor, mask: Tensor) -> Tensor:
    x, m = torch.broadcast_tensors([input, mask])
    made = torch.zeros_like(x, memory_format=torch.contiguous_format).masked_scatter(m, grad)
    return made.sum_to_size(input.size())
""")
backward("masked_scatter_backward", """
def masked_scatter_backward(grad_output: Tensor, mask: Tensor, sizes: List[int]) -> Tensor:
    n = 1
    for size in sizes:
        n *= size
    taken = torch.masked_select(grad_output, mask)
    made = torch.zeros([n], dtype=grad_output.dtype)
    made.narrow(0, 0, taken.numel()).copy_(taken)
    return made.reshape(sizes)
""")
backward("value_selecting_reduction_backward", """
def value_selecting_reduction_backward(grad: Tensor, dim: int, indices: Tensor, sizes: List[int],
                                       keepdim: bool) -> Tensor:
    made = torch.zeros(sizes, dtype=grad.dtype)
    if keepdim or len(sizes) == 0:
        return made.scatter(dim, indices, grad)
    return made.scatter(dim, indices.unsqueeze(dim), grad.unsqueeze(dim))
""")
backward("cummaxmin_backward", """
def cummaxmin_backward(grad: Tensor, input: Tensor, indices: Tensor, dim: int) -> Tensor:
    return torch.zeros_like(input).scatter_add(dim, indices, grad)
""")
backward("_pack_padded_sequence_backward", """
def pack_padded_sequence_backward(grad: Tensor, input_size: List[int], batch_sizes: Tensor,
                                  batch_first: bool) -> Tensor:
    sizes = input_size
    if batch_first:
        sizes = [input_size[1], input_size[0]] + input_size[2:]
    made = torch.zeros(sizes, dtype=grad.dtype)
    first = 0
    for t in range(batch_sizes.size(0)):
        n = int(batch_sizes[t])
        made.select(0, t).narrow(0, 0, n).copy_(grad.narrow(0, first, n))
        first += n
    return made.transpose(0, 1) if batch_first else made
""")

# -- Attention: the weights are recomputed from the logarithm of their sum

backward("_scaled_dot_product_flash_attention_for_cpu_backward", f"""
def attention_backward(grad_out: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor,
                       logsumexp: Tensor,
                       dropout_p: float, is_causal: bool, attn_mask: Optional[Tensor],
                       scale: Optional[float]) -> Tuple[Tensor, Tensor, Tensor]:
    q, k, v = {wide("query")}, {wide("key")}, {wide("value")}
    g, o = {wide("grad_out")}, {wide("out")}
    times = q.size(1) // k.size(1)
    if times != 1:
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    by = 1.0 / math.sqrt(float(query.size(-1))) if scale is None else scale
    scores = torch.matmul(q, k.transpose(-2, -1)) * by
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
        else:
            scores = scores + attn_mask
    if is_causal:
        seen = torch.ones([q.size(-2), k.size(-2)], dtype=torch.bool).tril()
        scores = scores.masked_fill(seen.logical_not(), float("-inf"))
    p = torch.exp(scores - logsumexp.to(scores.dtype).unsqueeze(-1))
    gv = torch.matmul(p.transpose(-2, -1), g)
    gs = p * (torch.matmul(g, v.transpose(-2, -1)) - (g * o).sum([-1], True)) * by
    gq = torch.matmul(gs, k)
    gk = torch.matmul(gs.transpose(-2, -1), q)
    if times != 1:
        grouped = [key.size(0), key.size(1), times, key.size(2)]
        gk = gk.reshape(grouped + [key.size(3)]).sum([2])
        gv = gv.reshape(grouped + [value.size(3)]).sum([2])
    gq, gk, gv = gq.to(query.dtype).transpose(1, 2), gk.to(key.dtype).transpose(1,
          2), gv.to(value.dtype).transpose(1, 2)
    return gq.contiguous().transpose(1, 2), gk.contiguous().transpose(1,
        2), gv.contiguous().transpose(1, 2)
""")

# -- Images

op("aten::affine_grid_generator_backward", family="backward", body="""
def affine_grid_generator_backward(grad: Tensor, size: List[int], align_corners: bool) -> Tensor:
    k = len(size) - 2
    same = torch.eye(k, k + 1, dtype=grad.dtype).unsqueeze(0)
    points = torch.affine_grid_generator(same, [1] + size[1:], align_corners).reshape([1, -1, k])
    points = torch.cat([points, torch.ones([1, points.size(1), 1], dtype=grad.dtype)],
                       -1).expand([size[0], -1, -1])
    return torch.bmm(points.transpose(1, 2), grad.reshape([size[0], -1, k])).transpose(1, 2)
""")

# -- Gradients that formulas use too

backward("matrix_exp_backward", shape=None, body="""
def matrix_exp_backward(self: Tensor, grad: Tensor) -> Tensor:
    return matrix_exp_slope(grad, self)
""")
backward("cumprod_backward", """
def cumprod_backward(grad: Tensor, input: Tensor, dim: int, output: Tensor) -> Tensor:
    return cumprod_gradient(grad, input, output, dim)
""")
