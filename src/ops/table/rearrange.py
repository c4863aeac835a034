"""Operators that move every element to another place, or add up what meets there."""


def rearrange(name, kernel=None, out=None, same=()):
    op(f"aten::{name}", family="rearrange", shape=name, kernel=kernel or f"kernel_{name}",
       same=[f"aten::{n}" for n in same], variants={"out": f"aten::{out or name + '.out'}"})


rearrange("pixel_shuffle")
rearrange("pixel_unshuffle")
rearrange("channel_shuffle", same=["native_channel_shuffle"])
rearrange("im2col")
rearrange("col2im")
rearrange("unfold_backward")
