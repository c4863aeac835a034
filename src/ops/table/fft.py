"""Fourier transforms (fft_ops.c over fft.c), windows, and operators built from them."""

import textwrap

# A gradient is the conjugate transform of the incoming one, with the scale of the forward
# transform: the inverse by the other scale.
helper("""
def other_scale(norm: Optional[str]) -> str:
    if norm is not None:
        if norm == "ortho":
            return "ortho"
        if norm == "forward":
            return "backward"
    return "forward"
""")
helper("""
def of_length(x: Tensor, dim: int, n: int) -> Tensor:
    m = x.size(dim)
    if n <= m:
        return x.narrow(dim, 0, n)
    sizes = x.size()
    sizes[dim] = n - m
    return torch.cat([x, torch.zeros(sizes, dtype=x.dtype)], dim)
""")
helper("""
def of_lengths(x: Tensor, dims: List[int], like: Tensor) -> Tensor:
    y = x
    for d in dims:
        y = of_length(y, d, like.size(d))
    return y
""")
helper("""
def fft_dims(self: Tensor, s: Optional[List[int]], dim: Optional[List[int]]) -> List[int]:
    if dim is not None:
        return dim
    n = self.dim() if s is None else len(s)
    return [d - n for d in range(n)]
""")
helper("""
def twice_inside(x: Tensor, dim: int, n: int) -> Tensor:
    w = torch.ones([x.size(dim)], dtype=torch.double)
    if n > 2:
        w.narrow(0, 1, (n - 1) // 2).fill_(2)
    sizes = [1] * x.dim()
    sizes[dim] = x.size(dim)
    return x * w.reshape(sizes).to(torch.view_as_real(x).dtype)
""")
ONE, MANY = "[dim]", "fft_dims(self, s, dim)"
# of the complex transform `fft`, its inverse, and those to and from half spectra: lines that end in
# the gradient
BACK = {
    "fft": "of_lengths(torch.fft_ifftn(grad, None, dims, other_scale(norm)), dims, self)",
    "ifft": "of_lengths(torch.fft_fftn(grad, None, dims, other_scale(norm)), dims, self)",
    "rfft": "of_lengths(torch.fft_ifftn(of_length(grad, dims[-1], N), None, dims, "
            "other_scale(norm)), dims, self)",
    "irfft": "of_lengths(twice_inside(torch.fft_rfftn(grad, None, dims, other_scale(norm)), "
             "dims[-1], grad.size(dims[-1])), dims, self)",
    "hfft": """
    g = twice_inside(torch.fft_rfft(grad, None, dims[-1], norm), dims[-1],
                     grad.size(dims[-1])).conj()
    if len(dims) > 1:
        g = torch.fft_ifftn(g, None, dims[:-1], other_scale(norm))
    of_lengths(g, dims, self)
    """,
    "ihfft": """
    g = grad
    if len(dims) > 1:
        g = torch.fft_fftn(g, None, dims[:-1], other_scale(norm))
    of_lengths(torch.fft_ifft(of_length(g.conj(), dims[-1], N), None, dims[-1], norm), dims, self)
    """}
SHAPES = {"ifft": "fft", "hfft": "irfft"}  # rules of other names
for name in ("_fft_c2c", "_fft_r2c", "_fft_c2r"):
    op(f"aten::{name}", family="fft", results="rule", shape=name[1:], kernel=f"kernel_{name}",
       variants={"out": f"aten::{name}.out"}, grad={"self": {
        "_fft_c2c": "torch._fft_c2c(grad, dim, normalization, not forward)",
        "_fft_r2c": "torch._fft_c2c(of_length(grad, dim[-1], self.size(dim[-1])), dim, "
                    "normalization, False)",
        "_fft_c2r": "twice_inside(torch._fft_r2c(grad, dim, normalization, True), dim[-1], "
                    "last_dim_size)"}[name]})
for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    for kind in ("", "2", "n"):
        dims = {"": "[dim]", "2": "dim", "n": "fft_dims(self, s, dim)"}[kind]
        length = ("(self.size(dim) if n is None else n)" if kind == "" else
                  "(self.size(dims[-1]) if s is None or s[-1] < 0 else s[-1])")
        op(f"aten::fft_{name}{kind}", family="fft", results="rule", shape=SHAPES.get(name, name),
           kernel=f"kernel_fft_{name}",
           grad={"self": f"dims = {dims}\n" + textwrap.dedent(BACK[name].replace("N)",
               length + ")")).strip("\n")},
           variants={"out": f"aten::fft_{name}{kind}.out"})

for name, half in (("fftshift", "{} // 2"), ("ifftshift", "({} + 1) // 2")):
    op(f"aten::fft_{name}", family="fft", shape="like", body=f"""
def fft_{name}(self: Tensor, dim: Optional[List[int]]) -> Tensor:
    dims = [i for i in range(self.dim())] if dim is None else dim
    shifts = [{half.format("self.size(d)")} for d in dims]
    return torch.roll(self, shifts, dims)
""")

OPTIONS = (
    "dtype: Optional[int], layout: Optional[int], device: Optional[Device], pin_memory: "
    "Optional[bool]"
)
op("aten::fft_fftfreq", family="fft", shape="fftfreq", variants={"out": "aten::fft_fftfreq.out"},
   body=f"""
def fft_fftfreq(n: int, d: float, {OPTIONS}) -> Tensor:
    t = torch.empty([0]).dtype if dtype is None else dtype
    k = torch.arange(n, dtype=t, layout=layout, device=device)
    k.narrow(0, (n + 1) // 2, n // 2).sub_(n)
    return k.mul_(1.0 / (n * d))
""")
op("aten::fft_rfftfreq", family="fft", shape="rfftfreq", variants={"out": "aten::fft_rfftfreq.out"},
   body=f"""
def fft_rfftfreq(n: int, d: float, {OPTIONS}) -> Tensor:
    t = torch.empty([0]).dtype if dtype is None else dtype
    return torch.arange(n // 2 + 1, dtype=t, layout=layout, device=device).mul_(1.0 / (n * d))
""")

# -- Windows
# --------------------------------------------------------------------------------------------


def window(full, out, arguments, formula, preset=""):
    """Add a window of `n` points; the formula computes `w` from `k`, the points' numbers."""
    name = full.split(".")[0]
    op(f"aten::{full}", family="fft", shape="window", variants={"out": f"aten::{out}"}, body=f"""
def {name}(window_length: int, {arguments}{OPTIONS}) -> Tensor:
    t = torch.empty([0]).dtype if dtype is None else dtype
    if t < 5 or t == 11:
        raise RuntimeError("{name} expects floating point dtypes, got: integer")
    if window_length < 0:
        raise RuntimeError("{name} requires non-negative window_length, got window_length=" +
                           str(window_length))
    if window_length <= 1:
        return torch.ones([window_length], dtype=t, layout=layout, device=device)
    {preset or "pass"}
    n = window_length + 1 if periodic else window_length
    k = torch.arange(n, dtype=t, layout=layout, device=device)
{formula}
    return w.narrow(0, 0, n - 1) if periodic else w
""")


COSINE = "    w = k.mul_({pi} * 2.0 / (n - 1)).cos_().mul_(-{beta}).add_({alpha})"
COSINE = COSINE.replace("{pi}", "3.141592653589793")
BARTLETT = """    w = k.mul_(2.0 / (n - 1))
    first = ((n - 1) >> 1) + 1
    w.narrow(0, first, n - first).mul_(-1).add_(2)"""
BLACKMAN = """    w = k.mul_(3.141592653589793 / (n - 1))
    w = w.mul(4).cos_().mul_(0.08) - w.mul(2).cos_().mul_(0.5) + 0.42"""
KAISER = """    x = k.mul_(2.0 / (n - 1)).sub_(1.0)
    root = torch.sqrt(torch.clamp_min(1.0 - x * x, 0.0))
    w = torch.special_i0(beta * root) / torch.special_i0(torch.tensor(beta, dtype=t))"""
for name, formula in (("hann", COSINE.format(alpha=0.5, beta=0.5)), ("hamming",
    COSINE.format(alpha=0.54,
        beta=0.46)),
                      ("bartlett", BARTLETT), ("blackman", BLACKMAN), ("kaiser", KAISER)):
    beta = "; beta = 12.0" if name == "kaiser" else ""
    window(f"{name}_window", f"{name}_window.out", "", formula, "periodic = True" + beta)
    window(f"{name}_window.periodic", f"{name}_window.periodic_out", "periodic: bool, ", formula,
           beta[2:])
window("hamming_window.periodic_alpha", "hamming_window.periodic_alpha_out",
       "periodic: bool, alpha: float, ", COSINE.format(alpha="alpha", beta="0.46"))
window("hamming_window.periodic_alpha_beta", "hamming_window.periodic_alpha_beta_out",
       "periodic: bool, alpha: float, beta: float, ", COSINE.format(alpha="alpha", beta="beta"))
window("kaiser_window.beta", "kaiser_window.beta_out", "periodic: bool, beta: float, ", KAISER)

# -- Short time
# ---------------------------------------------------------------------------------------------

WINDOW = """
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if n_fft <= 0:
        raise RuntimeError("{0}: expected n_fft > 0, but got n_fft=" + str(n_fft))
    if hop <= 0:
        raise RuntimeError("{0}: expected hop_length > 0, but got hop_length=" + str(hop))
    if width <= 0 or width > n_fft:
        raise RuntimeError("{0}: expected 0 < win_length <= n_fft, but got win_length=" +
                           str(width))
    w = window
    if w is not None:
        if w.dim() != 1 or w.size(0) != width:
            raise RuntimeError("{0}: expected a 1D window tensor of size equal to win_length=" +
                               str(width) + ", but got window with size " + str(w.size()))
    if width < n_fft:
        left = (n_fft - width) // 2
        u = torch.zeros([n_fft], dtype=self.abs().dtype if self.is_complex() else self.dtype)
        if w is None:
            u.narrow(0, left, width).fill_(1)
        else:
            u = u.to(w.dtype)
            u.narrow(0, left, width).copy_(w)
        w = u
"""
FRAMES = """
    if not (self.is_floating_point() or self.is_complex()):
        raise RuntimeError("stft expects a tensor of floating point or complex values")
    if self.dim() > 2 or self.dim() < 1:
        raise RuntimeError("stft: expected a 1D or 2D tensor")
    is_complex = self.is_complex()
    if w is not None and w.is_complex():
        is_complex = True
    if return_complex is None:
        if not is_complex:
            raise RuntimeError("stft requires the return_complex parameter be given for real "
                               "inputs, and will further require that return_complex=True in a "
                               "future PyTorch release.")
        as_complex = True
    else:
        as_complex = return_complex
    length = x.size(1)
    if n_fft > length:
        raise RuntimeError("stft: expected 0 < n_fft < " + str(length) + ", but got n_fft=" +
                           str(n_fft))
    frames = x.unfold(1, n_fft, hop)
    if w is not None:
        frames = frames * w
    half = not is_complex if onesided is None else onesided
    if is_complex:
        if half:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        out = torch._fft_c2c(frames if frames.is_complex() else frames + 0j, [2],
                             1 if normalized else 0, True)
    else:
        out = torch._fft_r2c(frames, [2], 1 if normalized else 0, half)
    out = out.transpose(1, 2)
    if self.dim() == 1:
        out = out.squeeze(0)
    return out if as_complex else torch.view_as_real(out)
"""
STFT = (
    "self: Tensor, n_fft: int, hop_length: Optional[int], win_length: Optional[int], window: "
    "Optional[Tensor], "
)
op("aten::stft", family="fft", shape="stft", body=f"""
def stft({STFT}normalized: bool, onesided: Optional[bool], return_complex: Optional[bool],
         align_to_window: Optional[bool]) -> Tensor:
""" + WINDOW.replace("{0}", "stft") + """
    x = self.unsqueeze(0) if self.dim() == 1 else self
""" + FRAMES)
op("aten::stft.center", family="fft", shape="stft_center", body=f"""
def stft({STFT}center: bool, pad_mode: str, normalized: bool, onesided: Optional[bool],
         return_complex: Optional[bool], align_to_window: Optional[bool]) -> Tensor:
""" + WINDOW.replace("{0}", "stft") + """
    x = self.unsqueeze(0) if self.dim() == 1 else self
    if center:
        x = torch.pad(x.unsqueeze(0), [n_fft // 2, n_fft // 2], pad_mode).squeeze(0)
""" + FRAMES)

op("aten::istft", family="fft", body=f"""
def istft({STFT}center: bool, normalized: bool, onesided: Optional[bool], length: Optional[int],
          return_complex: bool) -> Tensor:
""" + WINDOW.replace("{0}",
                     "istft").replace("self.abs().dtype if self.is_complex() else self.dtype",
                                      "torch.view_as_real(self).dtype") + """
    if not self.is_complex():
        raise RuntimeError("istft requires a complex-valued input tensor matching the output from "
                           "stft with return_complex=True.")
    if self.dim() != 2 and self.dim() != 3:
        raise RuntimeError("istft: expected a tensor with 2 or 3 dimensions, but got " +
                           str(self.dim()))
    half = self.size(-2) != n_fft if onesided is None else onesided
    if half and return_complex:
        raise RuntimeError("istft: cannot have onesided output if window or input is complex")
    x = self.unsqueeze(0) if self.dim() == 2 else self
    bins = n_fft // 2 + 1 if half else n_fft
    if x.size(1) != bins:
        raise RuntimeError("istft: expected the frequency dimension (3rd to the last) of the input "
                           "tensor to match n_fft / 2 + 1 when onesided=True, but got "
                           + str(x.size(1)))
    n_frames = x.size(2)
    x = x.transpose(1, 2)
    norm = 1 if normalized else 2
    total = n_fft + hop * (n_frames - 1)
    u = torch.ones([n_fft], dtype=torch.view_as_real(self).dtype) if w is None else w
    if return_complex:
        y = torch._fft_c2c(x, [2], norm, False) * u
        parts = torch.view_as_real(y.transpose(1, 2))
        re = torch.col2im(parts.select(3, 0), [1, total], [1, n_fft], [1, 1], [0, 0],
                          [1, hop]).reshape([x.size(0), total])
        im = torch.col2im(parts.select(3, 1), [1, total], [1, n_fft], [1, 1], [0, 0],
                          [1, hop]).reshape([x.size(0), total])
        signal = torch.complex(re, im)
    else:
        if not half:
            x = x.narrow(2, 0, n_fft // 2 + 1)
        y = torch._fft_c2r(x, [2], norm, n_fft) * u
        signal = torch.col2im(y.transpose(1, 2), [1, total], [1, n_fft], [1, 1], [0, 0],
                              [1, hop]).reshape([x.size(0), total])
    squares = (u * u).unsqueeze(1).expand([n_fft, n_frames]).unsqueeze(0).contiguous()
    envelope = torch.col2im(squares, [1, total], [1, n_fft], [1, 1], [0, 0],
                            [1, hop]).reshape([1, total])
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else (total - n_fft // 2 if center else total)
    stop = min(end, total)
    signal = signal.narrow(1, start, stop - start)
    envelope = envelope.narrow(1, start, stop - start)
    lowest = envelope.abs().min()
    if bool(lowest <= 1e-11):
        raise RuntimeError("istft: window overlap add min: " + str(lowest))
    signal = signal / envelope
    if end > total:
        signal = torch.constant_pad_nd(signal, [0, end - total], 0)
    return signal.squeeze(0) if self.dim() == 2 else signal
""")

# Facts about these operators that other parts read.
known("fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft "
      "fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn stft stft.center",
      autocast="float32")

# What in-place and out= forms demand of what they write to (../README.md).
written("cast", "fft_hfft", "fft_hfft2", "fft_hfftn", "fft_irfft", "fft_irfft2", "fft_irfftn")
