"""Steps of optimizers over lists of parameters (optim.c)."""

ADAM = ("grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps",
        "lr: float, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, "
        "maximize: bool")
FUSED = {  # lists of tensors, and numbers
    "sgd": ("grads momentum_buffer_list",
            "weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool, "
            "maximize: bool, is_first_step: bool"),
    "adam": ADAM,
    "adamw": ADAM,
    "adagrad": ("grads state_sums state_steps",
                "lr: float, lr_decay: float, weight_decay: float, eps: float, maximize: bool"),
}
# How many of the lists the functional form returns.
RETURNED = {"sgd": 3, "adam": 5, "adamw": 5, "adagrad": 4, "adagrad.tensor_lr": 3}

for name, (lists, numbers) in FUSED.items():
    op(f"aten::_fused_{name}_", family="optim", kernel="kernel_fused_" + name.removesuffix("w"),
       same=[f"aten::_fused_{name}_.tensor_lr"], effects=["no_grad"])
    for full in name, f"{name}.tensor_lr":
        names = ["self", *lists.split()]
        options = (numbers if full == name else numbers.replace("lr: float", "lr: Tensor")) + \
            ", grad_scale: Optional[Tensor], found_inf: Optional[Tensor]"
        params = ", ".join([*(f"{a}: List[Tensor]" for a in names), options])
        given = [o.partition(":")[0] for o in options.split(", ")]
        returned = names[:RETURNED.get(full, RETURNED[name])]
        copies = "\n".join(f"    {a} = [torch.clone(t) for t in {a}]" for a in returned)
        op(f"aten::_fused_{full}", family="optim", effects=["no_grad"], body=f"""
def _fused_{name}({params}) -> Tuple[{", ".join(["List[Tensor]"] * len(returned))}]:
{copies}
    torch._fused_{name}_({", ".join([*names, *(f"{g}={g}" for g in given)])})
    return {", ".join(returned)}
""")

# PyTorch has no such step for RMSprop.
SCHEMA = (
    "rushlight::_fused_rmsprop_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] square_avgs, "
    "Tensor(c!)[] momentum_buffers, Tensor(d!)[] grad_avgs, *, float lr, float alpha, float eps, "
    "float weight_decay, float momentum, bool centered, bool maximize) -> ()"
)
op("rushlight::_fused_rmsprop_", family="optim", kernel="kernel_fused_rmsprop",
   effects=["no_grad"], schema=SCHEMA)
