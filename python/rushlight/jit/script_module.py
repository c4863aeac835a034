"""Modules of programs: the results of `load` and `script`, with the names and behaviour of
torch.jit.

`ScriptModule` here needs no torch. If torch is imported, `torch_modules` makes a class of both: a
ScriptModule that is a torch.nn.Module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .. import _rushlight, archives
from .._rushlight import ScriptMethod
from . import frontend  # noqa: F401 -- whose classes of errors loading may raise
from .kinds import BUFFER, MODULE, PARAMETER

if TYPE_CHECKING:
    from .. import outputs
    from .exported import ExportedPart


class _OfForward:
    """`inputs` or `outputs` of a module: forward's, unless the program has an attribute of that
    name."""

    def __init__(self, which: int) -> None:
        self._which = which
        self.__doc__ = f"The {('inputs', 'outputs')[which]} of forward, in order."

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    def __get__(self, module: Any, owner: type[Any] | None = None) -> Any:
        if module is None:
            return self
        if not module._is_script or any(name == self._name for name, _ in module._slots()):
            raise AttributeError(self._name)  # the lookup goes on to what the module has
        return _signature(module, "forward")[self._which]


class Handle:
    """A registered hook: `remove()` removes it, and so does the end of a `with`."""

    _next = 0

    def __init__(self, hooks: dict[int, Callable[..., Any]]) -> None:
        self._hooks, self.id = hooks, Handle._next
        Handle._next += 1

    def remove(self) -> None:
        self._hooks.pop(self.id, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class _Replaced:
    """Arguments and keywords that a hook returned."""

    def __init__(self, args: Any, kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args if isinstance(args, tuple) else (args,), kwargs


def _with_kwargs(hook: Callable[..., Any], with_kwargs: bool) -> Callable[..., Any]:
    """Return the hook as one that always takes the keywords."""
    if not with_kwargs:
        return lambda module, args, kwargs, *output: hook(module, args, *output)

    def call(module: Any, args: Any, kwargs: dict[str, Any], *output: Any) -> Any:
        changed = hook(module, args, kwargs, *output)
        if output or changed is None:
            return changed
        if not isinstance(changed, tuple) or len(changed) != 2:
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                f"{changed}."
            )
        return _Replaced(*changed)

    return call


class Contents:
    """What is in a module, without the names."""

    __slots__ = ()
    named_children: Callable[..., Iterator[tuple[str, Any]]]
    named_modules: Callable[..., Iterator[tuple[str, Any]]]
    named_parameters: Callable[..., Iterator[tuple[str, Any]]]
    named_buffers: Callable[..., Iterator[tuple[str, Any]]]

    def children(self) -> Iterator[Any]:
        """Yield every direct submodule."""
        yield from (module for _, module in self.named_children())

    def modules(self) -> Iterator[Any]:
        """Yield this module and all below it."""
        yield from (module for _, module in self.named_modules())

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """Yield every parameter."""
        yield from (value for _, value in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """Yield every buffer."""
        yield from (value for _, value in self.named_buffers(recurse=recurse))


class ScriptModule(Contents, archives.Saving, _rushlight.Module):
    """A program with its state: the result of `load` and `script`.

    Its methods are attributes (`model(x)` calls forward), and so are its parameters, buffers,
    submodules and other attributes, which can be assigned if the program declares them.
    """

    def __init__(self) -> None:
        """Make an empty module, to be filled by `define`."""
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        if not self._set(name, value):
            super().__setattr__(name, value)

    # -- Contents ----------------------------------------------------------------------------------

    def _named(self, kind: int) -> Iterator[tuple[str, Any]]:
        for name, has in self._slots():
            if has & kind:
                value = self._slot(name)
                if value is not None:
                    yield name, value

    def named_children(self) -> Iterator[tuple[str, ScriptModule]]:
        """Yield (name, module) of every direct submodule; for an exported program, the parts that
        its state names."""
        held: Any = self._exported().named_children() if self._is_exported() else None
        yield from self._named(MODULE) if held is None else held

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, ScriptModule]]:
        """Yield (qualified name, module) of this module and all below it."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for name, module in self._named(MODULE):
            yield from module.named_modules(
                memo, f"{prefix}.{name}" if prefix else name, remove_duplicate
            )
        if self._is_exported():
            for name, part in self.named_children():
                yield from part.named_modules(prefix=f"{prefix}.{name}" if prefix else name)

    def _members(self, kind: int, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, value in module._named(kind) if isinstance(module, ScriptModule) else ():
                if id(value) not in seen:
                    seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield (qualified name, tensor) of every parameter."""
        yield from self._members(PARAMETER, prefix, recurse)

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield (qualified name, tensor) of every buffer."""
        yield from self._members(BUFFER, prefix, recurse)

    def get_submodule(self, target: str) -> Any:
        """Return the submodule of that path."""
        module: Any = self
        for name in filter(None, target.split(".")):
            module = getattr(module, name)
        return module

    def get_parameter(self, target: str) -> Any:
        """Return the parameter of that path."""
        path, _, name = target.rpartition(".")
        return getattr(self.get_submodule(path), name)

    get_buffer = get_parameter

    # -- State
    # --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return parameters and buffers by qualified name; they share the module's memory."""
        return self._state(False)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Copy tensors into the parameters and buffers of these names."""
        own = self._state(False)
        missing, unexpected = [k for k in own if k not in state], [k for k in state if k not in own]
        if strict and (missing or unexpected):
            parts = [f"missing: {', '.join(missing)}"] if missing else []
            parts += [f"unexpected: {', '.join(unexpected)}"] if unexpected else []
            raise RuntimeError(f"the state does not fit the module; {'; '.join(parts)}")
        for name, value in state.items():
            if name in own:
                self._set_state(name, value)

    def train(self, mode: bool = True) -> ScriptModule:
        """Set `training` here and in all submodules that have it; returns self."""
        if self._is_exported():
            self.__dict__["_training"] = mode  # for who asks: the program was exported in one mode
        self._set_training(mode)
        return self

    def eval(self) -> ScriptModule:
        """Call train(False)."""
        return self.train(False)

    def apply(self, fn: Callable[[Any], Any]) -> ScriptModule:
        """Call fn with every submodule, then with this module; returns self."""
        for _, module in self._named(MODULE):
            module.apply(fn)
        fn(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> ScriptModule:
        """Set requires_grad of every parameter; returns self."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def _is_exported(self) -> bool:
        """True for torch.export's programs: one module, whose state may have names of several
        parts."""
        return self._is_script and self.original_name == "ExportedProgram"

    def _exported(self) -> ExportedPart:
        from .exported import ExportedPart

        return ExportedPart(self, "")

    def _missing(self, name: str) -> Any:
        """Return an attribute that neither the Python class nor the program has: for exported
        programs, `training` and submodules."""
        found: Any = None
        if not name.startswith("_") and self._is_exported():
            is_mode = name == "training"
            found = self.__dict__.get("_training", True) if is_mode else self._exported().find(name)
        if found is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the parameters' gradients, or set them to zero."""
        for parameter in self.parameters():
            if parameter.grad is not None and not set_to_none:
                parameter.grad.detach_().zero_()
            elif set_to_none:
                parameter.grad = None

    def _apply_to_tensors(self, fn: Callable[[Any], Any]) -> ScriptModule:
        """Replace parameters and buffers by the results of `fn`; a tensor held twice remains
        one."""
        if self._is_exported():
            raise RuntimeError(
                f"{self.original_name}: the dtypes of an exported program's tensors are part of "
                f"its graph"
            )
        made: dict[int, Any] = {}
        for module in self.modules():
            for name, kind in module._slots():
                value = module._slot(name) if kind & (PARAMETER | BUFFER) else None
                if value is not None:
                    if id(value) not in made:
                        made[id(value)] = (value, fn(value.detach()))
                        made[id(value)][1].requires_grad = value.requires_grad
                    if made[id(value)][1] is not value:
                        module._set(name, made[id(value)][1])
        return self

    def to(self, *args: Any, **kwargs: Any) -> ScriptModule:
        """Convert floating-point parameters and buffers to a dtype: `to(float64)`, `to("cpu",
        dtype)`, `to(tensor)`."""
        options = {k: v for k, v in kwargs.items() if k != "non_blocking"}
        like = _rushlight.as_tensor([0.0]).to(*args, **options)
        if not (like.is_floating_point() or like.is_complex()):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={like.dtype}"
            )
        named = [*args, *kwargs.values()]
        if all(isinstance(a, (str, bool)) or type(a).__name__ == "device" for a in named):
            return self  # a device alone: the CPU
        return self._cast(like.dtype)

    def _cast(self, dtype: Any) -> ScriptModule:
        def cast(t: Any) -> Any:
            return t.to(dtype) if t.is_floating_point() or t.is_complex() else t

        return self._apply_to_tensors(cast)

    def float(self) -> ScriptModule:
        """Convert floating-point parameters and buffers to float32; returns self."""
        return self._cast(_rushlight.float32)

    def double(self) -> ScriptModule:
        """Convert to float64; returns self."""
        return self._cast(_rushlight.float64)

    def half(self) -> ScriptModule:
        """Convert to float16; returns self."""
        return self._cast(_rushlight.float16)

    def bfloat16(self) -> ScriptModule:
        """Convert to bfloat16; returns self."""
        return self._cast(_rushlight.bfloat16)

    def cpu(self) -> ScriptModule:
        """Change nothing: tensors are in memory; returns self."""
        return self

    def cuda(self, device: Any = None) -> ScriptModule:
        """Raise: there is no such device."""
        raise AssertionError(
            "Torch not compiled with CUDA enabled: device 'cuda' is not available, only 'cpu' is"
        )

    # -- Python hooks ------------------------------------------------------------------------------

    def _register(self, kind: str, hook: Callable[..., Any], prepend: bool) -> Handle:
        hooks: dict[int, Callable[..., Any]] = self.__dict__.setdefault(kind, {})
        handle, behind = Handle(hooks), dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks.update({handle.id: hook, **behind})
        self._is_hooked = True
        return handle

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Handle:
        """Call `hook(module, args, output)` after each call of this module from Python; its result
        replaces the output.

        The hook is not called for calls inside a program. A result of None changes nothing. The
        handle's `remove()` removes the hook.
        """
        if always_call:
            raise NotImplementedError("always_call: hooks run behind calls that return")
        return self._register("_after", _with_kwargs(hook, with_kwargs), prepend)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call `hook(module, args)` before each call of this module from Python; its result
        replaces the arguments."""
        return self._register("_before", _with_kwargs(hook, with_kwargs), prepend)

    # -- The program
    # ----------------------------------------------------------------------------------

    @property
    def original_name(self) -> str:
        """The name of the class that the module was made from."""
        return (self._class_name or type(self).__name__).rpartition(".")[2]

    @property
    def inlined_graph(self) -> Any:
        """forward's graph, with calls replaced by the functions' bodies."""
        return self.forward.inlined_graph

    def bind_outputs(self, *buffers: Any) -> outputs.BoundOutputs:
        """Return forward with buffers for its outputs: arrays or tensors that the results are
        written to, None for an output without one."""
        from .. import outputs

        return outputs.BoundOutputs(self.forward, buffers)

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Compile what forward(*args, **kwargs) would compile, so that the call compiles nothing.

        forward runs once on copies: arguments, state and random generators do not change, and
        nothing is printed. Without arguments, an exported program runs with its sample inputs; for
        other programs everything that the code names is compiled, and nothing runs.
        """
        self.forward.prepare(*args, **kwargs)

    inputs = _OfForward(0)
    outputs = _OfForward(1)

    def _method_names(self) -> list[str]:
        return list(self.methods())

    def _get_methods(self) -> list[Any]:
        return [getattr(self, name) for name in self.methods()]

    @property
    def _rush_is_scripted(self) -> bool:
        return self._is_script

    @property
    def _c(self) -> Any:
        return CModule(self)

    def _save_for_lite_interpreter(self, f: Any = None, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("programs for PyTorch Mobile's interpreter are not written")

    _save_to_buffer_for_lite_interpreter = _save_for_lite_interpreter

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return forward's graph as it runs, after a call with these arguments."""
        from .functions import shown

        self(*args, **kwargs)
        return shown(self.forward.last_graph())

    def get_debug_state(self) -> Any:
        """What runs when forward is called."""
        from .functions import GRAPH_OPTIMIZED, ExecutorState

        forward = self._c._type().method("forward")
        return ExecutorState(self.forward.graph, forward.dump(GRAPH_OPTIMIZED), self.forward.plans)

    def define(self, src: str) -> None:
        """Add the methods of the text."""
        from . import modules

        modules.define(self, src)

    # -- Copies
    # ---------------------------------------------------------------------------------------

    def __copy__(self) -> ScriptModule:
        made = self.copy()
        for path, module in made.named_modules():
            like = self.get_submodule(path)
            for name, kind in like._slots():
                if not kind & MODULE:
                    module._set(name, like._slot(name))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptModule:
        made = memo[id(self)] = self.copy()
        self._give_state(made)
        return made

    def _give_state(self, made: ScriptModule) -> None:
        """Copy an object that has methods for its state with them."""
        if self._has("__getstate__") and self._has("__setstate__"):
            made._program_method("__setstate__")(self._program_method("__getstate__")())
            return
        for name, module in self._named(MODULE):
            module._give_state(made._slot(name))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError(
            f"Tried to serialize object {self._class_name} which does not have a __getstate__ "
            f"method defined!"
        )

    def _overloaded(self, name: str) -> Callable[..., Any] | None:
        """Return a function that calls the overload of a method (`name__0` ...) that takes the
        arguments."""
        start = f"{name}__"
        names = [have for have in self.methods() if have.removeprefix(start).isdecimal()]

        def call(*args: Any, **kwargs: Any) -> Any:
            for overload in names:
                try:
                    return self._program_method(overload)(*args, **kwargs)
                except RuntimeError as error:
                    if overload is names[-1] or not str(error).startswith(f"{overload}() "):
                        raise
            return None

        return call if names else None

    def _hooks(self, pre: bool) -> list[Any]:
        """Return the hooks that the program runs before or after forward: functions of (module,
        inputs), (module, inputs, output)."""
        from .entry import entry

        found: list[Any] = entry().unit.type_of_object(self).hooks(pre)
        return found

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        forward = self._overloaded("forward")
        if forward is None and self._has("forward"):
            forward = self._program_method("forward")
        forward = forward or self.__dict__.get("forward")  # one that is Python's
        if forward is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute 'forward'")
        if not self._is_hooked:
            return forward(*args, **kwargs)
        for pre in [*self.__dict__.get("_before", {}).values()]:
            changed = pre(self, args, kwargs)
            if isinstance(changed, _Replaced):
                args, kwargs = changed.args, changed.kwargs
            elif changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        for hook in self._hooks(True):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = forward(*args, **kwargs)
        for hook in self._hooks(False):
            changed = hook(self, args, result)
            result = result if changed is None else changed
        for after in [*self.__dict__.get("_after", {}).values()]:
            changed = after(self, args, kwargs, result)
            result = result if changed is None else changed
        return result

    # -- Special methods of Python
    # ------------------------------------------------------------------

    def _has(self, name: str) -> bool:
        """True if the program has the method, including methods that only the language calls."""
        try:
            return self._program_method(name) is not None
        except AttributeError:
            return False

    def _held(self, asked: str) -> list[tuple[str, Any]]:
        """Yield (key, module) of a module that contains others in order; as in torch, other modules
        raise NotImplementedError."""
        children = list(self.named_children())
        is_list = all(name == str(i) for i, (name, _) in enumerate(children))
        if self.original_name == "ModuleDict" or (self.original_name in CONTAINERS and is_list):
            return children
        raise NotImplementedError(
            f"{asked} of '{self.original_name}': neither a method of the program nor a container"
        )

    def __len__(self) -> int:
        if self._has("__len__"):
            return self._program_method("__len__")()
        return len(self._held("__len__"))

    def __iter__(self) -> Iterator[Any]:
        is_dict = self.original_name == "ModuleDict"
        return iter([name if is_dict else module for name, module in self._held("__iter__")])

    def __getitem__(self, index: Any) -> Any:
        if self._has("__getitem__"):
            return self._program_method("__getitem__")(index)
        held = dict(self._held("__getitem__"))
        return held[index] if self.original_name == "ModuleDict" else [*held.values()][index]

    def __contains__(self, item: Any) -> bool:
        if self._has("__contains__"):
            return self._program_method("__contains__")(item)
        self._held("__contains__")
        return item in iter(self)

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        names = set(super().__dir__()) | set(self.methods())
        return sorted(names | {name for name, _ in self._slots() if name.isidentifier()})

    def extra_repr(self) -> str:
        """Return the part of repr that describes this module alone."""
        return f"original_name={self.original_name}"

    def __repr__(self) -> str:
        held = self._named(MODULE) if self._is_script else ()
        lines = [f"({name}): {module!r}" for name, module in held]
        head = f"{type(self).__name__}("
        if not lines:
            return f"{head}{self.extra_repr()})"
        inner = "\n".join(lines).replace("\n", "\n  ")
        return f"{head}\n  {self.extra_repr()}\n  {inner}\n)"


def _dumped(module: Any, code: bool, attrs: bool, params: bool) -> list[str]:
    """Return the lines of CModule.dump_to_str."""

    def section(name: str, lines: list[str]) -> None:
        out.extend([f"  {name} {{", *(f"    {line}" for line in lines), "  }"])

    def slots(kinds: int, values: bool) -> list[str]:
        return [
            line
            for name, kind in module._slots()
            if not kinds or kind & kinds
            for line in f"{name} = {_shown(module._slot(name), values)}".split("\n")
            if values or not kind & MODULE
        ]

    out = [f"module {module._class_name} {{"]
    section("parameters", slots(PARAMETER, params))
    section("attributes", slots(0, attrs))
    methods: list[str] = []
    for name in module.methods():
        graph = str(module._program_method(name).graph).rstrip().split("\n") if code else []
        methods += [f"method {name} {{", *(f"  {line}" for line in graph), "}"]
    section("methods", methods)
    parts = (_dumped(held, code, attrs, params) for _, held in module._named(MODULE))
    section("submodules", [line for lines in parts for line in lines])
    return [*out, "}"]


def _shown(value: Any, tensors: bool) -> str:
    if isinstance(value, ScriptModule):
        return f"<{value._class_name} object>"
    return str(value) if tensors or not hasattr(value, "dtype") else "..."


CONTAINERS = ("ModuleList", "ModuleDict", "Sequential")


class CModule:
    """The part of torch's C++ module that programs use: `module._c`."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def _method_names(self) -> list[str]:
        return list(self._module.methods())

    def _get_method(self, name: str) -> Any:
        if name not in self._module.methods():
            raise RuntimeError(f"Method '{name}' is not defined.")
        return self._module._program_method(name)

    def _has_method(self, name: str) -> bool:
        return name in self._module.methods()

    def _get_methods(self) -> list[Any]:
        return self._module._get_methods()

    def _type(self) -> Any:
        from .entry import entry

        return entry().unit.type_of_object(self._module)

    def hasattr(self, name: str) -> bool:
        return any(name == have for have, _ in self._module._slots())

    def getattr(self, name: str) -> Any:
        return self._module._slot(name)

    def setattr(self, name: str, value: Any) -> None:
        self._module._set(name, value)

    def children(self) -> list[CModule]:
        return [CModule(module) for _, module in self._module._named(MODULE)]

    def apply(self, fn: Callable[[Any], Any]) -> None:
        self._module.apply(lambda module: fn(CModule(module)))

    def _retrieve_traced_inputs(self) -> dict[str, Any]:
        """Return the example inputs with which each method was traced."""
        return self._module.__dict__.get("_traced_inputs", {})

    def get_debug_state(self) -> Any:
        return self._module.get_debug_state()

    def dump_to_str(self, code: bool, attrs: bool, params: bool) -> str:
        """Return the module as text: graphs of methods, values of attributes and of parameters as
        requested."""
        return "\n".join(_dumped(self._module, code, attrs, params)) + "\n"

    def dump(self, code: bool, attrs: bool, params: bool) -> None:
        print(self.dump_to_str(code, attrs, params))

    @property
    def qualified_name(self) -> str:
        return self._module._class_name

    @property
    def name(self) -> str:
        return self._module.original_name

    @property
    def code(self) -> str:
        return self._module.code

    def save(self, path: Any, **options: Any) -> None:
        self._module.save(path, **options)

    def save_to_buffer(self, **options: Any) -> bytes:
        return self._module.save_to_buffer(**options)

    def __repr__(self) -> str:
        return f"ScriptObject <{self.qualified_name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CModule) and self._module._is_same(other._module)

    def __hash__(self) -> int:
        return hash(self._module)


def _signature(module: Any, method: str) -> Any:
    """Return the inputs and outputs of a module's method. The part is slow to import (dataclasses,
    inspect) and seldom needed."""
    from ..signature import signature

    return signature(module, method)


def _bind_outputs(method: Any, *buffers: Any) -> outputs.BoundOutputs:
    """Return the method with buffers for its outputs."""
    from .. import outputs

    return outputs.BoundOutputs(method, buffers)


def method_schema(text: str, owner: Any, name: str) -> Any:
    """Return the signature of a module's method."""
    from . import functions
    from .entry import entry

    def find() -> Any:
        return entry().unit.type_of_object(owner).method(name)

    made = functions.FunctionSchema(text)
    made.find = find
    return made


def method_doc(owner: Any, name: str) -> str | None:
    """Return the docstring of the Python method that a module's method was made from."""
    made_of = getattr(owner, "__dict__", {}).get("_concrete_type")
    return getattr(getattr(getattr(made_of, "py_class", None), name, None), "__doc__", None)


def _finish_methods() -> None:
    """Add the Python methods to the extension's ScriptMethod."""
    of: Any = ScriptMethod
    of.inputs = property(lambda method: _signature(method.owner, method.name)[0])
    of.outputs = property(lambda method: _signature(method.owner, method.name)[1])
    of.bind_outputs = _bind_outputs
    of.code_with_constants = property(
        lambda method: archives.code_with_constants(method.owner, method.name)
    )


_finish_methods()
_rushlight._set_module_class(ScriptModule)
