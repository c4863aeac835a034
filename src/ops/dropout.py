"""Bernoulli samples, dropout, and units with random slopes (dropout.c)."""

for name, variants in (("bernoulli", {"out": "aten::bernoulli.out"}), ("bernoulli.p", {"out": "aten::bernoulli.float_out"}),
                       ("bernoulli.Tensor", {"out": "aten::bernoulli.Tensor_out"}), ("bernoulli_.float", {}),
                       ("bernoulli_.Tensor", {})):
    op(f"aten::{name}", family="random", kernel="kernel_" + name.replace(".", "_"), effects=["random"], variants=variants)

for name in "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout":
    op(f"aten::{name}", family="dropout", kernel=f"kernel_{name}", effects=["random", "returns_arg"],
       same=[f"aten::{name}_"])
op("aten::native_dropout", family="dropout", kernel="kernel_native_dropout", effects=["random"],
   variants={"out": "aten::native_dropout.out"})

op("aten::rrelu", family="dropout", kernel="kernel_rrelu", effects=["random"], same=["aten::rrelu_"])
op("aten::rrelu_with_noise", family="dropout", kernel="kernel_rrelu_with_noise", effects=["random"],
   same=["aten::rrelu_with_noise_"], variants={"out": "aten::rrelu_with_noise.out"})
op("aten::rrelu_with_noise_functional", family="dropout", kernel="kernel_rrelu_with_noise_functional",
   effects=["random"])
op("aten::glu", family="dropout", kernel="kernel_glu", variants={"out": "aten::glu.out"})
