"""`ExportedProgram`, and reading and writing it: torch.export.exported_program's names."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, NoReturn

from .. import _rushlight
from ..archives import save_to
from .decompositions import table_names
from .graph import Graph, GraphModule, read_graphs
from .graph_signature import (
    ArgumentSpec,
    CustomObjArgument,
    ExportGraphSignature,
    argument_of,
    signature_of,
)
from .treespec import TreeSpec, treespec_loads
from .values import CustomObject, Expression, ValueRanges, int_oo, leaf

__all__ = [
    "ExportedProgram",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "SpecViolationError",
    "Verifier",
    "load",
    "save",
]


@dataclasses.dataclass
class ModuleCallSignature:
    """How a module of the original program is called."""

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node: Any, new_node: Any) -> None:
        """Rename a value of the graph."""
        for spec in (*self.inputs, *self.outputs):
            if spec.name == original_node.name:
                spec.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    """A module of the original program; `signature` is known if it was asked to be kept."""

    fqn: str
    signature: ModuleCallSignature | None = None


class CallSpec(NamedTuple):
    """The trees of the program's arguments and of its result."""

    in_spec: TreeSpec | None
    out_spec: TreeSpec | None


class SpecViolationError(Exception):
    """A program breaks a rule of its dialect; the message has a line for each."""


class Verifier:
    """The rules of a dialect: TRAINING, ATEN, CORE_ATEN or EDGE."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    def check(self, ep: ExportedProgram) -> None:
        """Raise SpecViolationError if the program breaks a rule."""
        faults: str = ep._handle.verify(self.dialect)
        if faults:
            raise SpecViolationError(faults.rstrip("\n"))

    def __repr__(self) -> str:
        return f"<verifier of {self.dialect}>"


def _read_only(name: str) -> Any:
    """Make a property of the field `_NAME` that cannot be set, with torch's message."""

    def get(self: ExportedProgram) -> Any:
        return getattr(self, f"_{name}")

    def refuse(self: ExportedProgram, value: Any) -> NoReturn:
        raise RuntimeError(f"Unable to set ExportedProgram's {name} attribute.")

    return property(get, refuse)


def _call_entry(fqn: str, row: tuple[Any, ...] | None) -> ModuleCallEntry:
    if row is None:
        return ModuleCallEntry(fqn)
    inputs, outputs, in_spec, out_spec, names = row
    signature = ModuleCallSignature(
        [argument_of(item, in_call=True) for item in inputs],
        [argument_of(item, in_call=True) for item in outputs],
        treespec_loads(in_spec),
        treespec_loads(out_spec),
        names or None,
    )
    return ModuleCallEntry(fqn, signature)


class ExportedProgram:
    """A program of torch.export as data: graph, signature, state. `module()` runs it."""

    graph_module: GraphModule
    graph: Graph
    graph_signature: ExportGraphSignature
    state_dict: dict[str, Any]
    constants: dict[str, Any]
    tensor_constants: dict[str, Any]
    range_constraints: dict[Expression, ValueRanges]
    module_call_graph: list[ModuleCallEntry]
    call_spec: CallSpec
    verifier: Verifier
    verifiers: list[Verifier]
    dialect: str

    def __init__(self, handle: Any) -> None:
        """Not for users: `load` makes programs."""
        self._handle = handle
        self._parts: dict[str, Any] = {}
        self._report: Any = None  # of draft_export

    # Parts are read when they are first asked for.

    def _part(self, name: str, read: Any) -> Any:
        if name not in self._parts:
            self._parts[name] = read()
        return self._parts[name]

    @property
    def _graph_module(self) -> GraphModule:
        found: GraphModule = self._part("graph_module", lambda: read_graphs(self._handle))
        return found

    @property
    def _graph(self) -> Graph:
        return self._graph_module.graph

    @property
    def _graph_signature(self) -> ExportGraphSignature:
        found: ExportGraphSignature = self._part(
            "graph_signature", lambda: signature_of(*self._handle.signature(leaf))
        )
        return found

    def _state(self, is_constant: bool) -> dict[str, Any]:
        rows = self._part("rows", self._handle.state)
        torch: Any = sys.modules.get("torch")
        found = {name: value for name, constant, value in rows if constant == is_constant}
        for name in self.graph_signature.parameters if torch is not None else ():
            if type(found.get(name)) is torch.Tensor:
                needs = found[name].requires_grad
                found[name] = torch.nn.Parameter(found[name].detach(), requires_grad=needs)
        return found

    @property
    def _state_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = self._part("state_dict", lambda: self._state(False))
        return found

    @property
    def _constants(self) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            found = self._state(True)
            for spec in self.graph_signature.input_specs:  # which only torch has
                if isinstance(spec.arg, CustomObjArgument) and spec.target is not None:
                    found.setdefault(spec.target, CustomObject(spec.target, spec.arg.class_fqn))
            return found

        found: dict[str, Any] = self._part("constants", read)
        return found

    _tensor_constants = _constants

    @property
    def _range_constraints(self) -> dict[Expression, ValueRanges]:
        def read() -> dict[Expression, ValueRanges]:
            return {
                Expression(text): ValueRanges(
                    -int_oo if least is None else least, int_oo if most is None else most
                )
                for text, least, most in self._handle.ranges()
            }

        found: dict[Expression, ValueRanges] = self._part("range_constraints", read)
        return found

    @property
    def _module_call_graph(self) -> list[ModuleCallEntry]:
        found: list[ModuleCallEntry] = self._part(
            "module_call_graph", lambda: [_call_entry(*row) for row in self._handle.calls(leaf)]
        )
        return found

    @property
    def _call_spec(self) -> CallSpec:
        entries = self.module_call_graph
        if not entries:
            return CallSpec(None, None)
        if entries[0].fqn != "":
            raise AssertionError(
                f"expected first module_call_graph fqn to be empty string, got {entries[0].fqn!r}"
            )
        signature = entries[0].signature
        if signature is None:
            return CallSpec(None, None)
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def _verifiers(self) -> list[Verifier]:
        found: list[Verifier] = self._part(
            "verifiers", lambda: [Verifier(name) for name in self._info()[6] or ["TRAINING"]]
        )
        return found

    @property
    def _verifier(self) -> Verifier:
        return self._verifiers[0]

    @property
    def _dialect(self) -> str:
        return self._verifiers[0].dialect

    def _info(self) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self._part("info", self._handle.info)
        return found

    @property
    def _guards_code(self) -> list[str]:
        guards: list[str] = self._info()[5]
        return guards

    def parameters(self) -> Iterator[Any]:
        """Yield the parameters of the original module."""
        for _, value in self.named_parameters():
            yield value

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, tensor) of each parameter of the original module."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[Any]:
        """Yield the buffers of the original module."""
        for _, value in self.named_buffers():
            yield value

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, tensor) of each buffer of the original module."""
        constants = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            is_state = name not in constants and name in self.state_dict
            yield name, self.state_dict[name] if is_state else self.constants[name]

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The arguments that the program was made with: (args, kwargs), or None."""
        found: tuple[tuple[Any, ...], dict[str, Any]] | None = self._part(
            "example_inputs", self._handle.samples
        )
        return found

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        is_pair = isinstance(value, tuple) and len(value) == 2
        if value is not None and not (
            is_pair and isinstance(value[0], tuple) and isinstance(value[1], dict)
        ):
            raise ValueError(
                "Example inputs should be a tuple containing example arguments (as "
                "a tuple), and example kwargs (as a dictionary)."
            )
        self._parts["example_inputs"] = value

    def module(self, check_guards: bool = True) -> Any:
        """Return a module that runs the program, on the program's state.

        With `check_guards=False` calls check sizes and their ranges only, not the conditions that
        were found when the program was made.
        """
        import rushlight

        kind = rushlight._module_class()  # type: ignore[attr-defined]
        return self._handle.module(kind, check_guards)

    def run_decompositions(self, decomp_table: dict[Any, Any] | None = None) -> ExportedProgram:
        """Return the program over fewer operators, without those of the table, whose keys are
        operators; None: torch's default table. The dialect of the result is ATEN.

        How an operator decomposes is known here: a function of one's own in the table is refused.
        """
        names = None if decomp_table is None else table_names(decomp_table)
        return ExportedProgram(self._handle.decompose(names))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. "
            "You should use `exported_program.module()` instead."
        )

    def validate(self) -> None:
        """Check the program by the rules of its dialects."""
        if not self.verifiers:
            raise AssertionError("ExportedProgram must have at least one verifier.")
        for verifier in self.verifiers:
            verifier.check(self)

    def __str__(self) -> str:
        text: str = self._handle.text("program", None)
        return text


for _name in (
    "graph_module graph graph_signature state_dict constants tensor_constants range_constraints "
    "module_call_graph call_spec verifier verifiers dialect"
).split():
    setattr(ExportedProgram, _name, _read_only(_name))


# -- Files
# --------------------------------------------------------------------------------------------


def _check_opset(handle: Any, expected: dict[str, int] | None) -> None:
    text = handle.info()[4]
    actual = json.loads(text) if text else {}
    for name, version in (expected or {}).items():
        if actual.get(name) != version:
            raise RuntimeError(
                f"Opset version of '{name}' is {actual.get(name)} in the file, but {version} is "
                "expected"
            )


def load(
    f: str | os.PathLike[str] | BinaryIO,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read an ExportedProgram that torch.export.save or `save` wrote.

    `f` is a path (mapped: weights are used in place) or an open binary file. All files that the
    author added are put into `extra_files` as text. `expected_opset_version` is compared with the
    file's.
    """
    if "torch" in sys.modules:  # its custom operators are found when the program runs
        from .. import library

        library.adopt_torch()
    source: Any = f if isinstance(f, (str, os.PathLike)) else f.read()
    handle = _rushlight.load_exported(source, False, False, None)
    _check_opset(handle, expected_opset_version)
    if extra_files is not None:
        for name, data in handle.extra_files().items():
            extra_files[name] = data.decode()
    return ExportedProgram(handle)


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | BinaryIO,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
) -> None:
    """Write an ExportedProgram as a `.pt2` that torch.export.load and `load` open.

    `f` is a path (after an error the file is as it was before), or an object with `write`.
    `extra_files` are further files of the archive, name to content. The opset version of the file
    is the program's; another one is refused.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            "The 'ep' parameter must be an instance of 'ExportedProgram', got "
            f"'{type(ep).__name__}' instead."
        )
    _check_opset(ep._handle, opset_version)
    if isinstance(f, (str, os.PathLike)):
        save_to(ep._handle, os.fspath(f), extra_files or {})
    else:
        f.write(_rushlight.save(ep._handle, None, extra_files or {}, None))
