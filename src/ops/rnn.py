"""Recurrent networks (rnn.c) and packed sequences (sequence.c)."""

for name in "lstm", "gru", "rnn_tanh", "rnn_relu":
    shape = "lstm" if name == "lstm" else "rnn"
    op(f"aten::{name}.input", family="rnn", shape=shape, kernel=f"kernel_{name}_input")
    op(f"aten::{name}.data", family="rnn", shape=shape, kernel=f"kernel_{name}_data")
    op(f"aten::{name}_cell", family="rnn", shape=f"{shape}_cell", kernel=f"kernel_{name}_cell")
op("aten::_pack_padded_sequence", family="rnn", kernel="kernel__pack_padded_sequence",
   variants={"out": "aten::_pack_padded_sequence.out"})
op("aten::_pad_packed_sequence", family="rnn", kernel="kernel__pad_packed_sequence")
