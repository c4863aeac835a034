"""Operators that make tensors out of sizes and numbers."""


def factory(name, kernel=None, out=None, shape="sized", **more):
    op(f"aten::{name}", family="factory", kernel=kernel or "kernel_" + name.split(".")[0],
       shape=shape, **({"variants": {"out": f"aten::{out}"}} if out else {}), **more)


factory("empty.memory_format", "kernel_empty", "empty.out", effects=["quantized"])
factory("empty_strided", out="empty_strided.out", shape="strided", effects=["quantized"])
factory("empty_permuted", out="empty_permuted.out", shape="permuted", effects=["quantized"])
factory("zeros", out="zeros.out", same=["aten::_efficientzerotensor"])
factory("ones", out="ones.out")
factory("full", out="full.out")
for name in ("empty", "zeros", "ones", "full"):
    factory(f"new_{name}", out=f"new_{name}.out", effects=["no_grad"])
    factory(f"{name}_like", out=f"{name}_like.out", shape="like", effects=["no_grad"])
factory("new_empty_strided", out="new_empty_strided.out", shape="strided", effects=["no_grad"])

factory("arange", out="arange.out", shape="arange")
factory("arange.start", "kernel_arange_start", shape="arange")
factory("arange.start_step", "kernel_arange_step", "arange.start_out", shape="arange")
factory("range", out="range.out_", shape="range")
factory("range.step", "kernel_range_step", "range.out", shape="range")
for name in ("linspace", "logspace"):
    factory(name, out=f"{name}.out", shape="linspace")
    for kind in ("Scalar_Tensor", "Tensor_Scalar", "Tensor_Tensor"):
        factory(f"{name}.{kind}", out=f"{name}.{kind}_out", shape="linspace")

factory("eye", out="eye.out", shape="eye")
factory("eye.m", "kernel_eye_m", "eye.m_out", shape="eye")
for name in ("tril", "triu"):
    factory(f"{name}_indices", out=f"{name}_indices.out", shape=f"{name}_indices")
    op(f"aten::{name}", family="triangle", kernel=f"kernel_{name}", shape="like_rows",
       variants={"inplace": f"aten::{name}_", "out": f"aten::{name}.out"})

factory("scalar_tensor", out="scalar_tensor.out", shape="number_float")
op("prim::NumToTensor.Scalar", family="factory", kernel="kernel_num_to_tensor", shape="number",
   same=["prim::NumToTensor.bool"])
for kind in ("tensor", "as_tensor"):
    factory(f"{kind}.float", "kernel_tensor_number", shape="number",
            same=[f"aten::{kind}.{t}" for t in ("int", "bool", "complex")])
factory("tensor", "kernel_tensor_list", shape="nested_list")
factory("as_tensor.list", "kernel_tensor_list", shape="nested_list")

op("aten::fill.Scalar", family="fill", kernel="kernel_fill", shape="like",
   variants={"out": "aten::fill.Scalar_out"})
op("aten::fill.Tensor", family="fill", kernel="kernel_fill_tensor", shape="like",
   variants={"out": "aten::fill.Tensor_out"})
op("aten::fill_.Scalar", family="fill", kernel="kernel_fill_inplace", shape="itself")
op("aten::fill_.Tensor", family="fill", kernel="kernel_fill_tensor_inplace", shape="itself")
op("aten::zero", family="fill", kernel="kernel_zero", shape="like",
   variants={"out": "aten::zero.out"})
op("aten::zero_", family="fill", kernel="kernel_zero_inplace", shape="itself")
