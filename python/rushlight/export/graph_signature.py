"""The signature of an exported program: which inputs of its graph are state, which outputs are
written back, with torch.export.graph_signature's names."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

__all__ = [
    "ArgumentSpec",
    "ConstantArgument",
    "CustomObjArgument",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymBoolArgument",
    "SymFloatArgument",
    "SymIntArgument",
    "TensorArgument",
    "TokenArgument",
]


@dataclasses.dataclass
class TensorArgument:
    """A tensor: the value of that name in the graph."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """A token that orders side effects."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """A symbolic int."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A symbolic float."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A symbolic bool."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """A custom object of the class `class_fqn`."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A value that was the same in the example: it is not in the graph."""

    name: str
    value: Any


ArgumentSpec = (
    TensorArgument
    | SymIntArgument
    | SymFloatArgument
    | SymBoolArgument
    | ConstantArgument
    | CustomObjArgument
    | TokenArgument
)
_NAMED = (
    TensorArgument,
    SymIntArgument,
    SymFloatArgument,
    SymBoolArgument,
    CustomObjArgument,
    TokenArgument,
)
_ARGUMENTS = (*_NAMED, ConstantArgument)


class InputKind(enum.Enum):
    """What an input of the graph is."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """What an output of the graph is."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


def _check_argument(arg: object) -> None:
    if not isinstance(arg, _ARGUMENTS):
        raise AssertionError(f"expected valid arg type, got {type(arg)}")


@dataclasses.dataclass
class InputSpec:
    """One input of the graph; `target` is the name of the state that it is."""

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")
        _check_argument(self.arg)

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclasses.dataclass
class OutputSpec:
    """One output of the graph; `target` is the name of what it is written to."""

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __post_init__(self) -> None:
        _check_argument(self.arg)

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """The outputs of a program that computes gradients."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


def _user_value(arg: ArgumentSpec, what: str) -> Any:
    if isinstance(arg, ConstantArgument):
        return arg.value
    if isinstance(arg, TokenArgument):
        raise RuntimeError(f"{arg} is not a valid user {what}")
    return arg.name


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and outputs of the graph in their order."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _inputs(self, kind: InputKind) -> Iterable[InputSpec]:
        return (s for s in self.input_specs if s.kind == kind)

    def _outputs(self, kind: OutputKind) -> Iterable[OutputSpec]:
        return (s for s in self.output_specs if s.kind == kind)

    def _input_targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(s.target for s in self._inputs(kind) if s.target is not None)

    def _map(self, specs: Iterable[InputSpec | OutputSpec], cls: type) -> Mapping[str, str]:
        found = {s.arg.name: s.target for s in specs if isinstance(s.arg, cls) and s.target}
        return MappingProxyType(found)  # type: ignore[arg-type]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of parameters."""
        return self._input_targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of buffers."""
        return self._input_targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The names of buffers that are constants of the program, not of its state_dict."""
        specs = self._inputs(InputKind.BUFFER)
        return tuple(s.target for s in specs if s.target is not None and s.persistent is False)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of tensors that were constants in the code."""
        return self._input_targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """The names of custom objects."""
        return self._input_targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The names of the user's inputs, flattened; of constants their values."""
        return tuple(_user_value(s.arg, "input") for s in self._inputs(InputKind.USER_INPUT))

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The names of the user's outputs, flattened; of constants their values."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple(_user_value(s.arg, "output") for s in self.output_specs if s.kind in kinds)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Inputs of the graph that are parameters: name in the graph -> parameter."""
        return self._map(self._inputs(InputKind.PARAMETER), TensorArgument)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Inputs of the graph that are buffers: name in the graph -> buffer."""
        return self._map(self._inputs(InputKind.BUFFER), TensorArgument)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Outputs that are new values of buffers: name in the graph -> buffer."""
        return self._map(self._outputs(OutputKind.BUFFER_MUTATION), TensorArgument)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """Outputs that are new values of parameters: name in the graph -> parameter."""
        return self._map(self._outputs(OutputKind.PARAMETER_MUTATION), TensorArgument)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Outputs that are new values of inputs: name in the graph -> input."""
        return self._map(self._outputs(OutputKind.USER_INPUT_MUTATION), TensorArgument)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Inputs of the graph that are constants: name in the graph -> constant."""
        return self._map(self._inputs(InputKind.CONSTANT_TENSOR), TensorArgument)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """Inputs of the graph that are custom objects: name in the graph -> object."""
        return self._map(self._inputs(InputKind.CUSTOM_OBJ), CustomObjArgument)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """The gradients among the outputs; None if the program has no loss."""
        losses = list(self._outputs(OutputKind.LOSS_OUTPUT))
        if not losses:
            return None
        if len(losses) > 1:
            raise AssertionError("multiple LOSS_OUTPUT specs found")
        return ExportBackwardSignature(
            dict(self._map(self._outputs(OutputKind.GRADIENT_TO_PARAMETER), TensorArgument)),
            dict(self._map(self._outputs(OutputKind.GRADIENT_TO_USER_INPUT), TensorArgument)),
            losses[0].arg.name,
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        """Always None, as in torch."""
        return None

    @property
    def input_tokens(self) -> tuple[str, ...]:
        """The names of inputs that are tokens."""
        return tuple(s.arg.name for s in self._inputs(InputKind.TOKEN))

    @property
    def output_tokens(self) -> tuple[str, ...]:
        """The names of outputs that are tokens."""
        return tuple(s.arg.name for s in self._outputs(OutputKind.TOKEN))

    def replace_all_uses(self, old: str, new: str) -> None:
        """Rename a value of the graph in all specs."""
        for what, name in (("old", old), ("new", new)):
            if not isinstance(name, str):
                raise AssertionError(f"expected {what} to be str, got {type(name)}")
        specs: list[InputSpec | OutputSpec] = [*self.output_specs, *self.input_specs]
        for spec in specs:
            if isinstance(spec.arg, _NAMED) and spec.arg.name == old:
                spec.arg.name = new

    def __str__(self) -> str:
        inputs = "\n".join(str(s) for s in self.input_specs)
        outputs = "\n".join(str(s) for s in self.output_specs)
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


# -- From the extension's tuples
# ------------------------------------------------------------------------------


_KINDS = (TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument)
_CONSTANT, _OBJECT, _TOKEN = 4, 5, 6


def argument_of(row: tuple[Any, ...], in_call: bool = False) -> ArgumentSpec:
    """Make the argument of an input or an output; `in_call`: of a module call, where torch makes
    constants of custom objects."""
    kind, name, class_name, constant = row[1:5]
    if kind == _CONSTANT:
        return ConstantArgument(name, constant)
    if kind == _OBJECT and not in_call:
        return CustomObjArgument(name, class_name or "")
    if kind == _OBJECT:
        return ConstantArgument(name, None)
    return TokenArgument(name) if kind == _TOKEN else _KINDS[kind](name)


def signature_of(inputs: list[Any], outputs: list[Any]) -> ExportGraphSignature:
    """Make a signature of the extension's rows."""
    kinds_in, kinds_out = list(InputKind), list(OutputKind)
    return ExportGraphSignature(
        [_input_of(kinds_in[row[0]], row) for row in inputs],
        [OutputSpec(kinds_out[row[0]], argument_of(row), row[5]) for row in outputs],
    )


def _input_of(kind: InputKind, row: tuple[Any, ...]) -> InputSpec:
    return InputSpec(kind, argument_of(row), row[5], row[6] if kind == InputKind.BUFFER else None)
