"""Operators that choose elements by index or mask."""


def index(name, kernel, inplace=None, out=None, same=(), shape="like", inplace_shape=None,
          results="rule"):
    """Add an operator whose result is self, which the call writes to, or new: one kernel and one
    rule for both."""
    more = {"results": results} if results else {}
    op(f"aten::{name}", family="index", kernel=kernel, shape=shape,
       same=[f"aten::{n}" for n in same], **more,
       **({"variants": {"out": f"aten::{out}"}} if out else {}))
    for n in [inplace] if isinstance(inplace, str) else inplace or []:
        op(f"aten::{n}", family="index", kernel=kernel, shape=inplace_shape or shape, **more)


# Masks among the indices: the size depends on data.
index("index.Tensor", "kernel_index", out="index.Tensor_out", shape="index", results=None,
      same=["index.Tensor_hacked_twin", "_unsafe_index.Tensor", "_unsafe_index.Tensor_hacked_twin"])
index("index_put", "kernel_index_put", ["index_put_", "index_put_.hacked_twin"], "index_put.out",
      same=["index_put.hacked_twin", "_unsafe_index_put", "_unsafe_index_put.hacked_twin"],
      inplace_shape="itself")
index("_index_put_impl", "kernel_index_put", ["_index_put_impl_", "_index_put_impl_.hacked_twin"],
      "_index_put_impl.out",
      inplace_shape="itself")

index("index_select", "kernel_index_select", out="index_select.out", shape="index_select")
index("index_add", "kernel_index_add", "index_add_", "index_add.out", shape="index_add")
index("index_copy", "kernel_index_copy", "index_copy_", "index_copy.out", shape="index_copy")
index("index_fill.int_Scalar", "kernel_index_fill", "index_fill_.int_Scalar",
      "index_fill.int_Scalar_out", shape="index_fill")
index("index_fill.int_Tensor", "kernel_index_fill", "index_fill_.int_Tensor",
      "index_fill.int_Tensor_out", shape="index_fill")
index("index_reduce", "kernel_index_reduce", "index_reduce_", "index_reduce.out",
      shape="index_reduce")
index("take", "kernel_take", out="take.out", shape="take")
index("put", "kernel_put", "put_", "put.out", shape="put")

index("gather", "kernel_gather", out="gather.out", shape="gather")
index("take_along_dim", "kernel_take_along_dim", out="take_along_dim.out", shape="take_along_dim")
index("scatter.src", "kernel_scatter", "scatter_.src", "scatter.src_out", shape="scatter")
index("scatter.value", "kernel_scatter", "scatter_.value", "scatter.value_out", shape="scatter")
index("scatter.reduce", "kernel_scatter_old_reduce", "scatter_.reduce", "scatter.reduce_out",
      shape="scatter_old_reduce")
index("scatter.value_reduce", "kernel_scatter_old_reduce", "scatter_.value_reduce",
      "scatter.value_reduce_out", shape="scatter_old_reduce")
index("scatter_add", "kernel_scatter_add", "scatter_add_", "scatter_add.out", shape="scatter")
index("scatter_reduce.two", "kernel_scatter_reduce", "scatter_reduce_.two",
      "scatter_reduce.two_out", shape="scatter_reduce")

op("aten::nonzero", family="index", kernel="kernel_nonzero", shape="nonzero",
   same=["aten::argwhere"], effects=["data_size"], variants={"out": "aten::nonzero.out"})
op("aten::nonzero_static", family="index", results="rule", kernel="kernel_nonzero_static",
   shape="nonzero_static", variants={"out": "aten::nonzero_static.out"})
op("aten::nonzero_numpy", family="index", kernel="kernel_nonzero_numpy", shape="nonzero_list",
   same=["aten::where"], effects=["data_size"])
op("aten::masked_select", family="index", kernel="kernel_masked_select", shape="masked_select",
   effects=["data_size"], variants={"out": "aten::masked_select.out"})
index("masked_scatter", "kernel_masked_scatter", "masked_scatter_", "masked_scatter.out",
      shape="masked_scatter")

for name in ("slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"):
    index(name, "kernel_view_scatter", out=f"{name}.out", results=None)  # may keep self's gaps
index("combinations", "kernel_combinations", shape="combinations")

# What other parts ask about these.
known("index_put.*", script_autocast="float32")

# What in-place and out= forms demand of what they write to (../README.md).
written("apart", "gather", "index_select", "masked_select", "take", "take_along_dim")
written("overlap", "slice_scatter")
