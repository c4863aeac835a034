"""Operators on numbers alone."""

for name, formula in {"add": "i64_add(a, b)", "sub": "i64_sub(a, b)", "mul": "i64_mul(a, b)"}.items():
    op(f"aten::{name}.int", family="scalar", c=formula)
    sign = {"add": "+", "sub": "-", "mul": "*"}[name]
    op(f"aten::{name}.float", family="scalar", c=f"a {sign} b")
    op(f"aten::{name}.int_float", family="scalar", c=f"(double)a {sign} b")
    op(f"aten::{name}.float_int", family="scalar", c=f"a {sign} (double)b")
