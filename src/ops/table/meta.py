"""Queries of tensors."""


def ask(name, kernel=None, **more):
    op(name, family="meta", kernel=kernel or "kernel_" + name.partition("::")[2].split(".")[0],
       **more)


ask("aten::dim", effects=["nested"])
ask("aten::numel", same=["aten::sym_numel"], effects=["nested"])
ask("aten::size", same=["aten::sym_size"])
ask("aten::size.int", "kernel_size_int", same=["aten::sym_size.int"], effects=["nested"])
ask("aten::stride", same=["aten::sym_stride"])
ask("aten::stride.int", "kernel_stride_int", same=["aten::sym_stride.int"])
ask("aten::storage_offset", same=["aten::sym_storage_offset"])
ask("aten::len.Tensor", "kernel_len")
ask("aten::element_size", same=["prim::itemsize"])
ask("prim::nbytes")
ask("aten::is_floating_point", effects=["nested"])
ask("aten::is_complex")
ask("aten::is_signed")
ask("aten::is_contiguous")
ask("aten::is_contiguous.memory_format", "kernel_is_contiguous_format")
ask("aten::is_non_overlapping_and_dense", "kernel_is_dense")
ask("aten::is_same_size")
ask("aten::is_set_to")
ask("aten::is_conj", "kernel_false",
    same=["aten::is_neg", "aten::is_inference", "aten::is_distributed", "aten::is_pinned",
          "prim::is_cuda", "prim::is_ipu", "prim::is_maia", "prim::is_meta", "prim::is_mkldnn",
          "prim::is_mps", "prim::is_mtia", "prim::is_vulkan", "prim::is_xla", "prim::is_xpu"],
    effects=["nested"])
ask("prim::is_cpu", "kernel_true", effects=["nested"])
ask("aten::is_leaf", effects=["nested"])
ask("prim::is_quantized", effects=["nested"])
ask("prim::is_nested", effects=["nested"])
ask("prim::requires_grad", "kernel_requires_grad_of", effects=["nested"])
ask("prim::dtype", "kernel_dtype_of", effects=["nested"])
ask("aten::output_nr", "kernel_zero_int", effects=["nested"])
ask("prim::device", effects=["nested"])
ask("prim::name", "kernel_none")
for name in ("prim::grad", "aten::grad", "aten::backward", "aten::backward.TensorList",
             "aten::retain_grad", "aten::retains_grad"):
    ask(name, "kernel_ask_gradient", effects=["side_effect", "no_grad"])
ask("aten::get_device", "kernel_minus_one")
ask("aten::_version", "kernel_version")
ask("aten::item", same=["aten::_local_scalar_dense"])
ask("aten::is_nonzero")
ask("aten::_assert_async", "kernel_assert_async", effects=["side_effect"])
ask("aten::_assert_async.msg", "kernel_assert_async_msg", effects=["side_effect"])
ask("aten::_assert_scalar", "kernel_assert_scalar", effects=["side_effect"])
ask("aten::_assert_tensor_metadata", "kernel_assert_metadata", effects=["side_effect"])
ask("aten::sym_constrain_range", "kernel_nothing", effects=["side_effect"],
    same=["aten::sym_constrain_range_for_size"])
ask("aten::promote_types")
ask("aten::can_cast")
ask("aten::result_type.Tensor", "kernel_result_type",
    same=[f"aten::result_type.{k}" for k in ("Scalar", "Scalar_Scalar", "Scalar_Tensor")])
ask("aten::isclose", shape="together_bool")
ask("aten::allclose")
ask("aten::equal")

# What other parts ask about these.
known("equal.*", script_autocast="float32")
known("prim::dtype prim::device prim::grad prim::is_cuda prim::is_cpu prim::is_xla "
      "prim::is_xpu prim::is_mkldnn prim::is_mps prim::is_mtia prim::is_quantized "
      "prim::is_vulkan prim::is_ipu prim::is_meta prim::is_maia prim::is_nested "
      "prim::requires_grad prim::itemsize prim::nbytes prim::name is_leaf retains_grad",
      property=True)
known("dim", property="ndim")
known("size", property="shape")
