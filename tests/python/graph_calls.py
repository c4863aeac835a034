"""Calls of one operator as programs with one prim::DifferentiableGraph around it.

What is no tensor is a constant of the program, as in a traced program, so that its derivative is
specialised for it.  Programs are kept by operator and constants."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import rushlight
import torch
from rushlight import ir
from torch.utils._pytree import tree_leaves

CALLS = [1]  # of a program for each result
MADE: collections.Counter[str] = collections.Counter()
_programs: dict[str, Any] = {}


class CannotBuildError(Exception):
    """The call is no program: it has a value that graphs do not hold."""


def has_tensors(value: Any) -> bool:
    return any(isinstance(v, torch.Tensor) for v in tree_leaves(value))


def constant(value: Any, kind: str) -> Any:
    """The value as the schema's type has it: conversions are the caller's."""
    if value is None or isinstance(value, str):
        return value
    kind = kind.removeprefix("Optional[").removesuffix("]")
    if kind == "number" and isinstance(value, bool):  # no number in a program
        return int(value)
    if kind == "float" and not isinstance(value, complex):
        return float(value)
    if kind.startswith("List[") and not isinstance(value, (list, tuple)):
        return [value]
    if isinstance(value, (list, tuple)):
        return [float(v) if kind == "List[float" else v for v in value]
    return value


def put(graph: Any, arg: Any, value: Any, keys: list[str]) -> Any:
    """Return the graph's value for an argument: inputs for its tensors."""
    if isinstance(value, torch.Tensor):
        keys.append("T")
        return graph.addInput()
    if not has_tensors(value):
        keys.append(repr(value))
        kind = str(arg.type)
        is_empty = isinstance(value, (list, tuple)) and not value
        if kind.startswith(("List[Tensor", "List[Optional[Tensor")) or (
            is_empty and "List" in kind
        ):
            return listed(graph, kind, [])
        return graph.insertConstant(constant(value, kind))
    keys.append(f"[{len(value)}")
    return listed(graph, str(arg.type), [put(graph, arg, v, keys) for v in value])


def listed(graph: Any, kind: str, values: list[Any]) -> Any:
    node = graph.create("prim::ListConstruct", values, 1)
    elem = next((e for e in ("int", "float", "bool") if e in kind), "Tensor")
    of = "?[]" if "List[Optional" in kind else "[]"
    node.output().setType(ir.parse_type(elem + of))
    return graph.insertNode(node).output()


def type_of(returned: Any) -> Any:
    text = str(returned.type)
    return ir.parse_type("Tensor[]" if text == "List[Tensor]" else text)


def apart(graph: Any, schema: Any, value: Any) -> Any:
    """A copy of a result that may be a view: graphs that return views are not differentiated."""
    if "(a)" not in str(schema) or str(value.type()) != "Tensor":
        return value
    none = graph.insertConstant(None)
    return graph.insertNode(graph.create("aten::clone", [value, none], 1)).output()


def body(schema: Any, func: Any, args: list[Any], keys: list[str]) -> Any:
    graph = ir.Graph()
    inputs = [put(graph, a, v, keys) for a, v in zip(schema.arguments, args, strict=True)]
    node = graph.insertNode(graph.create(schema.name, inputs, len(schema.returns)))
    for value, returned in zip(node.outputs(), schema.returns, strict=True):
        value.setType(type_of(returned))
        if str(returned.type) != "List[Tensor]":
            graph.registerOutput(apart(graph, schema, value))
            continue
        only = [a.name for a in schema.arguments if a.kwarg_only]
        n = len(args) - len(only)
        made = func(*args[:n], **dict(zip(only, args[n:], strict=True)))
        keys.append(f"x{len(made)}")
        unpack = graph.insertNode(graph.create("prim::ListUnpack", [value], len(made)))
        for one in unpack.outputs():
            graph.registerOutput(apart(graph, schema, one))
    if not node.schema():
        raise CannotBuildError(f"no overload of {schema.name} fits")
    return graph


def packed(graph: Any, values: list[Any]) -> Any:
    """Return the only value, or a tuple of several: a function returns one."""
    if len(values) == 1:
        return values[0]
    node = graph.create("prim::TupleConstruct", values, 1)
    node.output().setType(ir.TupleType([v.type() for v in values]))
    return graph.insertNode(node).output()


def program(schema: Any, func: Any, args: list[Any]) -> Any:
    keys = [f"{schema.name}.{schema.overload_name}"]
    try:
        inner = body(schema, func, args, keys)
        key = " ".join(keys)
        if key not in _programs:
            outer = ir.Graph()
            inputs = [outer.addInput() for _ in inner.inputs()]
            n = len(list(inner.outputs()))
            node = outer.create("prim::DifferentiableGraph", inputs, n)
            node.g_("Subgraph", inner)
            for to, of in zip(node.outputs(), inner.outputs(), strict=True):
                to.setType(of.type())
            outer.insertNode(node)
            outer.registerOutput(packed(outer, list(node.outputs())))
            outer.lint()
            _programs[key] = rushlight.CompilationUnit().create_function("f", outer)
            MADE["programs"] += 1
        return _programs[key]
    except Exception as x:
        MADE["not built"] += 1
        raise CannotBuildError(str(x)) from x


def tensors_of(args: list[Any]) -> Iterator[torch.Tensor]:
    return (v for v in tree_leaves(args) if isinstance(v, torch.Tensor))


def call(schema: Any, func: Any, args: list[Any]) -> Any:
    """Call the operator on complete arguments."""
    function = program(schema, func, args)
    for _ in range(CALLS[0]):
        results = function(*tensors_of(args))
    if len(schema.returns) == 1 and str(schema.returns[0].type) == "List[Tensor]":
        return list(results) if isinstance(results, tuple) else [results]
    return results
