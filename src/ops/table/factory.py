"""Operators that make tensors from sizes and numbers."""


def filled(name, kernel, out=None, shape="sized", family="factory", **more):
    """Add an operator whose result the shape rule describes and `kernel` fills; None: it is not
    filled."""
    op(f"aten::{name}", family=family, results="rule", shape=shape,
       **({"kernel": kernel} if kernel else {}),
       **({"variants": {"out": f"aten::{out}"}} if out else {}), **more)


filled("empty.memory_format", None, "empty.out", effects=["quantized"])
filled("empty_strided", None, "empty_strided.out", "strided", effects=["quantized"])
filled("empty_permuted", None, "empty_permuted.out", "permuted", effects=["quantized"])
filled("zeros", "kernel_zeros", "zeros.out", same=["aten::_efficientzerotensor"])
filled("ones", "kernel_ones", "ones.out")
filled("full", "kernel_full", "full.out")
for name in ("empty", "zeros", "ones", "full"):
    kernel = None if name == "empty" else f"kernel_{name}"
    filled(f"new_{name}", kernel, f"new_{name}.out", effects=["no_grad"])
    filled(f"{name}_like", kernel, f"{name}_like.out", "like", effects=["no_grad"])
filled("new_empty_strided", None, "new_empty_strided.out", "strided", effects=["no_grad"])

filled("arange", "kernel_arange", "arange.out", "arange")
filled("arange.start", "kernel_arange_start", shape="arange")
filled("arange.start_step", "kernel_arange_step", "arange.start_out", "arange")
filled("range", "kernel_range", "range.out_", "range")
filled("range.step", "kernel_range_step", "range.out", "range")
for name in ("linspace", "logspace"):
    filled(name, f"kernel_{name}", f"{name}.out", "linspace")
    for kind in ("Scalar_Tensor", "Tensor_Scalar", "Tensor_Tensor"):
        filled(f"{name}.{kind}", f"kernel_{name}", f"{name}.{kind}_out", "linspace")

filled("eye", "kernel_eye", "eye.out", "eye")
filled("eye.m", "kernel_eye", "eye.m_out", "eye")
for name in ("tril", "triu"):
    filled(f"{name}_indices", f"kernel_{name}_indices", f"{name}_indices.out", f"{name}_indices")
    op(f"aten::{name}", family="triangle", kernel=f"kernel_{name}", shape="matrix_like",
       results="rule", reuse=["self"],
       variants={"inplace": f"aten::{name}_", "out": f"aten::{name}.out"})

filled("scalar_tensor", "kernel_scalar_tensor", "scalar_tensor.out", "number_float")
op("prim::NumToTensor.Scalar", family="factory", kernel="kernel_num_to_tensor",
   shape="number_wide", results="rule", same=["prim::NumToTensor.bool"])
for kind in ("tensor", "as_tensor"):
    filled(f"{kind}.float", "kernel_tensor_number", shape="number",
           same=[f"aten::{kind}.{t}" for t in ("int", "bool", "complex")])
filled("tensor", "kernel_tensor_list", shape="nested_list")
filled("as_tensor.list", "kernel_tensor_list", shape="nested_list")

filled("fill.Scalar", "kernel_full", "fill.Scalar_out", "like", "fill")
filled("fill.Tensor", "kernel_fill_tensor", "fill.Tensor_out", "like", "fill")
filled("zero", "kernel_zeros", "zero.out", "like", "fill")
op("aten::fill_.Scalar", family="fill", kernel="kernel_fill_inplace", shape="itself")
op("aten::fill_.Tensor", family="fill", kernel="kernel_fill_tensor_inplace", shape="itself")
op("aten::zero_", family="fill", kernel="kernel_zero_inplace", shape="itself")

# What in-place and out= forms demand of what they write to (../README.md).
written("overlap", "tril", "triu")
