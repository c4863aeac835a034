"""Copies, conversions, and changes of a tensor itself."""

GEOMETRY = ["no_grad", "geometry"]  # elements stay as they are


def cast(name, kernel, shape="itself", **more):
    op(f"aten::{name}", family="cast", kernel=kernel, shape=shape, **more)


cast("to.dtype", "kernel_to_dtype", "to", effects=["returns_arg"])
cast("to.device", "kernel_to_device", "to", effects=["returns_arg"])
cast("to.dtype_layout", "kernel_to_options", "to", effects=["returns_arg"])
cast("to.other", "kernel_to_other", "to_other", effects=["returns_arg"])
cast("to.prim_Device", "kernel_to_prim_device", "to", effects=["returns_arg"])
cast("to.prim_dtype", "kernel_to_prim_dtype", "to", effects=["returns_arg"])
cast("to.prim_other", "kernel_to_prim_other", "to_same", effects=["returns_arg"])
cast("_to_copy", "kernel_to_copy", "like")
cast("type_as", "kernel_type_as", "to_other", effects=["returns_arg"])
cast("_autocast_to_reduced_precision", "kernel_autocast_lower", "autocast_lower",
     effects=["returns_arg"])
cast("_autocast_to_full_precision", "kernel_autocast_float", "autocast_float",
     effects=["returns_arg"])
cast("as_tensor", "kernel_as_tensor", "to", effects=["returns_arg"])
cast("cpu", "kernel_self", effects=["returns_arg"])
cast("cuda", "kernel_cuda")
cast("clone", "kernel_clone", "like", variants={"out": "aten::clone.out"})
cast("lift_fresh_copy", "kernel_copy_fresh", "like", variants={"out": "aten::lift_fresh_copy.out"})
cast("contiguous", "kernel_contiguous", "to_same", effects=["returns_arg"])
cast("copy", "kernel_copy", "like", variants={"out": "aten::copy.out"})
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

# What other parts ask about these.
known("copy.* copy_.*", effects=["takes_numbers"])
