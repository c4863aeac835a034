"""Operators that move every element to another place, or add the elements that meet there."""


def rearrange(name, kernel=None, out=None, same=(), **more):
    op(f"aten::{name}", family="rearrange", shape=name, kernel=kernel or f"kernel_{name}", **more,
       same=[f"aten::{n}" for n in same], variants={"out": f"aten::{out or name + '.out'}"})


rearrange("pixel_shuffle", results="rule")
rearrange("pixel_unshuffle", results="rule")
rearrange("channel_shuffle", same=["native_channel_shuffle"], results="rule")
rearrange("im2col", results="rule")
rearrange("col2im", results="rule")
rearrange("unfold_backward", results="rule")
