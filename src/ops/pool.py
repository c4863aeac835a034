"""Windows over planes (pool.c)."""

for n in "1d", "2d", "3d":
    op(f"aten::max_pool{n}", family="pool", kernel=f"kernel_max_pool{n}")
    op(f"aten::max_pool{n}_with_indices", family="pool", kernel=f"kernel_max_pool{n}_with_indices",
       variants={} if n == "1d" else {"out": f"aten::max_pool{n}_with_indices.out"})
    op(f"aten::avg_pool{n}", family="pool", kernel=f"kernel_avg_pool{n}", effects=["quantized_scales"],
       variants={"out": f"aten::avg_pool{n}.out"})
    op(f"aten::adaptive_avg_pool{n}", family="pool", kernel=f"kernel_adaptive_avg_pool{n}", effects=["quantized_scales"],
       variants={"out": f"aten::adaptive_avg_pool{n}.out"})
    op(f"aten::adaptive_max_pool{n}", family="pool", kernel=f"kernel_adaptive_max_pool{n}",
       variants={} if n == "1d" else {"out": f"aten::adaptive_max_pool{n}.out"})
for n in "2d", "3d":
    op(f"aten::_adaptive_avg_pool{n}", family="pool", kernel=f"kernel_adaptive_avg_pool{n}", effects=["quantized_scales"],
       variants={"out": f"aten::_adaptive_avg_pool{n}.out"})
    op(f"aten::fractional_max_pool{n}", family="pool", kernel=f"kernel_fractional_max_pool{n}",
       variants={"out": f"aten::fractional_max_pool{n}.output"})
    op(f"aten::max_unpool{n}", family="pool", kernel=f"kernel_max_unpool{n}",
       variants={"out": f"aten::max_unpool{n}.out"})
    op(f"aten::avg_pool{n}_backward", family="backward", kernel=f"kernel_avg_pool{n}_backward",
       variants={"out": f"aten::avg_pool{n}_backward.grad_input"})
    op(f"aten::_adaptive_avg_pool{n}_backward", family="backward", kernel=f"kernel_adaptive_avg_pool{n}_backward",
       variants={"out": f"aten::_adaptive_avg_pool{n}_backward.out"})
