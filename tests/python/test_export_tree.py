"""Dataclasses and other registered classes as arguments and results of exported programs, as
ep.module() has them."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import json
import logging
import pathlib
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from torch.utils import _pytree  # noqa: E402

X = torch.arange(6.0).reshape(2, 3)


@dataclasses.dataclass
class Point:
    x: torch.Tensor
    y: torch.Tensor | None = None
    n: int = 3


@dataclasses.dataclass
class Nested:
    points: list[Point]
    extra: dict[str, Any]


class Pair(NamedTuple):
    first: torch.Tensor
    second: Any


class Box:
    def __init__(self, items: list[Any], tag: Any) -> None:
        self.items, self.tag = items, tag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.tag == other.tag


class Color(enum.Enum):
    RED = 1


class Colored(Box):
    """Its context is an enum's member."""


def flatten(box: Box) -> tuple[list[Any], Any]:
    return box.items, box.tag


def keyed(box: Box) -> tuple[list[Any], Any]:
    return [(_pytree.SequenceKey(i), item) for i, item in enumerate(box.items)], box.tag


torch.export.register_dataclass(Point, serialized_type_name="tests.Point")
torch.export.register_dataclass(Nested, serialized_type_name="tests.Nested")
_pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")
_pytree.register_pytree_node(
    Box,
    flatten,
    lambda items, tag: Box(list(items), tag),
    serialized_type_name="tests.Box",
    to_dumpable_context=lambda tag: {"tag": tag},
    from_dumpable_context=lambda context: context["tag"],
    flatten_with_keys_fn=keyed,
)
_pytree.register_pytree_node(
    Colored,
    flatten,
    lambda items, tag: Colored(list(items), tag),
    serialized_type_name="tests.Colored",
    flatten_with_keys_fn=keyed,
)
# torch.export.load says of sample inputs with instances that it unpickled them, in a message that
# does not format.
logging.getLogger("torch._export.serde.serialize").setLevel(logging.ERROR)


class Everything(torch.nn.Module):
    def forward(self, point, pair, box, ordered, default, deque, nested, *, named):
        y = point.x * point.n if point.y is None else point.y
        return {
            "point": Point(point.x + 1, None, 4),
            "pair": Pair(pair.first * 2, [pair.second, y]),
            "box": Box([box.items[0] - 1, Point(y)], "made"),
            "colored": Colored([y], Color.RED),
            "ordered": collections.OrderedDict(z=ordered["b"], a=ordered["a"] + 1),
            "default": collections.defaultdict(list, u=default["u"] * 2),
            "deque": collections.deque([deque[1], deque[0]], maxlen=5),
            "nested": Nested(
                [nested.points[0], Point(nested.extra["k"])],
                {"q": collections.OrderedDict(w=named.x)},
            ),
            "plain": (y, [y]),
        }


def arguments() -> tuple[tuple[Any, ...], dict[str, Any]]:
    args = (
        Point(X.clone()),
        Pair(X + 1, X + 2),
        Box([X + 3], "in"),
        collections.OrderedDict(b=X + 4, a=X + 5),
        collections.defaultdict(list, u=X + 6),
        collections.deque([X + 7, X + 8], maxlen=2),
        Nested([Point(X + 9, X + 10)], {"k": X + 11}),
    )
    return args, {"named": Point(X + 12)}


def same(want: Any, got: Any) -> None:
    assert type(want) is type(got)
    want_leaves, want_spec = _pytree.tree_flatten(want)
    got_leaves, got_spec = _pytree.tree_flatten(got)
    assert want_spec == got_spec
    for a, b in zip(want_leaves, got_leaves, strict=True):
        torch.testing.assert_close(b, a) if isinstance(a, torch.Tensor) else None
        assert isinstance(a, torch.Tensor) or a == b


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("trees") / "everything.pt2"
    args, kwargs = arguments()
    torch.export.save(torch.export.export(Everything(), args, kwargs), path)
    return path


def test_instances_go_in_and_come_out(program: pathlib.Path) -> None:
    args, kwargs = arguments()
    want = torch.export.load(program).module()(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    ours = rushlight.load(program)
    same(want, ours(*args, **kwargs))
    same(want, ours.forward(*args, **kwargs))
    same(want, ours.copy()(*args, **kwargs))
    ours.forward.prepare(*args, **kwargs)


def test_what_the_class_or_its_context_does_not_fit_is_refused(program: pathlib.Path) -> None:
    theirs, ours = torch.export.load(program).module(), rushlight.load(program)
    wrong = {
        0: [Point(X, X), Point(X, None, 5), Point(X, None, None), Box([X], "in"), X],
        1: [Pair(X, [X]), collections.namedtuple("Pair", "first second")(X, X)],
        2: [Box([X], "other"), Box([X, X], "in"), Colored([X], "in")],
        3: [collections.OrderedDict(a=X)],
        4: [collections.defaultdict(dict, u=X)],
        5: [collections.deque([X, X]), collections.deque([X], maxlen=2)],
        6: [Nested([Point(X)], {"k": X}), Nested([Point(X, X)], {"k": Point(X)})],
    }
    for place, values in wrong.items():
        for value in values:
            args, kwargs = arguments()
            args = (*args[:place], value, *args[place + 1 :])
            with pytest.raises((ValueError, AssertionError)) as want:
                theirs(*args, **kwargs)
            with pytest.raises(want.type, match=str(want.value)[:30]):
                ours(*args, **kwargs)
    args, kwargs = arguments()
    with pytest.raises(ValueError, match="kwarg keyword mismatch"):
        ours(*args)
    with pytest.raises(ValueError, match="exported input tree spec"):
        ours(*args[:-1], **kwargs)
    with pytest.raises(ValueError, match="kwarg keyword mismatch"):
        ours(*args, **kwargs, more=X)


def test_plain_containers_stand_for_instances(program: pathlib.Path) -> None:
    args, kwargs = arguments()
    ours = rushlight.load(program)
    point = {"x": X, "n": 3}
    nested = {"points": [{"x": X + 9, "y": X + 10, "n": 3}], "extra": {"k": X + 11}}
    plain = (point, (X + 1, X + 2), (X + 3,), dict(args[3]), dict(args[4]), list(args[5]), nested)
    same(ours(*args, **kwargs), ours(*plain, named={"x": X + 12, "n": 3}))


def test_a_field_has_a_size_that_varies(tmp_path: pathlib.Path) -> None:
    class Sum(torch.nn.Module):
        def forward(self, p, q):
            return Point(p.x.sum(0), q.x[: p.x.shape[0]])

    n = torch.export.Dim("n", min=3, max=9)
    x = torch.ones(4, 2)
    shapes = {"p": [{0: n}, None], "q": [{0: n * 2}, None]}
    path = tmp_path / "m.pt2"
    torch.export.save(
        torch.export.export(Sum(), (Point(x), Point(torch.ones(8, 2))), dynamic_shapes=shapes), path
    )
    theirs, ours = torch.export.load(path).module(), rushlight.load(path)
    for a, b in ((4, 8), (6, 12), (6, 11), (2, 4), (10, 20)):
        args = Point(torch.rand(a, 2)), Point(torch.rand(b, 2))
        try:
            want = theirs(*args)
        except AssertionError as error:
            with pytest.raises(AssertionError) as got:
                ours(*args)
            assert str(got.value).split("\n(this call")[0] == str(error)
        else:
            same(want, ours(*args))


def test_gradients_pass_through_instances(program: pathlib.Path) -> None:
    args, kwargs = arguments()
    args[0].x.requires_grad_()
    out = rushlight.load(program)(*args, **kwargs)
    (out["point"].x.sum() + out["box"].items[1].x.sum()).backward()
    assert torch.equal(args[0].x.grad, torch.full((2, 3), 4.0))


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import collections, dataclasses, json, typing
import numpy as np
import rushlight

path, is_registered = sys.argv[1], sys.argv[2] == "1"

@dataclasses.dataclass
class Point:
    x: typing.Any
    y: typing.Any = None
    n: int = 3

@dataclasses.dataclass
class Nested:
    points: list
    extra: dict

class Pair(typing.NamedTuple):
    first: typing.Any
    second: typing.Any

class Box:
    def __init__(self, items, tag):
        self.items, self.tag = items, tag

if is_registered:
    rushlight.register_dataclass(Point, serialized_type_name="tests.Point")
    rushlight.register_dataclass(Nested, serialized_type_name="tests.Nested")
    rushlight.register_namedtuple(Pair, serialized_type_name="tests.Pair")
    rushlight.register_pytree_node(
        Box, lambda b: (b.items, b.tag), lambda items, tag: Box(list(items), tag), serialized_type_name="tests.Box",
        to_dumpable_context=lambda tag: {"tag": tag}, from_dumpable_context=lambda context: context["tag"])

X = np.arange(6, dtype=np.float32).reshape(2, 3)
if is_registered:
    args = (Point(X), Pair(X + 1, X + 2), Box([X + 3], "in"), collections.OrderedDict(b=X + 4, a=X + 5),
            collections.defaultdict(list, u=X + 6), collections.deque([X + 7, X + 8], maxlen=2),
            Nested([Point(X + 9, X + 10)], {"k": X + 11}))
    named = Point(X + 12)
else:
    args = ({"x": X, "n": 3}, (X + 1, X + 2), (X + 3,), {"b": X + 4, "a": X + 5}, {"u": X + 6}, [X + 7, X + 8],
            {"points": [{"x": X + 9, "y": X + 10, "n": 3}], "extra": {"k": X + 11}})
    named = {"x": X + 12, "n": 3}

def describe(v):
    if isinstance(v, dict):
        return [type(v).__name__, {k: describe(x) for k, x in v.items()}]
    if isinstance(v, (list, tuple, collections.deque)):
        return [type(v).__name__, [describe(x) for x in v]]
    if dataclasses.is_dataclass(v) or isinstance(v, Box):
        return [type(v).__name__, {k: describe(x) for k, x in vars(v).items()}]
    return [type(v).__name__, v.tolist()] if isinstance(v, np.ndarray) else v

program = rushlight.load(path)
print(json.dumps(describe(program(*args, named=named))))
if not is_registered:
    try:
        program(Point(X), *args[1:], named=named)
    except ValueError as error:
        assert "no class is registered as 'tests.Point'" in str(error), error
    else:
        raise AssertionError
"""


def without_torch(program: pathlib.Path, is_registered: bool) -> Any:
    command = [sys.executable, "-c", WITHOUT_TORCH, str(program), str(int(is_registered))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[1]


def array(value: torch.Tensor) -> list[Any]:
    return ["ndarray", value.tolist()]


def test_rushlights_own_registry_without_torch(program: pathlib.Path) -> None:
    got = without_torch(program, True)
    assert got["point"] == ["Point", {"x": array(X + 1), "y": None, "n": 4}]
    assert got["pair"] == ["Pair", [array(2 * (X + 1)), ["list", [array(X + 2), array(3 * X)]]]]
    assert got["box"][0] == "Box" and got["box"][1]["tag"] == "made"
    assert got["box"][1]["items"][1][1][0] == "Point"
    assert got["colored"] == ["tuple", [array(3 * X)]]  # registered nowhere
    assert got["ordered"] == ["OrderedDict", {"z": array(X + 4), "a": array(X + 6)}]
    assert got["default"] == ["defaultdict", {"u": array(2 * (X + 6))}]
    assert got["deque"] == ["deque", [array(X + 8), array(X + 7)]]
    nested = got["nested"]
    assert nested[0] == "Nested" and [p[0] for p in nested[1]["points"][1]] == ["Point", "Point"]
    assert nested[1]["extra"] == ["dict", {"q": ["OrderedDict", {"w": array(X + 12)}]}]


def test_classes_that_nobody_registered_are_plain_containers(program: pathlib.Path) -> None:
    got = without_torch(program, False)
    assert got["point"] == ["dict", {"x": array(X + 1), "n": 4}]
    assert got["pair"][0] == "tuple"
    assert got["box"] == ["tuple", [array(X + 2), ["dict", {"x": array(3 * X), "n": 3}]]]
    assert got["nested"][0] == "dict" and got["ordered"][0] == "OrderedDict"


def test_sample_inputs_with_instances_run(command: str, tmp_path: pathlib.Path) -> None:
    class Uses(torch.nn.Module):
        def forward(self, point, pair, ordered, default, deque):
            return point.x + pair.first + ordered["a"] + default["u"] + deque[0]

    def scaled(n: int) -> Any:
        return X * 10**n

    args = (Point(scaled(0)), Pair(scaled(1), X), collections.OrderedDict(a=scaled(2)))
    args = (*args, collections.defaultdict(list, u=scaled(3)), collections.deque([scaled(4)]))
    path = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(Uses(), args), path)
    done = subprocess.run([command, "run", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "55555" in done.stdout, done


def test_registration_is_checked() -> None:
    class Plain:
        def __init__(self, a: int) -> None:
            self.a = a

    with pytest.raises(ValueError, match="field_names must be specified"):
        rushlight.register_dataclass(Plain)
    with pytest.raises(ValueError, match="Missing fields"):
        rushlight.register_dataclass(Point, field_names=["x"])
    with pytest.raises(ValueError, match="Both to_dumpable_context and from_dumpable_context"):
        rushlight.register_pytree_node(Plain, flatten, Box, to_dumpable_context=str)
    rushlight.register_pytree_node(Plain, flatten, Box)
    with pytest.raises(ValueError, match="already registered as pytree node"):
        rushlight.register_pytree_node(Plain, flatten, Box)
    with pytest.warns(UserWarning, match="Overwriting the previous registration"):
        rushlight.register_dataclass(Plain, field_names=["a"])
    with pytest.raises(ValueError, match="named tuple class"):
        rushlight.register_namedtuple(Plain)


def test_nothing_that_a_file_names_is_called() -> None:
    """A missing key would call the factory of a defaultdict: only classes that make empty values
    are."""
    from rushlight.pytree import Trees, _enum_hook

    def rebuilt(module: str, name: str) -> Any:
        context = {
            "default_factory_module": module,
            "default_factory_name": name,
            "dict_context": ["k"],
        }
        leaf = {"type": None, "context": None, "children_spec": []}
        out = {
            "type": "collections.defaultdict",
            "context": json.dumps(context),
            "children_spec": [leaf],
        }
        both = {"type": "builtins.tuple", "context": "null", "children_spec": []}
        args = {
            "type": "builtins.tuple",
            "context": "null",
            "children_spec": [
                both,
                {"type": "builtins.dict", "context": "[]", "children_spec": []},
            ],
        }
        return Trees(json.dumps({"arg_names": [], "in": [1, args], "out": [1, out]})).rebuild(
            {"k": 1}
        )

    assert rebuilt("builtins", "list").default_factory is list
    for module, name in (
        ("os", "abort"),
        ("builtins", "breakpoint"),
        ("rushlight", "load"),
        ("builtins", "list.append"),
    ):
        assert rebuilt(module, name).default_factory is None and rebuilt(module, name) == {"k": 1}
    assert _enum_hook({"__enum__": True, "fqn": "builtins:list", "name": "x"})["name"] == "x"
    assert (
        _enum_hook({"__enum__": True, "fqn": "inspect:_ParameterKind", "name": "__class__"})["name"]
        == "__class__"
    )
