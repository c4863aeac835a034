"""Sampling at the points of a grid (grid.c)."""

SAMPLED = {n: f"torch.grid_sampler_{n}d_backward(grad, input, grid, interpolation_mode, padding_mode, align_corners, needs)" for n in (2, 3)}
op("aten::grid_sampler", family="resize", shape="grid_sample", kernel="kernel_grid_sampler", grad={"input, grid": f"""
   if input.dim() == 4:
       return {SAMPLED[2]}
   {SAMPLED[3]}
   """})
op("aten::grid_sampler_2d", family="resize", shape="grid_sample", kernel="kernel_grid_sampler_2d", variants={"out": "aten::grid_sampler_2d.out"},
   grad={"input, grid": SAMPLED[2]})
op("aten::_grid_sampler_2d_cpu_fallback", family="resize", shape="grid_sample", kernel="kernel_grid_sampler_2d",
   variants={"out": "aten::_grid_sampler_2d_cpu_fallback.out"}, grad={"input, grid": SAMPLED[2]})
op("aten::grid_sampler_3d", family="resize", shape="grid_sample", kernel="kernel_grid_sampler_3d", variants={"out": "aten::grid_sampler_3d.out"},
   grad={"input, grid": SAMPLED[3]})
for n in (2, 3):
    op(f"aten::grid_sampler_{n}d_backward", family="backward", kernel="kernel_grid_sampler_backward",
       variants={"out": f"aten::grid_sampler_{n}d_backward.out"})
op("aten::_grid_sampler_2d_cpu_fallback_backward", family="backward", kernel="kernel_grid_sampler_backward")
op("aten::affine_grid_generator", family="resize", shape="affine_grid", variants={"out": "aten::affine_grid_generator.out"},
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
