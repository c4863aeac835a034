"""Softmax and normalisations (norm.c, batch_norm.c)."""

op("aten::softmax.int", family="norm", shape="softmax", results="rule", kernel="kernel_softmax",
   variants={"out": "aten::softmax.int_out"})
op("aten::log_softmax.int", family="norm", shape="softmax", results="rule",
   kernel="kernel_log_softmax", variants={"out": "aten::log_softmax.int_out"})
op("aten::special_softmax", family="norm", shape="softmax", results="rule", kernel="kernel_softmax")
op("aten::special_log_softmax", family="norm", shape="softmax", results="rule",
   kernel="kernel_log_softmax")
op("aten::_softmax", family="norm", shape="softmax", results="rule", kernel="kernel_softmax",
   variants={"out": "aten::_softmax.out"})
op("aten::_log_softmax", family="norm", shape="softmax", results="rule",
   kernel="kernel_log_softmax", variants={"out": "aten::_log_softmax.out"})
op("aten::_safe_softmax", family="norm", shape="softmax", results="rule",
   kernel="kernel_safe_softmax")

helper("""
def layer_norm_slopes(grad: Tensor, input: Tensor, normalized_shape: List[int],
                      weight: Optional[Tensor], bias: Optional[Tensor], eps: float,
                      needs: List[bool]) -> Tuple[Tensor, Tensor, Tensor]:
    if torch.is_grad_enabled():  # differentiable itself
        v, m = torch.var_mean(input,
                              [d -
                               len(normalized_shape) for d in range(len(normalized_shape))], False,
                               True)
        return torch.native_layer_norm_backward(grad, input, normalized_shape, m,
                                                torch.rsqrt(v + eps), weight, bias, needs)
    _, mean, rstd = torch.native_layer_norm(input, normalized_shape, weight, bias, eps)
    return torch.native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight,
                                            bias, needs)
""")
helper("""
def rms_norm_slopes(grad: Tensor, input: Tensor, normalized_shape: List[int],
                    weight: Optional[Tensor], eps: Optional[float],
                    needs: List[bool]) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    x, g = input, grad
    if input.dtype == torch.half or input.dtype == torch.bfloat16:
        x, g = x.to(torch.float), g.to(torch.float)
    more = (2.220446049250313e-16 if x.dtype == torch.double or x.dtype == torch.complex128 else
            1.1920928955078125e-07)
    if eps is not None:
        more = eps
    dims = [i - len(normalized_shape) for i in range(len(normalized_shape))]
    r = torch.rsqrt((x * x).mean(dims, True) + more)
    if x.is_complex():
        x, r = x.conj(), r.conj()
    x = x * r
    gw: Optional[Tensor] = None
    if needs[1]:
        gw = g * x
    if weight is not None:
        g = g * weight.conj()
    return (g - x * (g * x).mean(dims, True)) * r, gw
""")
helper("""
def batch_norm_slopes(grad: Tensor, input: Tensor, weight: Optional[Tensor],
                      running_mean: Optional[Tensor], running_var: Optional[Tensor],
                      training: bool, eps: float, needs: List[bool]) -> Tuple[Tensor, Tensor,
                            Tensor]:
    if input.numel() == 0:
        none = torch.zeros([input.size(1) if input.dim() > 1 else 0] if weight is None else
                           weight.size(), dtype=input.dtype)
        return grad * 0, none, none
    mean, scale = running_mean, running_var
    if training:
        dims = [0] + [d for d in range(2, input.dim())]
        x = (input.to(torch.float) if input.dtype == torch.half or
             input.dtype == torch.bfloat16 else input)
        v, m = torch.var_mean(x, dims, False)
        mean, scale = m, torch.rsqrt(v + eps)
    return torch.native_batch_norm_backward(grad, input, weight, running_mean, running_var, mean,
                                            scale, training, eps, needs)
""")
helper("""
def instance_norm_slopes(grad: Tensor, input: Tensor, weight: Optional[Tensor],
                         running_mean: Optional[Tensor], running_var: Optional[Tensor],
                         use_input_stats: bool, eps: float, needs: List[bool]) -> Tuple[Tensor,
                               Optional[Tensor], Optional[Tensor]]:
    n, c = input.size(0), input.size(1)
    one = [1, n * c] + input.size()[2:]
    w: Optional[Tensor] = None if weight is None else weight.repeat([n])
    m: Optional[Tensor] = None if running_mean is None else running_mean.repeat([n])
    v: Optional[Tensor] = None if running_var is None else running_var.repeat([n])
    gi, gw, gb = batch_norm_slopes(grad.reshape(one), input.reshape(one), w, m, v, use_input_stats,
                                   eps, needs)
    a: Optional[Tensor] = gw.reshape([n, c]).sum([0]) if needs[1] else None
    b: Optional[Tensor] = gb.reshape([n, c]).sum([0]) if needs[2] else None
    return gi.reshape(input.size()) if needs[0] else gi, a, b
""")
BATCH = {"input, weight, bias": "batch_norm_slopes(grad, input, weight, running_mean, running_var, "
                                "training, eps, needs)"}
NATIVE_BATCH = {k: v.replace("grad,", "grad0,") for k, v in BATCH.items()}
LAYER = {"input, weight, bias": "layer_norm_slopes(grad, input, normalized_shape, weight, bias, "
                                "eps, needs)"}
NATIVE_LAYER = {"input, weight, bias": """
if torch.is_grad_enabled():
    return layer_norm_slopes(grad0, input, normalized_shape, weight, bias, eps, needs)
torch.native_layer_norm_backward(grad0, input, normalized_shape, result1, result2, weight, bias,
                                 needs)
"""}
RMS = {"input, weight": "rms_norm_slopes(grad, input, normalized_shape, weight, eps, needs)"}
op("aten::layer_norm", family="norm", shape="layer_norm", results="rule",
   kernel="kernel_layer_norm", effects=["nested_rows"], grad=LAYER)
op("aten::native_layer_norm", family="norm", shape="native_layer_norm", results="rule",
   kernel="kernel_layer_norm", grad=NATIVE_LAYER, variants={"out": "aten::native_layer_norm.out"})
op("aten::rms_norm", family="norm", shape="rms_norm", results="rule", kernel="kernel_rms_norm",
   grad=RMS, effects=["complex_body"], body="""
def rms_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor],
             eps: Optional[float]) -> Tensor:
    n = len(normalized_shape)
    dims: List[int] = []
    for d in range(n):
        if d - n + input.dim() < 0 or input.size(d - n) != normalized_shape[d]:
            raise RuntimeError("Given normalized_shape=" + str(normalized_shape) +
                               ", expected input with shape [*"
                               + str(normalized_shape) + "], but got input of size"
                               + str(input.size()))
        dims.append(d - n)
    least = 2.220446049250313e-16 if input.dtype == torch.complex128 else 1.1920928955078125e-07
    x = input * torch.rsqrt(torch.mean(input * input, dims, True) + (least if eps is None else eps))
    return x if weight is None else x * weight
""")
op("aten::_fused_rms_norm", family="norm", shape="native_rms_norm", results="rule",
   kernel="kernel_rms_norm", grad={k: v.replace("grad,", "grad0,") for k, v in RMS.items()})
op("aten::group_norm", family="norm", shape="group_norm", results="rule",
   kernel="kernel_group_norm", grad={"input, weight, bias": """
   n, c = input.size(0), input.size(1)
   inner = 1
   for size in input.size()[2:]:
       inner *= size
   _, mean, rstd = torch.native_group_norm(input, weight, bias, n, c, inner, num_groups, eps)
   torch.native_group_norm_backward(grad, input, mean, rstd, weight, n, c, inner, num_groups, needs)
   """})
op("aten::native_group_norm", family="norm", shape="native_group_norm", results="rule",
   kernel="kernel_native_group_norm", grad={
   "input, weight, bias": """
   gi, gw, gb = torch.native_group_norm_backward(grad0, input, result1, result2, weight, N, C, HxW,
       group, needs)
   if needs[0]: # what mean and deviation give back
       x = input.reshape([N, group, C // group * HxW])
       r = result2.unsqueeze(-1)
       more = ((grad1.unsqueeze(-1) - grad2.unsqueeze(-1) * (x - result1.unsqueeze(-1)) * r * r *
                r) / max(1, C // group * HxW))
       gi = gi + more.reshape(input.size()).to(gi.dtype)
   gi, gw, gb
   """},
   variants={"out": "aten::native_group_norm.out"})

op("aten::batch_norm", family="norm", shape="batch_norm", results="rule",
   kernel="kernel_batch_norm", grad=BATCH)
op("aten::native_batch_norm", family="norm", shape="native_batch_norm", results="rule",
   kernel="kernel_batch_norm", grad=NATIVE_BATCH, variants={"out": "aten::native_batch_norm.out"})
op("aten::_native_batch_norm_legit", family="norm", shape="native_batch_norm", results="rule",
   kernel="kernel_batch_norm", grad=NATIVE_BATCH)
op("aten::_native_batch_norm_legit.no_stats", family="norm", shape="native_batch_norm",
   results="rule", kernel="kernel_batch_norm",
   grad={"input, weight, bias": "batch_norm_slopes(grad0, input, weight, None, None, training, "
                                "eps, needs)"})
op("aten::_native_batch_norm_legit_no_training", family="norm", shape="native_batch_norm",
   results="rule", kernel="kernel_batch_norm",
   grad={"input, weight, bias": "batch_norm_slopes(grad0, input, weight, running_mean, "
                                "running_var, False, eps, needs)"})
op("aten::_native_batch_norm_legit_functional", family="norm", shape="batch_norm_functional",
   results="rule", kernel="kernel_batch_norm_functional", grad=NATIVE_BATCH)
op("aten::_batch_norm_impl_index", family="norm", body="""
def batch_norm_impl_index(input: Tensor, weight: Optional[Tensor], bias: Optional[Tensor],
                          running_mean: Optional[Tensor], running_var: Optional[Tensor],
                          training: bool, momentum: float, eps: float,
                          cudnn_enabled: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor, int]:
    y, mean, rstd = torch.native_batch_norm(input, weight, bias, running_mean, running_var,
                                            training, momentum, eps)
    return y, mean, rstd, torch.empty([0], dtype=torch.uint8), 0
""")
op("aten::_batch_norm_with_update", family="norm", shape="batch_norm_update", results="rule",
   kernel="kernel_batch_norm_with_update",
   grad={"input, weight, bias": "batch_norm_slopes(grad0, input, weight, running_mean, "
                                "running_var, True, eps, needs)"})
op("aten::instance_norm", family="norm", shape="instance_norm", results="rule",
   kernel="kernel_instance_norm", grad={
   "input, weight, bias": "instance_norm_slopes(grad, input, weight, running_mean, running_var, "
                          "use_input_stats, eps, needs)"})

# Facts about these operators that other parts read.
known("special_log_softmax", synonym_of="log_softmax")
known("special_softmax", synonym_of="softmax")
known("group_norm.* layer_norm.* log_softmax.int native_layer_norm.*", script_autocast="float32")

# What in-place and out= forms demand of what they write to (../README.md).
written("overlap", "log_softmax", "softmax")
