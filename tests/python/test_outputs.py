"""Results in arrays and tensors of the caller's."""

from __future__ import annotations

import pathlib
import threading

import numpy as np
import pytest
import rushlight

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
TEXT = """
def two(x, y: int = 1):
    return x * 2, x + y
def same(x):
    return x
"""


def test_numpy_arrays_take_results() -> None:
    module = rushlight._rushlight.compile(TEXT)
    x, first, second = (
        np.arange(6, dtype=np.float32),
        np.empty(6, np.float32),
        np.empty(6, np.float32),
    )
    bound = module.two.bind_outputs(first, second)
    result = bound(x, y=3)
    assert result[0] is first and result[1] is second and bound.copied == [False, False]
    assert np.array_equal(first, x * 2) and np.array_equal(second, x + 3)
    bound = module.two.bind_outputs(None, second)
    result = bound(x)
    assert (
        result[1] is second and np.array_equal(result[0], x * 2) and np.array_equal(second, x + 1)
    )


def test_an_argument_as_a_buffer() -> None:
    module = rushlight._rushlight.compile(TEXT)
    x = np.arange(6, dtype=np.float32)
    bound = module.two.bind_outputs(x)
    result = bound(x)
    assert result[0] is x and bound.copied == [True]
    assert np.array_equal(x, np.arange(6) * 2) and np.array_equal(result[1], np.arange(6) + 1)
    assert module.same.bind_outputs(x)(x) is x


def test_what_does_not_fit() -> None:
    module = rushlight._rushlight.compile(TEXT)
    x, frozen = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    with pytest.raises(
        ValueError,
        match=r"output 0: expected a buffer of float32\[2, 3\] .* but got float64\[2, 3\]",
    ):
        module.two.bind_outputs(np.zeros((2, 3)))(x)
    with pytest.raises(ValueError, match="has gaps"):
        module.two.bind_outputs(np.zeros((2, 6), np.float32)[:, ::2])(x)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="may not be written to"):
        module.two.bind_outputs(frozen)(x)
    with pytest.raises(ValueError, match="is no tensor"):
        module.two.bind_outputs(3)(x)


def test_an_exported_program() -> None:
    model = rushlight.load(str(DATA / "digits.pt2"))
    x = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    with rushlight.no_grad():
        want = model(x)
        out = np.empty((1, 10), np.float32)
        bound = model.bind_outputs(out)
        assert bound(x) is out and bound.copied == [False] and np.array_equal(out, np.asarray(want))


def test_threads_with_buffers_of_their_own() -> None:
    module = rushlight._rushlight.compile(TEXT)
    failed = []

    def work(seed: int) -> None:
        x, out = np.full(1000, seed, np.float32), np.empty(1000, np.float32)
        bound = module.two.bind_outputs(out)
        for _ in range(200):
            bound(x)
            if not (out == 2 * seed).all():
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    module = rushlight._rushlight.compile(TEXT)
    x, out = torch.arange(6.0), torch.empty(6)
    version = out._version
    bound = module.two.bind_outputs(out)
    assert bound(x)[0] is out and torch.equal(out, x * 2) and out._version > version
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        bound(x)
    with torch.no_grad():
        bound(x)
