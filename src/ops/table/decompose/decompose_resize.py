"""Decompositions (decompose_nn.py) of resizing, pooling, windows of images, convolutions with other
arguments, Fourier transforms."""


def core(names: str, takes: str, text: str, returns: str = "Tensor") -> None:
    decompose(names, f"def core({takes}) -> {returns}:\n{text.lstrip(chr(10))}")


# -- Resizing

SIZES = """
    sizes: List[int] = []
    by: List[Optional[float]] = []
    for i in range({n}):
        if output_size is not None:
            sizes.append(output_size[i])
            by.append(None)
        elif scale_factors is not None:
            scale = scale_factors[i]
            size = input.size(i + 2)
            whole = int(scale)
            if float(whole) == scale:
                sizes.append(size * whole)
            else:
                sizes.append(int(float(size) * scale))
            by.append(scale)
"""
VEC = ("input: Tensor, output_size: Optional[List[int]], {corners}"
       "scale_factors: Optional[List[float]]")
CORNERS = "align_corners: bool, "
for name, n, corners in (
    ("upsample_bicubic2d", 2, True),
    ("upsample_linear1d", 1, True),
    ("upsample_trilinear3d", 3, True),
    ("_upsample_bicubic2d_aa", 2, True),
    ("_upsample_bilinear2d_aa", 2, True),
    ("_upsample_lanczos2d_aa", 2, True),
    ("upsample_nearest1d", 1, False),
    ("upsample_nearest3d", 3, False),
    ("_upsample_nearest_exact1d", 1, False),
    ("_upsample_nearest_exact2d", 2, False),
    ("_upsample_nearest_exact3d", 3, False),
):
    scales = ", ".join(f"by[{i}]" for i in range(n))
    core(f"{name}.vec", VEC.replace("{corners}", CORNERS if corners else ""),
         SIZES.replace("{n}", str(n)) + f"    return torch.{name}(input, sizes, "
         f"{'align_corners, ' if corners else ''}{scales})\n")
core("upsample_linear1d",
     "self: Tensor, output_size: List[int], align_corners: bool, scales: Optional[float]",
     "    out = torch.upsample_bilinear2d(self.unsqueeze(2), [1, output_size[0]], align_corners, "
     "None, scales)\n    return torch.squeeze(out, [2])\n")
AXES = ("d", "h", "w")
for kind, half in ("upsample_nearest", ""), ("_upsample_nearest_exact", "0.5"):
    for n in 1, 2, 3:
        names = ["scales"] if n == 1 else [f"scales_{a}" for a in AXES[3 - n:]]
        takes = "self: Tensor, output_size: List[int], " + ", ".join(
            f"{s}: Optional[float]" for s in names)
        moved = f"torch.add(at, {half})" if half else "at"
        core(f"{kind}{n}d", takes, f"""
    by: List[Optional[float]] = [{", ".join(names)}]
    out = self
    for i in range({n}):
        size = self.size(i + 2)
        step = by[i]
        if step is None:
            ratio = float(size) / float(output_size[i])
        else:
            ratio = 1.0 / step
        at = torch.arange(0, output_size[i], 1, dtype=6, device=self.device)
        places = torch.clamp(torch.mul({moved}, ratio).to(4), None, size - 1)
        index: List[Optional[Tensor]] = []
        for _ in range(i + 2):
            index.append(None)
        index.append(places)
        out = torch.index(out, index)
    return out
""")
core("grid_sampler", "input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, "
     "align_corners: bool", """
    if input.dim() == 4:
        return torch.grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners)
    return torch.grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners)
""")

# -- Pooling

POOL1 = "self: Tensor, kernel_size: List[int], stride: List[int], padding: List[int], "
ARGS1 = ("[1] + kernel_size, [1] + (stride if len(stride) > 0 else kernel_size), [0] + padding, ")
core("max_pool1d_with_indices", POOL1 + "dilation: List[int], ceil_mode: bool", f"""
    out, at = torch.max_pool2d_with_indices(self.unsqueeze(-2), {ARGS1}[1] + dilation, ceil_mode)
    return torch.squeeze(out, [-2]), torch.squeeze(at, [-2])
""", returns="Tuple[Tensor, Tensor]")
core("max_pool1d", POOL1 + "dilation: List[int], ceil_mode: bool", """
    out, _ = torch.max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)
    return out
""")
core("avg_pool1d", POOL1 + "ceil_mode: bool, count_include_pad: bool", f"""
    out = torch.avg_pool2d(self.unsqueeze(-2), {ARGS1}ceil_mode, count_include_pad)
    return torch.squeeze(out, [-2])
""")
core("adaptive_avg_pool1d", "self: Tensor, output_size: List[int]", """
    out = torch.adaptive_avg_pool2d(self.unsqueeze(-2), [1] + output_size)
    return torch.squeeze(out, [-2])
""")
core("adaptive_max_pool1d", "self: Tensor, output_size: List[int]", """
    out, at = torch.adaptive_max_pool2d(self.unsqueeze(-2), [1] + output_size)
    return torch.squeeze(out, [-2]), torch.squeeze(at, [-2])
""", returns="Tuple[Tensor, Tensor]")
for n, more in (2, ""), (3, "stride: List[int], padding: List[int]"):
    core(f"max_unpool{n}d",
         "self: Tensor, indices: Tensor, output_size: List[int]" + (f", {more}" if more else ""),
         f"""
    planes = self.size()[:self.dim() - {n}]
    count, size = 1, 1
    for k in planes:
        count = count * k
    for k in output_size:
        size = size * k
    start = torch.mul(torch.arange(0, count, 1, dtype=4, device=self.device), size)
    flat = torch.add(torch.reshape(indices, [count, -1]), start.unsqueeze(1))
    at: List[Optional[Tensor]] = [torch.reshape(flat, [-1])]
    zeros = torch.full([count * size], 0, dtype=self.dtype, device=self.device)
    out = torch.index_put(zeros, at, torch.reshape(self, [-1]), False)
    return out.view(planes + output_size)
""")

# -- Windows of images

WINDOWS = ("kernel_size: List[int], dilation: List[int], padding: List[int], stride: List[int]")
PLACES = """
    places: List[Tensor] = []
    for i in range(2):
        k, d, p, s = kernel_size[i], dilation[i], padding[i], stride[i]
        n = (sizes[i] + 2 * p - d * (k - 1) - 1) // s + 1
        of_block = torch.mul(torch.arange(0, n, 1, dtype=4, device=self.device), s)
        of_cell = torch.mul(torch.arange(0, k, 1, dtype=4, device=self.device), d)
        places.append(torch.add(of_cell.unsqueeze(-1), of_block.unsqueeze(0)))
    rows, columns = places[0].unsqueeze(-1).unsqueeze(-1), places[1]
    at: List[Optional[Tensor]] = [None, None, rows, columns]
"""
core("im2col", "self: Tensor, " + WINDOWS, f"""
    x = self if self.dim() == 4 else self.unsqueeze(0)
    sizes = x.size()[2:]
{PLACES}
    padded = torch.constant_pad_nd(x, [padding[1], padding[1], padding[0], padding[0]], 0)
    cells = torch.index(padded, at).permute([0, 1, 2, 4, 3, 5])
    made = cells.size()
    out = torch.reshape(cells, [made[0], made[1] * made[2] * made[3], made[4] * made[5]])
    return out if self.dim() == 4 else torch.squeeze(out, [0])
""")
core("col2im", "self: Tensor, output_size: List[int], " + WINDOWS, f"""
    x = self if self.dim() == 3 else self.unsqueeze(0)
    sizes = output_size
{PLACES}
    k = kernel_size
    c = x.size(1) // (k[0] * k[1])
    cells = torch.reshape(x, [x.size(0), c] + k + [places[0].size(1), places[1].size(1)])
    padded = [sizes[0] + 2 * padding[0], sizes[1] + 2 * padding[1]]
    zeros = torch.full([x.size(0), c] + padded, 0, dtype=x.dtype, device=x.device)
    out = torch.index_put(zeros, at, cells.permute([0, 1, 2, 4, 3, 5]), True)
    out = torch.constant_pad_nd(out, [-padding[1], -padding[1], -padding[0], -padding[0]], 0)
    return out if self.dim() == 3 else torch.squeeze(out, [0])
""")

# -- Convolutions

CONV = "input: Tensor, weight: Tensor, bias: Optional[Tensor], stride: List[int], "
core("_convolution.deprecated", CONV + "padding: List[int], dilation: List[int], transposed: bool, "
     "output_padding: List[int], groups: int, benchmark: bool, deterministic: bool, "
     "cudnn_enabled: bool", """
    return torch.convolution(input, weight, bias, stride, padding, dilation, transposed,
                             output_padding, groups)
""")
SAME = """
    n = weight.dim() - 2
    x = input if input.dim() == n + 2 else input.unsqueeze(0)
    steps = stride if len(stride) == n else [stride[0] for _ in range(n)]
    gaps = dilation if len(dilation) == n else [dilation[0] for _ in range(n)]
    before = [0 for _ in range(n)]
    if padding == "same":
        more: List[int] = []
        uneven = False
        for i in range(n):
            total = gaps[i] * (weight.size(i + 2) - 1)
            before[i] = total // 2
            uneven = uneven or total % 2 == 1
        for i in range(n):
            d = n - 1 - i
            total = gaps[d] * (weight.size(d + 2) - 1)
            more.append(0)
            more.append(total % 2)
        if uneven:
            x = torch.constant_pad_nd(x, more, 0)
    out = torch.convolution(x, weight, bias, steps, before, gaps, False, [0 for _ in range(n)],
                            groups)
    return out if input.dim() == n + 2 else torch.squeeze(out, [0])
"""
core("_convolution_mode conv1d.padding conv2d.padding conv3d.padding",
     CONV + "padding: str, dilation: List[int], groups: int", SAME)
for name, n in ("thnn_conv2d", 2), ("slow_conv3d", 3):
    core(name, "self: Tensor, weight: Tensor, kernel_size: List[int], bias: Optional[Tensor], "
         "stride: List[int], padding: List[int]", f"""
    return torch.convolution(self, weight, bias, stride, padding, {[1] * n}, False, {[0] * n}, 1)
""")

# -- Fourier transforms

FFT_SETUP = """
    dims: List[int] = []
    lengths: List[int] = []
    n = self.dim()
    {dims}
    last = lengths[-1] if len(lengths) > 0 else -1
    mode = 0
    forward = {forward}
    if norm is None or norm == "backward":
        mode = 0 if forward else 2
    elif norm == "ortho":
        mode = 1
    else:
        mode = 2 if forward else 0
    x = self
"""
ONE_DIM = """dims.append(dim + self.dim() if dim < 0 else dim)
    lengths.append(-1 if n_given is None else n_given)""".replace("n_given", "length")
MANY_DIMS = """if dim is not None:
        for d in dim:
            dims.append(d + n if d < 0 else d)
    elif s is not None:
        for i in range(len(s)):
            dims.append(n - len(s) + i)
    else:
        for i in range(n):
            dims.append(i)
    for i in range(len(dims)):
        lengths.append(-1 if s is None else s[i])"""
RESIZED = """
    for i in range(len(dims)):
        if lengths[i] >= 0 {but_last}:
            size = x.size(dims[i])
            if lengths[i] < size:
                x = torch.slice(x, dims[i], 0, lengths[i])
            elif lengths[i] > size:
                pad = [0 for _ in range(2 * (n - dims[i]))]
                pad[2 * (n - 1 - dims[i]) + 1] = lengths[i] - size
                x = torch.constant_pad_nd(x, pad, 0)
"""
AS_FLOAT = """
    if not x.is_floating_point() and not x.is_complex():
        x = x.to(6)
"""
AS_COMPLEX = AS_FLOAT + """
    if not x.is_complex():
        x = x.to(10 if x.dtype == 7 else 9)
"""
TO_HALF = """
    size = last if last >= 0 else 2 * (x.size(dims[-1]) - 1)
    if last >= 0:
        kept = size // 2 + 1
        have = x.size(dims[-1])
        if kept < have:
            x = torch.slice(x, dims[-1], 0, kept)
        elif kept > have:
            pad = [0 for _ in range(2 * (n - dims[-1]))]
            pad[2 * (n - 1 - dims[-1]) + 1] = kept - have
            x = torch.constant_pad_nd(x, pad, 0)
"""
ALL, BUT_LAST = "", "and i < len(dims) - 1"
# What a transform does once its argument has its lengths.
STEPS = {
    "fft": (True, AS_COMPLEX, ALL, "return torch._fft_c2c(x, dims, mode, True)"),
    "ifft": (False, AS_COMPLEX, ALL, "return torch._fft_c2c(x, dims, mode, False)"),
    "rfft": (True, AS_FLOAT, ALL, "return torch._fft_r2c(x, dims, mode, True)"),
    "irfft": (False, AS_COMPLEX, BUT_LAST, TO_HALF
              + "    return torch._fft_c2r(x, dims, mode, size)"),
    "hfft": (True, AS_COMPLEX, BUT_LAST, TO_HALF + """
    if len(dims) > 1:
        x = torch._fft_c2c(x, dims[:-1], mode, True)
    return torch._fft_c2r(torch.conj_physical(x), dims[-1:], mode, size)"""),
    "ihfft": (False, AS_FLOAT, ALL, """
    x = torch.conj_physical(torch._fft_r2c(x, dims[-1:], mode, True))
    return torch._fft_c2c(x, dims[:-1], mode, False) if len(dims) > 1 else x"""),
}
for name, (forward, kind, which, step) in STEPS.items():
    for form, takes, dims in (
        ("", "self: Tensor, n: Optional[int], dim: int, norm: Optional[str]", ONE_DIM),
        ("2", "self: Tensor, s: Optional[List[int]], dim: List[int], norm: Optional[str]",
         MANY_DIMS.replace("dim is not None", "True").replace("for d in dim:", "for d in dim:")),
        ("n", "self: Tensor, s: Optional[List[int]], dim: Optional[List[int]], "
         "norm: Optional[str]", MANY_DIMS),
    ):
        setup = FFT_SETUP.replace("{forward}", str(forward)).replace("{dims}", dims)
        text = setup + kind + RESIZED.replace("{but_last}", which) + "    " + step.strip() + "\n"
        if form == "":  # the argument n is a length, and not the number of dimensions
            text = "    length = n\n    rank = self.dim()\n" + (
                text.replace("    n = self.dim()\n", "").replace("(n - ", "(rank - "))
        if form == "2":
            text = text.replace("    elif s is not None:\n        for i in range(len(s)):\n"
                                "            dims.append(n - len(s) + i)\n    else:\n"
                                "        for i in range(n):\n            dims.append(i)\n", "")
        core(f"fft_{name}{form}", takes, text)
