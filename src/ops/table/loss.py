"""Losses: compositions, and those that loss.c computes."""


def loss(signature, lines, out=False):
    """Add a loss in TorchScript: `lines` assign the unreduced loss to `x`; reduction is an argument
    (0 none, 1 mean, 2 sum)."""
    name = signature[:signature.index("(")]
    text = f"\ndef {signature} -> Tensor:\n"
    text += "".join(f"    {line}\n" for line in lines.strip("\n").split("\n"))
    text += """    if reduction == 1:
        return x.mean()
    if reduction == 2:
        return x.sum()
    return x
"""
    op(f"aten::{name}", family="loss", shape="loss", body=text,
       **({"variants": {"out": f"aten::{name}.out"}} if out else {}))


PAIR = "self: Tensor, target: Tensor"
# Numbers are added or multiplied in the opmath type: 16-bit floats are computed in float32 and
# rounded at the end.

loss(f"mse_loss({PAIR}, reduction: int)", """
if not torch.is_floating_point(self) and not torch.is_floating_point(target):
    raise NotImplementedError("\\"mse_cpu\\" not implemented for integers")
d = self - target
x = d * d
""", out=True)
loss(f"l1_loss({PAIR}, reduction: int)", "x = (self - target).abs()")
loss(f"smooth_l1_loss({PAIR}, reduction: int, beta: float)", """
if beta < 0:
    raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
x = (self - target).abs()
if beta > 0:
    x = torch.where(x < beta, x * 0.5 * x / beta, x - 0.5 * beta)
""", out=True)
loss(f"huber_loss({PAIR}, reduction: int, delta: float)", """
if delta <= 0:
    raise RuntimeError("huber_loss does not support non-positive values for delta.")
z = (self - target).abs()
x = torch.where(z <= delta, z * 0.5 * z, (z - 0.5 * delta) * delta)
""", out=True)
loss(f"binary_cross_entropy({PAIR}, weight: Optional[Tensor], reduction: int)", """
if not bool(torch.all(torch.logical_and(self >= 0, self <= 1))):
    raise RuntimeError("all elements of input should be between 0 and 1")
if not bool(torch.all(torch.logical_and(target >= 0, target <= 1))):
    raise RuntimeError("all elements of target should be between 0 and 1")
if self.dtype != target.dtype:
    raise RuntimeError("Found dtype different in input and target of binary_cross_entropy")
x = ((target - 1) * torch.clamp_min(torch.log1p(-self), -100) - target *
     torch.clamp_min(torch.log(self), -100))
if weight is not None:
    x = x * weight
""", out=True)
loss(f"binary_cross_entropy_with_logits({PAIR}, weight: Optional[Tensor], pos_weight: "
     f"Optional[Tensor], reduction: int)", """
s = torch.log_sigmoid(self)
if pos_weight is not None:
    s = s * ((pos_weight - 1) * target + 1)
x = (1 - target) * self - s
if weight is not None:
    x = x * weight
""", out=True)
loss(f"kl_div({PAIR}, reduction: int, log_target: bool)", """
if torch.is_complex(self):
    raise RuntimeError("kl_div: Complex inputs not supported.")
if torch.is_complex(target):
    raise RuntimeError("kl_div: Complex inputs not supported.")
if log_target:
    x = torch.exp(target) * (target - self)
else:
    x = torch.xlogy(target, target) - target * self
""")
loss("margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float, "
     "reduction: int)", """
if input1.dim() != input2.dim() or input1.dim() != target.dim():
    raise RuntimeError("margin_ranking_loss : All input tensors should have same dimension "
                       "but got sizes: input1: " + str(input1.size()) + ", input2: "
                       + str(input2.size()) + ", target: " + str(target.size()) + " ")
x = torch.clamp_min(-target * (input1 - input2) + margin, 0)
""")
loss(f"hinge_embedding_loss({PAIR}, margin: float, reduction: int)", """
zero = torch.zeros_like(self)
x = (torch.where(target != 1, torch.clamp_min(margin - self, 0), zero) +
     torch.where(target != -1, self, zero))
""")
loss("cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float, "
     "reduction: int)", """
d = target.dim()
if d > 1:
    raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
if d == 1 and (input1.dim() != 2 or input2.dim() != 2):
    raise RuntimeError("1D target tensor expects 2D input tensors, but found inputs with sizes " +
                       str(input1.size())
                       + " and " + str(input2.size()) + ".")
if d == 0 and (input1.dim() != 1 or input2.dim() != 1):
    raise RuntimeError("0D target tensor expects 1D input tensors, but found inputs with sizes " +
                       str(input1.size())
                       + " and " + str(input2.size()) + ".")
norms = ((input1 * input1).sum([d]) + 1e-12) * ((input2 * input2).sum([d]) + 1e-12)
cos = (input1 * input2).sum([d]) / norms.sqrt()
zero = torch.zeros_like(cos)
x = (torch.where(target == 1, 1 - cos, zero) +
     torch.where(target == -1, torch.clamp_min(cos - margin, 0), zero))
""")
loss("triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, p: "
     "float, eps: float, "
     "swap: bool, reduction: int)", """
if anchor.dim() != positive.dim() or positive.dim() != negative.dim():
    raise RuntimeError("The anchor, positive, and negative tensors are expected to have the "
                       "same number of dimensions, but got: anchor " + str(anchor.dim())
                       + "D, positive " + str(positive.dim())
                       + "D, and negative " + str(negative.dim()) + "D inputs")
near = torch.pairwise_distance(anchor, positive, p, eps)
far = torch.pairwise_distance(anchor, negative, p, eps)
if swap:
    far = torch.minimum(far, torch.pairwise_distance(positive, negative, p, eps))
x = torch.clamp_min(near - far + margin, 0)
""")
loss(f"soft_margin_loss({PAIR}, reduction: int)", "x = torch.log1p(torch.exp(-self * target))",
     out=True)
loss("poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, "
     "reduction: int)", """
if log_input:
    x = torch.exp(input) - target * input
else:
    x = input - target * torch.log(input + eps)
if full:
    stirling = target * torch.log(target) - target + 0.5 * torch.log(6.283185307179586 * target)
    x = x + stirling.masked_fill(target <= 1, 0)
""")

# -- Classes

op("aten::nll_loss", family="loss", shape="nll_loss", results="rule", kernel="kernel_nll_loss",
   variants={"out": "aten::nll_loss.out"})
op("aten::nll_loss2d", family="loss", shape="nll_loss2d", results="rule", kernel="kernel_nll_loss",
   variants={"out": "aten::nll_loss2d.out"})
op("aten::nll_loss_forward", family="loss", shape="nll_loss", results="rule",
   kernel="kernel_nll_loss", variants={"out": "aten::nll_loss_forward.output"})
op("aten::nll_loss2d_forward", family="loss", shape="nll_loss2d", results="rule",
   kernel="kernel_nll_loss", variants={"out": "aten::nll_loss2d_forward.output"})
op("aten::nll_loss_nd", family="loss", shape="nll_loss_nd", results="rule",
   kernel="kernel_nll_loss")
op("aten::multi_margin_loss", family="loss", shape="multi_margin_loss", results="rule",
   kernel="kernel_multi_margin_loss", variants={"out": "aten::multi_margin_loss.out"})
op("aten::multilabel_margin_loss", family="loss", shape="multilabel_margin_loss", results="rule",
   kernel="kernel_multilabel_margin_loss", variants={"out": "aten::multilabel_margin_loss.out"})
op("aten::multilabel_margin_loss_forward", family="loss", shape="multilabel_margin_loss_forward",
   results="rule", kernel="kernel_multilabel_margin_loss",
   variants={"out": "aten::multilabel_margin_loss_forward.output"})
op("aten::_ctc_loss", family="loss", shape="ctc_forward", kernel="kernel__ctc_loss",
   same=["aten::_ctc_loss.Tensor"], variants={"out": "aten::_ctc_loss.out"})
op("aten::_ctc_loss_backward", family="backward", shape="gradient", results="rule",
   kernel="kernel__ctc_loss_backward",
   same=["aten::_ctc_loss_backward.Tensor"], variants={"out": "aten::_ctc_loss_backward.out"})
CTC = """
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: LENGTHS, target_lengths: LENGTHS,
             blank: int,
             reduction: int, zero_infinity: bool) -> Tensor:
    batched = log_probs.dim() == 3
    p = log_probs if batched else log_probs.unsqueeze(1)
    x = torch._ctc_loss(p, targets, input_lengths, target_lengths, blank, zero_infinity)[0]
    if zero_infinity:
        x = torch.where(x == math.inf, torch.zeros_like(x), x)
    if reduction == 1:
        return (x / torch.clamp_min(torch.tensor(target_lengths, dtype=x.dtype), 1)).mean()
    if reduction == 2:
        return x.sum()
    return x if batched else x.squeeze(0)
"""
op("aten::ctc_loss.IntList", family="loss", shape="ctc_loss", body=CTC.replace("LENGTHS",
    "List[int]"))
op("aten::ctc_loss.Tensor", family="loss", shape="ctc_loss",
   body=CTC.replace("LENGTHS", "Tensor").replace("torch.tensor(target_lengths, dtype=x.dtype)",
       "target_lengths.to(x.dtype)"))
op("aten::cross_entropy_loss", family="loss", shape="cross_entropy", body="""
def cross_entropy_loss(self: Tensor, target: Tensor, weight: Optional[Tensor], reduction: int,
                       ignore_index: int,
                       label_smoothing: float) -> Tensor:
    if self.size() == target.size():
        if not torch.is_floating_point(target):
            raise RuntimeError("Expected floating point type for target with class "
                               "probabilities, got " + torch.ops.aten._dtype_name(target))
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
    if label_smoothing < 0 or label_smoothing > 1:
        raise RuntimeError("label_smoothing must be between 0.0 and 1.0. Got: " +
                           str(label_smoothing))
    d = 0 if self.dim() == 1 else 1
    logs = torch.log_softmax(self, d)
    if self.size() != target.size() and label_smoothing == 0:
        return torch.nll_loss_nd(logs, target, weight, reduction, ignore_index)
    n_classes = self.size(d)
    w = weight
    if w is not None:
        if w.dim() != 1 or w.numel() != n_classes:
            raise RuntimeError("weight tensor should be defined either for all " + str(n_classes)
                               + " classes or no classes but got weight tensor of shape: "
                               + str(w.size()))
        sizes = [1] * self.dim()
        sizes[d] = n_classes
        logs_w = logs * w.view(sizes)
    else:
        logs_w = logs
    if self.size() == target.size():
        t = target
        if label_smoothing > 0:
            t = target * (1 - label_smoothing) + label_smoothing / n_classes
        if reduction == 0:
            return -(logs_w * t).sum([d])
        x = -(logs_w * t).sum()
        return x / (self.numel() / n_classes) if reduction == 1 else x
    nll = torch.nll_loss_nd(logs, target, weight, reduction, ignore_index)
    smooth = -logs_w.sum([d])
    ignored = target == ignore_index
    smooth = smooth.masked_fill(ignored, 0)
    if reduction == 1:
        if w is not None:
            kept = torch.where(ignored, 0, target)
            smooth = (smooth.sum() / torch.embedding(w.unsqueeze(1),
                kept).squeeze(-1).masked_fill(ignored,
                    0).sum())
        else:
            smooth = smooth.sum() / torch.logical_not(ignored).sum()
    elif reduction == 2:
        smooth = smooth.sum()
    return nll * (1 - label_smoothing) + smooth * (label_smoothing / n_classes)
""".replace('torch.ops.aten._dtype_name(target)', '"an integer type"'))

# Facts about these operators that other parts read.
known("binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss "
      "cross_entropy_loss ctc_loss.IntList ctc_loss.Tensor hinge_embedding_loss huber_loss "
      "kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss "
      "multilabel_margin_loss_forward nll_loss nll_loss2d poisson_nll_loss smooth_l1_loss "
      "soft_margin_loss triplet_margin_loss",
      autocast="float32")
known("binary_cross_entropy_with_logits.* cosine_embedding_loss.* hinge_embedding_loss.* "
      "kl_div.* l1_loss.* margin_ranking_loss.* mse_loss.* multi_margin_loss.* "
      "multilabel_margin_loss.* nll_loss.* nll_loss2d.* smooth_l1_loss.* soft_margin_loss.* "
      "triplet_margin_loss.*",
      script_autocast="float32")
