"""Convolutions (convolution.c)."""

for n in (1, 2, 3):
    op(f"aten::conv{n}d", family="convolution", kernel=f"kernel_conv{n}d")
    op(f"aten::conv{n}d.padding", family="convolution", kernel=f"kernel_conv{n}d_padding")
op("aten::conv_transpose1d", family="convolution", kernel="kernel_conv_transpose1d")
op("aten::conv_transpose2d.input", family="convolution", kernel="kernel_conv_transpose2d")
op("aten::conv_transpose3d.input", family="convolution", kernel="kernel_conv_transpose3d")
op("aten::convolution", family="convolution", kernel="kernel_convolution",
   variants={"out": "aten::convolution.out"})
op("aten::convolution_overrideable", family="convolution", kernel="kernel_convolution",
   variants={"out": "aten::convolution_overrideable.out"})
op("aten::_convolution", family="convolution", kernel="kernel_convolution",
   variants={"out": "aten::_convolution.out"})
op("aten::_convolution.deprecated", family="convolution", kernel="kernel_convolution")
op("aten::_convolution_mode", family="convolution", kernel="kernel__convolution_mode")
op("aten::mkldnn_convolution", family="convolution", kernel="kernel_mkldnn_convolution",
   variants={"out": "aten::mkldnn_convolution.out"})
for name, out in (("thnn_conv2d", "out"), ("_slow_conv2d_forward", "output"), ("slow_conv3d", "out"),
                  ("slow_conv_dilated2d", "out"), ("slow_conv_dilated3d", "out")):
    op(f"aten::{name}", family="convolution", kernel="kernel_slow_conv", variants={"out": f"aten::{name}.{out}"})
op("aten::_conv_depthwise2d", family="convolution", kernel="kernel_conv_depthwise",
   variants={"out": "aten::_conv_depthwise2d.out"})
op("aten::conv_depthwise3d", family="convolution", kernel="kernel_conv_depthwise",
   variants={"out": "aten::conv_depthwise3d.out"})
for n in (2, 3):
    op(f"aten::slow_conv_transpose{n}d", family="convolution", kernel="kernel_slow_conv_transpose",
       variants={"out": f"aten::slow_conv_transpose{n}d.out"})
op("aten::conv_tbc", family="convolution", kernel="kernel_conv_tbc", variants={"out": "aten::conv_tbc.out"})
