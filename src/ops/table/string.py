"""Strings. TorchScript's are bytes: letters are those of ASCII, an index counts bytes."""

for name in ["len.str", "__getitem__.str", "slice.str", "add.str", "str", "format", "percentFormat",
             "join",
             "replace", "split.str", "rsplit", "splitlines", "partition", "rpartition", "strip",
             "lstrip",
             "rstrip", "center", "ljust", "rjust", "zfill", "expandtabs", "upper", "lower",
             "swapcase",
             "capitalize", "title", "chr", "ord", "hex", "oct", "bin", "find", "rfind", "rindex",
             "startswith", "endswith", "isidentifier", "istitle", "isspace", "isalpha", "isdigit",
             "isalnum", "isprintable", "isupper", "islower"]:
    op(f"aten::{name}", family="string", kernel="kernel_str_" + name.split(".")[0].strip("_"))
op("aten::isnumeric", family="string", kernel="kernel_str_isdigit", same=["aten::isdecimal"])
op("aten::index.str", family="string", kernel="kernel_str_index")
op("aten::count", family="string", kernel="kernel_str_count")
op("aten::list", family="string", kernel="kernel_str_list")
op("prim::StringIndex", family="string", kernel="kernel_str_getitem")
