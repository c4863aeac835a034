"""Lists.  One kernel serves every element type."""

TYPES = ["int", "float", "bool", "str"]

op("aten::len.t", family="list", kernel="kernel_list_len", same=["aten::len.any"])
op("aten::__getitem__.t", family="list", kernel="kernel_list_getitem", same=["aten::select.t"])
op("aten::_set_item.t", family="list", kernel="kernel_list_setitem")
op("aten::append.t", family="list", kernel="kernel_list_append")
op("aten::extend.t", family="list", kernel="kernel_list_extend")
op("aten::insert.t", family="list", kernel="kernel_list_insert")
op("aten::pop.t", family="list", kernel="kernel_list_pop")
op("aten::Delete.t", family="list", kernel="kernel_list_delete")
op("aten::clear.t", family="list", kernel="kernel_list_clear")
op("aten::reverse.t", family="list", kernel="kernel_list_reverse")
op("aten::copy.t", family="list", kernel="kernel_list_copy", same=["aten::list.t"])
op("aten::slice.t", family="list", kernel="kernel_list_slice")
op("aten::add.t", family="list", kernel="kernel_list_add")
op("aten::add_.t", family="list", kernel="kernel_list_add_")
op("aten::mul.left_t", family="list", kernel="kernel_list_mul")
op("aten::mul.right_", family="list", kernel="kernel_list_mul_right")
op("aten::mul_.t", family="list", kernel="kernel_list_mul_")
op("aten::Size", family="list", kernel="kernel_first_argument")

op("aten::remove.int", family="list", kernel="kernel_list_remove",
   same=[f"aten::remove.{t}" for t in TYPES[1:] + ["Tensor"]])
op("aten::count.int", family="list", kernel="kernel_list_count",
   same=[f"aten::count.{t}" for t in TYPES[1:] + ["Tensor"]])
op("aten::index.list_int", family="list", kernel="kernel_list_index",
   same=[f"aten::index.list_{t}" for t in TYPES[1:] + ["Tensor"]])
op("aten::__contains__.int_list", family="list", kernel="kernel_list_contains",
   same=["aten::__contains__.float_list", "aten::__contains__.str_list"])
op("aten::eq.int_list", family="list", kernel="kernel_list_eq",
   same=[f"aten::eq.{t}_list" for t in TYPES[1:] + ["Tensor"]])
op("aten::ne.int_list", family="list", kernel="kernel_list_ne",
   same=[f"aten::ne.{t}_list" for t in TYPES[1:] + ["Tensor"]])

op("aten::sort.int", family="list", kernel="kernel_list_sort",
   same=[f"aten::sort.{t}" for t in TYPES[1:] + ["Tensor", "any"]])
op("aten::sorted.int", family="list", kernel="kernel_list_sorted",
   same=[f"aten::sorted.{t}" for t in TYPES[1:] + ["Tensor", "any"]])
for name in ["min", "max"]:
    op(f"prim::{name}.self_int", family="list", kernel=f"kernel_list_{name}",
       same=[f"prim::{name}.self_float", f"prim::{name}.self_bool"])
    op(f"prim::{name}.int_list", family="list", kernel=f"kernel_list_{name}_pair",
       same=[f"prim::{name}.float_list", f"prim::{name}.bool_list"])
op("aten::sum.int", family="list", kernel="kernel_list_sum",
   same=["aten::sum.float", "aten::sum.bool", "aten::sum.complex"])
op("aten::any.int", family="list", kernel="kernel_list_any",
   same=["aten::any.float", "aten::any.bool", "aten::any.str"])
op("aten::all.int", family="list", kernel="kernel_list_all", same=["aten::all.float",
                                                                   "aten::all.bool"])
op("prim::rangelist", family="list", kernel="kernel_rangelist")

op("aten::_size_if_not_equal", family="list", kernel="kernel_size_if_not_equal")
op("aten::_infer_size", family="list", kernel="kernel_infer_size", same=["aten::broadcast_shapes"])
op("prim::BroadcastSizes", family="list", kernel="kernel_broadcast_sizes")
op("prim::ReductionSizes", family="list", kernel="kernel_reduction_sizes")

# Moving items, whatever they are.
known("len.t len.any __getitem__.t select.t _set_item.t append.t extend.t insert.t pop.t Delete.t "
      "clear.t reverse.t copy.t list.t slice.t add.t add_.t mul.left_t mul.right_ mul_.t Size",
      effects=["moves_items"])
