"""Copies, conversions, and operators that change a tensor itself."""

GEOMETRY = ["no_grad", "geometry"]  # elements stay as they are


def cast(name, kernel, shape="itself", **more):
    op(f"aten::{name}", family="cast", kernel=kernel, shape=shape, **more)


def convert(name, shape, kernel="kernel_convert", **more):
    """The shape rule makes a copy's memory, or returns the argument."""
    cast(name, kernel, shape, results="rule", **more)


for name in ("dtype", "device", "dtype_layout", "prim_Device", "prim_dtype"):
    convert(f"to.{name}", "to", effects=["returns_arg", "nested_rows"])
convert("to.other", "to_other", effects=["returns_arg", "nested_rows"])
convert("to.prim_other", "to_same", effects=["returns_arg", "nested_rows"])
convert("_to_copy", "like", effects=["nested_rows"])
convert("type_as", "to_other", effects=["returns_arg", "nested_rows"])
convert("_autocast_to_reduced_precision", "autocast_lower", effects=["returns_arg"])
convert("_autocast_to_full_precision", "autocast_float", effects=["returns_arg"])
convert("as_tensor", "to", effects=["returns_arg", "nested_rows"])
cast("cpu", "kernel_self", effects=["returns_arg"])
cast("cuda", "kernel_cuda")
convert("clone", "like", effects=["nested_rows"], variants={"out": "aten::clone.out"})
convert("lift_fresh_copy", "like", variants={"out": "aten::lift_fresh_copy.out"})
convert("contiguous", "to_format", effects=["returns_arg"])
convert("copy", "like", "kernel_copy", variants={"out": "aten::copy.out"})
cast("copy_", "kernel_copy_inplace", same=["aten::copy_.Tensor"])
cast("copy_.float", "kernel_copy_number", same=["aten::copy_.int"])
cast("resize_", "kernel_resize", "sized", effects=GEOMETRY)
cast("resize_as_", "kernel_resize_as", "resize_as", effects=GEOMETRY)
cast("set_", "kernel_set", effects=GEOMETRY)
cast("set_.source_Tensor", "kernel_set_tensor", effects=GEOMETRY)
cast("set_.source_Tensor_storage_offset", "kernel_set_view", effects=GEOMETRY)
cast("set_.source_Storage", "kernel_set_storage", effects=GEOMETRY)
cast("set_.source_Storage_storage_offset", "kernel_set_storage_view", effects=GEOMETRY)
cast("requires_grad_", "kernel_requires_grad", effects=GEOMETRY)

# Facts about these operators that other parts read.
known("copy.* copy_.*", effects=["takes_numbers"])
