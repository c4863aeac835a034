"""Modules in the manners of torch.jit: hooks, states, quantized parts, what archives keep."""

from __future__ import annotations

import copy
import io
import re
import warnings
from typing import Any

import pytest
import rushlight

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402


def again(module: Any, load: Any = rushlight.load) -> Any:
    return load(io.BytesIO(module.save_to_buffer()))


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sub = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.sub(x)


def twice(self: Any, inputs: tuple[Tensor], out: Tensor):
    return out * 2


def add_three(self: Any, inputs: tuple[Tensor]) -> Tensor:
    return inputs[0] + 3


@pytest.mark.parametrize("load", [rushlight.load, torch.jit.load])
def test_hooks_run_in_loaded_modules(load: Any) -> None:
    module = Hooked()
    module.sub.register_forward_hook(twice)
    module.register_forward_hook(twice)
    module.register_forward_pre_hook(add_three)
    program = rushlight.script(module)
    x = torch.ones(2)
    assert torch.equal(program(x), module(x))
    assert torch.equal(again(program, load)(x), module(x))


def test_archives_keep_what_requires_grad() -> None:
    module = nn.Linear(2, 2)
    module.weight.requires_grad = False
    loaded = again(rushlight.script(module))
    assert [p.requires_grad for p in loaded.parameters()] == [False, True]


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.v = 3

    def forward(self) -> int:
        return self.v

    @rushlight.jit.export
    def __getstate__(self) -> tuple[int, bool]:
        return self.v, self.training

    @rushlight.jit.export
    def __setstate__(self, state: tuple[int, bool]) -> None:
        self.v = state[0] + 1
        self.training = state[1]


def test_states_are_copied_by_their_methods() -> None:
    program = rushlight.script(Stateful())
    assert (copy.deepcopy(program).v, again(program).v, program.v) == (4, 4, 3)


def test_schemas_of_methods_have_parts() -> None:
    for jit in (torch.jit, rushlight):
        schema = jit.script(nn.ReLU()).forward.schema
        assert (schema.name, [a.name for a in schema.arguments]) == ("forward", ["self", "input"])


def test_methods_are_defined_once_and_tensors_stay_tensors() -> None:
    program = rushlight.script(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="already defined"):
        program.define("def forward(self, x):\n    return x\n")
    with pytest.raises(RuntimeError, match="weight"):
        program.weight = 3


def test_quantized_modules_are_scripted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.ao.quantization.quantize_dynamic(
            nn.Sequential(nn.Linear(4, 4)), dtype=torch.qint8
        )
        x = torch.randn(2, 4)
        program = rushlight.script(module)
        assert torch.allclose(program(x), module(x))
        assert torch.allclose(again(program)(x), module(x))
        linear, q = (
            torch.ao.nn.quantized.Linear(4, 4),
            torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
        )
        assert torch.equal(rushlight.script(linear)(q).int_repr(), linear(q).int_repr())


def channels(x: Tensor, scales: Tensor, zeros: Tensor):
    return torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8)


def test_quantized_tensors_cross_the_border() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = torch.randn(2, 3), torch.tensor([0.1, 0.2]), torch.zeros(2, dtype=torch.long)
        q, ours = channels(*args), rushlight.script(channels)(*args)
        assert torch.equal(q.int_repr(), ours.int_repr()) and q.qscheme() == ours.qscheme()
        assert torch.equal(q.q_per_channel_scales(), ours.q_per_channel_scales())


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class AddOne(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = torch.ones(1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.one


class Outer(nn.Module):
    step: Step

    def __init__(self) -> None:
        super().__init__()
        self.step = AddOne()

    def forward(self, x: Tensor) -> Tensor:
        return self.step.forward(x)


class Swaps(nn.Module):
    step: Step
    other: Step

    def __init__(self) -> None:
        super().__init__()
        self.step, self.other = AddOne(), AddOne()

    def forward(self, x: Tensor) -> Tensor:
        self.step = self.other
        return self.step.forward(x)


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleDict({"a": AddOne(), "b": AddOne()})

    def forward(self, x: Tensor, name: str) -> Tensor:
        step: Step = self.steps[name]
        return step.forward(x)


def test_freezing_follows_interfaces() -> None:
    frozen = rushlight.freeze(rushlight.script(Outer()).eval())
    assert not hasattr(frozen, "step") and "CallMethod" not in str(frozen.graph)
    assert torch.equal(frozen(torch.ones(1)), torch.ones(1) * 2)
    with pytest.raises(
        RuntimeError, match="Freezing does not support SetAttr on an interface type"
    ):
        rushlight.freeze(rushlight.script(Swaps()).eval())


def test_containers_are_indexed_through_interfaces_in_archives_too() -> None:
    assert torch.equal(again(rushlight.script(Chosen()))(torch.ones(1), "b"), torch.ones(1) * 2)


def test_what_does_not_fit_is_refused_in_the_same_words() -> None:
    def said(jit: Any, body: Any) -> str:
        with pytest.raises(RuntimeError) as caught:
            body(jit)
        return re.sub(
            r" \(of Python compilation unit at: 0x[0-9a-f]+\)|___torch_mangle_\d+\.",
            "",
            str(caught.value),
        )

    def replace(jit: Any) -> None:
        setattr(jit.script(nn.Sequential(nn.ReLU())), "0", jit.script(nn.Tanh()))

    def cast(jit: Any) -> None:
        jit.script(nn.Linear(1, 1)).weight = "s"

    def delete(jit: Any) -> None:
        del jit.script(nn.Linear(1, 1)).weight

    for body in (replace, cast, delete):
        assert said(rushlight, body) == said(torch.jit, body)
    program = rushlight.script(Outer())
    with pytest.raises(
        RuntimeError, match="Chosen' \\(1\\) is not compatible with interface .*Step' \\(2\\)"
    ):
        program.step = rushlight.script(Chosen())


def steps(x: Tensor, n: int) -> tuple[Tensor, int]:
    for i in range(n):
        x = x + i if i > 2 else x * 2
    return x, 3 * 4


def test_graphs_go_to_torch_and_back() -> None:
    graph, x = rushlight.script(steps).graph, torch.ones(1)
    torchs = graph.graph()
    assert torch._C._create_function_from_graph("f", torchs)(x, 5) == steps(x, 5)
    torch._C._jit_pass_constant_propagation(torchs)
    graph.set_graph(torchs)
    graph.lint()
    assert graph.findNode("aten::gt") is not None and "value=12" in str(graph)
    assert isinstance(rushlight.script(steps).graph_for(x, 1), torch._C.Graph)
    graph = rushlight.trace(lambda x: x + torch.tensor([1.0, 2.0]) * 3, torch.ones(2)).graph
    torchs = graph.graph()  # with the tensors in it
    assert torch._C._create_function_from_graph("f", torchs)(x).tolist() == [4.0, 7.0]
    graph.set_graph(torchs)
    assert graph(torch.ones(2)).tolist() == [4.0, 7.0]


class Scale:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


class ScaleMore(Scale):
    def __init__(self, by: float) -> None:
        super().__init__(by + 1)
        self.unknown = 3

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return super().__call__(x) + 100


class Scaled(torch.nn.Module):
    __annotations__ = {"scale": Scale}

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale(x)


def test_an_attribute_takes_an_object_of_a_subclass() -> None:
    """It is one of the declared class then, as in PyTorch."""
    x = torch.ones(2)
    model = Scaled(ScaleMore(2.0))
    assert (
        rushlight.jit.script(model)(x).tolist() == torch.jit.script(model)(x).tolist() == [3.0, 3.0]
    )
