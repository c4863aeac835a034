"""Programs in the manner of PyTorch's own tests through torch.jit and ours: the same result, or
class and first line."""

# No postponed annotations here: torch.jit reads live ones.

import collections
import dataclasses
import io
import re
from collections.abc import Callable

# What programs are annotated with.
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple  # noqa: UP035

import pytest
import rushlight.jit

torch = pytest.importorskip("torch")
nn = torch.nn
Tensor = torch.Tensor
CASES: list[Callable[[Any], Any]] = []


def case(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES.append(fn)
    return fn


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("The following operation failed"):
        lines = [line for line in lines if ": " in line and not line.startswith("File")][
            -1:
        ] or lines[-1:]
    text = re.sub(
        r" \(of Python compilation unit at: \w+\)|___torch_mangle_\d+\.|0x\w+",
        "",
        lines[0] if lines else "",
    )
    return text.rstrip(" :")


def shown(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist(), str(value.dtype)
    if isinstance(value, (tuple, list)):
        return [shown(v) for v in value]
    return repr(value)


def outcome(fn: Callable[[Any], Any], jit: Any) -> Any:
    try:
        return "gives", shown(fn(jit))
    except Exception as error:  # noqa: BLE001
        return type(error).__name__, first_line(error)


def again(jit: Any, program: Any) -> Any:
    buffer = io.BytesIO()
    jit.save(program, buffer)
    buffer.seek(0)
    return jit.load(buffer)


# -- Signatures in comments and texts
# ------------------------------------------------------------------------------


@case
def text_without_result(jit: Any) -> Any:
    return jit.CompilationUnit("def f(x, n):\n    # type: (Tensor, int)\n    return x * n\n").f(
        torch.ones(1), 3
    )


def text(lines: str) -> Callable[[Any], Any]:
    def compile_text(jit: Any) -> Any:
        return bool(jit.CompilationUnit(lines))

    compile_text.__name__ = "text_" + re.sub(r"\W+", "_", lines)[:40]
    return case(compile_text)


text("def f(x):\n    for i, j in [2, 3], [4, 5]:\n        x += i\n    return x\n")
text("def f(x):\n    a = (x, x)\n    *b, = a\n    return b\n")
text("def f(x, y=3):\n    return x\n")
text("def f(x: int, l: List[int] = [1, 2]):\n    return l\n")
text("def f(x: List[int, int]):\n    return x\n")
text("def f(x: Dict[int]):\n    return x\n")
text("def f(x: BroadcastingList2[str]):\n    return x\n")
text("def f(x: int):\n    return [x\n")
text("x = 3\n")


@case
def defined_methods_keep_comments(jit: Any) -> Any:
    class M(jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(1))
            self.define("""
            def g(self, x):
                # type: (int) -> Tensor
                return self.w + x
            """)

    return M().g(3)


# -- Classes
# --------------------------------------------------------------------------------------------------


@case
def a_failed_class_leaves_nothing(jit: Any) -> Any:
    class Bad:
        def __init__(self, x) -> None:  # noqa: ANN001
            self.x = x
            self.x = 3

    class Good:
        def __init__(self, x: int) -> None:
            self.x = x

        def twice(self) -> int:
            return self.x * 2

    def f(x: int) -> int:
        return Good(x).twice()

    with pytest.raises(RuntimeError, match="Wrong type for attribute assignment"):
        jit.script(Bad)
    return jit.script(f)(4)


@case
def a_class_of_itself(jit: Any) -> Any:
    class Tree:
        def __init__(self) -> None:
            self.parent = torch.jit.annotate(Optional[Tree], None)

    return jit.script(Tree)


@case
def annotated_outside_of_init(jit: Any) -> Any:
    class Bad:
        def __init__(self, x: int) -> None:
            self.x = x

        def set(self, v: int) -> None:
            for _ in range(3):
                self.x: int = v

    return jit.script(Bad)


@case
def unused_methods_of_classes(jit: Any) -> Any:
    class U:
        def __init__(self) -> None:
            self.n = 0

        @torch.jit.unused
        def unused(self, x: int, y: Iterable[int], **kwargs) -> int:  # noqa: ANN003
            return next(y)

        def used(self) -> int:
            return self.n

    def f() -> int:
        return U().used()

    def g() -> int:
        return U().unused(3, "hi")

    got = jit.script(f)()
    with pytest.raises(torch.jit.Error, match="Cannot call @unused methods"):
        jit.script(g)()
    return got


@case
def delete_without_delitem(jit: Any) -> Any:
    class N:
        def __init__(self) -> None:
            self.x = 1

    def f() -> None:
        n = N()
        del n["a"]

    return jit.script(f)


@case
def no_init_but_bad_methods(jit: Any) -> Any:
    class X:
        def bad(self) -> None:
            import pdb  # noqa: F401, T100

    def f(x) -> X:  # noqa: ANN001
        return X(10)

    return jit.script(f)


@case
def aliases_of_types(jit: Any) -> Any:
    device_t, many = torch.device, List[int]

    class A:
        def __init__(self) -> None:
            self.x = 1

        def first(self, ls: List[device_t]) -> device_t:
            return ls[0]

        def total(self, a: many) -> int:
            return a[0] + self.x

    def f():  # noqa: ANN202
        return A().first([torch.device("cpu")]), A().total([3])

    return jit.script(f)()


@case
def frozen_dataclass(jit: Any) -> Any:
    @dataclasses.dataclass(frozen=True)
    class P:
        x: int

    return jit.script(P)


One = collections.namedtuple("Pair", ["a", "b"])
Other = collections.namedtuple("Pair", ["c"])  # type: ignore[no-redef]  # noqa: PYI024


@case
def one_name_for_two_tuples(jit: Any) -> Any:
    def f(x: One, y: Other) -> One:
        return x

    return jit.script(f)


class Fields(NamedTuple):
    logits: Tensor
    aux: Tensor


@case
def fields_are_named(jit: Any) -> Any:
    def f(x: Fields) -> Fields:
        return x

    return jit.script(f)(Fields("3", "4"))  # type: ignore[arg-type]


# -- Python called from programs
# -------------------------------------------------------------------------------------------


@case
def callable_object(jit: Any) -> Any:
    class Named:
        @torch.jit.ignore
        def __call__(self, *args) -> str:  # noqa: ANN002
            return f"{len(args)}"

    named = Named()

    def f(x):  # noqa: ANN001, ANN202
        return named(x)

    return jit.script(f)(torch.ones(1))


@case
def variadic_method(jit: Any) -> Any:
    class M(nn.Module):
        @torch.jit.ignore
        def py(self, *args):  # noqa: ANN002, ANN202
            return args[0] * len(args)

        def forward(self, x):  # noqa: ANN001, ANN202
            return self.py(x, x)

    return jit.script(M())(torch.ones(1))


@case
def ignored_class(jit: Any) -> Any:
    @torch.jit.ignore
    class C:
        def bad(self) -> Any:
            return "a" + 200  # type: ignore[operator]

    def f(x):  # noqa: ANN001, ANN202
        return C()

    return jit.script(f)


@case
def an_instance_overrides_an_ignored_method(jit: Any) -> Any:
    class M(nn.Module):
        @torch.jit.ignore
        def ig(self) -> str:
            return "old"

    @torch.jit.ignore
    def ig(self) -> str:  # noqa: ANN001
        return "new"

    m = M()
    m.ig = ig.__get__(m)
    return jit.script(m).ig()


@case
def prepared_functions(jit: Any) -> Any:
    def add(a: int, b: int) -> int:
        return a + b

    class Odd:
        def __prepare_scriptable__(self) -> Any:
            return add

    return jit.script(Odd())(1, 2)


# -- Modules
# --------------------------------------------------------------------------------------------------


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.name = "n"

    def helper(self, x: str) -> str:
        return x

    def forward(self, x: str) -> str:
        return self.helper(x) + self.name


class OfTuple(nn.Module):
    def forward(self, x: Tuple[int]) -> Tuple[int]:
        return x


@case
def hook_named_like_a_method(jit: Any) -> Any:
    def helper(self, input: Tuple[str]) -> Tuple[str]:  # noqa: ANN001
        return ("a",)

    m = Named()
    m.register_forward_pre_hook(helper)
    return jit.script(m)


@case
def two_pre_hooks_of_one_name(jit: Any) -> Any:
    def make(n: str) -> Any:
        def pre(self, input: Tuple[str]) -> Tuple[str]:  # noqa: ANN001
            return input

        return pre

    m = Named()
    m.register_forward_pre_hook(make("a"))
    m.register_forward_pre_hook(make("b"))
    return jit.script(m)


@case
def pre_hook_loses_the_tuple(jit: Any) -> Any:
    def pre(self, input: Tuple[Tuple[int]]) -> Tuple[int]:  # noqa: ANN001
        return (11,)

    m = OfTuple()
    m.register_forward_pre_hook(pre)
    return jit.script(m)


@torch.jit.interface
class OneTwo(nn.Module):
    def one(self, x: Tensor) -> Tensor:
        pass

    def forward(self, input: Tensor) -> Tensor:
        pass


class Holder(nn.Module):
    p: OneTwo

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.p = held

    def forward(self, x: Tensor) -> Tensor:
        return self.p.forward(x)


@case
def interface_of_a_number(jit: Any) -> Any:
    return jit.script(Holder(3))


@case
def interface_of_an_object(jit: Any) -> Any:
    class Plain:
        def __init__(self) -> None:
            self.x = 1

    jit.script(Plain)
    return jit.script(Holder(Plain()))


@case
def list_item_is_of_no_interface(jit: Any) -> Any:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.items = nn.ModuleList([nn.Linear(1, 1)])

        def forward(self, x: Tensor, i: int) -> Tensor:
            m: OneTwo = self.items[i]
            return m.one(x)

    return jit.script(M())


@case
def attribute_of_a_class_that_fails(jit: Any) -> Any:
    class C:
        def __init__(self, a: int) -> None:
            self.a = a

        def get(self) -> bool:
            return nope(self)  # noqa: F821

    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c, self.k = C(4), 3

        def forward(self) -> int:
            return self.k

    return jit.script(M())()


@case
def attribute_of_another_type_inside(jit: Any) -> Any:
    class Held:
        def __init__(self, val) -> None:  # noqa: ANN001
            self.val = val

    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.m = Held(1)

        def forward(self) -> Tensor:
            return self.m.val

    jit.script(Held)
    return jit.script(M())()


@case
def constants_of_loaded_modules(jit: Any) -> Any:
    class M(nn.Module):
        __constants__ = ["w"]

        def __init__(self, w: Any) -> None:
            super().__init__()
            self.w = w

        def forward(self):  # noqa: ANN202
            return self.w

    loaded = [again(jit, jit.script(M(w))) for w in (2, 1.0, None, True, "s", (2, 3))]
    with pytest.raises(RuntimeError, match="Can't set constant 'w' which has value:2"):
        loaded[0].w = 3
    return [m.w for m in loaded], [m() for m in loaded]


@case
def docstrings(jit: Any) -> Any:
    class M(nn.Module):
        def forward(self, x):  # noqa: ANN001, ANN202
            """What it does."""
            return x

    made = jit.script(M())
    loaded = again(jit, made)
    return made.forward.__doc__, loaded.forward.__doc__, made.forward.__name__


@case
def state_without_annotations(jit: Any) -> Any:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = 1

        @torch.jit.export
        def __getstate__(self):  # noqa: ANN204
            return self.a, self.training

        @torch.jit.export
        def __setstate__(self, state) -> None:  # noqa: ANN001
            self.a = state[0] + 10
            self.training = state[1]

        def forward(self) -> int:
            return self.a

    return again(jit, jit.script(M()))()


@pytest.mark.parametrize("make", ["to_sparse_csc", "to_mkldnn"])
def test_layouts_that_are_not_known_are_refused_by_name(make: str) -> None:
    def f(x: Tensor) -> Tensor:
        return x

    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("b", getattr(torch.eye(2), make)())

        def forward(self) -> Tensor:
            return self.b

    layout = getattr(torch.eye(2), make)().layout
    for program, args in ((f, (getattr(torch.eye(2), make)(),)), (M(), ())):
        with pytest.raises(
            ValueError, match=f"a tensor of layout {layout} cannot be passed to a program.*to_dense"
        ):
            rushlight.jit.script(program)(*args)


# -- Statements
# --------------------------------------------------------------------------------------------------


@case
def dict_of_mixed_keys(jit: Any) -> Any:
    def f():  # noqa: ANN202
        keys, values = [1, "a"], ["x", "y"]
        d: Dict[int, str] = dict(zip(keys, values))  # noqa: B905
        return d

    return jit.script(f)


@case
def dict_of_other_values(jit: Any) -> Any:
    def f(x: List[str]):  # noqa: ANN202
        d: Dict[str, int] = dict(zip(x, x))  # noqa: B905
        return d

    return jit.script(f)


@case
def tuples_are_not_augmented(jit: Any) -> Any:
    def f(a: Tuple[int, int]):  # noqa: ANN202
        a[0] += 1
        return a

    return jit.script(f)


@case
def annotated_again_inside(jit: Any) -> Any:
    def f():  # noqa: ANN202
        x = 5
        if x == 5:
            x: Optional[int] = 7

    return jit.script(f)


def test_the_table_of_names_has_only_paths_of_objects() -> None:
    from rushlight import _names
    from rushlight.jit import names

    paths = (_names.KNOWN | _names.MODULES | _names.PYTHON) - {"torch"}
    assert [path for path in paths if names._at(path) is None] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fn", CASES, ids=lambda fn: fn.__name__)
def test_as_torch(fn: Callable[[Any], Any]) -> None:
    assert outcome(fn, rushlight.jit) == outcome(fn, torch.jit)
