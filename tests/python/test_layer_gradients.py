"""Gradients of what op_db has no entries of, by the table: recurrent networks, gradients
themselves, other names."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import grad_walk  # noqa: E402
from torch._dispatch.python import enable_python_dispatcher  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

LAYERS = {
    "lstm": lambda: torch.nn.LSTM(4, 6, num_layers=2, bidirectional=True),
    "lstm, projected": lambda: torch.nn.LSTM(4, 6, proj_size=3, batch_first=True),
    "gru": lambda: torch.nn.GRU(4, 6, num_layers=2, dropout=0.5),
    "rnn": lambda: torch.nn.RNN(4, 6, bias=False, bidirectional=True),
    "rnn, relu": lambda: torch.nn.RNN(4, 6, nonlinearity="relu"),
    "gru cell": lambda: torch.nn.GRUCell(4, 6),
    "lstm cell": lambda: torch.nn.LSTMCell(4, 6),
    "packed lstm": lambda: Packed(torch.nn.LSTM(4, 6, bidirectional=True)),
    "packed gru": lambda: Packed(torch.nn.GRU(4, 6, num_layers=2)),
    "a bias for each row": lambda: Rows(),
    "transformer": lambda: torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
}


class Packed(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, _ = self.layer(pack_padded_sequence(x, torch.tensor([5, 3, 2])))
        return pad_packed_sequence(rows)[0]


class Rows(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4))
        self.bias = torch.nn.Parameter(torch.randn(3, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight, self.bias)


def outputs(layer: Any, x: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(5)
    return [
        t
        for t in grad_walk.tree_leaves(layer(x))
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]().to(torch.float64)
    x = torch.randn(
        *(3, 4) if "cell" in name else (5, 3, 4), dtype=torch.float64, requires_grad=True
    )
    inputs = [x, *layer.parameters()]
    made = outputs(layer, x)
    weights = [torch.randn_like(t) for t in made]
    want = torch.autograd.grad(made, inputs, weights)
    with enable_python_dispatcher(), grad_walk.Walk():
        made = outputs(layer, x)
    got = torch.autograd.grad(made, inputs, weights)
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)


def leaf(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, dtype=torch.float64, requires_grad=True)


S = (3, 7)
CALLS = {
    **{f"{n}_backward": (S, S) for n in ("hardswish", "silu", "mish", "gelu", "sigmoid", "tanh")},
    "threshold_backward": (S, S, 0.2),
    "hardtanh_backward": (S, S, -0.4, 0.9),
    "leaky_relu_backward": (S, S, 0.1, False),
    "softshrink_backward": (S, S, 0.3),
    "hardshrink_backward": (S, S, 0.3),
    "softplus_backward": (S, S, 1.5, 2.0),
    "elu_backward": (S, 1.5, 1.2, 0.7, False, S),
    "elu_backward#": (S, 1.5, 1.2, 0.7, True, S),
    "gelu_backward#": (S, S, {"approximate": "tanh"}),
    "_prelu_kernel_backward": (S, S, S),
    "glu_backward": ((3, 4), (3, 8), 1),
    "avg_pool2d_backward": ((2, 3, 4, 4), (2, 3, 8, 8), [2, 2], [2, 2], [0, 0], False, True, None),
    "_adaptive_avg_pool2d_backward": ((2, 3, 3, 3), (2, 3, 8, 8)),
    "upsample_bilinear2d_backward": ((2, 3, 7, 7), [7, 7], [2, 3, 4, 4], False),
    "upsample_nearest1d_backward": ((2, 3, 7), [7], [2, 3, 4]),
    "_upsample_bicubic2d_aa_backward": ((2, 3, 3, 3), [3, 3], [2, 3, 6, 6], False),
    "unfold_backward": ((3, 3, 2), [3, 6], 1, 2, 2),
    "fake_quantize_per_tensor_affine": ((40,), 0.05, 2, -8, 7),
    "thnn_conv2d": ((2, 3, 6, 6), (4, 3, 3, 3), [3, 3], (4,), [2, 2], [1, 1]),
    "slow_conv_dilated2d": ((2, 3, 7, 7), (4, 3, 3, 3), [3, 3], (4,), [1, 1], [0, 0], [2, 2]),
    "slow_conv_transpose2d": (
        (2, 3, 4, 4),
        (3, 4, 3, 3),
        [3, 3],
        (4,),
        [2, 2],
        [1, 1],
        [1, 1],
        [1, 1],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_gradients(name: str) -> None:
    torch.manual_seed(2)
    args = [leaf(*a) if isinstance(a, tuple) else a for a in CALLS[name]]
    kwargs = args.pop() if isinstance(args[-1], dict) else {}
    inputs = [a for a in args if isinstance(a, torch.Tensor)]

    def run(weights: list[torch.Tensor], theirs: Any = None) -> list[torch.Tensor]:
        if theirs:  # PyTorch differentiates these once only when they are called by name
            made = torch.autograd.grad(theirs(args[1]), args[1], args[0], create_graph=True)
        else:
            made = grad_walk.as_list(getattr(torch.ops.aten, name.rstrip("#"))(*args, **kwargs))
        weights += [torch.randn_like(t) for t in made[len(weights) :]]
        got = torch.autograd.grad(made, inputs, weights, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g for g, t in zip(got, inputs, strict=True)]

    weights: list[torch.Tensor] = []
    want = run(
        weights,
        {"silu_backward": torch.nn.functional.silu, "mish_backward": torch.nn.functional.mish}.get(
            name
        ),
    )
    with enable_python_dispatcher(), grad_walk.Walk():
        got = run(weights)
    torch.testing.assert_close(got, want, rtol=1e-7, atol=1e-7)
