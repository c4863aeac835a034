"""What programs look at beside calling: `_c`, methods as objects, overloaded forwards, attributes
that are left alone."""

import io

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2,), 3.0))
        self.times = 2

    def forward(self, x):
        return x * self.weight * self.times


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scale()

    def forward(self, x):
        return self.inner(x)


def test_dump_to_str():
    module = rushlight.script(Outer())
    full = module._c.dump_to_str(True, True, True)
    assert "module __torch__" in full
    assert "weight = " in full
    assert "times = 2" in full
    assert "aten::mul" in full
    short = module._c.dump_to_str(False, False, False)
    assert "weight = ..." in short
    assert "aten::mul" not in short
    assert "submodules" in short


def test_children_and_apply_of_c():
    module = rushlight.script(Outer())
    assert [child.name for child in module._c.children()] == ["Scale"]
    seen = []
    module._c.apply(lambda c: seen.append(c.name))
    assert seen == ["Scale", "Outer"]


def test_methods_are_objects():
    module = rushlight.script(Outer())
    assert "def forward" in module.forward.code
    assert module.forward.owner is module
    assert "prim::CallMethod" in str(module.forward.graph)
    assert "prim::CallMethod" not in str(module.forward.graph_for(torch.ones(2)))  # inlined


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_overloaded_forward(kind):
    model = kind(3, 4, batch_first=True)
    script = rushlight.script(model)
    x = torch.randn(2, 5, 3)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)
    saved = io.BytesIO()
    rushlight.save(script, saved)
    saved.seek(0)
    for module in script, rushlight.load(saved):
        for got in module(x), module.forward(x):
            torch.testing.assert_close(got, model(x))
        out, state = module(packed)
        expected, expected_state = model(packed)
        torch.testing.assert_close(out.data, expected.data)
        torch.testing.assert_close(state, expected_state)
        with pytest.raises(RuntimeError, match="forward"):
            module("no tensor")


def test_ignored_property_is_not_read():
    class Shy(torch.nn.Module):
        __jit_ignored_attributes__ = ["secret"]

        @property
        def secret(self):
            raise ValueError("do not look")

        def forward(self, x):
            return x + 1

    assert rushlight.script(Shy())(torch.ones(1)).item() == 2


def test_tied_parameters_of_a_trace_stay_one():
    model = Outer()
    model.other = Scale()
    model.other.weight = model.inner.weight
    traced = rushlight.trace(model, torch.ones(2))
    assert traced.inner.weight is traced.other.weight
    assert len(list(traced.parameters())) == 1
    torch.testing.assert_close(traced(torch.ones(2)), model(torch.ones(2)))


def test_check_error_is_torchs_too():
    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed"), pytest.warns(Warning):
        rushlight.trace(
            lambda x: x + int(x.size(0)), torch.ones(2), check_inputs=[(torch.ones(3),)]
        )
    assert issubclass(rushlight.TracingCheckError, Exception)
