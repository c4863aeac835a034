"""Functions to be traced: (text of the body, example inputs, other inputs), as texts of `x`, `y`, `z`.

The text is an expression, or statements that end in `return`.  Inputs are texts as well: r(2, 3) is a float tensor, i(4) a row of
integers.  `same_kinds` is false where PyTorch's tracer sees more than the operators that ran: what torch.tensor does inside, slices
of everything.
"""

from __future__ import annotations

from typing import NamedTuple


class Snippet(NamedTuple):
    text: str
    inputs: str = "r(2, 3)"
    others: str = "r(4, 3)"
    same_kinds: bool = True


S = Snippet
SIZES = [
    S("x.view(x.size(0), -1)", "r(2, 3, 2)", "r(4, 3, 2)"),
    S("x.view(x.size()[0], x.size()[1] * x.size()[2])", "r(2, 3, 2)", "r(4, 5, 2)"),
    S("x.view(x.shape[0] * 3, 1)"),
    S("x.view(x.shape)"),
    S("x.reshape(-1, *x.shape[1:])", "r(2, 3)", "r(4, 5)"),
    S("x.reshape(x.shape[:1] + (1,) + x.shape[1:])", "r(2, 3)", "r(4, 5)", False),
    S("x.view(x.size(-1), x.size(-2))", "r(2, 3)", "r(4, 5)"),
    S("torch.zeros(x.size()) + x", "r(2, 3)", "r(4, 5)"),
    S("torch.zeros(x.size(0), 3) + x"),
    S("torch.ones((x.shape[0], 1)) * x"),
    S("torch.full((x.size(0), 3), 2.0) + x"),
    S("torch.full((2,), x.size(0))", "r(2, 3)", "r(5, 3)"),
    S("torch.empty(x.size(0), 2).fill_(1.5)"),
    S("x * x.numel()", "r(2, 3)", "r(4, 5)"),
    S("x * x.nelement()", "r(2, 3)", "r(4, 5)"),
    S("x * x.dim() + x.ndim"),
    S("x * x.stride(0) + x.storage_offset()"),
    S("x + torch.arange(x.size(1))", "r(2, 3)", "r(2, 5)"),
    S("x.sum() + torch.arange(0, x.size(1), 2)", "r(2, 3)", "r(2, 8)"),
    S("torch.arange(x.size(0), x.size(1))", "r(2, 5)", "r(3, 9)"),
    S("x / x.size(1)", "r(2, 3)", "r(2, 5)"),
    S("x / (x.size(1) ** 0.5)", "r(2, 3)", "r(2, 5)"),
    S("x / x.size(1) ** 2", "r(2, 3)", "r(2, 5)"),
    S("x.view(x.size(0) // 2, -1)"),
    S("x[:, : x.size(1) - 1]", "r(2, 3)", "r(2, 6)", False),
    S("x[x.size(0) - 1]", "r(2, 3)", "r(5, 3)"),
    S("x[1 : x.size(0)]", "r(2, 3)", "r(5, 3)"),
    S("x[..., x.shape[1] // 2 :]", "r(2, 4)", "r(2, 8)", False),
    S("x.narrow(1, 0, x.size(1) - 1)", "r(2, 3)", "r(2, 5)"),
    S("x[0].expand(x.size(0), -1)"),
    S("x[0].repeat(x.size(0), 1)"),
    S("x.repeat(x.shape)", "r(2, 3)", "r(3, 2)"),
    S("x.unsqueeze(x.size(0) - 1)", "r(2, 3)", "r(2, 4)"),
    S("torch.eye(x.size(0)) @ x"),
    S("torch.linspace(0, 1, x.size(0))"),
    S("x.new_zeros(x.size(0), 2)"),
    S("x.new_full((x.size(0),), 3.0)"),
    S("torch.zeros_like(x) + torch.ones_like(x)"),
    S("torch.tril(x, x.size(0) - 2)", "r(2, 3)", "r(3, 3)"),
    S("torch.nn.functional.pad(x, (0, x.size(0)))"),
    S("torch.triu(torch.ones(x.size(0), x.size(0)), diagonal=1)"),
    S("x.transpose(0, 1).contiguous().view(-1, x.size(0))", "r(2, 3)", "r(4, 5)"),
    S("x.mean(1) * x.size(1) + x.size(0)", "r(2, 3)", "r(4, 5)"),
    S("x.view(-1, int(x.size(1)))", "r(2, 3)", "r(4, 3)"),
    S("x * len(x)", "r(2, 3)", "r(2, 4)"),
    S("x.expand_as(y) + y", "r(1, 3), r(2, 3)", "r(1, 3), r(5, 3)"),
    S("x.view_as(y)", "r(2, 3), r(3, 2)", "r(4, 3), r(3, 4)"),
    S("torch.cat([x, torch.zeros(x.size(0), 1)], 1)"),
    S("x.split(1)[0] + x.split([1, 1])[1]", "r(2, 3)", "r(2, 5)"),
    S("x.chunk(2, 1)[0]", "r(2, 3)", "r(2, 4)"),
    S("x.unbind(0)[1]", "r(2, 3)", "r(2, 4)"),
    S("x.unflatten(0, (x.size(0) // 2, 2))"),
    S("max(x.size(0), x.size(1)) * x", "r(2, 3)", "r(2, 5)"),
    S("torch.randperm(x.size(0)).sum() + x.sum()", "r(2, 3)", "r(5, 3)"),
    S("torch.randint(0, x.size(0), (2,)).sum() * 0 + x", "r(2, 3)", "r(5, 3)"),
    S("x.topk(x.size(1) - 1)[0]", "r(2, 3)", "r(2, 5)"),
    S("torch.nn.functional.interpolate(x[None], scale_factor=2.0)", "r(2, 3)", "r(2, 5)"),
    S("torch.nn.functional.interpolate(x[None], size=x.size(1) * 2)", "r(2, 3)", "r(2, 5)"),
    S("torch.nn.functional.adaptive_avg_pool1d(x[None], 2)", "r(2, 4)", "r(2, 6)"),
    S("x.flatten(1).size(1) + x", "r(2, 3)", "r(3, 3)"),
    S("x.t()[:, 0].size(0) * x", "r(2, 3)", "r(2, 4)", False),
]
FLOW = [
    S("x * 2 if x.sum() > 0 else x * 2", "r(2, 3)", "-r(2, 3)"),
    S("x * int(x.size(0))", "r(2, 3)", "r(2, 5)"),
    S("x * float(x.sum() * 0 + 2)"),
    S("x * x.sum().mul(0).add(3).item()"),
    S("x * complex(x.sum() * 0 + 3).real"),
    S("x + (x * 0).tolist()[0][0]"),
    S("x + (x.detach() * 0).numpy().sum()", "r(2, 3)", "r(4, 3)"),
    S("sum(a for a in x)", "r(2, 3)", "r(2, 4)"),
    S("[x * i for i in range(x.size(0))][-1]", "r(2, 3)", "r(2, 4)"),
    S("x if x.shape == (2, 3) else x + 1", "r(2, 3)", "r(2, 3)"),
    S("[1, 2, 3][x.sum().long() * 0] * x"),
    S("x + 1 if x is not None else x"),
    S("assert x.size(0) == 2\nreturn x + 1", "r(2, 3)", "r(2, 4)"),
    S("a, b = x\nreturn a + b", "r(2, 3)", "r(2, 5)"),
    S("while x.sum() < -1e9:\n  x = x + 1\nreturn x * 2"),
    S("with torch.no_grad():\n  y = x * 2\nreturn y + 1"),
]
WRITES = [
    S("y = x.clone()\ny[0] = 1\nreturn y", same_kinds=False),
    S("y = x.clone()\ny[:, 1] = x[:, 0]\nreturn y", same_kinds=False),
    S("y = x.clone()\ny[:, : x.size(1) - 1] = 0\nreturn y", "r(2, 3)", "r(2, 5)", False),
    S("y = x.clone()\ny[y > 0] = 0\nreturn y"),
    S("y = x.clone()\ny[torch.tensor([0, 1]), 1] = 5\nreturn y", same_kinds=False),
    S("y = x.clone()\ny.add_(1).relu_().mul_(x)\nreturn y"),
    S("y = x.clone()\ny[0].add_(1)\nreturn y"),
    S("y = x.clone()\nv = y.view(-1)\nv[0] = 7\nreturn y, v", same_kinds=False),
    S("y = x.clone()\ny += 1\ny *= x\nreturn y"),
    S("y = torch.empty(0)\ntorch.add(x, x, out=y)\nreturn y"),
    S("y = torch.empty_like(x)\ny.copy_(x)\ny.t()[0] = 3\nreturn y", same_kinds=False),
    S("y = torch.zeros_like(x)\ny.index_fill_(1, torch.tensor([0]), 2.0)\nreturn y + x", same_kinds=False),
    S("y = x.clone()\ny.masked_fill_(x > 0, -1)\nreturn y"),
    S("y = x.clone()\ny.scatter_(1, torch.zeros(x.size(0), 1, dtype=torch.long), 1.0)\nreturn y"),
    S("y = x.clone()\ny.fill_diagonal_(0)\nreturn y", "r(3, 3)", "r(5, 5)"),
    S("y = x.clone()\nfor i in range(2):\n  y[i] = y[i] * i\nreturn y", same_kinds=False),
    S("torch.relu_(x.clone())"),
    S("y = x.clone()\nys = y.unbind(0)\nys[0].zero_()\nreturn y", "r(2, 3)", "r(2, 4)"),
]
INDEXING = [
    S("x[0]"), S("x[-1, 1]"), S("x[1:]"), S("x[:, None]", same_kinds=False), S("x[..., 0]"), S("x[::2, 1:]"), S("x[[0, 1]]", same_kinds=False),
    S("x[x > 0]"), S("x[torch.tensor([1, 0])]", same_kinds=False), S("x[y]", "r(4, 3), i(2)", "r(9, 3), i(3)"),
    S("x[y, 1]", "r(4, 3), i(2)", "r(9, 3), i(3)", False), S("x[None, :, None]", same_kinds=False), S("x[:, y]", "r(3, 4), i(2)", "r(3, 9), i(3)", False),
    S("x[x.sum().long() * 0]"), S("x[0:1, ..., 1]"), S("x[1:, None, ..., 0]"), S("x.index_select(0, y)", "r(4, 3), i(2)", "r(9, 3), i(3)"),
    S("x.gather(1, y)", "r(2, 3), i(2, 2)", "r(2, 5), i(2, 3)"), S("x.take(y)", "r(2, 3), i(2)", "r(2, 5), i(3)"),
    S("x.masked_select(x > 0)"), S("x.nonzero()"), S("x.nonzero(as_tuple=True)[0]"), S("torch.where(x > 0, x, 0)"), S("torch.where(x > 0)[1]"),
]
MAKING = [
    S("x + torch.tensor([1.0, 2.0, 3.0])", same_kinds=False), S("x + torch.tensor(x.size(0))", "r(2, 3)", "r(5, 3)", False),
    S("x + torch.zeros(3)"), S("x + torch.rand(3) * 0"), S("x + torch.randn_like(x) * 0"), S("x + torch.from_numpy(np.ones(3, dtype=np.float32))", same_kinds=False),
    S("x + torch.as_tensor([1, 2, 3])", same_kinds=False), S("x.new_tensor([1.0, 2.0, 3.0]) + x", same_kinds=False), S("x + C"), S("C @ x.t()"),
    S("x.to(torch.float64).float()"), S("x.double().to(x)"), S("x.type(torch.int32)"), S("x.long().bool().int()"), S("x.half().float()"), S("x.type_as(y) + y", "i(3), r(3)", "i(4), r(4)"),
    S("x.cpu() + 1"), S("x.to('cpu')"), S("x.detach() + 1"), S("torch.scalar_tensor(3.5) * x"), S("torch.tensor(2) * x", same_kinds=False),
    S("torch.zeros(3, dtype=torch.int64, device='cpu') + x"), S("torch.logspace(0, 1, 3) + x"), S("torch.ones(2, 3, dtype=x.dtype) + x[:2]"),
]
FUNCTIONS = [
    S("x.max(1)[0] + x.min(1).values"), S("x.max()"), S("torch.max(x, y)", "r(2, 3), r(2, 3)", "r(4, 3), r(4, 3)"), S("x.sum(), x.mean(0), x.std(1)"), S("x.softmax(-1).log()"),
    S("torch.einsum('ij,kj->ik', x, y)", "r(2, 3), r(2, 3)", "r(4, 3), r(5, 3)"), S("x @ y", "r(2, 3), r(3, 4)", "r(5, 3), r(3, 2)"), S("torch.cat([x, x], 0)"), S("torch.stack((x, x), 1)"), S("x.sort(1)[1]"),
    S("2 ** x"), S("x ** 2"), S("1 - x"), S("1 / (x + 10)"), S("-x"), S("~(x > 0)"), S("(x > 0) & (x < 1)"), S("x // 2 + x % 2"), S("abs(x)"), S("x.clamp(min=0)"), S("x.clamp(-1, 1)"),
    S("torch.nn.functional.gelu(x)"), S("torch.nn.functional.layer_norm(x, (3,))"), S("torch.nn.functional.normalize(x)"), S("torch.nn.functional.dropout(x, 0.5, False)"),
    S("torch.nn.functional.cross_entropy(x, y)", "r(2, 3), i(2)", "r(4, 3), i(4)"), S("torch.nn.functional.one_hot(x, 4)", "i(5)", "i(7)"), S("torch.nn.functional.cosine_similarity(x, x)"),
    S("torch.nn.functional.scaled_dot_product_attention(x, x, x)", "r(1, 2, 3)", "r(1, 5, 3)"), S("torch.nn.functional.embedding(y, x)", "r(4, 3), i(2)", "r(9, 3), i(5)"),
    S("torch.nn.functional.conv1d(x, C[None])", "r(1, 1, 9)", "r(2, 1, 7)"), S("torch.nn.functional.max_pool1d(x, 2, return_indices=True)", "r(1, 2, 4)", "r(1, 2, 6)"), S("x.T @ x"), S("x.norm()"), S("torch.linalg.norm(x, dim=1)"),
    S("torch.cdist(x, x)"), S("torch.fft.rfft(x).abs()"), S("x.cumsum(0).flip(1).roll(1, 0)"), S("torch.broadcast_tensors(x, C[:1])[1]", same_kinds=False), S("torch.meshgrid(x[0], x[1], indexing='ij')[0]", "r(2, 3)", "r(2, 5)"),
    S("torch.unique(x.long())"), S("x.var(unbiased=False)"), S("torch.var_mean(x, 1)"), S("x.all(), x.any(1)"), S("torch.outer(x[0], x[1])"), S("torch.nn.functional.softplus(x).tanh().sigmoid()"), S("x.fmod(2).remainder(3)"), S("torch.rsub(x, 3)"),
    S("torch.addmm(y, x, x.t())", "r(2, 3), r(2, 2)", "r(4, 3), r(4, 4)"), S("x.isnan().any() | x.isinf().any()"), S("torch.complex(x, x).real"), S("x.squeeze().unsqueeze(0).permute(1, 0, 2)", "r(2, 1, 3)", "r(4, 1, 3)"),
]
STRUCTURES = [
    S("x, (x + 1, x * 2)"), S("x[0] + x[1]", "(r(2, 3), r(2, 3))", "(r(4, 3), r(4, 3))"), S("x[0] + x[1]", "[r(2, 3), r(2, 3)]", "[r(4, 3), r(4, 3)]"),
    S("x['a'] + x['b']", "{'a': r(2, 3), 'b': r(2, 3)}", "{'a': r(4, 3), 'b': r(4, 3)}"), S("x[0][1] + x[1]", "((r(2), r(2)), r(2))", "((r(3), r(3)), r(3))"), S("[a + 1 for a in x][1]", "[r(2), r(2)]", "[r(5), r(5)]"),
    S("x + 1", "r(2), r(2)", "r(3), r(3)"), S("x"), S("x, x"), S("{'a': x, 'b': x + 1}"), S("[x, x + 1]"), S("(x + 1, [x])"), S("y + x", "r(2), r(2)", "r(3), r(3)"), S("x + C, C", same_kinds=True), S("(x * 2, x * 3)[1]"),
]
SNIPPETS = SIZES + FLOW + WRITES + INDEXING + MAKING + FUNCTIONS + STRUCTURES
