"""Recurrent networks (rnn.c) and packed sequences (packed_sequence.c).

The kernels compute the results; gradients are computed through the bodies, which do the same step
by step.
"""

# mode: the operator's index in MODES below. `gates` is the input's part of the gates; for an LSTM
# `c` is passed with `h`.
helper("""
def rnn_step(mode: int, gates: Tensor, h: Tensor, c: Tensor, w_hh: Tensor, b_hh: Optional[Tensor],
             w_hr: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    more = torch.linear(h, w_hh, b_hh)
    if mode == 0:
        i, f, g, o = torch.unsafe_chunk(gates + more, 4, -1)
        cell = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        out = torch.sigmoid(o) * torch.tanh(cell)
        if w_hr is not None:
            out = torch.linear(out, w_hr)
        return out, cell
    if mode == 1:
        r, z, n = torch.unsafe_chunk(gates, 3, -1)
        hr, hz, hn = torch.unsafe_chunk(more, 3, -1)
        fresh = torch.tanh(n + torch.sigmoid(r + hr) * hn)
        return fresh + torch.sigmoid(z + hz) * (h - fresh), c
    both = gates + more
    return torch.tanh(both) if mode == 2 else torch.relu(both), c
""")
# x: the rows of step 0, of step 1..., as many as `sizes` has; sequences that have ended (or,
# backwards, have not begun) keep their state.
helper("""
def rnn_layers(mode: int, rows: Tensor, sizes: List[int], hx: Tensor, cx: Tensor,
               params: List[Tensor], biased: bool, layers: int,
               dropout: float, train: bool, bidirectional: bool) -> Tuple[Tensor, Tensor, Tensor]:
    dirs = 2 if bidirectional else 1
    each = len(params) // (layers * dirs)
    n = len(sizes)
    first: List[int] = [0]
    for size in sizes:
        first.append(first[-1] + size)
    x = rows
    last_h: List[Tensor] = []
    last_c: List[Tensor] = []
    for layer in range(layers):
        sides: List[Tensor] = []
        for d in range(dirs):
            at = (layer * dirs + d) * each
            b_ih: Optional[Tensor] = None
            b_hh: Optional[Tensor] = None
            w_hr: Optional[Tensor] = None
            if biased:
                b_ih, b_hh = params[at + 2], params[at + 3]
            if each % 2 == 1:
                w_hr = params[at + each - 1]
            gates = torch.linear(x, params[at], b_ih)
            h, c = hx.select(0, layer * dirs + d), cx.select(0, layer * dirs + d)
            steps: List[Tensor] = []
            for step in range(n):
                t = n - 1 - step if d == 1 else step
                m = sizes[t]
                out, cell = rnn_step(mode, gates.narrow(0, first[t], m), h.narrow(0, 0, m),
                                     c.narrow(0, 0, m), params[at + 1], b_hh, w_hr)
                steps.append(out)
                k = h.size(0) - m
                h = out if k == 0 else torch.cat([out, h.narrow(0, m, k)], 0)
                c = cell if k == 0 else torch.cat([cell, c.narrow(0, m, k)], 0)
            if d == 1:
                steps = [steps[n - 1 - i] for i in range(n)]
            sides.append(torch.cat(steps, 0))
            last_h.append(h)
            last_c.append(c)
        x = torch.cat(sides, -1) if dirs == 2 else sides[0]
        if dropout > 0.0 and train and layer < layers - 1:
            x = torch.dropout(x, dropout, train)
    return x, torch.stack(last_h, 0), torch.stack(last_c, 0)
""")
REST = (
    "params: List[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, "
    "bidirectional: bool"
)
CELL = "w_ih: Tensor, w_hh: Tensor, b_ih: Optional[Tensor], b_hh: Optional[Tensor]"
MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
for mode, name in enumerate(MODES):
    shape = "lstm" if name == "lstm" else "rnn"
    hx, states = ("hx: List[Tensor]", "hx[0], hx[1]") if name == "lstm" else ("hx: Tensor",
        "hx, hx")
    returned, kept = ("Tuple[Tensor, Tensor, Tensor]",
                      ", h, c") if name == "lstm" else ("Tuple[Tensor, Tensor]", ", h")
    rest = f"{states}, params, has_biases, num_layers, dropout, train, bidirectional)"
    op(f"aten::{name}.input", family="rnn", shape=shape, kernel=f"kernel_{name}_input", body=f"""
def {name}(input: Tensor, {hx}, {REST}, batch_first: bool) -> {returned}:
    x = input.transpose(0, 1) if batch_first else input
    n, k = x.size(0), x.size(1)
    y, h, c = rnn_layers({mode}, x.reshape([n * k, x.size(2)]), [k] * n, {rest}
    y = y.reshape([n, k, y.size(1)])
    return y.transpose(0, 1) if batch_first else y{kept}
""")
    op(f"aten::{name}.data", family="rnn", shape=shape, kernel=f"kernel_{name}_data", body=f"""
def {name}(data: Tensor, batch_sizes: Tensor, {hx}, {REST}) -> {returned}:
    sizes: List[int] = []
    for t in range(batch_sizes.size(0)):
        sizes.append(int(batch_sizes[t]))
    y, h, c = rnn_layers({mode}, data, sizes, {rest}
    return y{kept}
""")
    one = "Tuple[Tensor, Tensor]" if name == "lstm" else "Tensor"
    op(f"aten::{name}_cell", family="rnn", shape=f"{shape}_cell", kernel=f"kernel_{name}_cell",
       body=f"""
def {name}_cell(input: Tensor, {hx}, {CELL}) -> {one}:
    h, c = rnn_step({mode}, torch.linear(input, w_ih, b_ih), {states}, w_hh, b_hh, None)
    return h{", c" if name == "lstm" else ""}
""")
op("aten::_pack_padded_sequence", family="rnn", shape="pack_sequence",
   kernel="kernel__pack_padded_sequence",
   grad={"input":
         "torch._pack_padded_sequence_backward(grad0, input.size(), result1, batch_first)"},
   variants={"out": "aten::_pack_padded_sequence.out"})
op("aten::_pad_packed_sequence", family="rnn", shape="pad_packed",
   kernel="kernel__pad_packed_sequence", grad={"data": """
   g = grad0.transpose(0, 1) if batch_first else grad0
   rows: List[Tensor] = []
   for t in range(batch_sizes.size(0)):
       rows.append(g.select(0, t).narrow(0, 0, int(batch_sizes[t])))
   torch.cat(rows, 0)
   """})

# Facts about these operators that other parts read.
known("mkldnn_rnn_layer", autocast="lower")
known("_thnn_fused_gru_cell.* _thnn_fused_lstm_cell.* gru_cell.* lstm_cell.* rnn_relu_cell.* "
      "rnn_tanh_cell.*",
      script_autocast="lower")
