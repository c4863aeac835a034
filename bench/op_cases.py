"""The operators that bench/ops.py measures: a line each.

    NAME | OPERATOR | ARGUMENTS | what PyTorch's user writes (torch.NAME(ARGUMENTS) unless given) |
    options

Arguments are Python over the names that `Inputs` has; those left out have the schema's defaults.
Options: dtypes of the row ("f" float32 and bfloat16, "i" int64, "fi" all three; "s" float32 alone,
"si", "bi"), `any`: results are not compared (random, or in another order).  A line of SIZED is
measured for 8, 4 Ki and 1 Mi elements, one of LAYERS as it stands.
"""

# ruff: noqa: E501  (tables read better in lines)

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch

SIZES = {"8": 8, "4Ki": 4096, "1Mi": 1 << 20}
SQUARES = {8: (2, 4), 4096: (64, 64), 1 << 20: (1024, 1024)}
IMAGES = {8: (1, 2, 2, 2), 4096: (1, 4, 32, 32), 1 << 20: (1, 64, 128, 128)}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int64": torch.int64}
KINDS = {
    "f": ("float32", "bfloat16"),
    "i": ("int64",),
    "fi": tuple(DTYPES),
    "s": ("float32",),
    "si": ("float32", "int64"),
}

SIZED = """
add | aten::add.Tensor | x, y
add number | aten::add.Scalar | x, 2 | torch.add(x, 2)
add row | aten::add.Tensor | m, row | torch.add(m, row)
add column | aten::add.Tensor | m, column | torch.add(m, column)
add transposed | aten::add.Tensor | m, m.t() if square else m | torch.add(m, m.t() if square else m)
add in place | aten::add_.Tensor | z, zero | z.add_(zero)
sub | aten::sub.Tensor | x, y
mul | aten::mul.Tensor | x, y
mul number | aten::mul.Tensor | x, two | torch.mul(x, 2)
div | aten::div.Tensor | x, p
floor_divide | aten::floor_divide | x, p
remainder | aten::remainder.Tensor | x, p
pow number | aten::pow.Tensor_Scalar | x, 3
pow | aten::pow.Tensor_Tensor | u, x | torch.pow(u, x) | f
maximum | aten::maximum | x, y
minimum | aten::minimum | x, y
neg | aten::neg | x
abs | aten::abs | x
sign | aten::sign | x
square | aten::square | x
reciprocal | aten::reciprocal | p | | f
sqrt | aten::sqrt | p | | f
rsqrt | aten::rsqrt | p | | f
exp | aten::exp | x | | f
log | aten::log | p | | f
log1p | aten::log1p | p | | f
expm1 | aten::expm1 | x | | f
sin | aten::sin | x | | f
cos | aten::cos | x | | f
tan | aten::tan | x | | f
atan2 | aten::atan2 | x, y | | f
tanh | aten::tanh | x | | f
sigmoid | aten::sigmoid | x | | f
erf | aten::erf | x | | f
floor | aten::floor | x | | f
round | aten::round | x | | f
relu | aten::relu | x
relu in place | aten::relu_ | z | z.relu_()
gelu | aten::gelu | x | F.gelu(x) | f
gelu tanh | aten::gelu | x, approximate="tanh" | F.gelu(x, approximate="tanh") | f
silu | aten::silu | x | F.silu(x) | f
elu | aten::elu | x | F.elu(x) | f
leaky_relu | aten::leaky_relu | x | F.leaky_relu(x) | f
hardswish | aten::hardswish | x | F.hardswish(x) | f
softplus | aten::softplus | x | F.softplus(x) | f
mish | aten::mish | x | F.mish(x) | f
clamp | aten::clamp | x, -1, 1
lerp | aten::lerp.Scalar | x, y, 0.3 | | f
addcmul | aten::addcmul | x, y, p
logaddexp | aten::logaddexp | x, y | | f
eq | aten::eq.Tensor | x, y
lt | aten::lt.Tensor | x, y
gt number | aten::gt.Scalar | x, 0
isnan | aten::isnan | x
logical_not | aten::logical_not | b
logical_and | aten::logical_and | b, b2
bitwise_and | aten::bitwise_and.Tensor | x, y | | i
bitwise_xor | aten::bitwise_xor.Tensor | x, y | | i
shift | aten::bitwise_left_shift.Tensor_Scalar | x, 2 | | i
where | aten::where.self | b, x, y
masked_fill | aten::masked_fill.Scalar | x, b, 0
to float64 | aten::_to_copy | x, dtype=torch.float64 | x.to(torch.float64)
to float32 | aten::_to_copy | x, dtype=torch.float32 | x.to(torch.float32) | bi
to bfloat16 | aten::_to_copy | x, dtype=torch.bfloat16 | x.to(torch.bfloat16) | si
to int64 | aten::_to_copy | x, dtype=torch.int64 | x.to(torch.int64) | f
to bool | aten::_to_copy | x, dtype=torch.bool | x.to(torch.bool)
bool to | aten::_to_copy | b, dtype=dtype | b.to(dtype)
sum | aten::sum | x
sum last | aten::sum.dim_IntList | m, [-1] | torch.sum(m, -1)
sum first | aten::sum.dim_IntList | m, [0] | torch.sum(m, 0)
mean | aten::mean | x | | f
mean last | aten::mean.dim | m, [-1] | torch.mean(m, -1) | f
prod | aten::prod | u
max | aten::max | x
max last | aten::max.dim | m, -1 | torch.max(m, -1)
min first | aten::min.dim | m, 0 | torch.min(m, 0)
amax last | aten::amax | m, [-1] | torch.amax(m, -1)
amax first | aten::amax | m, [0] | torch.amax(m, 0)
argmax | aten::argmax | x
argmax last | aten::argmax | m, -1
argmax first | aten::argmax | m, 0
all | aten::all | b
any last | aten::any.dim | mb, -1
count_nonzero | aten::count_nonzero | x
var | aten::var.correction | x | torch.var(x) | f
std last | aten::std.correction | m, [-1] | torch.std(m, -1) | f
var_mean last | aten::var_mean.correction | m, [-1] | torch.var_mean(m, -1) | f
norm | aten::linalg_vector_norm | x | torch.linalg.vector_norm(x) | f
norm last | aten::linalg_vector_norm | m, 2, [-1] | torch.linalg.vector_norm(m, 2, -1) | f
logsumexp | aten::logsumexp | m, [-1] | torch.logsumexp(m, -1) | f
softmax | aten::_softmax | m, -1, False | torch.softmax(m, -1) | f
softmax first | aten::_softmax | m, 0, False | torch.softmax(m, 0) | f
log_softmax | aten::_log_softmax | m, -1, False | torch.log_softmax(m, -1) | f
layer_norm | aten::native_layer_norm | m, [m.shape[-1]], row, row, 1e-5 | F.layer_norm(m, (m.shape[-1],), row, row) | f
rms_norm | aten::rms_norm | m, [m.shape[-1]], row | F.rms_norm(m, (m.shape[-1],), row) | f
batch_norm | aten::batch_norm | im, ch, ch, ch, chp, False, 0.1, 1e-5, True | F.batch_norm(im, ch, chp, ch, ch) | f any
group_norm | aten::group_norm | im, 2, ch, ch | F.group_norm(im, 2, ch, ch) | f
cumsum | aten::cumsum | x, 0
cumsum last | aten::cumsum | m, -1
cumsum first | aten::cumsum | m, 0
cumprod last | aten::cumprod | um, -1 | | f
cummax last | aten::cummax | m, -1
sort | aten::sort | x | | any
sort last | aten::sort | m, -1 | | any
argsort stable | aten::sort.stable | x, stable=True | torch.sort(x, stable=True) | any
topk | aten::topk | x, min(n, 50) | | any
topk last | aten::topk | m, 4 | | any
kthvalue | aten::kthvalue | x, 4 | | any
median | aten::median | x
unique | aten::_unique2 | f | torch.unique(f) | any
gather | aten::gather | m, 1, gi
gather first | aten::gather | m, 0, gi0
index_select | aten::index_select | m, 0, ri
index_select last | aten::index_select | m, 1, ci
index | aten::index.Tensor | m, [ri] | m[ri]
index pairs | aten::index.Tensor | m, [ri, ci0] | m[ri, ci0]
index mask | aten::index.Tensor | x, [b] | x[b]
index_put | aten::index_put | m, [ri], m | torch.index_put(m, [ri], m) | any
index_add | aten::index_add | m, 0, ri, m
scatter | aten::scatter.src | m, 1, gi, m | | any
scatter_add | aten::scatter_add | m, 1, gi, m
scatter_reduce | aten::scatter_reduce.two | m, 1, gi, m, "amax"
take | aten::take | x, xi
masked_select | aten::masked_select | x, b
nonzero | aten::nonzero | b
embedding | aten::embedding | m, ri | F.embedding(ri, m)
bucketize | aten::bucketize.Tensor | x, edges
searchsorted | aten::searchsorted.Tensor | edges, x
bincount | aten::bincount | xi | | i
one_hot | aten::one_hot | ri, 16 | F.one_hot(ri, 16) | i
cat | aten::cat | [x, y]
cat last | aten::cat | [m, m], 1
stack | aten::stack | [x, y]
stack last | aten::stack | [x, y], -1
split copy | aten::split_copy.Tensor | x, n // 2 | | any
clone | aten::clone | x
contiguous of transposed | aten::clone | m.t(), memory_format=torch.contiguous_format | m.t().contiguous()
contiguous of permuted | aten::clone | im.permute(0, 2, 3, 1), memory_format=torch.contiguous_format | im.permute(0, 2, 3, 1).contiguous()
contiguous of strided | aten::clone | x2[::2], memory_format=torch.contiguous_format | x2[::2].contiguous()
contiguous of expanded | aten::clone | row.expand(m.shape), memory_format=torch.contiguous_format | row.expand(m.shape).contiguous()
copy in place | aten::copy_ | z, y | z.copy_(y)
flip | aten::flip | x, [0]
roll | aten::roll | x, [3] | torch.roll(x, 3)
repeat | aten::repeat | row, [m.shape[0], 1] | row.repeat(m.shape[0], 1)
repeat_interleave | aten::repeat_interleave.self_int | row, m.shape[0]
tril | aten::tril | m
constant_pad | aten::constant_pad_nd | m, [1, 1, 1, 1] | F.pad(m, (1, 1, 1, 1))
reflection_pad | aten::reflection_pad2d | im, [1, 1, 1, 1] | F.pad(im, (1, 1, 1, 1), "reflect")
zeros | aten::zeros | [n], dtype=dtype | torch.zeros(n, dtype=dtype)
full | aten::full | [n], 3, dtype=dtype | torch.full((n,), 3, dtype=dtype)
arange | aten::arange | n, dtype=dtype | torch.arange(n, dtype=dtype)
ones_like | aten::ones_like | x
fill in place | aten::fill_.Scalar | z, 2 | z.fill_(2)
rand | aten::rand | [n] | torch.rand(n) | s any
randn | aten::randn | [n] | torch.randn(n) | s any
randint | aten::randint | 100, [n] | torch.randint(100, (n,)) | s any
randperm | aten::randperm | n | | s any
bernoulli | aten::bernoulli.p | x, 0.5 | | f any
dropout | aten::dropout | x, 0.1, True | F.dropout(x, 0.1, True) | f any
multinomial | aten::multinomial | pm, 4, True | | s any
mm | aten::mm | m, mt
matmul batched | aten::bmm | bm, bmt
mv | aten::mv | m, row
dot | aten::dot | x, y
addmm | aten::addmm | mm_bias, m, mt
linear | aten::linear | m, w, bias | F.linear(m, w, bias) | f
outer | aten::outer | side, side | | any
einsum | aten::einsum | "ij,kj->ik", [m, w] | torch.einsum("ij,kj->ik", m, w) | s
fft | aten::fft_fft | x | torch.fft.fft(x) | s
rfft | aten::fft_rfft | m | torch.fft.rfft(m) | s
irfft | aten::fft_irfft | cm | torch.fft.irfft(cm) | s
fft2 | aten::fft_fft2 | m | torch.fft.fft2(m) | s
cdist | aten::cdist | m, m | | s
cosine_similarity | aten::cosine_similarity | m, m, 1 | F.cosine_similarity(m, m, 1) | f
mse_loss | aten::mse_loss | x, y | F.mse_loss(x, y) | f
l1_loss | aten::l1_loss | x, y | F.l1_loss(x, y) | f
smooth_l1_loss | aten::smooth_l1_loss | x, y | F.smooth_l1_loss(x, y) | f
bce_logits | aten::binary_cross_entropy_with_logits | x, u | F.binary_cross_entropy_with_logits(x, u) | f
cross_entropy | aten::cross_entropy_loss | m, ri_class | F.cross_entropy(m, ri_class) | f
nll_loss | aten::nll_loss | m, ri_class | F.nll_loss(m, ri_class) | f
max_pool2d | aten::max_pool2d | im, [2, 2] | F.max_pool2d(im, 2)
avg_pool2d | aten::avg_pool2d | im, [2, 2] | F.avg_pool2d(im, 2) | f
adaptive_avg_pool2d | aten::adaptive_avg_pool2d | im, [2, 2] | F.adaptive_avg_pool2d(im, (2, 2)) | f
upsample nearest | aten::upsample_nearest2d.vec | im, None, [2.0, 2.0] | F.interpolate(im, scale_factor=2) | f
upsample bilinear | aten::upsample_bilinear2d.vec | im, None, False, [2.0, 2.0] | F.interpolate(im, scale_factor=2, mode="bilinear") | f
grid_sample | aten::grid_sampler | im, grid, 0, 0, False | F.grid_sample(im, grid, align_corners=False) | f
pixel_shuffle | aten::pixel_shuffle | shuffled, 2
unfold | aten::im2col | im, [2, 2], [1, 1], [0, 0], [1, 1] | F.unfold(im, 2) | f
conv2d 3x3 | aten::conv2d | im, k3, ch, [1, 1], [1, 1] | F.conv2d(im, k3, ch, 1, 1) | f
conv1d | aten::conv1d | seq, k1, ch, [1], [1] | F.conv1d(seq, k1, ch, 1, 1) | f
attention | aten::scaled_dot_product_attention | bm3, bm3, bm3 | F.scaled_dot_product_attention(bm3, bm3, bm3) | f
"""

LAYERS = """
conv2d 7x7/2 3-64 224 | aten::conv2d | t(1, 3, 224, 224), t(64, 3, 7, 7), None, [2, 2], [3, 3] | conv
conv2d 3x3 64 56 | aten::conv2d | t(1, 64, 56, 56), t(64, 64, 3, 3), t(64), [1, 1], [1, 1] | conv
conv2d 1x1 256-64 56 | aten::conv2d | t(1, 256, 56, 56), t(64, 256, 1, 1) | conv
conv2d depthwise 144 56 | aten::conv2d | t(1, 144, 56, 56), t(144, 1, 3, 3), t(144), [1, 1], [1, 1], [1, 1], 144 | conv
conv2d groups 128 28 | aten::conv2d | t(1, 128, 28, 28), t(128, 4, 3, 3), None, [1, 1], [1, 1], [1, 1], 32 | conv
conv2d dilated 64 28 | aten::conv2d | t(1, 64, 28, 28), t(64, 64, 3, 3), None, [1, 1], [2, 2], [2, 2] | conv
conv1d 512-512 k3 | aten::conv1d | t(1, 512, 400), t(512, 512, 3), None, [1], [1] | F.conv1d
conv3d 16-32 k3 | aten::conv3d | t(1, 16, 8, 32, 32), t(32, 16, 3, 3, 3), None, [1, 1, 1], [1, 1, 1] | F.conv3d
conv_transpose2d 64-32 28 | aten::conv_transpose2d.input | t(1, 64, 28, 28), t(64, 32, 2, 2), None, [2, 2] | F.conv_transpose2d
linear 128x768x3072 | aten::linear | t(128, 768), t(3072, 768), t(3072) | F.linear
linear 1x768x768 | aten::linear | t(1, 768), t(768, 768), t(768) | F.linear
linear 32x256x1000 | aten::linear | t(32, 256), t(1000, 256), t(1000) | F.linear
bmm 12x128x64 | aten::bmm | t(12, 128, 64), t(12, 64, 128) | torch.bmm
attention 12x128x64 | aten::scaled_dot_product_attention | t(1, 12, 128, 64), t(1, 12, 128, 64), t(1, 12, 128, 64) | F.scaled_dot_product_attention
attention causal 12x512x64 | aten::scaled_dot_product_attention | t(1, 12, 512, 64), t(1, 12, 512, 64), t(1, 12, 512, 64), None, 0.0, True | F.scaled_dot_product_attention
softmax 12x128x128 | aten::_softmax | t(12, 128, 128), -1, False | torch._softmax
layer_norm 128x768 | aten::native_layer_norm | t(128, 768), [768], t(768), t(768), 1e-5 | torch.native_layer_norm
group_norm 64 56 | aten::group_norm | t(1, 64, 56, 56), 8, t(64), t(64) | F.group_norm
instance_norm 64 56 | aten::instance_norm | t(1, 64, 56, 56), None, None, None, None, True, 0.1, 1e-5, True | torch.instance_norm
max_pool2d 3x3/2 64 112 | aten::max_pool2d | t(1, 64, 112, 112), [3, 3], [2, 2], [1, 1] | torch.max_pool2d
avg_pool2d 2x2 64 112 | aten::avg_pool2d | t(1, 64, 112, 112), [2, 2] | F.avg_pool2d
adaptive_avg_pool2d 512 7 | aten::adaptive_avg_pool2d | t(1, 512, 7, 7), [1, 1] | F.adaptive_avg_pool2d
embedding 30522x768 128 | aten::embedding | t(30522, 768), ids(30522, 128) | torch.embedding
gelu 128x3072 | aten::gelu | t(128, 3072) | F.gelu
relu 64 112 | aten::relu | t(1, 64, 112, 112) | torch.relu
residual 256 56 | aten::add.Tensor | t(1, 256, 56, 56), t(1, 256, 56, 56) | torch.add
concatenate 64 56 | aten::cat | [t(1, 64, 56, 56), t(1, 64, 56, 56)], 1 | torch.cat
bilinear 64 56 to 112 | aten::upsample_bilinear2d | t(1, 64, 56, 56), [112, 112], False | torch._C._nn.upsample_bilinear2d
nearest 64 56 to 112 | aten::upsample_nearest2d | t(1, 64, 56, 56), [112, 112] | torch._C._nn.upsample_nearest2d
bicubic 3 224 to 128 | aten::upsample_bicubic2d | t(1, 3, 224, 224), [128, 128], False | torch._C._nn.upsample_bicubic2d
grid_sample 32 64 | aten::grid_sampler | t(1, 32, 64, 64), t(1, 64, 64, 2) / 3, 0, 0, False | torch.grid_sampler
heads apart 128x12x64 | aten::clone | t(1, 128, 12, 64).transpose(1, 2), memory_format=torch.contiguous_format | contiguous
masked scores 12x128x128 | aten::masked_fill.Scalar | t(12, 128, 128), t(128, 128) > 0, -1e9 | torch.masked_fill
logits topk 50257 | aten::topk | t(1, 50257), 50 | torch.topk
logits argmax 50257 | aten::argmax | t(1, 50257), -1 | torch.argmax
logits sort 50257 | aten::sort | t(1, 50257), -1, True | torch.sort | any
logits softmax 50257 | aten::_softmax | t(1, 50257), -1, False | torch._softmax
logits cumsum 50257 | aten::cumsum | t(1, 50257), -1 | torch.cumsum
cross_entropy 128x1000 | aten::cross_entropy_loss | t(128, 1000), ids(1000, 128) | F.cross_entropy
lstm 64x1x256 | aten::lstm.input | t(64, 1, 128), [t(1, 1, 256), t(1, 1, 256)], [w(1024, 128), w(1024, 256), w(1024), w(1024)], True, 1, 0.0, False, False, False | torch.lstm
gru 64x1x256 | aten::gru.input | t(64, 1, 128), t(1, 1, 256), [w(768, 128), w(768, 256), w(768), w(768)], True, 1, 0.0, False, False, False | torch.gru
stft frames 400x200 | aten::fft_rfft | s(200, 400) | torch.fft.rfft | s
fft 65536 | aten::fft_fft | s(65536) | torch.fft.fft | s
fft 1000x1000 | aten::fft_fft2 | s(1000, 1000) | torch.fft.fft2 | s
solve 64 | aten::linalg_solve | s(64, 64) + 10 * torch.eye(64), s(64, 4) | torch.linalg.solve | s
inv 64 | aten::linalg_inv | s(64, 64) + 10 * torch.eye(64) | torch.linalg.inv | s
inv 16x4x4 | aten::linalg_inv | s(16, 4, 4) + 10 * torch.eye(4) | torch.linalg.inv | s
det 32x3x3 | aten::linalg_det | s(32, 3, 3) | torch.linalg.det | s
cholesky 64 | aten::linalg_cholesky | spd(64) | torch.linalg.cholesky | s
qr 64 | aten::linalg_qr | s(64, 64) | torch.linalg.qr | s any
eigh 64 | aten::linalg_eigh | spd(64) | torch.linalg.eigh | s any
svd 64 | aten::linalg_svd | s(64, 64), False | torch.linalg.svd | s any
int8 sum of uint8 image | aten::sum | (s(3, 512, 512) * 100).to(torch.uint8) | torch.sum | s
float16 sum | aten::sum | s(1 << 20).half() | torch.sum | s any
float16 add | aten::add.Tensor | s(1 << 20).half(), s(1 << 20).half() | torch.add | s
image to float | aten::_to_copy | (s(3, 512, 512) * 100).to(torch.uint8), dtype=torch.float32 | to_float | s
int32 add | aten::add.Tensor | (s(1 << 20) * 100).int(), (s(1 << 20) * 100).int() | torch.add | s
float64 exp | aten::exp | s(1 << 20).double() | torch.exp | s
complex mul | aten::mul.Tensor | torch.complex(s(1 << 18), s(1 << 18)), torch.complex(s(1 << 18), s(1 << 18)) | torch.mul | s
"""


@dataclasses.dataclass
class Case:
    name: str
    op: str
    args: str
    theirs: str
    dtypes: tuple[str, ...]
    compare: bool


def cases(text: str) -> Iterator[Case]:
    for line in text.strip().splitlines():
        name, op, args, *rest = (part.strip() for part in line.split("|"))
        options = " ".join(rest[1:]).split()
        if len(rest) == 1 and rest[0] in ("any", *KINDS):
            options, rest = rest, []
        kinds = next((o for o in options if o != "any"), "f" if text is LAYERS else "fi")
        dtypes = ("bfloat16", "int64") if kinds == "bi" else KINDS[kinds]
        call = rest[0] if rest and rest[0] else f"torch.{op.split('::')[1].split('.')[0]}({args})"
        yield Case(name, op, args, call, dtypes, "any" not in options)


def contiguous(x: torch.Tensor, **_: Any) -> torch.Tensor:
    return x.contiguous()


def to_float(x: torch.Tensor, **_: Any) -> torch.Tensor:
    return x.to(torch.float32)


def tensor(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    x = torch.randn(shape)
    return x.to(dtype) if dtype.is_floating_point else (x * 30).to(dtype)


def spd(n: int) -> torch.Tensor:
    a = torch.randn(n, n)
    return a @ a.t() + n * torch.eye(n)


def layer_inputs(dtype: torch.dtype) -> dict[str, Any]:
    """Return the names for LAYERS."""
    return {
        "t": lambda *shape: tensor(dtype, *shape) * 0.5, "w": lambda *shape: tensor(dtype,
                                                                                    *shape) * 0.05,
        "s": lambda *shape: torch.randn(shape), "spd": spd,
        "ids": lambda most, n: torch.randint(0, most, (n,)), "torch": torch, "conv": torch.conv2d,
        "contiguous": contiguous, "to_float": to_float,
    }  # fmt: skip


def inputs(n: int, dtype: torch.dtype) -> dict[str, Any]:
    """Return the names for SIZED: x, y, p (positive), u (0 to 1; 1 for integers), z (written in
    place), m (a matrix), im (an image), ..."""
    rows, columns = SQUARES[n]
    x, y = tensor(dtype, n), tensor(dtype, n)
    p = x.abs() + 1
    u = torch.rand(n).to(dtype) if dtype.is_floating_point else torch.ones(n, dtype=dtype)
    im = tensor(dtype, *IMAGES[n])
    _, ch, h, w = im.shape
    d = min(columns, 64)
    b = torch.rand(n) < 0.5
    cm = (
        torch.complex(torch.randn(rows, columns), torch.randn(rows, columns))
        if dtype == torch.float32
        else None
    )
    values = {
        "x": x,
        "y": y,
        "p": p,
        "u": u,
        "z": x.clone(),
        "zero": torch.zeros(n, dtype=dtype),
        "two": torch.tensor(2, dtype=dtype),
        "m": x.view(rows, columns),
        "um": u.view(rows, columns),
        "mt": y.view(columns, rows),
        "pm": p.view(rows, columns),
        "row": y[:columns].clone(),
        "column": y[:rows].clone().view(rows, 1),
        "square": rows == columns,
        "x2": tensor(dtype, 2 * n),
        "b": b,
        "b2": torch.rand(n) < 0.5,
        "mb": b.view(rows, columns),
        "f": torch.randint(0, 100, (n,)).to(dtype),
        "gi": torch.randint(0, columns, (rows, columns)),
        "gi0": torch.randint(0, rows, (rows, columns)),
        "ri": torch.randint(0, rows, (rows,)),
        "ci": torch.randint(0, columns, (columns,)),
        "ci0": torch.randint(0, columns, (rows,)),
        "xi": torch.randint(0, n, (n,)),
        "ri_class": torch.randint(0, columns, (rows,)),
        "edges": torch.linspace(-2, 2, 17).to(dtype)
        if dtype.is_floating_point
        else torch.arange(-40, 45, 5),
        "im": im,
        "ch": tensor(dtype, ch),
        "chp": tensor(dtype, ch).abs() + 1,
        "k3": tensor(dtype, ch, ch, 3, 3),
        "grid": (torch.rand(1, h, w, 2) * 2 - 1).to(dtype),
        "shuffled": x.view(1, -1, max(2, h // 2), max(1, w // 2)),
        "seq": x.view(1, ch, -1),
        "k1": tensor(dtype, ch, ch, 3),
        "bm": x.view(-1, d, d) if n > 8 else x.view(2, 2, 2),
        "bmt": y.view(-1, d, d) if n > 8 else y.view(2, 2, 2),
        "bm3": x.view(1, -1, d, d) if n > 8 else x.view(1, 2, 2, 2),
        "mm_bias": tensor(dtype, rows),
        "w": tensor(dtype, rows, columns),
        "bias": tensor(dtype, rows),
        "side": tensor(dtype, int(n**0.5)),
        "cm": cm,
        "dtype": dtype,
        "n": n,
        "torch": torch,
    }
    return values
