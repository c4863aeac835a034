"""Archives in the layouts and the texts of PyTorch 1.0 to 1.12."""

from __future__ import annotations

import io
from typing import Any

import numpy
import pytest
import rushlight
from archives import changed, legacy, pack, records

torch: Any
try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="no torch here")

# Forms that printers of 1.2 to 1.12 wrote and today's does not.
OLD_TEXT = b"""op_version_set = 1
import __torch__.other
class Net(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  weight : Tensor
  training : bool
  __annotations__["0"] = __torch__.Inner
  def forward(self: __torch__.Net,
    x: Tensor,
    n: int=2) -> Tuple[Tensor, List[int], Optional[Tensor], float]:
    _0 = (getattr(self, "0")).forward(x, )
    _1 = torch.add(_0, self.weight, alpha=1)
    y, z, = (_1, torch.mul(_1, CONSTANTS.c0))
    _2 = annotate(List[int], [])
    count = _2
    for i in range(n):
      _3 = torch.append(count, torch.add(i, int(ops.prim.NumToTensor(3))))
    none = annotate(Optional[Tensor], None)
    if torch.__isnot__(none, None):
      found = uninitialized(Tensor)
      ops.prim.RaiseException("none is some")
    elif torch.gt(n, 1):
      found = unchecked_cast(Tensor, z)
    else:
      found = uninitialized(Tensor)
    _5 = True
    m = n
    total = 0.
    while _5:
      m0 = torch.sub(m, 1)
      total0 = torch.add(total, 0.5)
      _6 = torch.gt(m0, 0)
      _5, m, total = _6, m0, total0
    w = ops.aten.relu(found)
    v = torch._unwrap_optional(annotate(Optional[Tensor], w))
    u = torch.slice(v, 0, 0, 9223372036854775807, 1)
    t = torch.to(u, 6, False, False, None)
    if torch.eq(torch.dim(t), 0):
      ops.prim.RaiseException("no")
    else:
      pass
    return (t, count, none, torch.neg(-inf) if torch.lt(total, 0.) else total)
class Inner(Module):
  __parameters__ = []
  training : bool
  def forward(self: __torch__.Inner,
    x: Tensor) -> Tensor:
    return __torch__.other.helper(x, 3)
"""
OTHER_TEXT = b"""op_version_set = 1
def helper(x: Tensor,
    k: int) -> Tensor:
  return torch.div(torch.mul(x, k), 2)
"""


def old_archive(layout: str) -> bytes:
    """A program of today, with its code in old words and its records where they once were."""

    class Inner(torch.nn.Module):
        def forward(self, x):
            return x

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
            self.add_module("0", Inner())

        def forward(self, x):
            return getattr(self, "0")(x) + self.weight + torch.zeros(1)

    out = io.BytesIO()
    torch.jit.save(torch.jit.script(Net()), out)
    content = {name.split("/", 1)[1]: data for name, data in records(out.getvalue()).items()}
    content = {
        k: v for k, v in content.items() if not k.startswith(("code/", "constants", ".data"))
    }
    content["data.pkl"] = rename(content["data.pkl"])
    constant = io.BytesIO()
    torch.jit.save(
        torch.jit.trace(lambda x: x * torch.tensor([3.0, 0.5]), torch.ones(2), check_trace=False),
        constant,
    )
    donor = {name.split("/", 1)[1]: data for name, data in records(constant.getvalue()).items()}
    content.update({k: v for k, v in donor.items() if k.startswith("constants")})
    content["code/__torch__.py"] = OLD_TEXT
    content["code/__torch__/other.py"] = OTHER_TEXT
    if layout == "1.4":
        content.pop("byteorder", None)
        content["version"] = b"2\n"
    elif layout == "1.12":
        content.pop("byteorder", None)
        content.pop("version", None)
        content[".data/version"] = b"6\n"
    return pack(
        {"archive/" + k: v for k, v in content.items()},
        aligned=layout != "1.4",
        deflate=("code/",) if layout == "1.12" else (),
    )


def rename(pickle: bytes) -> bytes:
    """Class names of today's program by those of the old text."""
    lines = pickle.split(b"\n")
    for i, line in enumerate(lines):
        for name in (b"Inner", b"Net"):
            if line == name and b"c__torch__" in lines[i - 1]:
                lines[i - 1] = lines[i - 1][: lines[i - 1].index(b"c__torch__")] + b"c__torch__"
    return b"\n".join(lines)


@needs_torch
@pytest.mark.parametrize("layout", ["1.4", "1.6", "1.12"])
def test_old_words_mean_what_they_meant(layout: str) -> None:
    data = old_archive(layout)
    x = torch.tensor([2.0, 3.0])
    for args in ((x,), (x, 3), (-x, 2)):
        want, got = torch.jit.load(io.BytesIO(data))(*args), rushlight.load(data)(*args)
        assert torch.equal(torch.as_tensor(got[0]), want[0].detach())
        assert got[1:] == want[1:]


@pytest.mark.parametrize("proto", [1, 3, 5])
def test_archives_with_a_model_json_run(proto: int) -> None:
    m = rushlight.load(legacy(proto=proto))
    got = numpy.asarray(m(numpy.array([[1, 2, 3]], dtype=numpy.float32)))
    assert got.tolist() == [[14.375, 24.375]]
    assert numpy.asarray(m.ints(2)).tolist() == [3, 2]  # integers were divided with truncation
    assert numpy.asarray(m.ints()).tolist() == [2, 1]
    assert sorted(m.state_dict()) == ["0.bias", "0.weight"]


def test_broken_model_json_is_refused() -> None:
    data = legacy()
    text = next(v for k, v in records(data).items() if k.endswith("model.json"))
    for old, new in (
        (b'"tensorId": "0"', b'"tensorId": "7"'),
        (b'"FLOAT"', b'"STRING"'),
        (b'"dims": ["2", "3"]', b'"dims": ["2"]'),
        (b'"protoVersion": "5"', b'"protoVersion": "6"'),
        (b'"offset": "1"', b'"offset": "5"'),
        (b'"type": "float"', b'"type": "int"'),
        (b'"id": "5"', b'"id": "55"'),
        (b"code/fc.py", b"code/gone.py"),
    ):
        assert old in text
        with pytest.raises(Exception, match="model.json|gone.py|storage|bytes|out of bounds"):
            rushlight.load(changed(data, **{"model.json": text.replace(old, new)}))
