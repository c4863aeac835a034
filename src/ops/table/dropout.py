"""Bernoulli samples, dropout, and units with random slopes (dropout.c)."""

for name, variants in (("bernoulli", {"out": "aten::bernoulli.out"}), ("bernoulli.p",
    {"out": "aten::bernoulli.float_out"}),
                       ("bernoulli.Tensor", {"out": "aten::bernoulli.Tensor_out"}),
                       ("bernoulli_.float", {}), ("bernoulli_.Tensor", {})):
    made = {"shape": "like" if name == "bernoulli.Tensor" else "like_rows", "results": "rule"}
    op(f"aten::{name}", family="random", kernel="kernel_" + name.replace(".", "_"),
       effects=["random"], variants=variants, **({"shape": "itself"} if "_." in name else made))

# The kernel returns the input itself where nothing is dropped; the bodies draw and multiply, and
# gradients are computed through them.
DROPOUT = """
def NAME(input: Tensor, p: float, train: bool) -> Tensor:
    if p == 0.0 or not train or input.numel() == 0:
        return input
    if p == 1.0:
        return input * 0
    noise = EMPTY.bernoulli_(1.0 - p)
    return RESULT
"""
# Alpha dropout keeps mean and variance of SELU's outputs: dropped units go to its lower limit.
ALPHA = """
    alpha = 1.7580993408473766
    a = 1.0 / math.sqrt((alpha * alpha * p + 1.0) * (1.0 - p))
    shift = (noise - 1).mul_(alpha * a).add_(alpha * a * p)
    return input * noise.mul_(a) + shift"""
# One sample per element, or per batch entry and channel.
EACH = "torch.empty_like(input)"
FEATURES = """torch.empty(input.size()[:2] + [1] * (input.dim() - 2), dtype=input.dtype)"""
NEEDS_FEATURES = """if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    noise = """
for name in "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout":
    body = DROPOUT.replace("NAME", name)
    if "feature" in name:
        body = body.replace("noise = EMPTY", NEEDS_FEATURES + FEATURES)
    body = body.replace("EMPTY", EACH)
    if "alpha" in name:
        body = body.replace("\n    return RESULT", ALPHA)
    op(f"aten::{name}", family="dropout", shape="dropout", kernel="kernel_dropout",
       effects=["random", "returns_arg", "dropout"],
       body=body.replace("RESULT", "input * noise.div_(1.0 - p)"))
    op(f"aten::{name}_", family="dropout", effects=["random", "returns_arg", "dropout"], body=f"""
def {name}_(self: Tensor, p: float, train: bool) -> Tensor:
    made = torch.{name}(self, p, train)
    return self if made is self else self.copy_(made)
""")
op("aten::native_dropout", family="dropout", shape="native_dropout", effects=["random"], body="""
def native_dropout(input: Tensor, p: float, train: Optional[bool]) -> Tuple[Tensor, Tensor]:
    if input.numel() == 0:
        return input, torch.empty_like(input)
    if train is None or train:
        mask = torch.empty_like(input, dtype=torch.bool).bernoulli_(1.0 - p)
        return (input * mask).mul_(0.0 if p == 1.0 else 1.0 / (1.0 - p)), mask
    return input.clone(), torch.ones_like(input, dtype=torch.bool)
""", variants={"out": "aten::native_dropout.out"})

op("aten::rrelu", family="dropout", shape="like", effects=["random"], body="""
def rrelu(self: Tensor, lower: number, upper: number, training: bool,
          generator: Optional[Generator]) -> Tensor:
    if not float(lower) <= float(upper):
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    return torch.rrelu_with_noise_functional(self, torch.empty_like(self), lower, upper, training,
                                             generator)[0]
""")
op("aten::rrelu_", family="dropout", effects=["random"], body="""
def rrelu_(self: Tensor, lower: number, upper: number, training: bool,
           generator: Optional[Generator]) -> Tensor:
    return self.copy_(torch.rrelu(self, lower, upper, training, generator))
""")
op("aten::rrelu_with_noise", family="dropout", shape="rrelu", results="rule",
   kernel="kernel_rrelu_with_noise", effects=["random"],
   same=["aten::rrelu_with_noise_"], variants={"out": "aten::rrelu_with_noise.out"})
op("aten::rrelu_with_noise_functional", family="dropout", shape="rrelu_functional",
   results="rule", kernel="kernel_rrelu_with_noise", effects=["random"])
op("aten::glu", family="dropout", shape="glu", results="rule", kernel="kernel_glu",
   variants={"out": "aten::glu.out"})

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "bernoulli")
