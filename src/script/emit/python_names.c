/* script/emit/python_names.c -- names that are Python functions in PyTorch: builtins that
 * TorchScript lacks, and the functions of torch.nn.functional whose signature differs from the
 * operator's. */
#include <string.h>

#include "script/emit/body.h"
#include "script/emit/emit_int.h"

/* -- Builtins ---------------------------------------------------------------------------------- */

/* Functions implemented in C: PyTorch's error is specific for them. */
static const char *const functions[] = {
  "open",   "input", "eval",       "exec",       "compile",    "vars",    "locals",  "globals",
  "dir",    "iter",  "next",       "callable",   "issubclass", "setattr", "delattr", "repr",
  "format", "ascii", "breakpoint", "__import__", "aiter",      "anext"};

/* Classes: calls of them compile where tensors fit, with tensors as results. */
static const struct { const char *name; int n_args;
} classes[] = {{"type", 1},      {"object", 0}, {"memoryview", 1}, {"set", 1},
               {"frozenset", 1}, {"bytes", 1},  {"bytearray", 1},  {"reversed", 1},
               {"filter", 2},    {"map", 2},    {"super", 0}};

static function *class_call(session *s, program *p, const char *name, int n_args)
{
  static const char *const params[] = {"", "a: Tensor", "a: Tensor, b: Tensor"};
  const char *text = session_printf(s,
                                    "def %s(%s) -> Tensor:\n  raise NotImplementedError(\"%s is "
                                    "Python's: there is no Python here\")\n",
                                    name, params[n_args], name);
  function *f = script_define_text(s, p, name, text);
  static const char *const places[] = {"0", "1"};
  for (int i = 0; i < n_args; i++)
    f->schema->args[i].name = places[i];
  f->schema->returns[0].name = "0";
  return f;
}

bool script_python_name(session *s, program *p, const char *name, source_range at, sugared *out)
{
  for (size_t i = 0; i < COUNT_OF(functions); i++)
    if (text_same(functions[i], name))
      session_fail(
        s, &at, "Python builtin <built-in function %s> is currently not supported in Torchscript",
        name);
  for (size_t i = 0; i < COUNT_OF(classes); i++) {
    if (text_same(classes[i].name, name)) {
      *out =
        (sugared){.kind = SUGAR_FUNCTION, .as.function = class_call(s, p, name, classes[i].n_args)};
      return true;
    }
  }
  return false;
}

/* -- torch.nn.functional ----------------------------------------------------------------------- */

#define IN "(input: Tensor, "
#define INPLACE "inplace: bool = False) -> Tensor:\n"
#define EITHER(f, args) \
  "  return torch." f "_(input" args ") if inplace else torch." f "(input" args ")\n"
#define SOFT(f)                                                                                   \
  IN "dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:\n" \
     "  if dim is None:\n    n = input.dim()\n    dim = 0 if n == 0 or n == 1 or n == 3 else 1\n" \
     "  return torch." f "(input, dim, dtype=dtype)\n"
#define OLD "size_average: Optional[bool] = None, "
#define REDUCTION "reduce: Optional[bool] = None, reduction: str = 'mean'"
/* None for the two that are deprecated, then the operator's number. */
#define NUMBER                                                                            \
  "  if reduction == 'none':\n    r = 0\n  elif reduction == 'mean':\n    r = 1\n  elif " \
  "reduction == 'sum':\n    r = 2\n"                                                      \
  "  else:\n    raise ValueError(reduction + \" is not a valid value for reduction\")\n"  \
  "  if size_average is not None or reduce is not None:\n"                                \
  "    mean = size_average if size_average is not None else True\n"                       \
  "    kept = reduce if reduce is not None else True\n"                                   \
  "    r = (1 if mean else 2) if kept else 0\n"
#define LOSS(f)                                                                                \
  "(input: Tensor, target: Tensor, " OLD REDUCTION ") -> Tensor:\n" NUMBER "  return torch." f \
  "(input, target, r)\n"

static const struct { const char *name, *text;
} functional[] = {
  {"dropout", IN "p: float = 0.5, training: bool = True, " INPLACE
                 "  if p < 0.0 or p > 1.0:\n    raise ValueError(f\"dropout probability has to be "
                 "between 0 and 1, but got {p}\")\n" EITHER("dropout", ", p, training")},
  {"alpha_dropout",
   IN "p: float = 0.5, training: bool = False, " INPLACE EITHER("alpha_dropout", ", p, training")},
  {"feature_dropout", IN
   "p: float = 0.5, training: bool = False, " INPLACE EITHER("feature_dropout", ", p, training")},
  {"relu", IN INPLACE EITHER("relu", "")},
  {"relu6", IN INPLACE EITHER("relu6", "")},
  {"elu", IN "alpha: float = 1.0, " INPLACE EITHER("elu", ", alpha")},
  {"selu", IN INPLACE EITHER("selu", "")},
  {"celu", IN "alpha: float = 1.0, " INPLACE EITHER("celu", ", alpha")},
  {"silu", IN INPLACE EITHER("silu", "")},
  {"mish", IN INPLACE EITHER("mish", "")},
  {"hardswish", IN INPLACE EITHER("hardswish", "")},
  {"hardsigmoid", IN INPLACE EITHER("hardsigmoid", "")},
  {"leaky_relu",
   IN "negative_slope: float = 0.01, " INPLACE EITHER("leaky_relu", ", negative_slope")},
  {"hardtanh", IN "min_val: float = -1.0, max_val: float = 1.0, " INPLACE EITHER(
                 "hardtanh", ", min_val, max_val")},
  {"threshold",
   IN "threshold: float, value: float, " INPLACE EITHER("threshold", ", threshold, value")},
  {"sigmoid", "(input: Tensor) -> Tensor:\n  return input.sigmoid()\n"},
  {"tanh", "(input: Tensor) -> Tensor:\n  return input.tanh()\n"},
  {"softmax", SOFT("softmax")},
  {"log_softmax", SOFT("log_softmax")},
  {"softsign", "(input: Tensor) -> Tensor:\n  return input / (input.abs() + 1)\n"},
  {"tanhshrink", "(input: Tensor) -> Tensor:\n  return input - input.tanh()\n"},
  {"normalize",
   IN "p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Optional[Tensor] = None) -> Tensor:\n"
      "  return input / input.norm(p, [dim], keepdim=True).clamp_min(eps).expand_as(input)\n"},
  {"layer_norm",
   IN "normalized_shape: List[int], weight: Optional[Tensor] = None, bias: Optional[Tensor] = "
      "None, eps: float = 1e-5)"
      " -> Tensor:\n  return torch.layer_norm(input, normalized_shape, weight, bias, eps)\n"},
  {"batch_norm", IN "running_mean: Optional[Tensor], running_var: Optional[Tensor], weight: "
                    "Optional[Tensor] = None, "
                    "bias: Optional[Tensor] = None, training: bool = False, momentum: float = 0.1, "
                    "eps: float = 1e-5) -> Tensor:\n"
                    "  return torch.batch_norm(input, weight, bias, running_mean, running_var, "
                    "training, momentum, eps, True)\n"},
  {"group_norm", IN "num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = "
                    "None, eps: float = 1e-5) -> Tensor:\n"
                    "  return torch.group_norm(input, num_groups, weight, bias, eps)\n"},
  {"embedding",
   "(input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = "
   "None, "
   "norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:\n"
   "  pad = -1 if padding_idx is None else padding_idx\n  if pad < -1:\n    pad = weight.size(0) + "
   "pad\n"
   "  if max_norm is not None:\n    torch.embedding_renorm_(weight, input, max_norm, norm_type)\n"
   "  return torch.embedding(weight, input, pad, scale_grad_by_freq, sparse)\n"},
  {"mse_loss", LOSS("mse_loss")},
  {"l1_loss", LOSS("l1_loss")},
  {"soft_margin_loss", LOSS("soft_margin_loss")},
  {"cross_entropy",
   "(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, " OLD
   "ignore_index: int = -100, " REDUCTION ", label_smoothing: float = 0.0) -> Tensor:\n" NUMBER
   "  return torch.cross_entropy_loss(input, target, weight, r, ignore_index, label_smoothing)\n"},
  {"nll_loss", "(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, " OLD
               "ignore_index: int = -100, " REDUCTION ") -> Tensor:\n" NUMBER
               "  return torch.nll_loss_nd(input, target, weight, r, ignore_index)\n"},
  {"binary_cross_entropy",
   "(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, " OLD REDUCTION
   ") -> Tensor:\n" NUMBER "  return torch.binary_cross_entropy(input, target, weight, r)\n"},
  {"binary_cross_entropy_with_logits",
   "(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, " OLD REDUCTION
   ", pos_weight: Optional[Tensor] = None) -> Tensor:\n" NUMBER
   "  return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, r)\n"},
};

/* -- torch.unique: its results depend on flags ------------------------------------------------- */

static sugared unique_of(session *s, program *p, bool inverse, bool counts)
{
  const char *text = session_printf(s,
                                    "def unique(input: Tensor, sorted: bool = True, "
                                    "return_inverse: bool = False, return_counts: bool = False, "
                                    "dim: Optional[int] = None)%s:\n"
                                    "  if dim is not None:\n    a, b, c = torch.unique_dim(input, "
                                    "dim, sorted, return_inverse, return_counts)\n"
                                    "  else:\n    a, b, c = torch._unique2(input, sorted, "
                                    "return_inverse, return_counts)\n  return a%s%s\n",
                                    inverse && counts   ? " -> Tuple[Tensor, Tensor, Tensor]"
                                    : inverse || counts ? " -> Tuple[Tensor, Tensor]"
                                                        : " -> Tensor",
                                    inverse ? ", b" : "", counts ? ", c" : "");
  const char *name = session_printf(s, "__torch__.torch.functional.unique%s%s",
                                    inverse ? "_inverse" : "", counts ? "_counts" : "");
  return (sugared){.kind = SUGAR_FUNCTION, .as.function = script_define_text(s, p, name, text)};
}

static sugared dispatch_on(const char *arg, uint16_t index, const sugared *items)
{
  return (sugared){.kind = SUGAR_DISPATCH, .as.dispatch = {items, arg, index, false}};
}

static sugared unique_function(session *s, program *p)
{
  sugared *flags = session_array(s, sugared, 2);
  for (int inverse = 0; inverse < 2; inverse++) {
    sugared *both = session_array(s, sugared, 2);
    for (int counts = 0; counts < 2; counts++)
      both[counts] = unique_of(s, p, inverse, counts);
    flags[inverse] = dispatch_on("return_counts", 3, both);
  }
  return dispatch_on("return_inverse", 2, flags);
}

bool script_functional(session *s, program *p, const char *path, const char *name, sugared *out)
{
  if (text_same(path, "torch") && text_same(name, "unique")) {
    *out = unique_function(s, p);
    return true;
  }
  if (strcmp(path, "torch.nn.functional") != 0)
    return false;
  for (size_t i = 0; i < COUNT_OF(functional); i++) {
    if (strcmp(functional[i].name, name) != 0)
      continue;
    const char *text = session_printf(s, "def %s%s", name, functional[i].text);
    const char *qualified = session_printf(s, "__torch__.torch.nn.functional.%s", name);
    *out =
      (sugared){.kind = SUGAR_FUNCTION, .as.function = script_define_text(s, p, qualified, text)};
    return true;
  }
  return false;
}
