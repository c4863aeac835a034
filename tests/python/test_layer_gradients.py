"""Gradients of recurrent networks and attention, which op_db has no entries of, through the table's formulas and bodies."""

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
    "transformer": lambda: torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
}


class Packed(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, _ = self.layer(pack_padded_sequence(x, torch.tensor([5, 3, 2])))
        return pad_packed_sequence(rows)[0]


def outputs(layer: Any, x: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(5)
    return [t for t in grad_walk.tree_leaves(layer(x)) if isinstance(t, torch.Tensor) and t.requires_grad]


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]().to(torch.float64)
    x = torch.randn(*(3, 4) if "cell" in name else (5, 3, 4), dtype=torch.float64, requires_grad=True)
    inputs = [x, *layer.parameters()]
    made = outputs(layer, x)
    weights = [torch.randn_like(t) for t in made]
    want = torch.autograd.grad(made, inputs, weights)
    with enable_python_dispatcher(), grad_walk.Walk():
        made = outputs(layer, x)
    got = torch.autograd.grad(made, inputs, weights)
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-8)
