"""Sampling at the points of a grid (grid.c)."""

SAMPLED = {n: f"torch.grid_sampler_{n}d_backward(grad, input, grid, interpolation_mode, "
              f"padding_mode, align_corners, needs)" for n in (2, 3)}
op("aten::grid_sampler", family="resize", shape="grid_sample", results="rule",
   kernel="kernel_grid_sampler",
   grad={"input, grid": f"""
   if input.dim() == 4:
       return {SAMPLED[2]}
   {SAMPLED[3]}
   """})
op("aten::grid_sampler_2d", family="resize", shape="grid_sample_2d",
   results="rule", kernel="kernel_grid_sampler",
   variants={"out": "aten::grid_sampler_2d.out"}, grad={"input, grid": SAMPLED[2]})
op("aten::_grid_sampler_2d_cpu_fallback", family="resize", shape="grid_sample_2d",
   results="rule", kernel="kernel_grid_sampler",
   variants={"out": "aten::_grid_sampler_2d_cpu_fallback.out"}, grad={"input, grid": SAMPLED[2]})
op("aten::grid_sampler_3d", family="resize", shape="grid_sample_3d",
   results="rule", kernel="kernel_grid_sampler",
   variants={"out": "aten::grid_sampler_3d.out"}, grad={"input, grid": SAMPLED[3]})
# Second derivatives are computed through this. Along each dimension a point has taps: places,
# whether they are inside, weights and their slopes, all but the places differentiable; a point's
# value is the sum over all combinations of taps.
helper("""
def grid_reflected(x: Tensor, size: int, align_corners: bool) -> Tuple[Tensor, Tensor]:
    low = 0.0 if align_corners else -0.5
    span = float(size - 1) if align_corners else float(size)
    if span <= 0:
        return torch.zeros_like(x), torch.zeros_like(x)
    away = (x - low).abs()
    flips = (away / span).floor()
    extra = away - flips * span
    turned = 1 - 2 * flips.remainder(2)
    return torch.where(turned > 0, extra, span - extra) + low, torch.where(x < low, -turned, turned)
""")
helper("""
def grid_padded(x: Tensor, size: int, padding_mode: int, align_corners: bool) -> Tensor:
    if padding_mode == 2:
        x = grid_reflected(x, size, align_corners)[0]
    return x.clamp(0, size - 1) if padding_mode != 0 else x
""")
helper("""
def grid_cubic(x: Tensor) -> List[Tensor]:
    a = -0.75
    y = 1 - x
    return [((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a, ((a + 2) * x - (a + 3)) *
            x * x + 1,
            ((a + 2) * y - (a + 3)) * y * y + 1, ((a * (y + 1) - 5 * a) * (y + 1) + 8 * a) * (y +
                  1) - 4 * a]
""")
helper("""
def grid_cubic_slopes(x: Tensor) -> List[Tensor]:
    a = -0.75
    y = 1 - x
    return [(3 * a * (x + 1) - 10 * a) * (x + 1) + 8 * a, (3 * (a + 2) * x - 2 * (a + 3)) * x,
            -(3 * (a + 2) * y - 2 * (a + 3)) * y, -((3 * a * (y + 1) - 10 * a) * (y + 1) + 8 * a)]
""")
helper("""
def grid_taps(grid: Tensor, size: int, interpolation_mode: int, padding_mode: int,
              align_corners: bool) -> List[Tensor]:
    scale = (size - 1) / 2 if align_corners else size / 2
    shift = scale if align_corners else (size - 1) / 2
    slope = torch.full_like(grid, scale).detach()
    x = grid.detach() * scale + shift
    if interpolation_mode != 2 and padding_mode != 0:
        if padding_mode == 2:
            x, turned = grid_reflected(x, size, align_corners)
            slope = slope * turned
        slope = slope * ((x > 0) & (x < size - 1)).to(x.dtype)
        x = x.clamp(0, size - 1)
    x = grid * slope + (x - grid.detach() * slope)
    first = x.detach().floor()
    t = x - first
    one = torch.ones_like(first)
    places, weights, slopes = [first, first + 1], [1 - t, t], [-one, one]
    if interpolation_mode == 1:
        places, weights, slopes = [x.detach().round()], [one], [torch.zeros_like(one)]
    elif interpolation_mode == 2:
        places, weights, slopes = [first - 1, first, first + 1, first +
                                   2], grid_cubic(t), grid_cubic_slopes(t)
        places = [grid_padded(p, size, padding_mode, align_corners) for p in places]
    return [torch.stack([p.clamp(0, size - 1) for p in places]).long(),
            torch.stack([((p >= 0) & (p < size)).to(grid.dtype) for p in places]),
            torch.stack(weights), torch.stack([s * slope for s in slopes])]
""")
for n in (2, 3):
    op(f"aten::grid_sampler_{n}d_backward", family="backward",
       shape=f"grid_sample_backward_{n}d", results="rule",
       kernel="kernel_grid_sampler_backward",
       variants={"out": f"aten::grid_sampler_{n}d_backward.out"}, body=f"""
def grid_sampler_{n}d_backward(grad_output: Tensor, input: Tensor, grid: Tensor,
                               interpolation_mode: int, padding_mode: int,
                               align_corners: bool, output_mask: List[bool]) -> Tuple[Tensor,
                                     Tensor]:
    channels = [input.size(0), input.size(1), -1]
    points = grid.flatten(1, -2)
    source, grad = input.reshape(channels), grad_output.reshape(channels)
    dims = [grid_taps(points.select(-1, {n} - 1 - k), input.size(2 + k), interpolation_mode,
                      padding_mode, align_corners) for k in range({n})]
    n_taps = dims[0][0].size(0)
    to_input = torch.zeros_like(source)
    to_grid = [torch.zeros_like(points.select(-1, 0)) for k in range({n})]
    for tap in range({' * '.join(['n_taps'] * n)}):
        at = torch.zeros_like(dims[0][0][0])
        inside = torch.ones_like(dims[0][1][0])
        weight = inside
        slopes = [inside for k in range({n})]
        rest = tap
        for k in range({n}):
            i = rest % n_taps
            rest = rest // n_taps
            at = at * input.size(2 + k) + dims[k][0][i]
            inside = inside * dims[k][1][i]
            weight = weight * dims[k][2][i]
            for j in range({n}):
                slopes[j] = slopes[j] * (dims[k][3][i] if j == k else dims[k][2][i])
        where = at.unsqueeze(1).expand_as(grad)
        part = grad * inside.unsqueeze(1)
        to_input = to_input.scatter_add(2, where, part * weight.unsqueeze(1))
        both = (part * source.gather(2, where)).sum(1)
        for k in range({n}):
            to_grid[k] = to_grid[k] + both * slopes[k]
    return to_input.view_as(input), torch.stack([to_grid[{n} - 1 - k] for k in range({n})],
                                                -1).view_as(grid)
""")
op("aten::_grid_sampler_2d_cpu_fallback_backward", family="backward",
   shape="grid_sample_backward_2d", results="rule",
   kernel="kernel_grid_sampler_backward")
op("aten::affine_grid_generator", family="resize", shape="affine_grid",
   variants={"out": "aten::affine_grid_generator.out"},
   grad={"theta": "torch.affine_grid_generator_backward(grad, size, align_corners)"}, body="""
def affine_grid_generator(theta: Tensor, size: List[int], align_corners: bool) -> Tensor:
    k = len(size) - 2
    if k != 2 and k != 3:
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    base = torch.ones([1] + size[2:] + [k + 1], dtype=theta.dtype)
    for i in range(k):
        n = size[1 + k - i]
        line = torch.linspace(-1, 1, n, dtype=theta.dtype)
        if n <= 1:
            line = torch.zeros([n], dtype=theta.dtype)
        elif not align_corners:
            line = line * (n - 1) / n
        shape = [1] * (k + 1)
        shape[k - i] = n
        base.select(-1, i).copy_(line.view(shape))
    points = base.view([1, -1, k + 1]).expand([size[0], -1, -1])
    return torch.bmm(points, theta.transpose(1, 2)).view([size[0]] + size[2:] + [k])
""")

# Facts about these operators that other parts read.
known("_grid_sampler_2d_cpu_fallback grid_sampler grid_sampler_2d grid_sampler_3d",
      autocast="float32")
