"""Quantized tensors (quantize.c, quantize_ops.c, quantized_linear.c, quantized_conv.c,
quantized_rnn.c)."""


def quant(name, kernel=None, **more):
    op(name, family="quantized", kernel=kernel or "kernel_" + name.partition("::")[2].split(".")[0],
       **more)


quant("aten::quantize_per_tensor", variants={"out": "aten::quantize_per_tensor.out"})
op("aten::quantize_per_tensor.tensor_qparams", family="quantized", body="""
def quantize_per_tensor(self: Tensor, scale: Tensor, zero_point: Tensor, dtype: int) -> Tensor:
    return torch.quantize_per_tensor(self, float(scale), int(zero_point), dtype)
""")
op("aten::quantize_per_tensor.tensors", family="quantized", body="""
def quantize_per_tensor(tensors: List[Tensor], scales: Tensor, zero_points: Tensor,
                        dtype: int) -> List[Tensor]:
    made: List[Tensor] = []
    for i, t in enumerate(tensors):
        made.append(torch.quantize_per_tensor(t, scales[i], zero_points[i], dtype))
    return made
""")
quant("aten::quantize_per_channel", variants={"out": "aten::quantize_per_channel.out"})
quant("aten::quantize_per_tensor_dynamic")
quant("aten::_choose_qparams_per_tensor")
quant("aten::_make_per_tensor_quantized_tensor")
quant("aten::_make_per_channel_quantized_tensor")
quant("aten::_empty_affine_quantized")
quant("aten::_empty_per_channel_affine_quantized")
quant("aten::dequantize.self", same=["aten::dequantize.tensor"])
quant("aten::dequantize.tensors", "kernel_dequantize_list", same=["aten::dequantize.list",
                                                                  "aten::dequantize.any"])
quant("aten::int_repr")
for name in ("scale", "zero_point", "per_channel_scales", "per_channel_zero_points",
             "per_channel_axis"):
    quant(f"aten::q_{name}", "kernel_quantizer_fact")
quant("aten::qscheme")

def fake(name, kernel, rule="fake_quantize", **more):
    quant(f"aten::{name}", f"kernel_{kernel}", shape=rule, results="rule", **more)


fake("fake_quantize_per_tensor_affine", "fake_quantize_per_tensor",
     same=["aten::fake_quantize_per_tensor_affine_cachemask",
           "aten::fake_quantize_per_tensor_affine.tensor_qparams"])
fake("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "fake_quantize_switched")
fake("fake_quantize_per_channel_affine", "fake_quantize_per_channel", "fake_quantize_channels",
     same=["aten::fake_quantize_per_channel_affine_cachemask"])
fake("fused_moving_avg_obs_fake_quant", "fused_moving_avg_obs_fake_quant",
     same=["aten::_fused_moving_avg_obs_fq_helper"])

quant("quantized::linear_prepack", "kernel_quantized_linear_prepack",
      same=["_quantized::linear_prepack"])
quant("quantized::linear_prepack_fp16", "kernel_quantized_linear_prepack_fp16",
      same=["_quantized::linear_prepack_fp16"])
quant("quantized::linear_unpack", "kernel_quantized_linear_unpack",
      same=["quantized::linear_unpack_fp16"])
quant("quantized::linear", "kernel_quantized_linear", same=["_quantized::linear"])
quant("quantized::linear_relu", "kernel_quantized_linear_relu")
quant("quantized::linear_dynamic", "kernel_quantized_linear_dynamic",
      same=["_quantized::linear_dynamic"])
quant("quantized::linear_relu_dynamic", "kernel_quantized_linear_relu_dynamic")
quant("quantized::linear_dynamic_fp16", "kernel_quantized_linear_dynamic_fp16")
quant("quantized::linear_relu_dynamic_fp16", "kernel_quantized_linear_relu_dynamic_fp16")
quant("quantized::linear_dynamic_fp16_unpacked_weight", "kernel_quantized_linear_fp16_unpacked")

quant("quantized::make_quantized_cell_params_dynamic")
quant("quantized::make_quantized_cell_params_fp16")
for kind in ("lstm", "gru"):
    quant(f"aten::quantized_{kind}.input", f"kernel_quantized_{kind}_input")
    quant(f"aten::quantized_{kind}.data", f"kernel_quantized_{kind}_data")
for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    quant(f"quantized::quantized_{kind}_cell_dynamic")

for n in (1, 2, 3):
    packed = max(n, 2)
    quant(f"quantized::conv{n}d_prepack", f"kernel_quantized_conv{n}d_prepack")
    quant(f"quantized::conv_transpose{n}d_prepack", f"kernel_quantized_conv_transpose{n}d_prepack")
    unpack = f"kernel_quantized_conv{'1d' if n == 1 else ''}_unpack"
    quant(f"quantized::conv{n}d_unpack", unpack, same=[f"quantized::conv_transpose{n}d_unpack"])
    new = ".new" if n > 1 else ""
    quant(f"quantized::conv{n}d{new}", f"kernel_quantized_conv{n}d",
          same=[f"quantized::conv_transpose{n}d"])
    quant(f"quantized::conv{n}d_relu{new}", f"kernel_quantized_conv{n}d_relu")
    quant(f"quantized::conv{n}d_dynamic", f"kernel_quantized_conv{n}d_dynamic",
          same=[f"quantized::conv_transpose{n}d_dynamic"])
    if n > 1:
        quant(f"quantized::conv{n}d", f"kernel_quantized_conv{n}d_old")
        quant(f"quantized::conv{n}d_relu", f"kernel_quantized_conv{n}d_relu_old")
        for what in ("stride", "padding", "dilation", "output_padding", "groups", "transpose"):
            quant(f"quantized::conv{n}d_{what}", f"kernel_quantized_conv_{what}",
                  same=[f"quantized::conv_transpose{n}d_{what}"])
quant("quantized::conv_prepack", "kernel_quantized_conv2d_prepack",
      same=["_quantized::conv2d_prepack"])
quant("quantized::conv_unpack", "kernel_quantized_conv_unpack")
quant("_quantized::conv2d", "kernel_quantized_conv2d")
quant("_quantized::conv2d_relu", "kernel_quantized_conv2d_relu")

quant("quantized::embedding_bag_prepack", "kernel_quantized_embedding_bag_prepack")
quant("quantized::embedding_bag_unpack", "kernel_quantized_embedding_bag_unpack")
quant("quantized::embedding_byte", "kernel_quantized_embedding_byte")
quant("quantized::embedding_bag_byte", "kernel_quantized_embedding_bag_byte")

for name in ("conv3d", "conv3d_relu", "conv3d_prepack", "conv_transpose1d_prepack",
             "conv_transpose2d_prepack", "conv_transpose3d_prepack"):
    quant(f"_quantized::{name}", f"kernel_quantized_{name}")
quant("_quantized::conv_transpose1d", "kernel_quantized_conv1d")
quant("_quantized::conv_transpose2d", "kernel_quantized_conv2d")

# What other parts ask about these.
known("fake_quantize_per_tensor_affine", autocast="float32")
