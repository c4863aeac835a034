"""Operators that put tensors together, repeat, turn or pad them."""


def join(name, kernel=None, out=None, **more):
    op(f"aten::{name}", family="join", kernel=kernel or "kernel_" + name.split(".")[0],
       **({"variants": {"out": f"aten::{out}"}} if out else {}), **more)


for name in ("cat", "concat", "concatenate"):
    join(name, "kernel_cat", f"{name}.out")
for name in ("stack", "hstack", "vstack", "dstack", "column_stack", "block_diag"):
    join(name, out=f"{name}.out")
join("row_stack", "kernel_vstack", "row_stack.out")
op("aten::broadcast_tensors", family="view", kernel="kernel_broadcast_tensors")
op("aten::broadcast_to", family="view", kernel="kernel_expand")
op("aten::meshgrid", family="view", kernel="kernel_meshgrid", same=["aten::meshgrid.indexing"])
join("cartesian_prod", effects=["returns_arg"])
join("repeat", out="repeat.out")
join("tile")
join("flip", out="flip.out")
join("fliplr")
join("flipud")
join("rot90", out="rot90.out")
join("roll", out="roll.out")
join("diag", out="diag.out")
join("diag_embed", out="diag_embed.out")
join("diagflat")

join("pad")
join("_pad_enum", "kernel_pad_enum")
join("_pad_circular", "kernel_pad_circular")
join("constant_pad_nd", out="constant_pad_nd.out")
for kind in ("reflection", "replication"):
    for n in "123":
        join(f"{kind}_pad{n}d", f"kernel_{kind}_pad", f"{kind}_pad{n}d.out")
