"""Writing through views and indices: each line is a TorchScript program over (x, i, m, s) that
PyTorch runs too.

Results, the arguments afterwards, and what is raised must agree.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import rushlight  # noqa: E402
from conftest import import_file  # noqa: E402

PROGRAMS = """
x[0] = 1.0
x[:,1] = x[:,2]
x[..., -1] = 7
x[0, i] += 1
x[:, m] = 0
x[x > 5] = -1
x[x > 5] += 2.5
x[:, i, 1:3] = 5
x[1:, ::2] *= 2
x[None, 0] = 3
x[0, 1, 2] = 9
x[-1][0] = 4
x[0][1][2] -= 4
x[i[0]] = 2
x[int(i[1]) - 1] = s[0]
x[:, :, 0] = s
x[:, 0] = torch.tensor([1, 2, 3, 4])
x[0, 0, 0] = True
x[0] = torch.ones(3, 4, dtype=torch.float64)
x[:, [0, 2]] = 1
x[[0, 1], [1, 2]] = 8
x[torch.tensor([True, False])] = torch.zeros(1, 3, 4)
x[:, m, 0] = s[:2]
x[:, i] = x[:, i.flip(0)]
x.add_(x.sum())
x.resize_(2, 2)
x.zero_()
x.fill_(2)[0] = 3
x.view(-1)[3] = 100
x.reshape(-1)[i] = s
x.permute(2, 0, 1)[0] = -5
x.narrow(1, 1, 2).mul_(10)
x.select(0, 1).copy_(x.select(0, 0))
x.unbind(0)[0].add_(1)
x.split(2, 2)[1].neg_()
x.diagonal(0, 1, 2).fill_(1)
x.index_fill_(1, i[:1], 4)
x.masked_fill_(x > 3, float('-inf'))
x.scatter_(1, i.view(1, 3, 1).expand(2, 3, 4), 1.0)
x.index_put_([i - i], s.new_ones(1, 3, 4), accumulate=True)
x[0], x[1] = x[1].clone(), x[0].clone()
y = x[0]; y += 1
y = x[0]; y = y + 1; y += 1
y = x; y[0] = 1
y = x.detach(); y.mul_(2)
y = x.contiguous(); y[0] = 0
y = x.expand(2, 3, 4); y[0] = 1
y = x.to(torch.float32); y[0] = 1
y = x.to(torch.float64); y[0] = 1; x = x + y.float()
y = x.flatten(); y[0] = -3
y = x.unsqueeze(0); y.squeeze_(0); y[0, 0] = 6
y = x.clone(); y[0] = 1
y = torch.cat([x, x]); y[0] = 1
y = x.view(6, 4); y[i, i] = 0
x[:, 1:2].squeeze(1).add_(1)
x[..., None].fill_(0)
x[0, ...] = 1
x[1:1] = 5
x = x[:, i]
x = x[i[:2].unsqueeze(1) % 2, i]
x = x[:, m]
x = x[x > 4]
x = x[0, :, None]
x = x[None, ..., 1]
x = x[:, None, m]
x = x[m.nonzero().squeeze(1) % 2]
x = x[torch.tensor(1)]
x = x[0:1, i, :][:, :, 0]
x = x[[1, 0, 1]]
x = x[:, [True, False, True]]
x = x[::2, ::2, ::3]
x = x[-1:, -2:, -3:-1]
x = x[5:]
x = x[7]
x = x[0, 0, 0, 0]
x = x[:, i + 5]
x[0] = torch.ones(5)
x[i + 9] = 1
x[torch.tensor([0.5])] = 1
x.view(5, 5)
x = x.index_select(1, i)
x = x.gather(2, (i % 2).view(1, 3, 1).expand(2, 3, 2))
x = torch.where(x > 3, x, s.view(3, 1))
x = torch.where(x > 3, 1.0, 0.0)
x = torch.stack([a * 2 for a in x.unbind(1)], 1)
x = torch.stack(torch.where(x > 20)).float()
x = x.masked_select(x > 2)
x = torch.take(x, i)
x = x.repeat(2, 1, 1).roll(1, 0)
x = x.tile([2]).flip([0, -1])
x = torch.nn.functional.pad(x, [1, 2], value=3.0)
x = torch.nn.functional.pad(x, [1, 2], mode='reflect')
x = torch.nn.functional.unfold(x.unsqueeze(0), [2, 2], padding=1)
x = torch.nn.functional.fold(torch.nn.functional.unfold(x.unsqueeze(0), [2, 2]), [3, 4], [2, 2])
x = torch.nn.functional.pixel_shuffle(x.reshape(1, 4, 2, 3), 2)
x = x.unfold(2, 2, 1).sum(-1)
x = torch.as_strided(x, [2, 2], [1, 3], 4)
x = x.new_full([2, 2], 3) + x.new_zeros(2).add_(1)
x = torch.tril(x, -1) + torch.triu(x, 1)
x = torch.cartesian_prod(s, s)
x = torch.block_diag(s, x[0])
x = torch.meshgrid(s, s)[0]
x = x.movedim(0, -1).rot90(1, [0, 1])
x = torch.zeros_like(x).index_add(1, i, x)
x = torch.scatter(x, 1, i.view(1, 3, 1).expand(2, 3, 4) % 3, x, reduce='add')
x = x.scatter_reduce(1, i.view(1, 3, 1).expand(2, 3, 4) % 2, x, reduce='amax', include_self=False)
x = x.swapaxes(0, 2).contiguous().view(4, -1)
x = torch.tensor([[1, 2], [3, 4]]).float()
x = torch.arange(2, 10, 3).float() + torch.linspace(0, 1, 3)
x = torch.empty(0, 3).new_ones(2).expand(3, 2)
x = torch.full([2], 3.5).to(torch.int64).float()
x = torch.eye(3)[i]
x = x.chunk(2, 2)[1] + x.tensor_split(2, 2)[0]
x = x.data + 1
y = x.data; y.add_(1)
x.set_(s)
x.data.fill_(3)
x.copy_(s.view(3, 1))
x.copy_(s)
x.squeeze_().unsqueeze_(0)
x.put_(i, s)
x.index_copy_(1, i, x.clone())
x = torch.select_scatter(x, x[0] + 1, 0, 1)
x = torch.diagonal_scatter(x[0], s, 0)
x = x.nonzero()[2:5].float()
x = torch.count_nonzero(x).float()
x = x.masked_scatter(x > 4, torch.arange(30.))
del_ = x.size(); x[0, 0, :del_[0]] = 1
x = x.expand(-1, -1, 4).reshape(2, 12).unflatten(1, [3, 4])
x = x.narrow_copy(1, 1, 1)
x = torch.hstack([x, x]) + torch.dstack([x, x]).sum()
x.requires_grad_(False).add_(1)
x[0] = x[1] = s.sum()
x[:] = 0
x /= 2; x -= 1; x **= 2; x %= 3
x[0] **= 2
x = x @ x.transpose(1, 2)
x[0, :2, 1:] += torch.arange(6).view(2, 3)
""".strip().split("\n")

HEAD = """import torch
from torch import Tensor
class M(torch.nn.Module):
    def forward(self, x: Tensor, i: Tensor, m: Tensor, s: Tensor):
"""


def arguments() -> list[Any]:
    return [
        torch.arange(24.0).reshape(2, 3, 4),
        torch.tensor([0, 2, 1]),
        torch.tensor([True, False, True]),
        torch.tensor([3.0, 1.0, 2.0]),
    ]


def scripted(line: str, folder: pathlib.Path) -> Any:
    path = folder / "program.py"
    path.write_text(
        HEAD + "".join(f"        {part}\n" for part in line.split("; ")) + "        return x\n"
    )
    return torch.jit.script(import_file(path).M())


def run(program: Any, args: list[Any]) -> tuple[Any, str]:
    try:
        return program(*args), ""
    except Exception as error:
        return None, str(error).strip().split("\n")[-1]


@pytest.mark.parametrize("line", PROGRAMS)
def test_writes_as_pytorch_does(line: str, tmp_path: pathlib.Path) -> None:
    program = scripted(line, tmp_path)
    program.save(str(tmp_path / "m.pt"))
    theirs, ours = arguments(), arguments()
    want, refused = run(program, theirs)
    got, refusal = run(rushlight.load(str(tmp_path / "m.pt")), ours)
    assert refusal[:40] == refused[:40]
    for a, b in zip([got, *ours], [want, *theirs], strict=False):
        if isinstance(b, torch.Tensor):
            assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
        else:
            assert a == b
