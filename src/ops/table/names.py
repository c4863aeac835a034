"""Python's names in TorchScript: builtins, math, torch, and functions of torch with a body here.

`name(PATHS, KEY)` says what the Python objects at these paths mean in programs (../README.md has
the keys). Both front ends read the rows: texts look names up, live Python looks objects up that it
finds at the paths. `live=False`: for texts only, since live Python has an object of its own meaning
there.
"""

# -- Builtins --------------------------------------------------------------------------------------

name("len hex oct round hash all any divmod sum ord chr bin pow sorted")
name("id", op="prim::id")
name("min max abs", op="prim::")
name("rangelist", op="prim::rangelist", live=False)
name("isinstance getattr hasattr tuple list dict range zip enumerate slice print super", form=True)
for _python, _op, _type in (
    ("float", "aten::Float", "FLOAT"),
    ("int", "aten::Int", "INT"),
    ("bool", "aten::Bool", "BOOL"),
    ("str", "aten::str", "STRING"),
    ("complex", "aten::Complex", "COMPLEX"),
):
    name(_python, cast=(_op, _type))
name("_to_tensor", cast=("prim::NumToTensor", "TENSOR"), live=False)
name(
    """Exception RuntimeError ValueError IndexError KeyError TypeError NotImplementedError
    AttributeError ArithmeticError ZeroDivisionError OverflowError StopIteration LookupError
    NameError ImportError OSError TimeoutError UnicodeError BufferError EOFError MemoryError
    RecursionError SyntaxError SystemError Warning FloatingPointError AssertionError""",
    exception=True,
    live=False,
)
# Python's own builtins. Functions, which are implemented in C: PyTorch refuses them by name.
name(" ".join("builtins." + f for f in """open input eval exec compile vars locals globals dir iter
next callable issubclass setattr delattr repr format ascii breakpoint __import__ aiter
anext""".split()), refused=True, live=False)
# Classes stay Python's: calls compile where that many tensors fit, with a tensor as result.
for _n, _names in enumerate(("object super",
                             "type memoryview set frozenset bytes bytearray reversed",
                             "filter map")):
    name(" ".join("builtins." + c for c in _names.split()), stays=_n, live=False)
name("collections.OrderedDict", op="aten::dict")
name("warnings.warn")

# -- math, cmath -----------------------------------------------------------------------------------

name(" ".join("math." + f for f in """ceil copysign erf erfc exp expm1 fabs floor gamma lgamma log
log10 log1p pow sqrt isnan asinh atanh cosh sinh tanh acos asin atan atan2 cos sin tan acosh fmod
modf factorial frexp isinf degrees radians ldexp gcd isfinite""".split()))
name("math.remainder", op="aten::mathremainder")
name(" ".join("cmath." + f for f in """isnan isfinite isinf log log10 sqrt exp sin tan cos asin acos
atan sinh cosh tanh asinh acosh atanh""".split()))
name("cmath.phase", op="aten::angle")
name("cmath.rect", op="aten::polar")

# -- torch -----------------------------------------------------------------------------------------

# Modules of texts, and what the names of the operators in them begin with. The functions that live
# Python finds in these of torch's modules are the operators of the same names, except for some that
# are Python functions.
name("""torch.nn torch.nn.functional torch.jit torch._C torch._jit_internal torch.cuda torch.utils
torch.functional torch._VF torch.nested torch.autograd torch.autograd.profiler torch.nn.init
torch.nn.modules torch.nn.modules.utils""", module="", live=False)
for _prefix in ("linalg", "fft", "special"):
    name(f"torch.{_prefix}", module=_prefix + "_", live=False)
name("torch", module="")
name("torch._C._nn", module="")
name("torch._C._fft torch._C._linalg torch._C._nested torch._C._sparse torch._C._special",
     module="")
name(" ".join("torch.functional." + f for f in """stft istft lu cdist norm unique unique_consecutive
tensordot""".split()), host=True)
name("torch.autocast", host=True)

name("torch.jit.annotate torch.jit.isinstance torch.jit.is_scripting torch.jit._awaitable",
     form=True)
name("torch.jit.is_tracing torch._C._is_tracing torch.jit.fork",
     form=True)
name("torch.jit._fork", form="fork")
name("torch._jit_internal._isinstance", form="isinstance")
name("torch._jit_internal.is_scripting", form="is_scripting")
name("""torch._C._has_torch_function torch._C._has_torch_function_unary torch.jit._trace.is_tracing
torch._C._has_torch_function_variadic""", form="is_tracing")
name("torch.jit.wait torch.jit._wait", op="aten::wait")
name("torch.jit._awaitable_wait", op="prim::awaitable_wait")
name("torch.jit._awaitable_nowait", op="prim::awaitable_nowait")
for _type, _dtype in (
    ("Float", "FLOAT32"), ("Double", "FLOAT64"), ("Half", "FLOAT16"), ("Byte", "UINT8"),
    ("Char", "INT8"), ("Short", "INT16"), ("Int", "INT32"), ("Long", "INT64"), ("Bool", "BOOL"),
):
    name(f"torch.{_type}Tensor", tensor=_dtype)

# Python functions that are operators.
name("""torch.autograd.grad torch.autograd.backward torch._C._infer_size torch.broadcast_shapes
torch.nn.functional._no_grad_embedding_renorm_ torch.nn.init._no_grad_fill_ torch.get_device
torch.nn.init._no_grad_normal_ torch.nn.init._no_grad_uniform_ torch.nn.init._no_grad_zero_
torch._C._get_tracing_state torch._C._get_cpu_capability torch._VF.stft torch._VF.istft
torch._VF.cdist torch._VF.norm torch._VF.unique_dim torch._VF.unique_consecutive
torch._VF.nuclear_norm torch._VF.frobenius_norm torch._VF.tensordot torch.is_grad_enabled
torch.set_grad_enabled torch.jit._unwrap_optional torch.nn.functional.linear""")
name("torch.jit._script._unwrap_optional", op="aten::_unwrap_optional")
name("torch.backends.cudnn.is_acceptable", op="aten::cudnn_is_acceptable")
name("torch._C._set_grad_enabled", op="aten::set_grad_enabled")
name("torch._segment_reduce", op="aten::segment_reduce")
name("torch.is_tensor", op="prim::is_tensor", live=False)
name("torch.nested.to_padded_tensor", op="aten::nested_to_padded_tensor")
name("torch.nn.functional.logsigmoid", op="aten::log_sigmoid")
name("torch.nn.functional._list_with_default", op="aten::list_with_default", live=False)

# -- Classes and functions of torch that have a body of their own ----------------------------------

for _class, _mode in (("no_grad", False), ("enable_grad", True)):
    name(f"torch.{_class} torch.autograd.{_class}", where="torch.autograd.grad_mode", body=f"""
class {_class}:
    def __init__(self) -> None:
        self.prev = False

    def __enter__(self) -> None:
        self.prev = torch.is_grad_enabled()
        torch.set_grad_enabled({_mode})

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        torch.set_grad_enabled(self.prev)
""")
name("torch.autograd.profiler.record_function", body="""
class record_function:
    def __init__(self, name: str, args: Optional[str] = None) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.name = self.name

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self.name = self.name
""")
name("torch.jit.strict_fusion", body="""
class strict_fusion:
    def __init__(self) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        pass
""")
name("torch.nn.modules.utils._list_with_default", body="""
def list_with_default(out_size: List[int], defaults: List[int]):
    assert len(defaults) > len(out_size)
    return out_size
""")
name("torch.nn.functional.assert_int_or_pair", body="""
def _assert_int_or_pair(vals: List[int], name: str, message: str):
    pass
""")
name("torch._assert", body="""
def _assert(condition: bool, message: str):
    assert condition, message

def _assert(condition: Tensor, message: str):
    assert bool(condition), message
""")
name("torch._check", body="""
def _check(cond: bool, message: str = ''):
    assert cond, message

def _check(cond: Tensor, message: str = ''):
    assert bool(cond), message
""")
for _n, _tuple in enumerate(("_single", "_pair", "_triple", "_quadruple"), 1):
    name(f"torch.nn.modules.utils.{_tuple}", body="".join(f"""
def {_tuple}(x: BroadcastingList{_n}[{_type}]) -> List[{_type}]:
    return x
""" for _type in ("float", "int")))

# -- torch.nn.functional: live Python compiles torch's own source ----------------------------------


def functional(called, params, body):
    """A function of an input, which takes `params` besides, as torch declares them."""
    params = ", ".join(["input: Tensor", *([params] if params else [])])
    name(f"torch.nn.functional.{called}", body=f"def {called}({params}) -> Tensor:\n{body}",
         live=False)


def either(called, params="", before=""):
    """The operator, or with `inplace` its in-place form."""
    words = [p.split(":")[0] for p in params.split(", ") if p]
    given = ", ".join(["input", *words])
    functional(called, ", ".join([*([params] if params else []), "inplace: bool = False"]),
               f"""{before}\
  return torch.{called}_({given}) if inplace else torch.{called}({given})
""")


either("dropout", "p: float = 0.5, training: bool = True", """\
  if p < 0.0 or p > 1.0:
    raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
""")
either("alpha_dropout", "p: float = 0.5, training: bool = False")
either("feature_dropout", "p: float = 0.5, training: bool = False")
for _called in ("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid"):
    either(_called)
either("elu", "alpha: float = 1.0")
either("celu", "alpha: float = 1.0")
either("leaky_relu", "negative_slope: float = 0.01")
either("hardtanh", "min_val: float = -1.0, max_val: float = 1.0")
either("threshold", "threshold: float, value: float")
functional("sigmoid", "", "  return input.sigmoid()\n")
functional("tanh", "", "  return input.tanh()\n")
functional("softsign", "", "  return input / (input.abs() + 1)\n")
functional("tanhshrink", "", "  return input - input.tanh()\n")
for _called in ("softmax", "log_softmax"):
    functional(
        _called, "dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None",
        f"""\
  if dim is None:
    n = input.dim()
    dim = 0 if n == 0 or n == 1 or n == 3 else 1
  return torch.{_called}(input, dim, dtype=dtype)
""")
functional(
    "normalize", "p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Optional[Tensor] = None",
    """\
  return input / input.norm(p, [dim], keepdim=True).clamp_min(eps).expand_as(input)
""")
_affine = "weight: Optional[Tensor] = None, bias: Optional[Tensor] = None"
functional("layer_norm", f"normalized_shape: List[int], {_affine}, eps: float = 1e-5", """\
  return torch.layer_norm(input, normalized_shape, weight, bias, eps)
""")
functional(
    "batch_norm", f"running_mean: Optional[Tensor], running_var: Optional[Tensor], {_affine}, "
    "training: bool = False, momentum: float = 0.1, eps: float = 1e-5", """\
  return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
                          True)
""")
functional("group_norm", f"num_groups: int, {_affine}, eps: float = 1e-5", """\
  return torch.group_norm(input, num_groups, weight, bias, eps)
""")
functional(
    "embedding",
    "weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None, "
    "norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False", """\
  pad = -1 if padding_idx is None else padding_idx
  if pad < -1:
    pad = weight.size(0) + pad
  if max_norm is not None:
    torch.embedding_renorm_(weight, input, max_norm, norm_type)
  return torch.embedding(weight, input, pad, scale_grad_by_freq, sparse)
""")


def loss(called, given, before="", between="", after=""):
    """A loss: its two deprecated flags, or `reduction`, say which number the operator gets."""
    functional(
        called, f"target: Tensor, {before}size_average: Optional[bool] = None, {between}"
        f"reduce: Optional[bool] = None, reduction: str = 'mean'{after}", f"""\
  if reduction == 'none':
    r = 0
  elif reduction == 'mean':
    r = 1
  elif reduction == 'sum':
    r = 2
  else:
    raise ValueError(reduction + " is not a valid value for reduction")
  if size_average is not None or reduce is not None:
    mean = size_average if size_average is not None else True
    kept = reduce if reduce is not None else True
    r = (1 if mean else 2) if kept else 0
  return torch.{given}
""")


_weight, _ignore = "weight: Optional[Tensor] = None, ", "ignore_index: int = -100, "
for _called in ("mse_loss", "l1_loss", "soft_margin_loss"):
    loss(_called, f"{_called}(input, target, r)")
loss("cross_entropy", "cross_entropy_loss(input, target, weight, r, ignore_index, label_smoothing)",
     _weight, _ignore, ", label_smoothing: float = 0.0")
loss("nll_loss", "nll_loss_nd(input, target, weight, r, ignore_index)", _weight, _ignore)
loss("binary_cross_entropy", "binary_cross_entropy(input, target, weight, r)", _weight)
loss("binary_cross_entropy_with_logits",
     "binary_cross_entropy_with_logits(input, target, weight, pos_weight, r)", _weight, "",
     ", pos_weight: Optional[Tensor] = None")

# torch.unique: the flags, which are constants, say what it returns. A row with `dispatch` names the
# argument and its place; the rows behind it, PATH.0 and PATH.1, are for False and True.
name("torch.unique", dispatch=("return_inverse", 2), live=False)
for _i in (0, 1):
    name(f"torch.unique.{_i}", dispatch=("return_counts", 3), live=False)
    for _c in (0, 1):
        _called = f"unique{'_inverse' * _i}{'_counts' * _c}"
        _result = f"Tuple[{', '.join(['Tensor'] * (1 + _i + _c))}]" if _i + _c else "Tensor"
        name(f"torch.unique.{_i}.{_c}", where="torch.functional", live=False, body=f"""
def {_called}(input: Tensor, sorted: bool = True, return_inverse: bool = False, \
return_counts: bool = False, dim: Optional[int] = None) -> {_result}:
  if dim is not None:
    a, b, c = torch.unique_dim(input, dim, sorted, return_inverse, return_counts)
  else:
    a, b, c = torch._unique2(input, sorted, return_inverse, return_counts)
  return a{', b' * _i}{', c' * _c}
""")
