"""rushlight.script of torch.nn.Modules beside torch.jit.script: what is accepted, what it gives,
what is said of the rest."""

from __future__ import annotations

import io
import re
import warnings
from typing import Any, Dict

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
import script_modules  # noqa: E402
from rushlight.jit import sources  # noqa: E402
from torch import Tensor, nn  # noqa: E402

warnings.filterwarnings("ignore")

BASE = script_modules.Base
CLASSES = [
    c
    for c in vars(script_modules).values()
    if isinstance(c, type) and issubclass(c, BASE) and c is not BASE
]
# PyTorch forgets that a module is one when it comes out of a tuple, and lacks the length of a
# ParameterList.
ACCEPTED_HERE = {"Slice", "Slice2", "Modtuple", "TupleUnpackMods", "Len", "EnumerateIdx"}
REFUSED_HERE = {"IsinstanceModule"}  # isinstance(module, nn.Linear): PyTorch returns False
# Both refuse, for what they meet first.
OTHER_WORDS = {
    "Params",
    "Nparams",
    "Buffers",
    "Super",
    "SuperMethod",
    "Reversed",
    "Del",
    "NoSelf",
    "PropBad",
}


def first_line(error: BaseException) -> str:
    text = re.sub(
        r" \(of Python compilation unit at: 0x[0-9a-f]+\)|___torch_mangle_\d+\.", "", str(error)
    )
    lines = [line.strip().rstrip(":").strip() for line in text.split("\n") if line.strip()]
    return next(line for line in lines if line)


def last_line(error: BaseException) -> str:
    return re.sub(r"___torch_mangle_\d+\.", "", str(error)).strip().splitlines()[-1]


def same(got: Any, want: Any) -> None:
    if isinstance(got, nn.Module):
        assert type(want).__name__ in ("ScriptObject", "ScriptModule") or isinstance(
            want, nn.Module
        )
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want) and len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
    elif isinstance(want, dict):
        assert list(got) == list(want)
        same(list(got.values()), list(want.values()))
    elif isinstance(want, Tensor):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)
    else:
        assert type(got) is type(want) and got == want


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_as_pytorch(cls: Any) -> None:
    torch.manual_seed(0)
    module, x, name = cls(), torch.randn(2, 2), cls.__name__
    theirs = ours = refused = refused_here = None
    try:
        theirs = torch.jit.script(cls())
    except Exception as error:  # noqa: BLE001
        refused = error
    try:
        ours = rushlight.script(module)
    except Exception as error:  # noqa: BLE001
        refused_here = error
    if theirs is None or ours is None:
        assert theirs is None or name in REFUSED_HERE, refused_here
        assert ours is None or name in ACCEPTED_HERE, refused
        if theirs is ours is None and name not in OTHER_WORDS:
            assert first_line(refused_here) == first_line(refused)  # type: ignore[arg-type]
        return
    theirs = torch.jit.script(module)
    outcomes = []
    for one in (ours, theirs):
        try:
            outcomes.append((one(x, *getattr(cls, "arguments", ())), ""))
        except Exception as error:  # noqa: BLE001
            outcomes.append((None, last_line(error)))
    assert outcomes[0][1] == outcomes[1][1]
    same(outcomes[0][0], outcomes[1][0])


def module_samples() -> list[Any]:
    common = pytest.importorskip("torch.testing._internal.common_modules")
    return [
        info for info in common.module_db if "Fractional" not in info.name
    ]  # theirs fails on its own samples


@pytest.mark.parametrize("info", module_samples(), ids=lambda i: i.name)
def test_modules_of_torch(info: Any) -> None:
    tried = 0
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
        )
        for sample in samples[:3]:
            module = info.module_cls(
                *sample.constructor_input.args, **sample.constructor_input.kwargs
            ).eval()
            try:
                theirs = torch.jit.script(module)
            except Exception:  # noqa: BLE001, S112
                continue
            ours, given = rushlight.script(module), sample.forward_input
            try:
                torch.manual_seed(1)
                want = theirs(*given.args, **given.kwargs)
            except Exception:  # noqa: BLE001, S112
                continue
            torch.manual_seed(1)
            same(ours(*given.args, **given.kwargs), want)
            tried += 1
    finally:
        torch.set_default_dtype(before)
    if not tried:
        pytest.skip("PyTorch scripts none of its samples")


# -- State
# ------------------------------------------------------------------------------------------------


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.tied = self.linear.weight
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        return self.linear(x) + self.tied


def test_state_is_shared_both_ways() -> None:
    module, x = Small(), torch.randn(2, 2)
    ours = rushlight.script(module)
    assert ours.linear.weight is module.linear.weight and ours.tied is ours.linear.weight
    with torch.no_grad():
        module.linear.weight.zero_()
    assert torch.allclose(ours(x), module.linear.bias.expand(2, 2))
    assert ours.count.tolist() == [1.0] and module.count.tolist() == [0.0], (
        "the program's own buffer from now on"
    )
    ours.linear.weight.data = torch.eye(2)  # other memory
    assert torch.allclose(ours(x), x + module.linear.bias + torch.eye(2))
    module.double()
    assert ours(x.double()).dtype == torch.float64
    assert len(list(ours.parameters())) == 2


def test_archives_of_it_open_in_torch() -> None:
    module, x = Small(), torch.randn(2, 2)
    ours = rushlight.script(module)
    theirs = torch.jit.load(io.BytesIO(ours.save_to_buffer()))
    assert torch.allclose(theirs(x), ours(x), atol=1e-6)
    assert theirs.tied.data_ptr() == theirs.linear.weight.data_ptr()


def test_types_are_shared() -> None:
    a, b = rushlight.script(nn.Linear(2, 3)), rushlight.script(nn.Linear(2, 3))
    c = rushlight.script(nn.Linear(3, 3))
    assert a._c._type() == b._c._type() and a._c._type() != c._c._type()
    assert rushlight.script(a) is a


# -- Manners
# ------------------------------------------------------------------------------------------------


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.v = 1
        self.seen = rushlight.Attribute([], list[int])

    @property
    def above(self) -> int:
        return self.v + 1

    @above.setter
    def above(self, x: int) -> None:
        self.v = x - 1

    @rushlight.ignore
    def python(self, x: Tensor, k: int = 3) -> Tensor:
        return x + k + self.v

    @rushlight.unused
    def never(self, x: Tensor) -> Tensor:
        raise ValueError

    @rushlight.jit.export
    def twice(self, x: Tensor) -> Tensor:
        return x * 2

    def forward(self, x: Tensor, wrong: bool = False) -> Tensor:
        if wrong:
            return self.never(x)
        self.seen.append(self.above)
        return self.python(x) + self.python(x, k=1)


def test_ignored_unused_exported_and_properties() -> None:
    ours, x = rushlight.script(Mixed()), torch.ones(1)
    assert ours(x).tolist() == [8.0] and ours.twice(x).tolist() == [2.0]
    ours.above = 11
    assert (ours.v, ours.above) == (10, 11)
    assert ours(x).tolist() == [26.0] and ours.seen == [2, 11]
    with pytest.raises(RuntimeError, match="annotated to be ignored and cannot be run"):
        ours(x, True)
    with pytest.raises(RuntimeError, match="Could not cast attribute 'v'"):
        ours.v = "a"
    with pytest.raises(RuntimeError, match=r"forward\(\) is missing value for argument 'x'"):
        ours()


def test_subclasses_of_script_module() -> None:
    class Old(rushlight.ScriptModule):
        __constants__ = ["k"]

        def __init__(self) -> None:
            super().__init__()
            self.k = 3
            self.w = nn.Parameter(torch.ones(2))
            self.lin = nn.Linear(2, 2)
            self.table = rushlight.Attribute({}, Dict[str, int])  # noqa: UP006

        @rushlight.script_method
        def forward(self, x):  # noqa: ANN001, ANN202
            return self.lin(x) * self.w * self.k

        @rushlight.script_method
        def more(self, x, y: int = 2):  # noqa: ANN001, ANN202
            return self.forward(x) + y

    old, x = Old(), torch.ones(1, 2)
    want = (torch.nn.functional.linear(x, old.lin.weight, old.lin.bias) * 3).detach()
    assert torch.allclose(old(x), want) and torch.allclose(old.more(x, y=5), want + 5)
    assert (
        isinstance(old, nn.Module) and isinstance(old, rushlight.ScriptModule) and type(old) is Old
    )
    assert [name for name, _ in old.named_parameters()] == ["w", "lin.weight", "lin.bias"]
    old.define("def less(self, x):\n    return self.w - x\n")
    assert old.less(x).tolist() == [[0.0, 0.0]]


def test_interfaces_can_be_swapped() -> None:
    ours, x = rushlight.script(script_modules_interface()), torch.ones(1)
    assert ours(x).tolist() == [2.0]
    ours.step = rushlight.script(Triple())
    assert ours(x).tolist() == [3.0]
    with pytest.raises(RuntimeError, match="not compatible with interface"):
        ours.step = rushlight.script(nn.Bilinear(1, 1, 1))


@rushlight.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Double(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Triple(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = 3

    def forward(self, x: Tensor) -> Tensor:
        return x * self.k


class Stepping(nn.Module):
    step: Step

    def __init__(self) -> None:
        super().__init__()
        self.step = Double()

    def forward(self, x: Tensor) -> Tensor:
        return self.step.forward(x)


def script_modules_interface() -> Stepping:
    return Stepping()


def seven(self, inputs: tuple[Tensor], result: Tensor):  # noqa: ANN001, ANN201
    return result * 0 + 7


def nothing(self, inputs: tuple[Tensor]) -> tuple[Tensor]:  # noqa: ANN001
    return (inputs[0] * 0,)


def of_ints(self, inputs: tuple[int]) -> None:  # noqa: ANN001
    return


def unsaid(self, inputs: tuple[Tensor]):  # noqa: ANN001, ANN201
    return inputs


def test_hooks() -> None:
    module = nn.Sequential(Double(), Double())
    module.register_forward_hook(seven)
    module[0].register_forward_pre_hook(nothing)
    ours = rushlight.script(module)
    assert ours(torch.ones(1)).tolist() == [7.0]
    assert ours[0](torch.ones(1)).tolist() == [0.0]
    for hook in (of_ints, unsaid):
        told = []
        for script in (torch.jit.script, rushlight.script):
            one = Double()
            one.register_forward_pre_hook(hook)
            with pytest.raises(RuntimeError) as error:
                script(one)
            told.append(str(error.value))
        assert told[0] == told[1]


def test_equal_modules_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    of_function = sources.Sources.of_function

    def counted(self: sources.Sources, fn: Any) -> Any:
        asked.append(fn.__qualname__)
        return of_function(self, fn)

    def deep() -> nn.Module:
        return nn.Sequential(
            *[nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(3)]
        ).eval()

    monkeypatch.setattr(sources.Sources, "of_function", counted)
    rushlight.script(deep())
    asked.clear()  # classes that an earlier test compiled are not requested again
    x = torch.randn(2, 5, 8)
    module = deep()
    same(rushlight.script(module)(x), module(x))
    assert asked == []
