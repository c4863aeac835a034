"""Operators that draw random numbers (random_ops.c)."""


def draw(name, kernel, shape=None, **variants):
    """Add an operator that draws a tensor of the given sizes, or of self's."""
    shape = shape or ("itself" if name.split(".")[0].endswith("_") else "like")
    op(f"aten::{name}", family="random", results="rule", shape=shape, kernel=f"kernel_{kernel}",
       effects=["random"],       variants={k: f"aten::{v}" for k, v in variants.items()})


for name in ("rand", "randn", "rand_like", "randn_like", "randperm", "randint", "randint_like"):
    rule = {"randperm": "randperm", "randint": "sized_int"}.get(
        name, "like" if name.endswith("_like") else "sized")
    kernel = name if name.startswith("randint") else name.removesuffix("_like")
    draw(name, kernel, rule, out=f"{name}.out")
    draw(f"{name}.generator", kernel, rule, out=f"{name}.generator_out")
draw("randint.low", "randint_low", "sized_int", out="randint.low_out")
draw("randint.low_generator", "randint_low", "sized_int", out="randint.low_generator_out")
draw("randint_like.Tensor", "randint_like", out="randint_like.Tensor_out")
draw("randint_like.Tensor_generator", "randint_like", out="randint_like.Tensor_generator_out")
draw("randint_like.low_dtype", "randint_like_low", out="randint_like.low_dtype_out")
draw("randint_like.low_generator_dtype", "randint_like_low",
     out="randint_like.low_generator_dtype_out")

for name in ("uniform", "log_normal", "cauchy", "exponential", "geometric", "random"):
    draw(name, name, out=f"{name}.out")
    draw(f"{name}_", f"{name}")
for kind in ("from", "to"):
    draw(f"random.{kind}", f"random_{kind}", out=f"random.{kind}_out")
    draw(f"random_.{kind}", f"random_{kind}")

draw("normal_functional", "normal", out="normal.out")
draw("normal_", "normal")
for kind in ("Tensor_float", "float_Tensor", "Tensor_Tensor"):
    draw(f"normal.{kind}", "normal_tensors", "together_rows", out=f"normal.{kind}_out")
draw("normal.float_float", "normal_numbers", "sized", out="normal.float_float_out")

for name in ("poisson", "binomial", "_standard_gamma", "_sample_dirichlet", "multinomial"):
    draw(name, name, {"binomial": "together_rows", "multinomial": "multinomial"}.get(name,
        "like_rows"),
            out=f"{name}.out")

# In TorchScript torch.nn.init's functions are operators.
draw("_no_grad_uniform_", "uniform")
draw("_no_grad_normal_", "normal")

op("aten::manual_seed", family="random", kernel="kernel_manual_seed", effects=["random",
    "side_effect"])
op("aten::manual_seed.generator", family="random", kernel="kernel_manual_seed_generator",
   effects=["random", "side_effect"])
op("aten::initial_seed", family="random", kernel="kernel_initial_seed", effects=["side_effect"])
op("aten::seed", family="random", kernel="kernel_seed", effects=["random", "side_effect"])
op("aten::Generator", family="random", kernel="kernel_Generator", effects=["side_effect"])
# torch.nn.init's functions: the write is not recorded.
op("aten::_no_grad_zero_", family="random", body="""
def _no_grad_zero_(tensor: Tensor) -> Tensor:
    tensor.detach().zero_()
    return tensor
""")
op("aten::_no_grad_fill_", family="random", body="""
def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    tensor.detach().fill_(val)
    return tensor
""")

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "normal")
