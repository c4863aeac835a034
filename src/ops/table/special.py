"""Rare functions (special.c)."""


def unary(name, formula, /, promote="float", **more):
    got = {"inplace": f"aten::{name}_", "out": f"aten::{name}.out"}
    op(f"aten::{name}", family="pointwise", expr={"float": formula}, promote=promote,
       variants={k: n for k, n in got.items() if registered(n)}, **more)


unary("i0", "i0(self)")
for name in ("i0", "i0e", "i1", "i1e", "erfcx", "ndtri", "log_ndtr"):
    unary(f"special_{name}", f"{name}(self)")
for name, formula in (("bessel_j0", "j0"), ("bessel_j1", "j1"), ("bessel_y0", "y0"), ("bessel_y1",
    "y1"),
                      ("modified_bessel_i0", "i0"), ("modified_bessel_i1", "i1"),
                      ("modified_bessel_k0", "k0"), ("modified_bessel_k1", "k1")):
    unary(f"special_{name}", f"{formula}(self)")
for name, formula in (("scaled_modified_bessel_k0", "k0e"), ("scaled_modified_bessel_k1", "k1e"),
                      ("spherical_bessel_j0", "spherical_j0")):
    unary(f"special_{name}", f"{formula}(x)")

for name, formula in (("igamma", "igamma"), ("igammac", "igammac"), ("special_gammainc", "igamma"),
                      ("special_gammaincc", "igammac")):
    unary(name, f"{formula}(self, other)", promote="arguments", name=f"{formula}_cpu")


def two(name, formula, first, at=None):
    """Add the forms with a tensor and a number in both positions."""
    other = {"self": "other", "x": "n"}[first]
    for kind, out in (("", ".out"), (f".{first}_scalar", f".{first}_scalar_out"),
                      (f".{other}_scalar", f".{other}_scalar_out")):
        op(f"aten::{name}{kind}", family="pointwise",
           expr={"float": f"{formula}({at or first}, {other})"}, promote="float",
           variants={"out": f"aten::{name}{out}"})


two("special_zeta", "zeta", "self")
for name, formula in (("chebyshev_polynomial_t", "chebyshev_t"), ("chebyshev_polynomial_u",
    "chebyshev_u"),
                      ("chebyshev_polynomial_v", "chebyshev_v"), ("chebyshev_polynomial_w",
                          "chebyshev_w"),
                      ("hermite_polynomial_h", "hermite_h"), ("hermite_polynomial_he",
                          "hermite_he"),
                      ("laguerre_polynomial_l", "laguerre"), ("legendre_polynomial_p", "legendre")):
    two(f"special_{name}", formula, "x")
for kind in "tuvw":
    two(f"special_shifted_chebyshev_polynomial_{kind}", f"chebyshev_{kind}", "x", "x + x - 1")
unary("special_airy_ai", "airy_ai(x)")
for name in ("polygamma", "special_polygamma"):
    op(f"aten::{name}", family="pointwise", expr={"float": "polygamma(n, self)"}, promote="float",
       variants={"out": f"aten::{name}.out"})
op("aten::polygamma_", family="special", shape="itself", body="""
def polygamma_(self: Tensor, n: int) -> Tensor:
    return self.copy_(torch.polygamma(n, self))
""")
for name in ("mvlgamma", "special_multigammaln"):
    op(f"aten::{name}", family="special", shape="like_float", variants={"out": f"aten::{name}.out",
        **({"inplace": "aten::mvlgamma_"} if name == "mvlgamma" else {})},
       body=f"""
def {name}(self: Tensor, p: int) -> Tensor:
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    x = self if self.is_floating_point() else self.to(torch.float)
    steps = torch.arange(-p * 0.5 + 0.5, 0.5, 0.5, dtype=x.dtype)
    return torch.lgamma(steps + x.unsqueeze(-1)).sum(-1) + p * (p - 1) * 1.1447298858494002 * 0.25
""")

# Facts about these operators that other parts read.
known("special_i0", synonym_of="i0")
known("special_gammainc", synonym_of="igamma")
known("special_gammaincc", synonym_of="igammac")
known("special_multigammaln", synonym_of="mvlgamma")
known("special_polygamma", synonym_of="polygamma")

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "mvlgamma")
written("overlap", "mvlgamma")
