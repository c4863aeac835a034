"""Softmax and normalisations (norm.c, batch_norm.c)."""

op("aten::softmax.int", family="norm", kernel="kernel_softmax", variants={"out": "aten::softmax.int_out"})
op("aten::log_softmax.int", family="norm", kernel="kernel_log_softmax",
   variants={"out": "aten::log_softmax.int_out"})
op("aten::special_softmax", family="norm", kernel="kernel_softmax")
op("aten::special_log_softmax", family="norm", kernel="kernel_log_softmax")
op("aten::_softmax", family="norm", kernel="kernel__softmax", variants={"out": "aten::_softmax.out"})
op("aten::_log_softmax", family="norm", kernel="kernel__log_softmax",
   variants={"out": "aten::_log_softmax.out"})
op("aten::_safe_softmax", family="norm", kernel="kernel__safe_softmax")

op("aten::layer_norm", family="norm", kernel="kernel_layer_norm", effects=["nested_rows"])
op("aten::native_layer_norm", family="norm", kernel="kernel_layer_norm",
   variants={"out": "aten::native_layer_norm.out"})
op("aten::rms_norm", family="norm", kernel="kernel_rms_norm")
op("aten::_fused_rms_norm", family="norm", kernel="kernel_rms_norm")
op("aten::group_norm", family="norm", kernel="kernel_group_norm")
op("aten::native_group_norm", family="norm", kernel="kernel_native_group_norm",
   variants={"out": "aten::native_group_norm.out"})

op("aten::batch_norm", family="norm", kernel="kernel_batch_norm")
op("aten::native_batch_norm", family="norm", kernel="kernel_batch_norm",
   variants={"out": "aten::native_batch_norm.out"})
op("aten::_native_batch_norm_legit", family="norm", kernel="kernel_batch_norm")
op("aten::_native_batch_norm_legit.no_stats", family="norm", kernel="kernel_batch_norm_no_stats")
op("aten::_native_batch_norm_legit_no_training", family="norm", kernel="kernel_batch_norm_no_training")
op("aten::_native_batch_norm_legit_functional", family="norm", kernel="kernel_batch_norm_functional")
op("aten::_batch_norm_impl_index", family="norm", kernel="kernel__batch_norm_impl_index")
op("aten::_batch_norm_with_update", family="norm", kernel="kernel__batch_norm_with_update")
op("aten::instance_norm", family="norm", kernel="kernel_instance_norm")
