"""Calls of operators that none of PyTorch's samples reach: aliases, numbers in place of tensors,
parts of larger ones. Formulas of what PyTorch itself does not differentiate have nothing to be
compared with.

NAME: what makes its arguments; `r` draws numbers that require a gradient where they are given to
it, `i` indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

F64, C128 = torch.float64, torch.complex128
S = (3, 4)


class Maker:
    """Draws arguments from one seed."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(11)

    def __call__(self, *sizes: int, dtype: torch.dtype = F64) -> torch.Tensor:
        return torch.randn(sizes, dtype=dtype, generator=self.generator).requires_grad_()

    def unit(self, *sizes: int) -> torch.Tensor:
        """Between 0.1 and 0.9."""
        return (torch.rand(sizes, dtype=F64, generator=self.generator) * 0.8 + 0.1).requires_grad_()

    def above(self, *sizes: int) -> torch.Tensor:
        """Between 1.5 and 2.5."""
        return (torch.rand(sizes, dtype=F64, generator=self.generator) + 1.5).requires_grad_()

    def i(self, top: int, *sizes: int) -> torch.Tensor:
        return torch.randint(top, sizes, generator=self.generator)

    def mask(self, *sizes: int) -> torch.Tensor:
        return torch.rand(sizes, generator=self.generator) > 0.5


CASES: dict[str, Callable[[Maker], Any]] = {}


def case(names: str, make: Callable[[Maker], Any], **named: Any) -> None:
    for name in names.split():
        CASES[name] = lambda r, make=make, named=named: (make(r), named)


def positive(r: Maker) -> torch.Tensor:
    """A matrix with a logarithm of its determinant."""
    a = r(3, 3).detach()
    return (a @ a.mT + torch.eye(3, dtype=F64)).requires_grad_()


# -- Pointwise

case("multiply.Tensor divide.Tensor true_divide.Tensor subtract.Tensor", lambda r: (r(*S), r(4)))
case("add.Scalar sub.Scalar subtract.Scalar mul.Scalar multiply.Scalar div.Scalar divide.Scalar "
     "true_divide.Scalar "
     "remainder.Scalar fmod.Scalar", lambda r: (r(*S), 2.5))  # fmt: skip
for NAME in ("mul.Scalar", "div.Scalar", "add.Scalar"):
    CASES[NAME + " "] = lambda r: ((r(*S, dtype=C128), 2 - 1j), {})
case("div.Scalar_mode divide.Scalar_mode", lambda r: (r(*S), 0.7), rounding_mode="floor")
CASES["divide.Scalar_mode "] = lambda r: ((r(*S), 0.7), {"rounding_mode": None})
case("divide.Tensor_mode", lambda r: (r(*S), r(4)), rounding_mode=None)
case("pow.Scalar", lambda r: (2.5, r(*S)))
case("negative absolute fix special_expit special_exp2 special_expm1 special_erf special_erfc "
     "special_sinc special_i0 "
     "arctan arcsinh", lambda r: (r(*S),))  # fmt: skip
case("arcsin arccos arctanh special_erfinv special_logit", lambda r: (r.unit(*S),))
case("arccosh special_gammaln special_digamma special_psi special_log1p", lambda r: (r.above(*S),))
case("arctan2", lambda r: (r(*S), r(4)))
case("clip", lambda r: (r(*S), -0.5, 0.5))
case("clip.Tensor", lambda r: (r(*S), r(4), r(3, 1)))
case("clamp_max", lambda r: (r(*S), 0.2))
case("where.ScalarSelf", lambda r: (r.mask(*S), 1.5, r(*S)))
case("where.ScalarOther", lambda r: (r.mask(*S), r(*S), 1.5))
case(
    "xlogy.Scalar_Self special_xlogy.self_scalar special_xlog1py.self_scalar",
    lambda r: (1.5, r.above(*S)),
)
case(
    "xlogy.Scalar_Other special_xlogy.other_scalar special_xlog1py.other_scalar",
    lambda r: (r(*S), 1.5),
)
case("special_xlogy", lambda r: (r(*S), r.above(4)))
case(
    "igamma igammac special_gammainc special_gammaincc special_zeta",
    lambda r: (r.above(*S).detach(), r.above(4)),
)
case("special_zeta.self_scalar", lambda r: (2.5, r.above(4)))
case("log_sigmoid_forward", lambda r: (r(*S),))

# -- Shapes and conversions

case("_unsafe_view", lambda r: (r(*S), [2, 6]))
case("_reshape_alias _reshape_alias_copy", lambda r: (r(*S), [2, 6], [6, 1]))
case("swapaxes swapdims", lambda r: (r(2, 3, 4), 0, 2))
case("adjoint", lambda r: (r(2, 3, 4, dtype=C128),))
case("movedim.int moveaxis.int", lambda r: (r(2, 3, 4), 0, 2))
case("moveaxis.intlist", lambda r: (r(2, 3, 4), [0, 1], [2, 0]))
case("squeeze_copy.dims", lambda r: (r(1, 3, 1), [0, 2]))
case("select_copy.int", lambda r: (r(*S), 1, 2))
case("slice_copy.Tensor", lambda r: (r(*S), 1, 0, 4, 2))
case("lift lift_fresh_copy", lambda r: (r(*S),))
case("view_as_real_copy", lambda r: (r(*S, dtype=C128),))
case("split_copy.Tensor", lambda r: (r(5, 2), 2))
case("split.sizes unsafe_split_with_sizes", lambda r: (r(5, 2), [2, 3]))
case("to.other", lambda r: (r(*S), torch.zeros(1)))
case("to.dtype_layout _to_copy", lambda r: (r(*S),), dtype=torch.float32)
case("type_as", lambda r: (r(*S), torch.zeros(1)))
case("fill.Tensor", lambda r: (r(*S), r()))
case("concat concatenate", lambda r: ([r(2, 3), r(4, 3)],))
case("row_stack", lambda r: ([r(3), r(2, 3)],))
case("meshgrid", lambda r: ([r(2), r(3)],))
case("_pad_circular", lambda r: (r(1, 2, 4), [1, 2]))
case("_pad_enum", lambda r: (r(1, 2, 4), [1, 2], 2))
for D in (1, 2, 3):
    case(f"reflection_pad{D}d replication_pad{D}d", lambda r, D=D: (r(2, 3, *[4] * D), [1, 2] * D))

# -- Indices

case("index.Tensor _unsafe_index.Tensor", lambda r: (r(*S), [r.i(3, 2), r.i(4, 2)]))
case("_unsafe_index_put _index_put_impl", lambda r: (r(*S), [r.i(3, 2), r.i(4, 2)], r(2), True))
case("index_put", lambda r: (r(*S), [torch.tensor([0, 2]), None], r(2, 4)))

# -- Reductions, orders

case("special_logsumexp", lambda r: (r(*S), [0]))
case("norm.ScalarOpt_dim_dtype", lambda r: (r(*S), 3, [1], False), dtype=F64)
case("norm.ScalarOpt_dtype", lambda r: (r(*S), 1.5), dtype=F64)
case("frobenius_norm.dim", lambda r: (r(*S), [0, 1]))
case("special_softmax special_log_softmax", lambda r: (r(*S), 1))
case("_softmax _log_softmax", lambda r: (r(*S), 1, False))
case("_softmax_backward_data _log_softmax_backward_data", lambda r: (r(*S), r(*S), 1, F64))

# -- Products, distances, losses, matrices

case("linalg_matmul", lambda r: (r(2, *S), r(4)))
case("_cdist_forward", lambda r: (r(3, 2), r(4, 2), 1.5, None))
case("_euclidean_dist", lambda r: (r(3, 2), r(4, 2)))
case("_pdist_forward", lambda r: (r(4, 3), 3.0))
case("nll_loss", lambda r: (r(3, 4), r.i(4, 3), r(4).detach().abs()))
case("nll_loss2d", lambda r: (r(2, 4, 2, 3), r.i(4, 2, 2, 3)))
case("nll_loss_forward", lambda r: (r(3, 4), r.i(4, 3), None, 2, 1))
case("nll_loss2d_forward", lambda r: (r(2, 4, 2, 3), r.i(4, 2, 2, 3), None, 0, -100))
case(
    "multilabel_margin_loss_forward",
    lambda r: (r(2, 3), torch.tensor([[1, 0, -1], [2, -1, -1]]), 1),
)
case("inverse det slogdet linalg_matrix_exp _linalg_det _linalg_slogdet", lambda r: (positive(r),))
case("_linalg_solve_ex", lambda r: (positive(r), r(3, 2)))

# -- Layers

case("convolution", lambda r: (r(1, 2, 5), r(3, 2, 3), r(3), [1], [1], [1], False, [0], 1))
case(
    "_convolution.deprecated",
    lambda r: (r(1, 2, 5), r(3, 2, 3), r(3), [1], [1], [1], False, [0], 1, False, False, False),
)
case(
    "_convolution",
    lambda r: (
        r(1, 2, 5),
        r(3, 2, 3),
        r(3),
        [1],
        [1],
        [1],
        False,
        [0],
        1,
        False,
        False,
        False,
        False,
    ),
)
case("_convolution_mode", lambda r: (r(1, 2, 5), r(3, 2, 3), r(3), [1], "same", [1], 1))
case("conv_tbc", lambda r: (r(5, 2, 3), r(3, 3, 4), r(4), 1))
case(
    "_native_batch_norm_legit_no_training",
    lambda r: (r(2, 3, 4), r(3), r(3), r(3).detach(), r.unit(3).detach(), 0.1, 1e-5),
)
case(
    "_native_batch_norm_legit_functional",
    lambda r: (r(2, 3, 4), r(3), r(3), r(3).detach(), r.unit(3).detach(), True, 0.1, 1e-5),
)
case("_adaptive_avg_pool2d", lambda r: (r(1, 2, 5, 6), [2, 3]))
case("_adaptive_avg_pool3d", lambda r: (r(1, 2, 4, 5, 6), [2, 2, 3]))
case("affine_grid_generator", lambda r: (r(2, 2, 3), [2, 1, 3, 4], False))
case("upsample_nearest1d _upsample_nearest_exact1d", lambda r: (r(1, 2, 3), [5]))
case("upsample_nearest2d _upsample_nearest_exact2d", lambda r: (r(1, 2, 3, 3), [5, 4]))
case("upsample_nearest3d _upsample_nearest_exact3d", lambda r: (r(1, 2, 3, 3, 2), [5, 4, 3]))
case("upsample_linear1d", lambda r: (r(1, 2, 3), [5], True))
case("upsample_bilinear2d upsample_bicubic2d", lambda r: (r(1, 2, 3, 3), [5, 4], False))
case(
    "_upsample_bilinear2d_aa _upsample_bicubic2d_aa _upsample_lanczos2d_aa",
    lambda r: (r(1, 2, 5, 6), [3, 4], False),
)
case("upsample_trilinear3d", lambda r: (r(1, 2, 3, 3, 2), [5, 4, 3], False))
case("native_dropout", lambda r: (r(*S), 0.3, True))
case("poisson", lambda r: (r.unit(*S),))
case("normal.float_Tensor", lambda r: (0.5, r.unit(*S)))
case(
    "embedding_bag", lambda r: (r(5, 3), r.i(5, 6), torch.tensor([0, 2, 4]), False, 0, False, r(6))
)
