"""Bernoulli samples, dropout, and units with random slopes (dropout.c)."""

for name, variants in (("bernoulli", {"out": "aten::bernoulli.out"}), ("bernoulli.p",
    {"out": "aten::bernoulli.float_out"}),
                       ("bernoulli.Tensor", {"out": "aten::bernoulli.Tensor_out"}),
                       ("bernoulli_.float", {}), ("bernoulli_.Tensor", {})):
    made = {"shape": "like" if name == "bernoulli.Tensor" else "like_rows", "results": "rule"}
    op(f"aten::{name}", family="random", kernel="kernel_" + name.replace(".", "_"),
       effects=["random"], variants=variants, **({"shape": "itself"} if "_." in name else made))

# Gradients are computed through the bodies, which draw the same numbers as the kernels.
DROPOUT = """
def NAME(input: Tensor, p: float, train: bool) -> Tensor:
    if p == 0.0 or not train or input.numel() == 0:
        return input
    if p == 1.0:
        return input * 0
    noise = EMPTY.bernoulli_(1.0 - p)
    return RESULT
"""
ALPHA = """input * (noise * a) + ((noise - 1) * (1.7580993408473766 * a)
+ 1.7580993408473766 * a * p)"""
for name in "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout":
    body = DROPOUT.replace("NAME", name).replace(
        "EMPTY",
        "torch.empty(input.size()[:2] + [1] * (input.dim() - 2), dtype=input.dtype)"
        if "feature" in name else "torch.empty_like(input)")
    if "alpha" in name:
        body = body.replace("    return RESULT",
                            "    a = 1.0 / math.sqrt((3.090913159228014 * p + 1.0) * (1.0 - p))\n  "
                            "  return " + ALPHA)
    op(f"aten::{name}", family="dropout", shape="dropout", kernel=f"kernel_{name}",
       effects=["random", "returns_arg", "dropout"],
       body=body.replace("RESULT", "input * (noise / (1.0 - p))"))
    op(f"aten::{name}_", family="dropout", kernel=f"kernel_{name}",
       effects=["random", "returns_arg", "dropout"])
op("aten::native_dropout", family="dropout", shape="native_dropout", kernel="kernel_native_dropout",
   effects=["random"], variants={"out": "aten::native_dropout.out"})

op("aten::rrelu", family="dropout", shape="like", kernel="kernel_rrelu", effects=["random"],
   body="""
def rrelu(self: Tensor, lower: number, upper: number, training: bool,
          generator: Optional[Generator]) -> Tensor:
    return torch.rrelu_with_noise_functional(self, torch.zeros_like(self), lower, upper, training,
                                             generator)[0]
""")
op("aten::rrelu_", family="dropout", kernel="kernel_rrelu", effects=["random"])
op("aten::rrelu_with_noise", family="dropout", shape="like", kernel="kernel_rrelu_with_noise",
   effects=["random"],
   same=["aten::rrelu_with_noise_"], variants={"out": "aten::rrelu_with_noise.out"})
op("aten::rrelu_with_noise_functional", family="dropout",
   kernel="kernel_rrelu_with_noise_functional", effects=["random"])
op("aten::glu", family="dropout", shape="glu", results="rule", kernel="kernel_glu",
   variants={"out": "aten::glu.out"})

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "bernoulli")
