"""Resizing, sampling and rearranging of images (resize.c, grid.c, rearrange.c)."""
import re

KERNELS = ("nearest_exact", "nearest", "lanczos", "cubic", "linear")
for name in ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
             "_upsample_nearest_exact1d",
             "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d",
             "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
             "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"):
    n = int(re.search(r"(\d)d", name)[1])
    kernel = "kernel_upsample_" + next(k for k in KERNELS if k in name) + "_aa" * ("_aa" in name)
    align = "" if "nearest" in name else "align_corners, "
    given = ["scales"] if n == 1 else ["scales_d", "scales_h", "scales_w"][3 - n:]
    plain = f"torch.{name}_backward(grad, grad.size()[2:], {{0}}.size(), {align}"
    listed = ", ".join(f"None if scale_factors is None else scale_factors[{i}]" for i in range(n))
    op(f"aten::{name}", family="resize", shape=f"upsample_{n}d", results="rule", kernel=kernel,
       effects=["quantized_scales"], variants={"out": f"aten::{name}.out"},
       grad={"self": plain.format("self") + ", ".join(given) + ")"})
    op(f"aten::{name}.vec", family="resize", shape=f"upsample_{n}d", results="rule", kernel=kernel,
       effects=["quantized_scales"], grad={"input": plain.format("input") + listed + ")"},
       variants={"out": f"aten::{name}.vec_out"} if name in ("upsample_nearest2d",
                                                             "upsample_bilinear2d") else {})
    op(f"aten::{name}_backward", family="backward", shape=f"upsample_{n}d_backward", results="rule",
       kernel=f"{kernel}_backward",
       variants={"out": f"aten::{name}_backward.grad_input"})
