"""Products of matrices and vectors (matmul.c, einsum.c)."""

op("aten::mm", family="matmul", kernel="kernel_mm", variants={"out": "aten::mm.out"})
op("aten::addmm", family="matmul", kernel="kernel_addmm",
   variants={"inplace": "aten::addmm_", "out": "aten::addmm.out"})
op("aten::_addmm_activation", family="matmul", kernel="kernel__addmm_activation",
   variants={"out": "aten::_addmm_activation.out"})
op("aten::_int_mm", family="matmul", kernel="kernel__int_mm", variants={"out": "aten::_int_mm.out"})
op("aten::bmm", family="matmul", kernel="kernel_bmm", variants={"out": "aten::bmm.out"})
op("aten::baddbmm", family="matmul", kernel="kernel_baddbmm",
   variants={"inplace": "aten::baddbmm_", "out": "aten::baddbmm.out"})
op("aten::addbmm", family="matmul", kernel="kernel_addbmm",
   variants={"inplace": "aten::addbmm_", "out": "aten::addbmm.out"})
op("aten::mv", family="matmul", kernel="kernel_mv", variants={"out": "aten::mv.out"})
op("aten::addmv", family="matmul", kernel="kernel_addmv",
   variants={"inplace": "aten::addmv_", "out": "aten::addmv.out"})
op("aten::dot", family="matmul", kernel="kernel_dot", variants={"out": "aten::dot.out"})
op("aten::vdot", family="matmul", kernel="kernel_vdot", variants={"out": "aten::vdot.out"})
op("aten::matmul", family="matmul", kernel="kernel_matmul", variants={"out": "aten::matmul.out"})
op("aten::linalg_matmul", family="matmul", kernel="kernel_matmul", variants={"out": "aten::linalg_matmul.out"})
op("aten::linear", family="matmul", kernel="kernel_linear", variants={"out": "aten::linear.out"})
op("aten::mkldnn_linear", family="matmul", kernel="kernel_linear", variants={"out": "aten::mkldnn_linear.out"})
