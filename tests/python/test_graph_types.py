"""Types, schemas and FileCheck's words as torch's: what programs that read graphs ask."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple  # noqa: UP035

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402
from rushlight.testing import FileCheck  # noqa: E402

X = torch.ones(2, 3)


def takes(
    a: List[int],
    b: Dict[str, torch.Tensor],
    c: Optional[Tuple[int, str]] = None,
    d: float = 1.5,
    e: str = "q",
) -> int:  # noqa: UP006
    return len(a)


def types(values: Any) -> list[Any]:
    return [
        (t.kind(), t.str(), str(t), repr(t), t.annotation_str) for t in (v.type() for v in values)
    ]


def test_types_show_as_annotations() -> None:
    ours, theirs = rushlight.script(takes).graph, torch.jit.script(takes).graph
    assert types(ours.inputs()) == types(theirs.inputs())
    assert types(ours.outputs()) == types(theirs.outputs())


def facts(value: Any) -> list[Any]:
    t = value.type()
    asked = (
        t.sizes(),
        t.varyingSizes(),
        t.strides(),
        t.dim(),
        t.scalarType(),
        t.dtype(),
        t.device(),
        t.undefined(),
        t.requires_grad(),
    )
    return [*asked, t.str(), str(t), value.isCompleteTensor(), value.requires_grad()]


@pytest.mark.parametrize(
    "tensor", [X, X.t(), torch.ones((), dtype=torch.int64), X.double().requires_grad_()]
)
def test_tensors_types(tensor: torch.Tensor) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    for a, b in (
        (rushlight.trace, torch.jit.trace),
        (lambda f, _: rushlight.script(f), lambda f, _: torch.jit.script(f)),
    ):
        assert facts(next(a(f, (tensor,)).graph.inputs())) == facts(
            next(b(f, (tensor,)).graph.inputs())
        )


def test_schemas() -> None:
    def plain(value: Any) -> str:
        return re.sub(r"___torch_mangle_\d+\.", "", str(value))

    def told(schema: Any) -> list[Any]:
        rows = [
            (a.name, plain(a.type), a.has_default_value(), a.default_value, a.kwarg_only, a.N)
            for a in schema.arguments
        ]
        return [plain(schema), schema.name, rows, [(r.name, plain(r.type)) for r in schema.returns]]

    assert told(rushlight.script(takes).schema) == told(torch.jit.script(takes).schema)
    module = torch.nn.Linear(3, 2)
    ours, theirs = rushlight.script(module).forward.schema, torch.jit.script(module).forward.schema
    assert told(ours) == told(theirs)


TEXT = "a b c\nd e f\na b\n~~~ x\n"


@pytest.mark.parametrize(
    "add",
    [
        lambda f: f.check("zzz"),
        lambda f: f.check("a").check_not("d").check("a b"),
        lambda f: f.check_count("a", 1, exactly=True),
        lambda f: f.check_dag("d").check_dag("q"),
        lambda f: f.check_not("a"),
        lambda f: f,
    ],
)
def test_words_of_checks(add: Any) -> None:
    told = []
    for check in (FileCheck(), torch._C.FileCheck()):
        with pytest.raises(RuntimeError) as error:
            add(check).run(TEXT)
        told.append(str(error.value).strip())
    assert told[0] == told[1]


def test_checks_take_texts_and_graphs() -> None:
    with pytest.raises(TypeError, match="a text or a graph"):
        FileCheck().check("a").run(3)
    for unknown in ("# CHECK-BOGUS: a", "nothing"):
        with pytest.raises(RuntimeError):
            FileCheck().run(unknown, TEXT)


def test_types_of_tensors_with_other_facts() -> None:
    """TensorType.with_sizes and its like give what PyTorch's give."""

    def told(t: Any) -> list[Any]:
        sizes, device = t.varyingSizes(), t.device()
        return [
            t.sizes(),
            sizes,
            t.dim(),
            t.strides() if sizes is not None else None,  # PyTorch keeps strides of other ranks
            None if device is None else str(device),
            t.dtype(),
            [n if n >= 0 else None for n in t.symbolic_sizes() or []],
        ]

    for make in (
        lambda T, t: T.get(),
        lambda T, t: t,
        lambda T, t: T.get().with_sizes([2, 3]),
        lambda T, t: T.get().with_sizes([2, None, 4]),
        lambda T, t: T.get().with_sizes([2, 3]).contiguous(),
        lambda T, t: T.get().with_device(torch.device("cuda:1")),
        lambda T, t: T.get().with_dtype(torch.int32),
        lambda T, t: t.with_sizes([4, 4]),
        lambda T, t: t.with_device(torch.device("cuda")),
        lambda T, t: t.with_dtype(torch.float64),
        lambda T, t: t.contiguous(),
    ):
        ours, theirs = rushlight.ir.TensorType, torch._C.TensorType
        assert told(make(ours, ours.create_from_tensor(X))) == told(
            make(theirs, theirs.create_from_tensor(X))
        )


def test_facts_come_back_from_text() -> None:
    for text in (
        "Float(2, *, device=cuda:0)",
        "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)",
        "Double(*, *, *)",
    ):
        graph = rushlight.parse_ir(f"graph(%x : {text}):\n  return (%x)")
        assert f"%x : {text}" in str(graph)
        facts = next(graph.inputs()).type().facts
        assert rushlight.ir._rushlight.type_of_facts(*facts).str() == text
    with pytest.raises(ValueError, match="no device is called 'gpu'"):
        rushlight.ir.TensorType.get().with_device("gpu")
