"""`unflatten`: an exported program as the nested modules that it was made from.

Every node says in whose call it was made (`nn_module_stack`). Nodes in a row that were made in one
call become a frame of that module: its inputs are the values that they take from outside, its
outputs those that are used outside, and state is found by its name. A frame holds nodes and calls
of other modules' frames, and is interpreted, one operator after another: this is for looking at
parts, replacing and comparing them; `ExportedProgram.module()` is what runs fast.

Cost: O(nodes * depth) to make.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from .exported_program import ExportedProgram, ModuleCallSignature
from .graph import GraphModule, Node, map_arg
from .graph_signature import ConstantArgument, InputKind, OutputKind
from .higher_order import OPERATORS
from .inputs import check_inputs
from .operators import HigherOrderOperator
from .values import CustomObject

__all__ = ["UnflattenedModule", "unflatten"]


# torch's key in the stack of a node that a pass made, which does not know where.
_NO_STACK = "_empty_nn_module_stack_from_metadata_hook"


class _Level(NamedTuple):
    """A level of a module stack: which module, and which of its calls."""

    fqn: str
    call: int


@dataclasses.dataclass
class _Frame:
    """What one call of a module does."""

    inputs: list[Node]
    outputs: list[Node]
    steps: list[Node | _Call]
    dead: list[list[Node]]  # for each step the values that no later one needs


@dataclasses.dataclass
class _Call:
    """A call of another module's frame."""

    part: UnflattenedPart
    frame: _Frame


class UnflattenedPart:
    """A module of the original program: state and submodules by name. It can be called if the
    program calls it.

    It takes and returns what the original module did if the program keeps that
    (`preserve_module_call_signature`), otherwise the tensors that flow in and out, in the order of
    their use.
    """

    def __init__(self, root: UnflattenedModule | None, fqn: str) -> None:
        self._root: Any = root if root is not None else self
        self.fqn = fqn
        self._modules: dict[str, UnflattenedPart] = {}
        self._frames: list[_Frame] = []
        self._signature: ModuleCallSignature | None = None

    # -- Contents

    def named_children(self) -> Iterator[tuple[str, UnflattenedPart]]:
        """Yield (name, part) of each direct submodule."""
        yield from self._modules.items()

    def children(self) -> Iterator[UnflattenedPart]:
        """Yield the direct submodules."""
        yield from self._modules.values()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, UnflattenedPart]]:
        """Yield (qualified name, part) of this part and all below."""
        yield prefix, self
        for name, part in self._modules.items():
            yield from part.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[UnflattenedPart]:
        """Yield this part and all below."""
        for _, part in self.named_modules():
            yield part

    def get_submodule(self, target: str) -> UnflattenedPart:
        """Return the part of a qualified name."""
        found = self
        for name in target.split(".") if target else ():
            if name not in found._modules:
                raise AttributeError(f"the module '{found.fqn}' has no submodule '{name}'")
            found = found._modules[name]
        return found

    def _named(self, names: Any, unique: bool = True) -> Iterator[tuple[str, Any]]:
        start, seen = f"{self.fqn}." if self.fqn else "", set()
        for name in names:
            value = self._root._tensors[name]
            if name.startswith(start) and not (unique and id(value) in seen):
                seen.add(id(value))
                yield name[len(start) :], value

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, tensor) of each parameter below, tied ones once."""
        yield from self._named(self._root._parameter_names)

    def parameters(self) -> Iterator[Any]:
        """Yield the parameters below."""
        for _, value in self.named_parameters():
            yield value

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, tensor) of each buffer below."""
        yield from self._named(self._root._buffer_names)

    def buffers(self) -> Iterator[Any]:
        """Yield the buffers below."""
        for _, value in self.named_buffers():
            yield value

    def state_dict(self) -> dict[str, Any]:
        """Return parameters and persistent buffers below by name."""
        return dict(self._named(self._root._state_names, unique=False))

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        if name in fields.get("_modules", ()):
            return fields["_modules"][name]
        root = fields.get("_root")
        whole = f"{self.fqn}.{name}" if fields.get("fqn") else name
        if root is None or whole not in root.__dict__.get("_tensors", ()):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return root._tensors[whole]

    def __dir__(self) -> list[str]:
        own = [name for name, _ in self._named(self._root._tensors) if "." not in name]
        return sorted({*super().__dir__(), *self._modules, *own})

    def __repr__(self) -> str:
        lines = [
            f"  ({name}): {part!r}".replace("\n", "\n  ") for name, part in self._modules.items()
        ]
        inside = "".join(f"\n{line}" for line in lines)
        return f"{type(self).__name__}({inside}\n)" if lines else f"{type(self).__name__}()"

    # -- Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._frames:
            raise NotImplementedError(f"the program does not call the module '{self.fqn}'")
        frame, signature = self._frames[0], self._signature
        if signature is not None:
            return self._call_as_before(frame, signature, args, kwargs)
        if kwargs or len(args) != len(frame.inputs):
            names = ", ".join(node.name for node in frame.inputs)
            raise TypeError(f"the module '{self.fqn}' takes {len(frame.inputs)} values: {names}")
        values = self._run(frame, dict(zip(frame.inputs, args, strict=True)))
        found = tuple(values[node] for node in frame.outputs)
        return found[0] if len(found) == 1 else found

    def _call_as_before(
        self,
        frame: _Frame,
        signature: ModuleCallSignature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        leaves = signature.in_spec.flatten((args, kwargs))
        given = {spec.name: v for spec, v in zip(signature.inputs, leaves, strict=True)}
        missing = [node.name for node in frame.inputs if node.name not in given]
        if missing:
            raise TypeError(
                f"the module '{self.fqn}' also takes {', '.join(missing)} from outside: call the "
                "whole program"
            )
        values = self._run(frame, {node: given[node.name] for node in frame.inputs})
        known = {**given, **{node.name: value for node, value in values.items()}}
        return signature.out_spec.unflatten(
            [
                spec.value if isinstance(spec, ConstantArgument) else known[spec.name]
                for spec in signature.outputs
            ]
        )

    def _run(self, frame: _Frame, values: dict[Node, Any]) -> dict[Node, Any]:
        """Run a frame; returns what is known then: the outputs, and inputs that stayed."""
        for step, dead in zip(frame.steps, frame.dead, strict=True):
            if isinstance(step, _Call):
                inputs = {node: values[node] for node in step.frame.inputs}
                found = step.part._run(step.frame, inputs)
                values.update({node: found[node] for node in step.frame.outputs})
            else:
                values[step] = self._root._evaluate(step, values)
            for node in dead:
                values.pop(node, None)
        return values


class UnflattenedModule(UnflattenedPart):
    """An exported program as nested modules, with a copy of its state."""

    def __init__(self, export_module: ExportedProgram) -> None:
        super().__init__(None, "")
        self.graph_signature = export_module.graph_signature
        self.module_call_graph = export_module.module_call_graph
        self._program = export_module
        if self.graph_signature.backward_signature is not None:
            raise ValueError("Unflattening on JointExportModule NYI")
        self._tensors: dict[str, Any] = {}
        for entry in self.module_call_graph:
            self._part(entry.fqn)._signature = entry.signature if entry.fqn else None
        self._copy_state()
        self._targets = {  # inputs of the graph that are state
            spec.arg.name: spec.target
            for spec in self.graph_signature.input_specs
            if spec.kind != InputKind.USER_INPUT
        }
        _Outliner(self).outline(export_module.graph.nodes)

    def _copy_state(self) -> None:
        signature, program = self.graph_signature, self._program
        apart = set(signature.non_persistent_buffers)
        self._parameter_names = list(signature.parameters)
        self._buffer_names = list(signature.buffers)
        for name in program.state_dict:
            if name not in self._parameter_names and name not in self._buffer_names:
                is_parameter = bool(program.state_dict[name].requires_grad)
                (self._parameter_names if is_parameter else self._buffer_names).append(name)
        self._state_names = [n for n in program.state_dict if n not in apart]
        copies: dict[Any, Any] = {}
        for name, value in {**program.constants, **program.state_dict}.items():
            if isinstance(value, CustomObject):
                continue
            key = (value.data_ptr(), tuple(value.shape), value.stride(), str(value.dtype))
            if key not in copies or value.numel() == 0:
                copies[key] = _copy(value)
            self._tensors[name] = copies[key]
            self._part(name.rpartition(".")[0])

    def _part(self, fqn: str) -> UnflattenedPart:
        """Return the part of that name; make it, and those above, if there is none."""
        part: UnflattenedPart = self
        for i, name in enumerate(names := fqn.split(".") if fqn else []):
            if name not in part._modules:
                part._modules[name] = UnflattenedPart(self, ".".join(names[: i + 1]))
            part = part._modules[name]
        return part

    def _is_outer(self, node: Node) -> bool:
        """True for what every frame finds by name: state, and graphs of higher-order operators."""
        return node.op == "get_attr" or (node.op == "placeholder" and node.name in self._targets)

    def _state(self, name: str) -> Any:
        """Return the state that an input of the graph is; None: it is a token."""
        target = self._targets[name]
        if target is not None and target not in self._tensors:
            raise NotImplementedError(f"'{target}' is a custom object, which only torch has")
        return None if target is None else self._tensors[target]

    def _evaluate(self, node: Node, values: dict[Node, Any]) -> Any:
        def value_of(used: Node) -> Any:
            if used in values:
                return values[used]
            if used.op == "get_attr":
                owner = used.graph.owning_module
                return None if owner is None else owner.get_submodule(used.target)
            return self._state(used.name)

        args = map_arg(node.args, value_of)
        kwargs = map_arg(node.kwargs, value_of)
        if node.op == "get_attr":
            return value_of(node)
        if isinstance(node.target, HigherOrderOperator):
            return self._higher_order(node.target.name(), args, kwargs)
        return node.target(*args, **kwargs)

    def _higher_order(self, name: str, args: Any, kwargs: Any) -> Any:
        run = OPERATORS.get(name)
        if run is None:
            raise NotImplementedError(
                f"unflattened modules do not run the operator {name}: use ExportedProgram.module()"
            )
        return run(self._run_graph, *args, **kwargs)

    def _run_graph(self, module: GraphModule, inputs: Any) -> Any:
        """Run a graph that a higher-order operator is given."""
        values: dict[Node, Any] = {}
        given = iter(inputs)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "output":
                return map_arg(node.args[0], lambda used: values[used])
            else:
                values[node] = self._evaluate(node, values)
        return ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = check_inputs(self._program, args, kwargs)
        inputs = [n for n in self._program.graph.find_nodes(op="placeholder")]
        specs = zip(inputs, self.graph_signature.input_specs, strict=True)
        users = [node for node, spec in specs if spec.kind == InputKind.USER_INPUT]
        given = dict(zip(users, leaves, strict=True))
        values = self._run(self._frames[0], dict(given))
        return self._results({**given, **values}, {node.name: v for node, v in given.items()})

    def _results(self, values: dict[Node, Any], inputs: dict[str, Any]) -> Any:
        """Write what the program writes to state and inputs, and return its results."""
        out = self._program.graph.output_node().args[0]
        found = []
        for spec, item in zip(self.graph_signature.output_specs, out, strict=True):
            value = item
            if isinstance(item, Node):
                value = values[item] if item in values else self._state(item.name)
            if spec.kind == OutputKind.USER_OUTPUT:
                found.append(value)
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                inputs[str(spec.target)].detach().copy_(value.detach())
            elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                self._tensors[str(spec.target)].detach().copy_(value.detach())
        spec_out = self._program.call_spec.out_spec
        return found if spec_out is None else spec_out.unflatten(found)


def _copy(value: Any) -> Any:
    """Copy a tensor of the state; a parameter of torch's stays one."""
    made = value.detach().clone()
    if type(value).__name__ == "Parameter":
        return type(value)(made, requires_grad=value.requires_grad)
    if value.requires_grad:
        made.requires_grad_(True)
    return made


class _Outliner:
    """Splits the nodes of a program into frames."""

    def __init__(self, root: UnflattenedModule) -> None:
        self._root = root
        self._stacks: dict[Node, tuple[_Level, ...]] = {}

    def outline(self, nodes: tuple[Node, ...]) -> None:
        body = [n for n in nodes if n.op not in ("placeholder", "output", "get_attr")]
        before: tuple[_Level, ...] = ()
        for node in body:
            before = self._stacks[node] = self._stack_of(node, before)
        self._frame(self._root, body, 0)

    def _stack_of(self, node: Node, before: tuple[_Level, ...]) -> tuple[_Level, ...]:
        """Return the calls around a node; one that does not say is where the last one is."""
        stack = node.meta.get("nn_module_stack")
        if not stack or _NO_STACK in stack:
            return before
        levels = []
        for key, (path, _) in stack.items():
            call = key.rpartition("@")[2] if "@" in key else "0"
            if path:
                levels.append(_Level(path.partition("@")[0], int(call) if call.isdigit() else 0))
        return tuple(levels)

    def _frame(self, part: UnflattenedPart, nodes: list[Node], depth: int) -> _Frame:
        steps: list[Node | _Call] = []
        at = 0
        while at < len(nodes):
            stack = self._stacks[nodes[at]]
            if len(stack) <= depth:
                steps.append(nodes[at])
                at += 1
                continue
            end = at
            while end < len(nodes) and self._stacks[nodes[end]][: depth + 1] == stack[: depth + 1]:
                end += 1
            inner = self._root._part(stack[depth].fqn)
            steps.append(_Call(inner, self._frame(inner, nodes[at:end], depth + 1)))
            at = end
        frame = self._make(nodes, steps)
        part._frames.append(frame)
        return frame

    def _make(self, nodes: list[Node], steps: list[Node | _Call]) -> _Frame:
        inside = set(nodes)
        inputs = dict.fromkeys(
            used
            for node in nodes
            for used in node.all_input_nodes
            if used not in inside and not self._root._is_outer(used)
        )
        outputs = [node for node in nodes if any(user not in inside for user in node.users)]
        return _Frame(list(inputs), outputs, steps, _dead_after(steps, {*inputs, *outputs}))


def _dead_after(steps: list[Node | _Call], kept: set[Node]) -> list[list[Node]]:
    """Return for each step the values that no later one needs."""
    last: dict[Node, int] = {}
    for i, step in enumerate(steps):
        used = step.frame.inputs if isinstance(step, _Call) else [step, *step.all_input_nodes]
        made = step.frame.outputs if isinstance(step, _Call) else []
        for node in (*made, *used):
            last[node] = i
    dead: list[list[Node]] = [[] for _ in steps]
    for node, i in last.items():
        if node not in kept:
            dead[i].append(node)
    return dead


def unflatten(module: ExportedProgram) -> UnflattenedModule:
    """Return the program as nested modules, with a copy of its state.

    Submodules have the names, parameters and buffers of the original ones; calling the result
    computes what the program does.
    """
    return UnflattenedModule(module)
