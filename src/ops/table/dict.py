"""Dicts.  One kernel serves every key type."""

KEYS = ["int", "bool", "float", "complex", "Tensor"]  # and str, which names each entry


def dicts(name, pattern, kernel):
    op(f"aten::{name}." + pattern.format("str"), family="dict", kernel=kernel,
       effects=["moves_items"], same=[f"aten::{name}." + pattern.format(k) for k in KEYS])


dicts("len", "Dict_{}", "kernel_dict_len")
dicts("keys", "{}", "kernel_dict_keys")
dicts("values", "{}", "kernel_dict_values")
dicts("items", "{}", "kernel_dict_items")
dicts("__getitem__", "Dict_{}", "kernel_dict_getitem")
dicts("get", "{}", "kernel_dict_get")
dicts("get", "default_{}", "kernel_dict_get_default")
dicts("setdefault", "{}", "kernel_dict_setdefault")
dicts("_set_item", "{}", "kernel_dict_setitem")
dicts("pop", "Dict_{}", "kernel_dict_pop")
dicts("pop", "Dict_default_{}", "kernel_dict_pop_default")
dicts("popitem", "{}", "kernel_dict_popitem")
dicts("Delete", "Dict_{}", "kernel_dict_delete")
dicts("clear", "{}", "kernel_dict_clear")
dicts("update", "{}", "kernel_dict_update")
dicts("copy", "Dict_{}", "kernel_dict_copy")
dicts("__contains__", "{}", "kernel_dict_contains")
dicts("dict", "Dict_{}", "kernel_dict_copy")
dicts("dict", "{}", "kernel_dict_of_pairs")
op("aten::dict", family="dict", kernel="kernel_dict_empty")
