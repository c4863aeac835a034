"""The same bits with any number of threads and on every instruction set: a part of same_bits.py;
the nightly runs it whole."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # of PyTorch's samples

import rushlight  # noqa: E402
import same_bits  # noqa: E402
import same_bits_cases  # noqa: E402

STEP = 23  # every so manyth case


@pytest.fixture
def tally() -> Iterator[same_bits.Tally]:
    threads = rushlight.get_num_threads()
    random.seed(0)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield same_bits.Tally("", few=True)
    rushlight.set_num_threads(threads)
    rushlight.set_cpu("native")


FAMILIES = (
    "pointwise",
    "reductions",
    "products",
    "convolutions",
    "layers",
    "indexing",
    "transforms",
    "linear_algebra",
    "random_numbers",
    "quantized",
)


@pytest.mark.parametrize("family", FAMILIES)
def test_operators(family: str, tally: same_bits.Tally) -> None:
    made = getattr(same_bits_cases, family)(0)
    for number, case in enumerate(made):
        if number % STEP == 0:
            tally.operator(case)
    assert tally.operators and tally.close() == 0, tally.different


def test_networks(tally: same_bits.Tally) -> None:
    same_bits.run_networks(tally, 8)
    assert tally.programs >= 16 and tally.close() == 0, tally.different


def test_a_difference_is_seen(tally: same_bits.Tally) -> None:
    tally.compare("planted", "", lambda: torch.tensor([1.0, float(rushlight.get_num_threads())]))
    tally.compare("planted too", "", lambda: [0.0, rushlight.get_cpu() == "portable"])
    assert tally.close() == 1
    if rushlight.get_cpu() != "portable":
        assert list(tally.different) == ["planted", "planted too"]


def test_names_of_instruction_sets() -> None:
    try:
        rushlight.set_cpu("portable")
        assert rushlight.get_cpu() == "portable"
        with pytest.raises(ValueError, match="avx2"):
            rushlight.set_cpu("avx1024")
        assert rushlight.get_cpu() == "portable"
    finally:
        rushlight.set_cpu("native")


def test_groups_compiled_before_run_as_tapes(tally: same_bits.Tally) -> None:
    """With bools among their operands; machine code of another instruction set is no use then."""
    x, y = torch.randn(135, 22), torch.sign(torch.randn(135, 22))
    tally.operator(("hinge_embedding_loss", (x, y, 1.0, 1), {}))
    tally.operator(("binary_cross_entropy", (torch.sigmoid(x), torch.sigmoid(x * 2), None, 0), {}))
    assert len(tally.operators) == 2 and tally.close() == 0, tally.different


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("sizes", [(3, 5), (2, 5, 7), (2, 5, 33, 65), (1, 5, 70, 130)])
def test_norms_of_16_bits_are_those_of_floats_rounded(
    sizes: tuple[int, ...], training: bool, dtype: torch.dtype
) -> None:
    """Blocks are widened and narrowed one by one: all elements are written, with the same bits."""
    torch.manual_seed(0)
    x, channels = torch.randn(sizes).to(dtype), torch.rand(4, 5) + 0.5
    weight, bias, mean, var = channels

    def norm(x: torch.Tensor) -> torch.Tensor:
        args = (x, weight, bias, mean.clone(), var.clone(), training, 0.1, 1e-5, False)
        return rushlight.ops.aten.batch_norm(*args)

    for layout in (x, x.transpose(0, -1).contiguous().transpose(0, -1)):
        assert torch.equal(norm(layout), norm(x.float()).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 5, 64, 131])
def test_batch_norms_by_rows_have_the_bits_of_planes(channels: int, dtype: torch.dtype) -> None:
    """Pixels whose channels stand side by side are scaled by rows, others by planes."""
    torch.manual_seed(0)
    x = torch.randn(3, channels, 5, 7, dtype=dtype)
    weight, bias, mean, var = torch.rand(4, channels, dtype=dtype) + 0.5
    args = (weight, bias, mean, var, False, 0.1, 1e-5, False)
    norm = rushlight.ops.aten.batch_norm
    planes = norm(x, *args)
    last = norm(x.to(memory_format=torch.channels_last), *args)
    assert torch.equal(last, planes)
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(norm(x[:, :, 2, 3], *args), planes[:, :, 2, 3])


@pytest.mark.parametrize("channels", [1, 5, 64, 131])
def test_batches_of_rows_are_measured_as_rows_one_by_one(channels: int) -> None:
    """Channels are measured in blocks; each has the statistics that it has alone."""
    torch.manual_seed(0)
    x = torch.randn(70, channels)
    together = rushlight.ops.aten.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    for i in range(channels):
        alone = rushlight.ops.aten.native_batch_norm(
            x[:, i : i + 1], None, None, None, None, True, 0.1, 1e-5
        )
        assert torch.equal(together[0][:, i : i + 1], alone[0])
        assert torch.equal(together[1][i : i + 1], alone[1])
        assert torch.equal(together[2][i : i + 1], alone[2])
