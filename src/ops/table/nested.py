"""Nested tensors (nested.c): the operators that the fast path of transformer encoders needs."""

op("aten::_nested_tensor_from_mask", family="nested", kernel="kernel__nested_tensor_from_mask")
op("aten::_nested_tensor_from_mask_left_aligned", family="nested",
   kernel="kernel__nested_tensor_from_mask_left_aligned")
op("aten::_nested_tensor_from_tensor_list", family="nested",
   kernel="kernel__nested_tensor_from_tensor_list")
op("aten::_nested_from_padded", family="nested", kernel="kernel__nested_from_padded")
op("aten::to_padded_tensor", family="nested", kernel="kernel_to_padded_tensor", effects=["nested"])
op("aten::nested_to_padded_tensor", family="nested", kernel="kernel_to_padded_tensor",
   effects=["nested"])
op("aten::_nested_tensor_size", family="nested", kernel="kernel__nested_tensor_size",
   effects=["nested"])
