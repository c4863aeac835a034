"""rushlight.optim against torch.optim: 20 steps, states both ways, groups, refusals."""

from __future__ import annotations

import copy
import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.001, "momentum": 0.5, "maximize": True}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "betas": (0.4, 0.9), "eps": 1e-6, "weight_decay": 0.02}),
    ("Adam", {"lr": 0.01, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"alpha": 0.9, "momentum": 0.8, "centered": True, "weight_decay": 0.01}),
    ("RMSprop", {"momentum": 0.8, "maximize": True}),
    ("Adagrad", {"lr": 0.05}),
    ("Adagrad", {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("Adagrad", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(CASES)]
SHAPES = ((5, 17), (17,), (17, 3), (3,))


def start(dtype: Any = torch.float64) -> list[Any]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(s, dtype=dtype) * 0.5) for s in SHAPES]


def data(dtype: Any = torch.float64) -> tuple[Any, Any]:
    torch.manual_seed(1)
    return torch.randn(32, 5, dtype=dtype), torch.randn(32, 3, dtype=dtype)


def loss_of(params: list[Any], x: Any, y: Any) -> Any:
    a, b, c, d = params
    return ((x.matmul(a) + b).tanh().matmul(c) + d - y).pow(2).mean()


def train(optimizer: Any, params: list[Any], n: int, x: Any, y: Any) -> list[float]:
    losses = []
    for _ in range(n):
        optimizer.zero_grad()
        loss = loss_of(params, x, y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def check_close(got: Any, want: Any, rtol: float) -> None:
    torch.testing.assert_close(got, want, rtol=rtol, atol=rtol / 10)


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_twenty_steps_are_torch_optims(name: str, options: dict, dtype: Any) -> None:
    """On torch's tensors, and on our own."""
    x, y = data(dtype)
    theirs, mine = start(dtype), start(dtype)
    own = [rushlight.tensor(p.detach().numpy().copy()).requires_grad_() for p in mine]
    want = train(getattr(torch.optim, name)(theirs, **options), theirs, 20, x, y)
    got = train(getattr(rushlight.optim, name)(mine, **options), mine, 20, x, y)
    ours = [rushlight.tensor(t.numpy().copy()) for t in (x, y)]
    third = train(getattr(rushlight.optim, name)(own, **options), own, 20, *ours)
    rtol = 1e-11 if dtype == torch.float64 else 1e-6
    # Where a gradient is next to 0, a last bit decides: all but SGD divide by its size.
    loose = rtol if dtype == torch.float64 or name == "SGD" else 2e-5
    check_close(torch.tensor(got), torch.tensor(want), rtol)
    check_close(torch.tensor(third), torch.tensor(want), rtol)
    for p, q, r in zip(mine, theirs, own, strict=True):
        check_close(p, q, loose)
        check_close(torch.from_numpy(r.detach().numpy().copy()), q.detach(), loose)


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
@pytest.mark.parametrize("ours_first", [True, False])
def test_a_state_goes_both_ways(
    name: str, options: dict, ours_first: bool, tmp_path: pathlib.Path
) -> None:
    """Ten steps by one, ten by the other with the saved state: as twenty by torch's."""
    x, y = data()
    params, whole = start(), start()
    torch_class, our_class = getattr(torch.optim, name), getattr(rushlight.optim, name)
    want = train(torch_class(whole, **options), whole, 20, x, y)
    first, second = (our_class, torch_class) if ours_first else (torch_class, our_class)
    before = first(params, **options)
    got = train(before, params, 10, x, y)
    torch.save(before.state_dict(), tmp_path / "state.pt")
    after = second(params)  # the options are in the state
    after.load_state_dict(torch.load(tmp_path / "state.pt"))
    got += train(after, params, 10, x, y)
    check_close(torch.tensor(got), torch.tensor(want), 1e-11)
    theirs, ours = torch_class(whole, **options), our_class(params, **options)
    assert [*theirs.state_dict()["param_groups"][0]] == [*ours.state_dict()["param_groups"][0]]


@pytest.mark.parametrize("name, options", CASES, ids=IDS)
def test_a_state_of_our_tensors_is_read_by_torch(
    name: str, options: dict, tmp_path: pathlib.Path
) -> None:
    x, y = data()
    ours = [rushlight.tensor(t.numpy().copy()) for t in (x, y)]
    whole = start()
    own = [rushlight.tensor(p.detach().numpy().copy()).requires_grad_() for p in whole]
    want = train(getattr(torch.optim, name)(whole, **options), whole, 20, x, y)
    optimizer = getattr(rushlight.optim, name)(own, **options)
    got = train(optimizer, own, 10, *ours)
    rushlight.save_value(tmp_path / "state.pt", optimizer.state_dict())
    params = [torch.nn.Parameter(torch.from_numpy(p.detach().numpy().copy())) for p in own]
    after = getattr(torch.optim, name)(params)
    after.load_state_dict(torch.load(tmp_path / "state.pt"))
    check_close(torch.tensor(got + train(after, params, 10, x, y)), torch.tensor(want), 1e-11)
    torch.save(after.state_dict(), tmp_path / "back.pt")
    optimizer.load_state_dict(rushlight.load_value(tmp_path / "back.pt"))
    for state, theirs in zip(
        optimizer.state_dict()["state"].values(), after.state_dict()["state"].values(), strict=True
    ):
        assert {k: v.tolist() for k, v in state.items()} == {
            k: v.tolist() for k, v in theirs.items()
        }


def test_groups_have_options_of_their_own() -> None:
    def run(optim: Any) -> list[Any]:
        params = start()
        optimizer = optim.AdamW(
            [{"params": params[:2], "lr": 0.1}, {"params": params[2]}], lr=0.01, weight_decay=0.5
        )
        optimizer.add_param_group({"params": [params[3]], "betas": (0.5, 0.6)})
        x, y = data()
        train(optimizer, params, 5, x, y)
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
        train(optimizer, params, 5, x, y)
        assert [len(g["params"]) for g in optimizer.param_groups] == [2, 1, 1]
        return params

    for mine, theirs in zip(run(rushlight.optim), run(torch.optim), strict=True):
        check_close(mine, theirs, 1e-11)


def test_parameters_without_gradient_stay() -> None:
    params = start()
    before = copy.deepcopy(params)
    optimizer = rushlight.optim.Adam(params)
    params[1].grad = torch.ones_like(params[1])
    optimizer.step()
    assert torch.equal(params[0], before[0]) and not torch.equal(params[1], before[1])
    assert [*optimizer.state_dict()["state"]] == [1]
    assert optimizer.state[params[1]]["step"].item() == 1


def test_momentum_may_begin_later() -> None:
    """A parameter whose first gradient comes later has its own first step."""

    def run(optim: Any) -> list[Any]:
        params = start()
        optimizer = optim.SGD(params, 0.1, momentum=0.9, dampening=0.5)
        for step in range(4):
            for i, p in enumerate(params):
                p.grad = p.detach() * (i + 1) if i <= step else None
            optimizer.step()
        return params

    for mine, theirs in zip(run(rushlight.optim), run(torch.optim), strict=True):
        check_close(mine, theirs, 1e-12)


def test_zero_grad_and_closures() -> None:
    params = start()
    x, y = data()
    optimizer = rushlight.optim.SGD(params, 0.1)

    def closure() -> Any:
        optimizer.zero_grad(set_to_none=False)
        loss = loss_of(params, x, y)
        loss.backward()
        return loss

    with torch.no_grad():
        first, second = optimizer.step(closure), optimizer.step(closure)
    assert second < first
    optimizer.zero_grad(set_to_none=False)
    assert all((p.grad == 0).all() for p in params)
    optimizer.zero_grad()
    assert all(p.grad is None for p in params)


def test_parameters_of_a_module() -> None:
    """A scripted module trains as torch's own does."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(5, 9), torch.nn.Tanh(), torch.nn.Linear(9, 3))
    twin = copy.deepcopy(net)
    scripted = rushlight.script(net)
    mine = rushlight.optim.Adam(scripted.parameters(), 0.02)
    theirs = torch.optim.Adam(twin.parameters(), 0.02)
    x, y = data(torch.float32)
    for _ in range(20):
        for model, optimizer in ((scripted, mine), (twin, theirs)):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        check_close(p, q, 2e-5)


def test_torch_sees_that_parameters_were_written() -> None:
    """A second backward through values that a step has overwritten is refused."""
    x, y = data()
    for name, options in CASES[:3] + CASES[4:5] + CASES[9:10] + CASES[12:13]:
        params = start()
        optimizer = getattr(rushlight.optim, name)(params, **options)
        loss = loss_of(params, x, y)
        loss.backward(retain_graph=True)
        before = [p._version for p in params]
        optimizer.step()
        assert all(p._version > v for p, v in zip(params, before, strict=True))
        assert all(p.is_leaf and p.requires_grad for p in params)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        own = [rushlight.tensor(p.detach().numpy().copy()).requires_grad_() for p in params]
        optimizer = getattr(rushlight.optim, name)(own, **options)
        loss = loss_of(own, rushlight.tensor(x.numpy()), rushlight.tensor(y.numpy()))
        loss.backward(retain_graph=True)
        optimizer.step()
        assert all(p.is_leaf and p.requires_grad for p in own)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("kind", ["torch", "own"])
def test_copies_and_pickles_go_on(kind: str) -> None:
    x, y = data()
    params: list[Any] = start()
    if kind == "own":
        params = [rushlight.tensor(p.detach().numpy().copy()).requires_grad_() for p in params]
        x, y = (rushlight.tensor(t.numpy()) for t in (x, y))
    optimizer = rushlight.optim.Adam(params, 0.05)
    train(optimizer, params, 3, x, y)
    copies = [copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))]
    want = train(optimizer, params, 3, x, y)
    for other in copies:
        theirs = other.param_groups[0]["params"]
        assert len(other.state) == 4 and other.state[theirs[0]]["step"].item() == 3
        assert train(other, theirs, 3, x, y) == want


WRONG: list[tuple[str, Any, dict[str, Any]]] = [
    ("SGD", "params", {"lr": -1.0}),
    ("Adam", "params", {"lr": float("nan")}),
    ("SGD", "params", {"momentum": -0.5}),
    ("SGD", "params", {"weight_decay": -1}),
    ("SGD", "params", {"nesterov": True}),
    ("SGD", "params", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
    ("Adam", "params", {"betas": (1.0, 0.9)}),
    ("Adam", "params", {"betas": (0.9, -1.0)}),
    ("Adam", "params", {"eps": -1.0}),
    ("AdamW", "params", {"weight_decay": -1.0}),
    ("RMSprop", "params", {"alpha": -1.0}),
    ("RMSprop", "params", {"momentum": -1.0}),
    ("Adagrad", "params", {"lr_decay": -1.0}),
    ("Adagrad", "params", {"initial_accumulator_value": -1.0}),
    ("Adagrad", "params", {"eps": -1.0}),
    ("Adam", [], {}),
    ("Adam", "twice", {}),
    ("Adam", "result", {}),
    ("Adam", [3], {}),
]


@pytest.mark.parametrize("name, what, options", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_refuses_in_torch_optims_words(name: str, what: Any, options: dict) -> None:
    made = start()
    params = {"params": made, "twice": [made[0], made[0]], "result": [made[0] * 2]}.get(
        what if isinstance(what, str) else "", what
    )
    with pytest.raises((ValueError, TypeError)) as theirs:
        if what == "twice":  # torch only warns: a later version will refuse
            raise ValueError("some parameters appear in more than one parameter group")
        getattr(torch.optim, name)(params, **options)
    with pytest.raises(theirs.type) as mine:
        getattr(rushlight.optim, name)(params, **options)
    assert str(mine.value) == str(theirs.value).replace("torch.", "").replace("builtins.", "")


def test_refuses_a_state_of_another_optimizer() -> None:
    params = start()
    optimizer = rushlight.optim.Adam(params)
    state = torch.optim.Adam(params[:2]).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimizer.load_state_dict(state)
    two = [{"params": params[:1]}, {"params": params[1:]}]
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict(torch.optim.Adam(two).state_dict())
    state = optimizer.state_dict()
    state["state"] = {0: {"step": 3.0, "exp_avg": torch.ones(2), "exp_avg_sq": torch.ones(2)}}
    with pytest.raises(ValueError, match=r"'exp_avg' of a parameter of sizes \[5, 17\]"):
        optimizer.load_state_dict(state)
    with pytest.raises(NotImplementedError, match="differentiable=True"):
        rushlight.optim.SGD(params, differentiable=True)


def test_rmsprop_has_the_same_bits_everywhere() -> None:
    x = [torch.rand(s, dtype=torch.float32) + 0.1 for s in ((100003,), (17,)) for _ in range(5)]
    found = []
    try:
        for cpu in ("native", "avx2", "portable"):
            for threads in (1, 4):
                rushlight.set_cpu(cpu)
                rushlight.set_num_threads(threads)
                lists = [[x[i].clone(), x[5 + i].clone()] for i in range(5)]
                rushlight.ops.rushlight._fused_rmsprop_(
                    *lists, lr=0.1, alpha=0.7, eps=1e-3, weight_decay=0.1, momentum=0.9,
                    centered=True, maximize=False)  # fmt: skip
                found.append(lists)
    finally:
        rushlight.set_cpu("native")
        rushlight.set_num_threads(len(os.sched_getaffinity(0)))
    for lists in found[1:]:
        for row, first in zip(lists, found[0], strict=True):
            assert all(torch.equal(a.nan_to_num(), b.nan_to_num())
                       for a, b in zip(row, first, strict=True))  # fmt: skip


PROGRAM = """
import sys
import rushlight

model = rushlight.load(sys.argv[1])
model.train()
optimizer = rushlight.optim.Adam(model.parameters(), lr=1e-2)
x = rushlight.rand([32, 1, 8, 8])
y = (x.sum([1, 2, 3]) * 0.3).to(rushlight.int64).clamp(0, 9)
losses = []
for _ in range(12):
    optimizer.zero_grad()
    loss = rushlight.ops.aten.cross_entropy_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.5 * losses[0], losses
assert "torch" not in sys.modules and "numpy" not in sys.modules
"""


def test_trains_without_torch() -> None:
    digits = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.pt"
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(digits)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
