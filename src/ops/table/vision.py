"""torchvision's operators, with the schemas of 0.28 (kernels/roi_align.c, kernels/roi_pool.c,
kernels/boxes.c, kernels/deform_conv.c).

Its backward operators have no gradients of their own, as in torchvision. Decoders of pictures
(image::decode_jpeg ...) are not implemented.
"""

ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SHAPE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
BACK = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SIZES = "input_sizes[0], input_sizes[1], input_sizes[2], input_sizes[3]"
DEFORM = ("Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
          "SymInt stride_w, SymInt pad_h, SymInt pad_w, "
          "SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
          "bool use_mask")
DEFORM_ARGS = ", ".join(a.split()[1] for a in DEFORM.split(", "))

op("torchvision::nms",
   schema="torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
   family="vision", shape="nms", kernel="kernel_nms", effects=["data_size", "no_grad"])
op("torchvision::box_iou_rotated",
   schema="torchvision::box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor", family="vision",
   shape="box_iou_rotated", results="rule", kernel="kernel_box_iou_rotated", effects=["no_grad"])
op("torchvision::_cuda_version", schema="torchvision::_cuda_version() -> int", family="scalar",
   c="-1")
op("torchvision::roi_align",
   schema=f"torchvision::roi_align({ROI}, int sampling_ratio, bool aligned) -> Tensor",
   family="vision", shape="roi", results="rule", kernel="kernel_roi_align",
   grad={"input": f"ops.torchvision._roi_align_backward(grad, rois, spatial_scale, pooled_height, "
                  f"pooled_width, {SIZES}, sampling_ratio, aligned)"})
op("torchvision::_roi_align_backward", family="vision", shape="roi_backward", results="rule",
   kernel="kernel_roi_align_backward",
   schema=f"torchvision::_roi_align_backward(Tensor grad, Tensor rois, {BACK}, {SHAPE}, int "
          f"sampling_ratio, bool aligned) -> Tensor")
op("torchvision::ps_roi_align",
   schema=f"torchvision::ps_roi_align({ROI}, int sampling_ratio) -> (Tensor, Tensor)",
   family="vision", shape="roi_places", results="rule", kernel="kernel_ps_roi_align",
   grad={"input": f"ops.torchvision._ps_roi_align_backward(grad0, rois, result1, spatial_scale, "
                  f"pooled_height, pooled_width, sampling_ratio, {SIZES})"})
op("torchvision::_ps_roi_align_backward", family="vision", shape="roi_backward", results="rule",
   kernel="kernel_ps_roi_align_backward",
   schema=f"torchvision::_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, "
          f"{BACK}, int sampling_ratio, {SHAPE}) -> Tensor")
op("torchvision::roi_pool", schema=f"torchvision::roi_pool({ROI}) -> (Tensor, Tensor)",
   family="vision", shape="roi_places", results="rule", kernel="kernel_roi_pool",
   grad={"input": f"ops.torchvision._roi_pool_backward(grad0, rois, result1, spatial_scale, "
                  f"pooled_height, pooled_width, {SIZES})"})
op("torchvision::_roi_pool_backward", family="vision", shape="roi_backward", results="rule",
   kernel="kernel_roi_pool_backward",
   schema=f"torchvision::_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {BACK}, "
          f"{SHAPE}) -> Tensor")
op("torchvision::ps_roi_pool", schema=f"torchvision::ps_roi_pool({ROI}) -> (Tensor, Tensor)",
   family="vision", shape="roi_places", results="rule", kernel="kernel_ps_roi_pool",
   grad={"input": f"ops.torchvision._ps_roi_pool_backward(grad0, rois, result1, spatial_scale, "
                  f"pooled_height, pooled_width, {SIZES})"})
op("torchvision::_ps_roi_pool_backward", family="vision", shape="roi_backward", results="rule",
   kernel="kernel_ps_roi_pool_backward",
   schema=f"torchvision::_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, "
          f"{BACK}, {SHAPE}) -> Tensor")
op("torchvision::deform_conv2d", schema=f"torchvision::deform_conv2d({DEFORM}) -> Tensor",
   family="vision", shape="deform_conv2d", results="rule", kernel="kernel_deform_conv2d",
   grad={"input, weight, offset, mask, bias": f"ops.torchvision._deform_conv2d_backward(grad, "
                                              f"{DEFORM_ARGS})"})
op("torchvision::_deform_conv2d_backward", family="vision", shape="deform_conv2d_backward",
   results="rule", kernel="kernel_deform_conv2d_backward",
   schema=f"torchvision::_deform_conv2d_backward(Tensor grad, {DEFORM}) -> (Tensor, Tensor, "
          f"Tensor, Tensor, Tensor)")
