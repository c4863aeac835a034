"""Archives whose source says one type where a value of another is passed: by the annotation of
`self`, through interfaces, contexts, hooks, containers, constants, refinements.  Each is refused
with an error that names what is wrong.

The code of a program is not what PyTorch's writer makes; PyTorch 2.13 refuses all of LIES but those
marked with `*` in their names, which it runs with a value of the wrong type."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
import rushlight
from archives import pack

HEAD = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
C = "class C:\n  a : int\n"
I = "class I(Interface):\n  def f(self, x: int) -> int:\n    pass\n"
STR = b"X\x01\x00\x00\x00a"


def program(body: str, state: bytes = b"", constants: bytes = b"") -> bytes:
    return pack(
        {
            "m/data.pkl": b"\x80\x02c__torch__\nM\n)\x81" + (state or b"}") + b"b.",
            "m/code/__torch__.py": (HEAD + body).encode(),
            "m/constants.pkl": b"\x80\x02(" + constants + b"t.",
            "m/version": b"3\n",
        }
    )


def forward(*lines: str, returns: str = "int", more: str = "") -> str:
    return (
        f"  def forward(self) -> {returns}:\n" + "".join(f"    {line}\n" for line in lines) + more
    )


def through_interface(
    method: str, call: str = "(i).f(1)", interface: str = I, kind: str = "", more: str = ""
) -> str:
    """An object of class A is passed where the interface I is wanted, and called."""
    main = forward("a = __torch__.A.__new__(__torch__.A)", "return (self).h(a)")
    return (
        f"{main}  def h(self, i: __torch__.I) -> int:\n    return {call}\n{interface}class "
        f"A{kind}:\n{method}{C}{more}"
    )


def in_context(enter: str, leave: str) -> str:
    main = forward("d = __torch__.D.__new__(__torch__.D)", "with d as e:", "  b = 1", "return b")
    return (
        f"{main}class D:\n  def __enter__({enter}) -> int:\n    return 1\n  def "
        f"__exit__({leave}) -> NoneType:\n    return None\n{C}"
    )


class Lie(NamedTuple):
    body: str
    error: str
    state: bytes = b""
    constants: bytes = b""


SELF = "is annotated as .*: it is an object of the method's class"
OBJECTS = "a = [__torch__.A.__new__(__torch__.A), __torch__.A.__new__(__torch__.A)]"
IFACE_F = "class I(Interface):\n  def f(self) -> int:\n    pass\n"
MODULE_F = "class I(ModuleInterface):\n  def f(self, x: int) -> int:\n    pass\n"
ENUM = 'class E(Enum):\n  A = "foo"\n'

LIES = {
    # `self` of methods that are called from outside
    "self of forward": Lie(
        "  def forward(self: __torch__.C) -> int:\n    return self.a\n" + C, SELF
    ),
    "self of forward is a str": Lie(
        "  def forward(self: str) -> int:\n    return torch.len(self)\n", SELF
    ),
    "self is missing": Lie(
        "  @staticmethod\n  def forward(x: int) -> int:\n    return x\n", "has no decorators"
    ),
    "self of __enter__": Lie(in_context("self: __torch__.C", "self, a: Any, b: Any, c: Any"), SELF),
    "self of __exit__": Lie(in_context("self", "self: __torch__.C, a: Any, b: Any, c: Any"), SELF),
    "self of __len__": Lie(
        forward("d = __torch__.D.__new__(__torch__.D)", "return torch.len(d)")
        + "class D:\n  def __len__(self: __torch__.C) -> int:\n    return self.a\n"
        + C,
        SELF,
    ),
    "self of __setstate__": Lie(
        "  a : int\n  def __setstate__(self: __torch__.C, s: int) -> NoneType:\n    self.a = s\n"
        + forward("return self.a")
        + C,
        SELF,
        b"K\x05",
    ),
    "self of __getstate__ *": Lie(
        "  a : int\n  def __getstate__(self: __torch__.C) -> int:\n    return self.a\n"
        + forward("return self.a")
        + C,
        SELF,
        b"}(" + STR + b"K\x05u",
    ),
    "self of a hook": Lie(
        '  __forward_hooks__ = ["hk"]\n'
        + forward("return 1")
        + "  def hk(self: __torch__.C, i: Tuple[()], o: int) -> int:\n    return self.a\n"
        + C,
        SELF,
    ),
    "self of an interface's method *": Lie(
        through_interface(
            "  def f(self, x: int) -> int:\n    return x\n",
            interface=I.replace("self", "self: __torch__.C"),
        ),
        SELF,
    ),
    # contexts
    "__exit__ takes an int": Lie(
        in_context("self", "self, a: int, b: Any, c: Any"), "argument 1 of __exit__ must have Any"
    ),
    "__exit__ takes a list": Lie(
        in_context("self", "self, a: Any, b: Any, c: List[int]"),
        "argument 3 of __exit__ must have Any",
    ),
    "__exit__ takes a Tensor": Lie(
        in_context("self", "self, a: Any, b: Tensor, c: Any"),
        "argument 2 of __exit__ must have Any",
    ),
    "__exit__ takes two": Lie(in_context("self", "self, a: Any"), "must have four arguments"),
    "__enter__ takes two": Lie(
        in_context("self, x: int", "self, a: Any, b: Any, c: Any"), "must have only one argument"
    ),
    # interfaces
    "interface: self": Lie(
        through_interface("  def f(self: __torch__.C, x: int) -> int:\n    return self.a\n"), SELF
    ),
    "interface: inferred result": Lie(
        through_interface("  def f(self, x: int):\n    return [x]\n"),
        "not compatible with interface",
    ),
    "interface: nothing returned": Lie(
        through_interface("  def f(self, x: int):\n    pass\n"), "not compatible with interface"
    ),
    "interface: result that needs itself": Lie(
        through_interface(
            "  def f(self, x: int):\n    return __torch__.g(self)\n",
            more="def g(i: __torch__.I) -> int:\n  return (i).f(1)\n",
        ),
        "while its result is inferred",
    ),
    "interface: argument's name": Lie(
        through_interface("  def f(self, y: int) -> int:\n    return y\n"), "not compatible"
    ),
    "interface: more arguments": Lie(
        through_interface("  def f(self, x: int, y: int=1) -> int:\n    return x\n"),
        "not compatible",
    ),
    "interface: narrower argument": Lie(
        through_interface(
            "  def f(self, x: int) -> int:\n    return x\n",
            "(i).f(None)",
            I.replace("x: int", "x: Optional[int]"),
        ),
        "not compatible",
    ),
    "interface: wider result *": Lie(
        through_interface("  def f(self, x: int) -> Any:\n    return [x]\n"), "not compatible"
    ),
    "interface: of modules": Lie(
        through_interface("  def f(self, x: int) -> int:\n    return x\n", interface=MODULE_F),
        "not compatible",
    ),
    "interface: an object of it": Lie(
        forward("i = __torch__.I.__new__(__torch__.I)", "return 1", more=I), "needs a class"
    ),
    "interface: while it is read": Lie(
        forward(
            "b = __torch__.B.__new__(__torch__.B)",
            "i = annotate(Optional[__torch__.I], None)",
            "return (b).h()",
        )
        + "class I(Interface):\n  def f0(self, b: __torch__.B) -> int:\n    pass\n  def f(self, x: "
        "str) -> int:\n    pass\n"
        'class B:\n  def h(self, i: __torch__.I=CONSTANTS.c0) -> int:\n    return (i).f("abc")\n'
        "class A:\n  def f(self, x: List[int]) -> int:\n    return torch.len(x)\n",
        "Expected a default value",
        constants=b"c__torch__\nA\n)\x81}b",
    ),
    "interface: isinstance finds none": Lie(
        forward(
            "x = annotate(Any, __torch__.A.__new__(__torch__.A))",
            "return (unchecked_cast(__torch__.I, x)).f(1)",
            more=I + 'class A:\n  def f(self, x: int):\n    return "abc"\n',
        ),
        "the value is no __torch__.I",
    ),
    "interface: a module's attribute by key": Lie(
        '  c : __torch__.C\n  def forward(self) -> int:\n    m : __torch__.I = self["c"]\n    '
        "return (m).f(5)\n"
        + MODULE_F
        + "class C:\n  def f(self, x: str) -> int:\n    return torch.len(x)\n",
        "is not of annotated type",
        b"}(X\x01\x00\x00\x00cc__torch__\nC\n)\x81}bu",
    ),
    # type variables
    "append None": Lie(
        forward(
            "a = annotate(List[str], [])", "_0 = torch.append(a, None)", "return torch.len(a[0])"
        ),
        "append",
    ),
    "set None": Lie(
        forward('a = ["x"]', "_0 = torch._set_item(a, 0, None)", "return torch.len(a[0])"),
        "_set_item",
    ),
    "insert None": Lie(
        forward('a = ["x"]', "torch.insert(a, 0, None)", "return torch.len(a[0])"), "insert"
    ),
    "None into a dict": Lie(
        forward('d = {"x": "y"}', '_0 = torch._set_item(d, "x", None)', "return 1"), "_set_item"
    ),
    "setdefault None": Lie(
        forward('d = {"x": "y"}', '_0 = torch.setdefault(d, "z", None)', "return 1"), "setdefault"
    ),
    "extend with Optional": Lie(
        forward("x = [1]", "torch.extend(x, annotate(List[Optional[int]], [None]))", "return x[1]"),
        "extend",
    ),
    "append another class": Lie(
        forward(
            "a = annotate(List[__torch__.A], [])",
            "b = unchecked_cast(__torch__.I, annotate(Any, __torch__.B.__new__(__torch__.B)))",
            "_0 = torch.append(a, b)",
            "return a[0].a",
            more=IFACE_F
            + "class A:\n  a : int\n  def f(self) -> int:\n    return 1\nclass B:\n  def f(self) "
            "-> int:\n    return 1\n",
        ),
        "append",
    ),
    "value of an enum *": Lie(
        forward("return ops.prim.EnumValue(__torch__.E.A)", more=ENUM), "actually of type str"
    ),
    "value of any enum *": Lie(
        forward(
            "return ops.prim.EnumValue(unchecked_cast(AnyEnumType, annotate(Any, __torch__.E.A)))",
            more=ENUM,
        ),
        "EnumValue|is no",
    ),
    "__lt__ of another type *": Lie(
        forward(
            OBJECTS,
            "torch.sort(a)",
            "return 1",
            more="class A:\n  a : int\n  def __lt__(self, o: List[int]) -> bool:\n    "
            "torch.append(o, 1)\n    return True\n",
        ),
        "must define a __lt__ method",
    ),
    "__lt__ without bool *": Lie(
        forward(
            OBJECTS,
            "torch.sort(a)",
            "return 1",
            more="class A:\n  a : int\n  def __lt__(self, o: __torch__.A) -> int:\n    return 1\n",
        ),
        "must define a __lt__ method",
    ),
    "__lt__ of two classes *": Lie(
        forward(
            "a = annotate(List[__torch__.I], [__torch__.A.__new__(__torch__.A), "
            "__torch__.B.__new__(__torch__.B)])",
            "torch.sort(a)",
            "return 1",
            more=IFACE_F
            + "class A:\n  a : int\n  def f(self) -> int:\n    return 1\n  def __lt__(self, o: "
            "__torch__.A) -> bool:\n"
            "    return torch.lt(o.a, 1)\nclass B:\n  def f(self) -> int:\n    return 1\n"
            "  def __lt__(self, o: __torch__.B) -> bool:\n    return True\n",
        ),
        "__lt__ of __torch__.. does not take",
    ),
    "__bool__ is an int": Lie(
        forward(
            "d = __torch__.D.__new__(__torch__.D)",
            "if d:",
            "  return 1",
            "return 2",
            more="class D:\n  def __bool__(self) -> int:\n    return 2\n",
        ),
        "expected a bool expression for condition but found int",
    ),
    # constants and defaults
    "constant of another type": Lie(
        forward("return torch.dim(CONSTANTS.c0)"), "dim", constants=STR
    ),
    "constant annotated": Lie(
        forward("return torch.dim(annotate(Tensor, CONSTANTS.c0))"),
        "expected an expression",
        constants=STR,
    ),
    "default of another type": Lie(
        "  def forward(self, x: int=CONSTANTS.c0) -> int:\n    return x\n",
        "default value",
        constants=STR,
    ),
    "class constant": Lie(
        "  a : Final[int] = CONSTANTS.c0\n" + forward("return self.a"),
        "expected a value of type int",
        constants=STR,
    ),
    "NamedTuple's default": Lie(
        forward("return __torch__.N().x", more="class N(NamedTuple):\n  x : int = CONSTANTS.c0\n"),
        "expected a value of type int",
        constants=STR,
    ),
    "NamedTuple's default is not the last": Lie(
        forward(
            "return torch.ord(__torch__.N([2]).y)",
            more="class N(NamedTuple):\n  x : List[int] = [1]\n  y : str\n",
        ),
        "non-default argument 'y' follows",
    ),
    "enum of two types": Lie(
        forward("return __torch__.E.B.value", more='class E(Enum):\n  A = "a"\n  B = 1\n'),
        "Could not unify",
    ),
    # hooks
    "pre-hook's result": Lie(
        "  s : __torch__.S\n  def forward(self) -> int:\n    return (self.s)(1)\nclass "
        'S(Module):\n  __forward_pre_hooks__ = ["pre"]\n'
        "  def forward(self, x: int) -> int:\n    return x\n"
        '  def pre(self: __torch__.S, i: Tuple[int]) -> Tuple[str]:\n    return ("a",)\n',
        "found type 'str'",
        b"}(X\x01\x00\x00\x00sc__torch__\nS\n)\x81}bu",
    ),
    "hook's argument": Lie(
        "  s : __torch__.S\n  def forward(self) -> int:\n    return (self.s)(1)\nclass "
        'S(Module):\n  __forward_hooks__ = ["post"]\n'
        "  def forward(self, x: int) -> int:\n    return x\n"
        "  def post(self: __torch__.S, i: Tuple[int], o: str) -> int:\n    return torch.len(o)\n",
        "found type 'int'",
        b"}(X\x01\x00\x00\x00sc__torch__\nS\n)\x81}bu",
    ),
    "Union of nothing": Lie(
        forward("return torch.len(uninitialized(Union[()]))"), "Union must have at least one type"
    ),
    # refinements
    "refined in a loop": Lie(
        forward(
            'x = annotate(Optional[str], "a")',
            "assert x is not None",
            "for i in range(3):",
            "  s = x",
            "  x = None",
            "return torch.len(x)",
        ),
        "previously had type str",
    ),
    "refined attribute": Lie(
        "  a : Optional[str]\n  def forward(self) -> int:\n    assert self.a is not None\n    "
        "return torch.ord(self.a)\n",
        "aten::ord",
        b"}(" + STR + b"Nu",
    ),
    "or refines neither": Lie(
        '  def forward(self, x: Optional[str]=None, y: Optional[str]="a") -> str:\n    if x is not '
        "None or y is not None:\n"
        '      return x\n    return ""\n',
        "actually of type Optional",
    ),
    "cast to Future *": Lie(
        forward("return torch.len(unchecked_cast(Future[str], 5).wait())"), "unchecked_cast|Future"
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_value_of_another_type_is_refused(name: str) -> None:
    lie = LIES[name]
    with pytest.raises(Exception) as e:
        rushlight.load(program(lie.body, lie.state, lie.constants))()
    assert re.search(lie.error, str(e.value)), str(e.value)


TRUTHS = {
    "interface": (through_interface("  def f(self, x: int) -> int:\n    return x\n"), 1),
    "interface: inferred result": (through_interface("  def f(self, x: int):\n    return x\n"), 1),
    "interface: default": (
        through_interface(
            "  def f(self, x: int) -> int:\n    return x\n",
            "(i).f()",
            I.replace("x: int", "x: int=3"),
        ),
        3,
    ),
    "interface: keyword": (
        through_interface("  def f(self, *, x: int) -> int:\n    return x\n"),
        1,
    ),
    "interface: wider argument": (
        through_interface("  def f(self, x: Optional[int]) -> int:\n    return 4\n"),
        4,
    ),
    "interface: modules too": (
        through_interface("  def f(self, x: int) -> int:\n    return x\n", kind="(Module)"),
        1,
    ),
    "context": (in_context("self: __torch__.D", "self, a: Any, b: Any, c: Any"), 1),
    "None into Optional": (
        forward(
            "a = annotate(List[Optional[int]], [])",
            "_0 = torch.append(a, 3)",
            "_0 = torch.append(a, None)",
            "return torch.len(a)",
        ),
        2,
    ),
    "value of an enum": (forward("return torch.len(__torch__.E.A.value)", more=ENUM), 3),
    "isinstance of an interface": (
        forward(
            "x = annotate(Any, __torch__.A.__new__(__torch__.A))",
            "if isinstance(x, __torch__.I):",
            "  return 0",
            "return 7",
            more=I + 'class A:\n  def f(self, x: int):\n    return "abc"\n',
        ),
        7,
    ),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_what_fits_runs(name: str) -> None:
    body, result = TRUTHS[name]
    assert rushlight.load(program(body))() == result


def attributes(n: int) -> str:
    return "class D:\n" + "".join(f"  a{i} : int\n" for i in range(n)) + "  s : str\n"


def test_slots_beyond_16_bits_are_refused_by_name() -> None:
    use = forward(
        "d = __torch__.D.__new__(__torch__.D)",
        "d.a4 = 5",
        'd.s = "abc"',
        "return torch.add(torch.len(d.s), d.a4)",
    )
    assert rushlight.load(program(use + attributes(65535)))() == 8
    with pytest.raises(
        Exception,
        match="class '__torch__.D' has 65541 attributes: programs can use the first 65536",
    ):
        rushlight.load(program(use + attributes(65540)))()


def test_results_of_300_blocks_in_blocks_share_a_register() -> None:
    """One register is the place of all of them; others must not take it meanwhile."""
    nested = "".join(f"({i} if torch.gt(n, {i}) else " for i in range(300)) + "n" + ")" * 300
    body = (
        f"  def forward(self, n: int) -> int:\n    x = torch.add(torch.len([n]), {nested})\n    "
        f"return torch.add(x, n)\n"
    )
    m = rushlight.load(program(body))
    assert [m(0), m(1), m(500)] == [1, 2, 501]


@pytest.mark.parametrize(("op", "name"), [("//=", "floordiv"), ("@=", "matmul")])
def test_an_assignment_with_an_operator_that_no_class_has(op: str, name: str) -> None:
    data = program(
        "  def forward(self, x: int) -> int:\n    c = __torch__.C.__new__(__torch__.C)\n"
        f"    c {op} 2\n    return x\n" + C
    )
    with pytest.raises(RuntimeError, match=f"aten::{name}"):
        rushlight.load(data)(1)
