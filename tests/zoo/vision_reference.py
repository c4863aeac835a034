"""torchvision's nms and roi_align by their definitions, for a Python where torchvision's compiled
library does not load.

The wheels of torchvision are built for torch with CUDA and need its libraries.  The detectors of
torchvision call these two operators alone; `define` registers them in torch before torchvision is
imported.  roi_align is two small matrices a region: bilinear sampling is separable, and so is the
mean over the samples of a bin.
"""

from __future__ import annotations

import torch


def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    order = torch.sort(scores, descending=True, stable=True).indices
    sorted_boxes = boxes[order]
    area = (sorted_boxes[:, 2] - sorted_boxes[:, 0]) * (sorted_boxes[:, 3] - sorted_boxes[:, 1])
    alive = torch.ones(len(order), dtype=torch.bool)
    for i in range(len(order)):
        if not alive[i]:
            continue
        low = torch.maximum(sorted_boxes[i, :2], sorted_boxes[i + 1 :, :2])
        high = torch.minimum(sorted_boxes[i, 2:], sorted_boxes[i + 1 :, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        alive[i + 1 :] &= ~(shared / (area[i] + area[i + 1 :] - shared) > threshold)
    return order[alive]


def samples(
    start: float, size: float, n_out: int, ratio: int, n: int, dtype: torch.dtype
) -> torch.Tensor:
    """Return [n_out, n]: the weight of each of n elements in each bin."""
    n_samples = ratio if ratio > 0 else int(torch.ceil(torch.tensor(size / n_out, dtype=dtype)))
    inside_bin = (torch.arange(n_samples, dtype=dtype) + 0.5) / max(n_samples, 1)
    at = (torch.arange(n_out, dtype=dtype)[:, None] + inside_bin) * (size / n_out) + start
    inside = (at >= -1) & (at <= n)
    at = at.clamp(0, n - 1)
    low = at.floor().long()
    high = (low + 1).clamp(max=n - 1)
    part = at - low
    made = torch.zeros(n_out, n, dtype=dtype)
    made.scatter_add_(1, low, (1 - part) * inside)
    made.scatter_add_(1, high, part * inside)
    return made / max(n_samples, 1)


def roi_align(
    x: torch.Tensor,
    rois: torch.Tensor,
    scale: float,
    out_h: int,
    out_w: int,
    ratio: int,
    aligned: bool,
) -> torch.Tensor:
    made = [torch.zeros(0, x.shape[1], out_h, out_w, dtype=x.dtype)]
    for image, *corners in rois.tolist():
        x1, y1, x2, y2 = (c * scale - (0.5 if aligned else 0) for c in corners)
        width, height = (max(b - a, 0.0 if aligned else 1.0) for a, b in ((x1, x2), (y1, y2)))
        rows = samples(y1, height, out_h, ratio, x.shape[2], x.dtype)
        columns = samples(x1, width, out_w, ratio, x.shape[3], x.dtype)
        made.append((rows @ x[int(image)] @ columns.T)[None])
    return torch.cat(made)


def define() -> None:
    torch.library.define(
        "torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )
    torch.library.define(
        "torchvision::roi_align",
        "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
        "pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor",
    )
    # never called here: torchvision registers a fake for qnms, and scripts name box_iou_rotated
    torch.library.define(
        "torchvision::qnms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )
    torch.library.define("torchvision::box_iou_rotated", "(Tensor boxes1, Tensor boxes2) -> Tensor")
    torch.library.impl("torchvision::nms", "cpu")(nms)
    torch.library.impl("torchvision::roi_align", "cpu")(roi_align)


def has_ops() -> bool:
    """For torchvision.extension._has_ops, which scripted detectors ask."""
    return True
