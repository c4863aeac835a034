"""torchvision's operators against their definitions, written here with torch's own operators;
gradients of those definitions.

torchvision is not needed.  Where it is registered (torch.ops.torchvision), the same cases are
compared with it too."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import rushlight  # noqa: E402

ops = rushlight.ops.torchvision
HAS_TORCHVISION = hasattr(torch.ops.torchvision, "nms")
DTYPES = (torch.float32, torch.float64)
CLOSE = {torch.float16: 3e-2, torch.float32: 2e-5, torch.float64: 1e-10}


# -- Definitions


def read(plane: torch.Tensor, y: int, x: int) -> torch.Tensor:
    """One element of [channels, height, width], or zeros outside."""
    inside = 0 <= y < plane.shape[1] and 0 <= x < plane.shape[2]
    return plane[:, y, x] if inside else torch.zeros_like(plane[:, 0, 0])


def sample_clamped(plane: torch.Tensor, y: float, x: float) -> torch.Tensor:
    """Bilinear, with the border repeated for up to one element."""
    h, w = plane.shape[1:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return torch.zeros_like(plane[:, 0, 0])
    y, x = min(max(y, 0.0), h - 1.0), min(max(x, 0.0), w - 1.0)
    top, left = math.floor(y), math.floor(x)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    b, r = y - top, x - left
    upper = plane[:, top, left] * (1 - r) + plane[:, top, right] * r
    lower = plane[:, bottom, left] * (1 - r) + plane[:, bottom, right] * r
    return upper * (1 - b) + lower * b


def roi_align(
    x: torch.Tensor,
    rois: torch.Tensor,
    scale: float,
    out_h: int,
    out_w: int,
    ratio: int,
    aligned: bool,
    sensitive: bool = False,
) -> torch.Tensor:
    made = []
    for image, *corners in rois.tolist():
        x1, y1, x2, y2 = (c * scale - (0.5 if aligned else 0) for c in corners)
        width, height = x2 - x1, y2 - y1
        if not aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        n_y = ratio if ratio > 0 else math.ceil(height / out_h)
        n_x = ratio if ratio > 0 else math.ceil(width / out_w)
        rows = []
        for py in range(out_h):
            for px in range(out_w):
                at = x[int(image)]
                if sensitive:
                    at = at[py * out_w + px :: out_h * out_w]
                total = torch.zeros_like(at[:, 0, 0])
                for i in range(n_y):
                    for k in range(n_x):
                        total = total + sample_clamped(
                            at,
                            y1 + (py + (i + 0.5) / n_y) * height / out_h,
                            x1 + (px + (k + 0.5) / n_x) * width / out_w,
                        )
                rows.append(total / max(n_y * n_x, 1))
        made.append(torch.stack(rows, 1).view(-1, out_h, out_w))
    return torch.stack(made)


def bins(start: int, size: int, n: int, limit: int) -> list[range]:
    return [
        range(
            min(max(math.floor(i * size / n) + start, 0), limit),
            min(max(math.ceil((i + 1) * size / n) + start, 0), limit),
        )
        for i in range(n)
    ]


def roi_pool(
    x: torch.Tensor,
    rois: torch.Tensor,
    scale: float,
    out_h: int,
    out_w: int,
    sensitive: bool = False,
) -> torch.Tensor:
    made = []
    for image, *corners in rois.tolist():
        x1, y1, x2, y2 = (math.floor(abs(c * scale) + 0.5) * (1 if c >= 0 else -1) for c in corners)
        more, last = (0, 1) if sensitive else (1, 0)
        ys = bins(y1, max(y2 - y1 + more, 1), out_h, x.shape[2] - last)
        xs = bins(x1, max(x2 - x1 + more, 1), out_w, x.shape[3] - last)
        rows = []
        for i, ry in enumerate(ys):
            for k, rx in enumerate(xs):
                at = x[int(image)]
                if sensitive:
                    at = at[i * out_w + k :: out_h * out_w]
                part = at[:, ry.start : ry.stop, rx.start : rx.stop].flatten(1)
                empty = torch.zeros_like(at[:, 0, 0])
                rows.append(
                    empty if part.shape[1] == 0 else part.mean(1) if sensitive else part.amax(1)
                )
        made.append(torch.stack(rows, 1).view(-1, out_h, out_w))
    return torch.stack(made)


def deform_conv2d(
    x: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    sh: int,
    sw: int,
    ph: int,
    pw: int,
    dh: int,
    dw: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> torch.Tensor:
    n, c, h, w = x.shape
    out_c, _, kh, kw = weight.shape
    out_h, out_w = offset.shape[2:]
    columns = []
    for tap in range(kh * kw):
        per_group = []
        for g in range(offset_groups):
            at = (g * kh * kw + tap) * 2
            rows = torch.arange(out_h, dtype=x.dtype).view(-1, 1) * sh - ph + tap // kw * dh
            cols = torch.arange(out_w, dtype=x.dtype).view(1, -1) * sw - pw + tap % kw * dw
            y, z = rows + offset[:, at], cols + offset[:, at + 1]
            part = x[:, g * c // offset_groups : (g + 1) * c // offset_groups]
            total = torch.zeros(n, part.shape[1], out_h, out_w, dtype=x.dtype)
            top, left = y.detach().floor(), z.detach().floor()
            for i in (0, 1):
                for k in (0, 1):
                    yy, zz = (top + i).long(), (left + k).long()
                    inside = (yy >= 0) & (yy < h) & (zz >= 0) & (zz < w)
                    where = (
                        (yy.clamp(0, h - 1) * w + zz.clamp(0, w - 1)).unsqueeze(1).expand_as(total)
                    )
                    value = part.flatten(2).gather(2, where.flatten(2)).view_as(total)
                    near = (1 - (y - yy).abs()) * (1 - (z - zz).abs()) * inside
                    total = total + value * near.unsqueeze(1)
            if use_mask:
                total = total * mask[:, g * kh * kw + tap].unsqueeze(1)
            per_group.append(total)
        columns.append(torch.cat(per_group, 1))
    stacked = torch.stack(columns, 2).view(n, groups, c // groups * kh * kw, -1)
    made = torch.einsum("gok,ngkp->ngop", weight.view(groups, out_c // groups, -1), stacked)
    return made.reshape(n, out_c, out_h, out_w) + bias.view(1, -1, 1, 1)


def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> list[int]:
    rest = torch.sort(scores, descending=True, stable=True).indices.tolist()
    kept = []
    while rest:
        first, *rest = rest
        kept.append(first)
        a = boxes[first]
        left = []
        for i in rest:
            b = boxes[i]
            size = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0)
            shared = size[0] * size[1]
            either = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
            if not float(shared / either) > threshold:
                left.append(i)
        rest = left
    return kept


# -- Cases


def regions(n: int, batch: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    corner = torch.rand(n, 2, dtype=dtype) * size - 1
    return torch.cat(
        [
            torch.randint(0, batch, (n, 1)).to(dtype),
            corner,
            corner + torch.rand(n, 2, dtype=dtype) * size,
        ],
        1,
    )


def roi_cases(dtype: torch.dtype) -> dict[str, tuple]:
    """Operator, arguments, the definition."""
    torch.manual_seed(0)
    x, rois = torch.randn(2, 12, 9, 8, dtype=dtype), regions(7, 2, 16, dtype)
    cases: dict[str, tuple] = {}
    for ratio in (2, 0):
        for aligned in (False, True):
            cases[f"roi_align {ratio} {aligned}"] = (
                ops.roi_align,
                (x, rois, 0.5, 3, 2, ratio, aligned),
                roi_align,
            )
        cases[f"ps_roi_align {ratio}"] = (
            ops.ps_roi_align,
            (x, rois, 0.5, 3, 2, ratio),
            lambda *a: roi_align(*a, True, sensitive=True),
        )
    cases["roi_pool"] = (ops.roi_pool, (x, rois, 0.5, 3, 2), roi_pool)
    cases["ps_roi_pool"] = (
        ops.ps_roi_pool,
        (x, rois, 0.5, 3, 2),
        lambda *a: roi_pool(*a, sensitive=True),
    )
    return cases


def first(made: Any) -> torch.Tensor:
    return made[0] if isinstance(made, tuple) else made


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", roi_cases(torch.float32))
def test_regions_are_pooled_as_defined(name: str, dtype: torch.dtype) -> None:
    theirs, args, definition = roi_cases(dtype)[name]
    made = theirs(*args)
    torch.testing.assert_close(first(made), definition(*args), rtol=CLOSE[dtype], atol=CLOSE[dtype])
    if HAS_TORCHVISION:
        want = getattr(torch.ops.torchvision, name.split()[0])(*args)
        torch.testing.assert_close(made, want, rtol=CLOSE[dtype], atol=CLOSE[dtype])


@pytest.mark.parametrize("name", [n for n in roi_cases(torch.float64) if n != "ps_roi_pool"])
def test_gradients_of_regions(name: str) -> None:
    """ps_roi_pool's backward has the last row and column, which its forward leaves out:
    torchvision's does, too."""
    theirs, (x, *rest), definition = roi_cases(torch.float64)[name]
    x.requires_grad_()
    want = definition(x, *rest)
    weights = torch.randn_like(want)
    made = first(theirs(x, *rest))
    torch.testing.assert_close(
        torch.autograd.grad(made, x, weights),
        torch.autograd.grad(want, x, weights),
        rtol=1e-9,
        atol=1e-9,
    )


def test_ps_roi_pool_spreads_what_arrives_over_the_whole_bin() -> None:
    grad, rois = torch.ones(1, 1, 1, 1), torch.tensor([[0.0, 0, 0, 4, 4]])
    made = ops._ps_roi_pool_backward(
        grad, rois, torch.zeros(1, 1, 1, 1, dtype=torch.int32), 1.0, 1, 1, 1, 1, 4, 4
    )
    assert torch.equal(made, torch.full((1, 1, 4, 4), 1 / 16))


def deform_args(dtype: torch.dtype, use_mask: bool) -> tuple:
    torch.manual_seed(1)
    x, weight = torch.randn(2, 4, 7, 6, dtype=dtype), torch.randn(6, 2, 3, 2, dtype=dtype)
    offset, mask = torch.randn(2, 24, 5, 5, dtype=dtype) * 2, torch.rand(2, 12, 5, 5, dtype=dtype)
    return x, weight, offset, mask, torch.randn(6, dtype=dtype), 2, 2, 3, 2, 2, 1, 2, 2, use_mask


@pytest.mark.parametrize("use_mask", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_deform_conv2d_is_as_defined(dtype: torch.dtype, use_mask: bool) -> None:
    args = deform_args(dtype, use_mask)
    want = deform_conv2d(*args)
    torch.testing.assert_close(
        ops.deform_conv2d(*args), want, rtol=CLOSE[dtype], atol=20 * CLOSE[dtype]
    )
    half = [a.half() if isinstance(a, torch.Tensor) else a for a in args]
    made = ops.deform_conv2d(*half)
    exact = deform_conv2d(*(a.double() if isinstance(a, torch.Tensor) else a for a in half))
    assert made.dtype == torch.float16 and (made.double() - exact).abs().max() < 0.2


@pytest.mark.parametrize("use_mask", [False, True])
def test_gradients_of_deform_conv2d(use_mask: bool) -> None:
    args = deform_args(torch.float64, use_mask)
    inputs = [a.requires_grad_() for a in args[:5] if use_mask or a is not args[3]]
    want = deform_conv2d(*args)
    weights = torch.randn_like(want)
    expected = torch.autograd.grad(want, inputs, weights)
    made = torch.autograd.grad(ops.deform_conv2d(*args), inputs, weights)
    torch.testing.assert_close(made, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nms_keeps_the_best_boxes(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    for n in (0, 1, 40):
        boxes = torch.rand(n, 4, dtype=dtype) * 10
        boxes[:, 2:] += boxes[:, :2]
        scores = (torch.rand(n, dtype=dtype) * 8).round()
        for threshold in (0.0, 0.1, 0.5, 1.0):
            assert ops.nms(boxes, scores, threshold).tolist() == nms(boxes, scores, threshold)


def test_boxes_that_overlap_by_the_threshold_stay() -> None:
    boxes = torch.tensor([[0.0, 0, 2, 1], [1, 0, 3, 1]])  # a third of what both cover
    third = float(torch.tensor(1.0) / 3)
    assert ops.nms(boxes, torch.tensor([1.0, 0.5]), third).tolist() == [0, 1]
    assert ops.nms(boxes, torch.tensor([1.0, 0.5]), math.nextafter(third, 0)).tolist() == [0]


def test_box_iou_rotated() -> None:
    boxes = torch.tensor(
        [
            [5.0, 5, 4, 2, 0],
            [5, 5, 2, 4, 90],
            [6, 5, 4, 2, 0],
            [5, 5, 4, 2, 45],
            [50, 5, 1, 1, 0],
            [5, 5, 0, 2, 0],
        ]
    )
    want = [1.0, 1.0, 6 / 10, None, 0.0, 0.0]
    made = ops.box_iou_rotated(boxes[:1], boxes)[0].tolist()
    for got, expected in zip(made, want, strict=True):
        assert expected is None or abs(got - expected) < 1e-6
    torch.manual_seed(3)
    turned = torch.cat(
        [torch.rand(6, 2) * 4, torch.rand(6, 2) * 4 + 0.5, torch.rand(6, 1) * 360], 1
    )
    at = torch.cartesian_prod(
        torch.arange(-4, 9, 0.02), torch.arange(-4, 9, 0.02)
    )  # count points instead
    inside = []
    for cx, cy, w, h, angle in turned.tolist():
        c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        dx, dy = at[:, 0] - cx, at[:, 1] - cy
        inside.append(((dx * c - dy * s).abs() <= w / 2) & ((dx * s + dy * c).abs() <= h / 2))
    counted = [[float((a & b).sum() / (a | b).sum()) for b in inside] for a in inside]
    torch.testing.assert_close(
        ops.box_iou_rotated(turned, turned), torch.tensor(counted), atol=0.02, rtol=0.02
    )
    assert (
        ops.box_iou_rotated(turned.double(), turned.double()).dtype == torch.float32
    )  # as torchvision's


def test_half_regions_follow_half_coordinates() -> None:
    x, rois = torch.randn(1, 3, 30, 30).half(), torch.tensor([[0, 3.3, 2.7, 21.1, 25.9]]).half()
    made = ops.roi_align(x, rois, 1.0, 2, 2, 2, False)
    want = roi_align(x.double(), rois.double(), 1.0, 2, 2, 2, False)
    assert made.dtype == torch.float16 and (made.double() - want).abs().max() < 0.05


def test_there_is_no_cuda() -> None:
    assert ops._cuda_version() == -1


# -- Refusals


def refused(kind: type, words: str, name: str, *args: Any) -> None:
    with pytest.raises(kind, match=words):
        getattr(ops, name)(*args)


def test_regions_of_missing_images_are_refused() -> None:
    x = torch.randn(2, 4, 5, 5)
    for image in (2.0, -1.0, 1e30, math.inf, -math.inf, math.nan):
        rois = torch.tensor([[0.0, 0, 0, 2, 2], [image, 0, 0, 2, 2]])
        refused(IndexError, "region 1 is of image", "roi_align", x, rois, 1.0, 2, 2, 2, False)
        refused(IndexError, "region 1 is of image", "ps_roi_align", x, rois, 1.0, 2, 2, 2)
        refused(IndexError, "region 1 is of image", "roi_pool", x, rois, 1.0, 2, 2)
        refused(IndexError, "region 1 is of image", "ps_roi_pool", x, rois, 1.0, 2, 2)


def test_what_torchvision_refuses_has_its_words() -> None:
    x, rois = torch.randn(1, 4, 5, 5), torch.tensor([[0.0, 0, 0, 2, 2]])
    refused(
        RuntimeError,
        r"rois must have shape as Tensor\[K, 5\]",
        "roi_align",
        x,
        rois[:, :4],
        1.0,
        2,
        2,
        2,
        False,
    )
    refused(
        RuntimeError,
        "to have the same type as tensor for argument #2 'rois'",
        "roi_align",
        x,
        rois.double(),
        1.0,
        2,
        2,
        2,
        False,
    )
    refused(RuntimeError, "input channels must be a multiple", "ps_roi_pool", x, rois, 1.0, 3, 2)
    refused(
        NotImplementedError,
        "\"roi_align_forward_kernel\" not implemented for 'BFloat16'",
        "roi_align",
        x.bfloat16(),
        rois.bfloat16(),
        1.0,
        2,
        2,
        2,
        False,
    )
    refused(
        RuntimeError,
        "boxes should have 4 elements in dimension 1, got 3",
        "nms",
        torch.rand(2, 3),
        torch.rand(2),
        0.5,
    )
    refused(
        NotImplementedError,
        "\"nms_kernel\" not implemented for 'Half'",
        "nms",
        torch.rand(2, 4).half(),
        torch.rand(2).half(),
        0.5,
    )
    refused(
        RuntimeError,
        r"boxes1 should have shape \(N, 5\), got \[2, 4\]",
        "box_iou_rotated",
        torch.rand(2, 4),
        torch.rand(2, 5),
    )


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (5, 0, "stride_h: 0"),
        (7, -1, "pad_h: -1"),
        (9, 1 << 40, "dilation_h"),
        (11, 0, "groups 0"),
        (11, 3, "weight.shape"),
        (12, 0, "offset_groups 0"),
        (12, 4, "offset.shape"),
        (2, torch.zeros(2, 23, 5, 5), "got: 23 expected: 24"),
        (3, torch.zeros(2, 12, 1, 5), "mask output dims"),
        (4, torch.zeros(2), "is invalid for input of size 2"),
        (0, torch.zeros(4, 7, 6), "'input' of 4 dimensions"),
        (1, torch.zeros(6, 2, 3, 2).double(), "expected scalar type Float"),
    ],
)
def test_hostile_arguments_of_deform_conv2d(at: int, value: Any, words: str) -> None:
    args = list(deform_args(torch.float32, True))
    args[at] = value
    refused(RuntimeError, words, "deform_conv2d", *args)


def test_what_a_backward_gets_back_is_checked() -> None:
    grad, rois = torch.ones(1, 1, 2, 2), torch.tensor([[0.0, 0, 0, 2, 2]])
    wrong = torch.full((1, 1, 2, 2), 99, dtype=torch.int32)
    refused(
        IndexError,
        "has 99, expected numbers below 16",
        "_roi_pool_backward",
        grad,
        rois,
        wrong,
        1.0,
        2,
        2,
        1,
        1,
        4,
        4,
    )
    refused(IndexError, "has 99", "_ps_roi_pool_backward", grad, rois, wrong, 1.0, 2, 2, 1, 4, 4, 4)
    refused(
        RuntimeError,
        "must be the second result",
        "_roi_pool_backward",
        grad,
        rois,
        wrong.long(),
        1.0,
        2,
        2,
        1,
        1,
        4,
        4,
    )
    refused(
        RuntimeError,
        "expected a gradient of the result's sizes",
        "_roi_align_backward",
        grad,
        rois,
        1.0,
        2,
        2,
        1,
        3,
        4,
        4,
        2,
        False,
    )


def test_huge_regions_are_no_overflow() -> None:
    x = torch.randn(1, 4, 5, 5)
    for size in (1e38, math.inf, math.nan):
        rois = torch.tensor([[0.0, 0, 0, size, size]])
        assert ops.roi_align(x, rois, 1.0, 1, 1, 2, True).shape == (1, 4, 1, 1)
    for size in (1e9, 1e38):
        rois = torch.tensor([[0.0, 0, 0, size, size]])
        refused(RuntimeError, "more than 1048576 samples", "roi_align", x, rois, 1.0, 1, 1, 0, True)
    refused(
        RuntimeError,
        "has the coordinate nan",
        "roi_pool",
        x,
        torch.tensor([[0.0, math.nan, 0, 1, 1]]),
        1.0,
        1,
        1,
    )
    assert (
        ops.roi_pool(x, torch.tensor([[0.0, -1e38, -1e38, 1e38, 1e38]]), 1.0, 1, 1)[0]
        .flatten()
        .tolist()
        == x.amax((2, 3)).flatten().tolist()
    )


def test_a_scripted_program_calls_them() -> None:
    unit = rushlight.jit.CompilationUnit("""
def keep(boxes: Tensor, scores: Tensor) -> Tensor:
    return boxes[torch.ops.torchvision.nms(boxes, scores, 0.5)]
""")
    boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]])
    assert unit.keep(boxes, torch.tensor([0.5, 0.9, 0.1])).tolist() == boxes[[1, 2]].tolist()
