"""Operators written in Python: rushlight.library, with torch.library's names, and operators that
torch has."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import rushlight
from rushlight import library


def without_torch(code: str) -> str:
    head = (
        "import sys\nsys.modules['torch'] = None\nimport rushlight\nfrom rushlight import "
        "library, Tensor\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_function_as_an_operator() -> None:
    without_torch("""
        @library.custom_op("lib1::scale", mutates_args=())
        def scale(x: Tensor, k: float, n: int = 1) -> Tensor:
            assert isinstance(x, Tensor) and isinstance(k, float) and isinstance(n, int)
            return x * k + n

        f = rushlight.CompilationUnit("def f(x: Tensor): return torch.ops.lib1.scale(x, 2.0) * 10").f
        x = rushlight.tensor([1.0, 2.0])
        assert f(x).tolist() == [30.0, 50.0] and scale(x, 2.0, n=0).tolist() == [2.0, 4.0]
        assert rushlight.ops.lib1.scale(x, 1).tolist() == [2.0, 3.0]
        assert repr(scale) == "<CustomOpDef(lib1::scale)>"
        try:
            library.custom_op("lib1::scale", mutates_args=())(scale._init_fn)
        except (RuntimeError, ValueError) as error:
            print(error)
    """)


def test_several_results_lists_and_writes() -> None:
    without_torch("""
        lib = library.Library("lib2", "DEF")
        assert lib.define("parts(Tensor x, int[] at) -> (Tensor, int)") == "parts"
        lib.impl("parts", lambda x, at: (x[at[0]], len(at)), "CPU")
        lib.define("cat(Tensor[] all, *, int dim=0) -> Tensor")
        lib.impl("cat", lambda all, *, dim: rushlight.cat(all, dim))
        lib.define("split(Tensor x) -> Tensor[]")
        lib.impl("split", lambda x: [x[0], x[1]])
        lib.define("fill_(Tensor(a!) x, float value) -> ()")
        lib.impl("fill_", lambda x, value: x.fill_(value) and None if x.numel() == 1 else (x.fill_(value), None)[1])
        lib.define("maybe(Tensor? x) -> bool")
        lib.impl("maybe", lambda x: x is None)
        text = '''
        def f(x: Tensor):
            a, n = torch.ops.lib2.parts(x, [1, 0])
            b = torch.ops.lib2.cat([x, x], dim=0)
            c = torch.ops.lib2.split(x)
            before = x + 0
            torch.ops.lib2.fill_(x, 7.0)
            return a, n, b, c[1], before, x + 1, torch.ops.lib2.maybe(None), torch.ops.lib2.maybe(x)
        '''
        import textwrap
        f = rushlight.CompilationUnit(textwrap.dedent(text)).f
        x = rushlight.tensor([1.0, 2.0])
        a, n, b, c, before, after, yes, no = f(x)
        assert n == 2 and b.tolist() == [1.0, 2.0, 1.0, 2.0]
        assert before.tolist() == [1.0, 2.0] and after.tolist() == [8.0, 8.0] and x.tolist() == [7.0, 7.0]
        assert yes is True and no is False
    """)


def test_gradients() -> None:
    without_torch("""
        @library.custom_op("lib3::mul", mutates_args=())
        def mul(x: Tensor, y: Tensor, k: float) -> Tensor:
            return x * y * k

        def setup(ctx, inputs, output):
            x, y, ctx.k = inputs
            ctx.save_for_backward(x, y)

        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y * ctx.k, grad * x * ctx.k, None

        x, y = rushlight.tensor([1.0, 2.0]), rushlight.tensor([3.0, 4.0])
        x.requires_grad = y.requires_grad = True
        f = rushlight.CompilationUnit("def f(x: Tensor, y: Tensor): return torch.ops.lib3.mul(x, y, 2.0).sum()").f
        try:
            f(x, y).backward()
            raise SystemExit("no error")
        except RuntimeError as error:
            assert "no autograd formula was registered" in str(error), error
        mul.register_autograd(backward, setup_context=setup)
        f(x, y).backward()
        assert x.grad.tolist() == [6.0, 8.0] and y.grad.tolist() == [2.0, 4.0]
    """)


def test_schemas_from_annotations() -> None:
    def f(
        x: rushlight.Tensor, y: rushlight.Tensor | None, n: int, *, ks: list[float], name: str = "a"
    ) -> None: ...

    found = library.infer_schema(f, mutates_args={"x"})
    assert found == '(Tensor(a!) x, Tensor? y, SymInt n, *, float[] ks, str name="a") -> ()'

    def g(x: rushlight.Tensor) -> tuple[rushlight.Tensor, int]: ...

    assert library.infer_schema(g, mutates_args=()) == "(Tensor x) -> (Tensor, SymInt)"

    def bad(x: dict) -> rushlight.Tensor: ...

    with pytest.raises(
        ValueError, match="Parameter x has unsupported type 'dict'. The valid types are: Tensor"
    ):
        library.infer_schema(bad, mutates_args=())
    with pytest.raises(ValueError, match="mutates_args has"):
        library.infer_schema(g, mutates_args={"z"})


def test_refusals() -> None:
    out = without_torch("""
        def refused(call):
            try:
                call()
                print("accepted")
            except Exception as error:
                print(type(error).__name__, str(error).strip().splitlines()[-1])

        lib = library.Library("lib4", "DEF")
        for schema in ("broken(Tensor x -> Tensor", "name", "f(Wrong x) -> Tensor", "add(Tensor x) -> Nothing"):
            refused(lambda: lib.define(schema))
        refused(lambda: library.Library("aten", "DEF"))
        refused(lambda: library.define("noname", "(Tensor x) -> Tensor"))
        refused(lambda: library.impl("lib4::nope", "cpu", print))
        x = rushlight.tensor([1.0])
        lib.define("one(Tensor x) -> Tensor")
        refused(lambda: rushlight.ops.lib4.one(x))
        for function in (lambda x: None, lambda x: 3, lambda x: (x, x), lambda x: {}[1], lambda x: 1 // 0):
            lib.impl("one", function)
            refused(lambda: rushlight.ops.lib4.one(x))
        lib.define("two(Tensor x) -> (Tensor, int)")
        for function in (lambda x: x, lambda x: (x, x), lambda x: (x, 1, 2)):
            lib.impl("two", function)
            refused(lambda: rushlight.ops.lib4.two(x))
        def raises(x):
            raise ValueError("not today")
        lib.impl("one", raises)
        refused(lambda: rushlight.CompilationUnit("def f(x: Tensor): return torch.ops.lib4.one(x)").f(x))
        refused(lambda: lib.impl("one", 3))
    """).splitlines()
    assert "accepted" not in out, out
    text = "\n".join(out)
    for expected in (
        "is no schema: expected 'namespace::name(",
        "ValueError aten is a reserved namespace",
        "ValueError expected an operator's name as 'namespace::name', but got 'noname'",
        "there is no operator lib4::nope",
        "the operator is defined and has no implementation",
        "expected a Tensor as result 0 (lib4::one(Tensor x) -> Tensor), but got a NoneType",
        "but got a int",
        "expected 2 results",
        "but got 3 results",
        "expected a int as result 1",
        "KeyError",
        "not today",
    ):
        assert expected in text, text


def test_operators_of_torch_run_through_it() -> None:
    torch = pytest.importorskip("torch")
    lib = torch.library.Library("rushtest", "DEF")
    lib.define("twice(Tensor x, int n=2) -> Tensor")
    lib.impl("twice", lambda x, n=2: x * n, "CPU")

    @torch.library.custom_op(
        "rushtest::shift", mutates_args=(), schema="(Tensor x, float by) -> Tensor"
    )
    def shift(x, by):
        return x + by

    f = rushlight.CompilationUnit(
        "def f(x: Tensor): return torch.ops.rushtest.shift(torch.ops.rushtest.twice(x), 0.5) + "
        "torch.ops.rushtest.twice(x, n=3)"
    ).f
    x = torch.tensor([1.0, 2.0])
    assert torch.equal(f(x), x * 2 + 0.5 + x * 3)

    lib.define("late(Tensor x) -> Tensor")  # after the first program
    lib.impl("late", lambda x: x * x, "CompositeImplicitAutograd")
    g = rushlight.CompilationUnit("def g(x: Tensor): return torch.ops.rushtest.late(x).sum()").g
    x.requires_grad_()
    g(x).backward()
    assert x.grad.tolist() == [2.0, 4.0]
    x = x.detach()

    @torch.jit.script
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.rushtest.twice(x) + 1

    import io

    archive = io.BytesIO()
    torch.jit.save(program, archive)
    assert rushlight.load(archive.getvalue())(x).tolist() == [3.0, 5.0]


def test_custom_operators_with_torch_tensors() -> None:
    torch = pytest.importorskip("torch")

    @library.custom_op("lib5::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        assert isinstance(x, torch.Tensor)
        return x * x

    square.register_fake(lambda x: torch.empty_like(x))
    assert library.fake_of(square) is library.fake_of("lib5::square")
    f = rushlight.CompilationUnit("def f(x: Tensor): return torch.ops.lib5.square(x) + 1").f
    assert f(torch.tensor([2.0])).tolist() == [5.0] and square(torch.tensor([3.0])).tolist() == [
        9.0
    ]
