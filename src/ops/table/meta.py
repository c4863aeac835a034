"""Queries of tensors."""


def query(name, kernel=None, **more):
    op(name, family="meta", kernel=kernel or "kernel_" + name.partition("::")[2].split(".")[0],
       **more)


query("aten::dim", effects=["nested"])
query("aten::numel", same=["aten::sym_numel"], effects=["nested"])
query("aten::size", same=["aten::sym_size"])
query("aten::size.int", "kernel_size_int", same=["aten::sym_size.int"], effects=["nested"])
query("aten::stride", same=["aten::sym_stride"])
query("aten::stride.int", "kernel_stride_int", same=["aten::sym_stride.int"])
query("aten::storage_offset", same=["aten::sym_storage_offset"])
query("aten::len.Tensor", "kernel_len")
query("aten::element_size", same=["prim::itemsize"])
query("prim::nbytes")
query("aten::is_floating_point", effects=["nested"])
query("aten::is_complex")
query("aten::is_signed")
query("aten::is_contiguous")
query("aten::is_contiguous.memory_format", "kernel_is_contiguous_format")
query("aten::is_non_overlapping_and_dense", "kernel_is_dense")
query("aten::is_same_size")
query("aten::is_set_to")
query("aten::is_conj", "kernel_false",
    same=["aten::is_neg", "aten::is_inference", "aten::is_distributed", "aten::is_pinned",
          "prim::is_cuda", "prim::is_ipu", "prim::is_maia", "prim::is_meta", "prim::is_mkldnn",
          "prim::is_mps", "prim::is_mtia", "prim::is_vulkan", "prim::is_xla", "prim::is_xpu"],
    effects=["nested"])
query("prim::is_cpu", "kernel_true", effects=["nested"])
query("aten::is_leaf", effects=["nested"])
query("prim::is_quantized", effects=["nested"])
query("prim::is_nested", effects=["nested"])
query("prim::requires_grad", "kernel_requires_grad_of", effects=["nested"])
query("prim::dtype", "kernel_dtype_of", effects=["nested"])
query("aten::output_nr", "kernel_zero_int", effects=["nested"])
query("prim::device", effects=["nested"])
query("prim::name", "kernel_none")
for name in ("prim::grad", "aten::grad", "aten::backward", "aten::backward.TensorList",
             "aten::retain_grad", "aten::retains_grad"):
    query(name, "kernel_gradient_op", effects=["side_effect", "no_grad"],
          no_rule="gradients have the sizes of leaves, which are not among the arguments")
query("aten::get_device", "kernel_minus_one")
query("aten::_version", "kernel_version")
query("aten::item", same=["aten::_local_scalar_dense"])
query("aten::is_nonzero")
query("aten::_assert_async", "kernel_assert_async", effects=["side_effect"])
query("aten::_assert_async.msg", "kernel_assert_async_msg", effects=["side_effect"])
query("aten::_assert_scalar", "kernel_assert_scalar", effects=["side_effect"])
query("aten::_assert_tensor_metadata", "kernel_assert_metadata", effects=["side_effect"])
query("aten::sym_constrain_range", "kernel_nothing", effects=["side_effect"],
    same=["aten::sym_constrain_range_for_size"])
query("aten::promote_types")
query("aten::can_cast")
query("aten::result_type.Tensor", "kernel_result_type",
    same=[f"aten::result_type.{k}" for k in ("Scalar", "Scalar_Scalar", "Scalar_Tensor")])
query("aten::isclose", shape="together_bool", results="rule")
op("aten::allclose", family="meta", effects=["no_grad"], body="""
def allclose(self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> bool:
    return bool(torch.isclose(self, other, rtol, atol, equal_nan).all())
""")
query("aten::equal")

# What other parts ask about these.
known("equal.*", script_autocast="float32")
known("prim::dtype prim::device prim::grad prim::is_cuda prim::is_cpu prim::is_xla "
      "prim::is_xpu prim::is_mkldnn prim::is_mps prim::is_mtia prim::is_quantized "
      "prim::is_vulkan prim::is_ipu prim::is_meta prim::is_maia prim::is_nested "
      "prim::requires_grad prim::itemsize prim::nbytes prim::name is_leaf retains_grad",
      property=True)
known("dim", property="ndim")
known("size", property="shape")
