"""Operators that return the same elements in another shape."""


def view(name, copy=None, copy_out=None, inplace=None, shape=None, kernel=None, **more):
    """Add a view, its _copy form with out=, and its in-place form, which changes the tensor's own
    geometry. The shape rule makes them; by default it has the view's name. A view whose result
    depends on data has a kernel."""
    rule = shape or name.split(".")[0]
    op(f"aten::{name}", family="view", shape=rule, **({"kernel": kernel} if kernel else
                                                      {"results": "rule"}), **more)
    if copy:
        op(f"aten::{copy}", family="copy", results="rule",
           shape="reshape" if rule == "view" else rule,
           **({"variants": {"out": f"aten::{copy_out}"}} if copy_out else {}))
    if inplace:
        op(f"aten::{inplace}", family="view", results="rule", shape=rule, effects=["geometry"])


view("view", copy="view_copy", copy_out="view_copy.out", same=["aten::_unsafe_view"])
view("view_as", shape="view")
view("reshape", effects=["returns_arg"])
view("reshape_as", shape="reshape", effects=["returns_arg"])
view("flatten.using_ints", effects=["returns_arg"])
view("ravel", shape="flatten", effects=["returns_arg"])
view("unflatten.int")
view("_reshape_alias", "_reshape_alias_copy", "_reshape_alias_copy.out", shape="as_strided")
view("as_strided", copy="as_strided_copy", copy_out="as_strided_copy.out", inplace="as_strided_")

view("permute", copy="permute_copy", copy_out="permute_copy.out")
view("transpose.int", "transpose_copy.int", "transpose_copy.int_out", "transpose_")
view("swapaxes", shape="transpose", same=["aten::swapdims"])
op("aten::swapaxes_", family="view", results="rule", shape="transpose", effects=["geometry"],
   same=["aten::swapdims_"])
view("t", copy="t_copy", copy_out="t_copy.out", inplace="t_", shape="transpose_two")
view("numpy_T", shape="transpose_all", same=["aten::numpy_T.a"])
view("mT", shape="transpose_last", same=["aten::mT.a"])
op("aten::matrix_H", family="view", results="rule", kernel="kernel_adjoint", shape="adjoint",
   same=["aten::matrix_H.a", "aten::adjoint"])
view("movedim.intlist", same=["aten::movedim.int", "aten::moveaxis.int", "aten::moveaxis.intlist"])

view("squeeze", copy="squeeze_copy", copy_out="squeeze_copy.out", inplace="squeeze_")
view("squeeze.dim", "squeeze_copy.dim", "squeeze_copy.dim_out", "squeeze_.dim")
view("squeeze.dims", "squeeze_copy.dims", "squeeze_copy.dims_out", "squeeze_.dims")
view("unsqueeze", copy="unsqueeze_copy", copy_out="unsqueeze_copy.out", inplace="unsqueeze_")
view("expand", copy="expand_copy", copy_out="expand_copy.out")
view("expand_as", shape="expand")
for n in "123":
    view(f"atleast_{n}d", effects=["returns_arg"])
    view(f"atleast_{n}d.Sequence", effects=["returns_arg"])

view("select.int", "select_copy.int", "select_copy.int_out")
view("slice.Tensor", "slice_copy.Tensor", "slice_copy.Tensor_out")
view("narrow", copy="narrow_copy", copy_out="narrow_copy.out")
op("aten::narrow.Tensor", family="view", shape="narrow_tensor", body="""
def narrow(self: Tensor, dim: int, start: Tensor, length: int) -> Tensor:
    if start.dim() != 0 or start.is_floating_point() or start.dtype == torch.bool:
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    return torch.narrow(self, dim, int(start), length)
""")
view("diagonal", copy="diagonal_copy", copy_out="diagonal_copy.out")
view("linalg_diagonal", shape="diagonal_last")
view("unfold", copy="unfold_copy", copy_out="unfold_copy.out")

view("alias", copy="alias_copy", copy_out="alias_copy.out")
for n, kernel in (("aten::detach", "detach"), ("aten::detach_", "detach_inplace"), ("prim::data",
                                                                                    "detach")):
    op(n, family="view", kernel=f"kernel_{kernel}", shape="alias", effects=["no_grad"])
op("aten::detach_copy", family="copy", results="rule", shape="alias",
   variants={"out": "aten::detach_copy.out"})
view("resolve_conj", kernel="kernel_self", shape="itself", effects=["returns_arg"],
     same=["aten::resolve_neg", "aten::positive", "aten::lift", "aten::lift_fresh"])
view("real", effects=["returns_arg"])
view("imag")
op("aten::conj", family="view", results="rule", kernel="kernel_conj", shape="conj",
   effects=["returns_arg"], same=["aten::_conj"])
op("aten::_conj_copy", family="copy", results="rule", kernel="kernel_conj", shape="conj",
   variants={"out": "aten::_conj_copy.out"})
view("view_as_real", copy="view_as_real_copy", copy_out="view_as_real_copy.out")
view("view_as_complex", copy="view_as_complex_copy", copy_out="view_as_complex_copy.out")
view("view.dtype", "view_copy.dtype", "view_copy.dtype_out", shape="view_dtype")

view("split.Tensor", "split_copy.Tensor", same=["aten::unsafe_split.Tensor"])
view("split.sizes", shape="split_sizes",
     same=["aten::split", "aten::split_with_sizes", "aten::unsafe_split_with_sizes"])
op("aten::split_with_sizes_copy", family="copy", results="rule", shape="split_sizes")
view("chunk", same=["aten::unsafe_chunk"])
view("tensor_split.sections")
view("tensor_split.indices")
view("tensor_split.tensor_indices_or_sections", kernel="kernel_tensor_split_tensor")
for name in ("hsplit", "vsplit", "dsplit"):
    view(f"{name}.int", same=[f"aten::{name}.array"])
view("unbind.int", "unbind_copy.int")

# What other parts ask about these.
known("moveaxis.*", synonym_of="movedim")
known("swapaxes swapdims", synonym_of="transpose")
known("unsafe_split.Tensor unsafe_split_with_sizes unsafe_chunk", effects=["unsafe_views"])
known("view_as_complex", autocast="float32")
known("prim::data mT real imag", property=True)
known("numpy_T", property="T")
known("matrix_H", property="H")

# What in-place and out= forms demand of what they write to (../README.md).
written("overlap", "alias_copy", "as_strided_copy", "diagonal_copy", "expand_copy",
        "permute_copy", "squeeze_copy", "t_copy", "transpose_copy", "unfold_copy",
        "unsqueeze_copy", "view_copy")
