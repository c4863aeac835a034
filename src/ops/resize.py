"""Resizing, sampling and rearranging of images (resize.c, grid.c, fold.c)."""

for name in ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
             "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d",
             "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa",
             "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"):
    op(f"aten::{name}", family="resize", kernel=f"kernel_{name}", effects=["quantized_scales"], variants={"out": f"aten::{name}.out"})
    op(f"aten::{name}.vec", family="resize", kernel=f"kernel_{name}", effects=["quantized_scales"],
       variants={"out": f"aten::{name}.vec_out"} if name in ("upsample_nearest2d", "upsample_bilinear2d") else {})
    op(f"aten::{name}_backward", family="backward", kernel=f"kernel_{name}_backward",
       variants={"out": f"aten::{name}_backward.grad_input"})
