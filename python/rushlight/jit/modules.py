"""Modules of torch as programs: a type from the live module, methods from their sources, an object
that shares its state.

Modules with the same attributes, types, constants, submodules and hooks share a type; methods are
compiled once per type.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import types as python_types
import typing
import warnings
import weakref
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch

from .. import _rushlight
from . import decorator_flags, kinds
from .attribute_errors import attribute_error
from .classes import add_property
from .decorators import Attribute
from .entry import Entry, check_overloads, entry
from .hooks import check_hook, check_pre_hook
from .qualified_name import qualified_name
from .scope import Scope
from .sources import unwrapped

LIST, DICT, PARAMETER_LIST, PARAMETER_DICT = 1, 2, 3, 4
_nn = torch.nn
_CONTAINERS = (
    (_nn.ModuleDict, DICT),
    (_nn.ModuleList, LIST),
    (_nn.Sequential, LIST),
    (_nn.ParameterList, PARAMETER_LIST),
    (_nn.ParameterDict, PARAMETER_DICT),
)
_TORCHS = (torch.device, torch.layout, torch.dtype, torch.qscheme)
_CONSTANTS = (bool, float, int, str, type(None), *_TORCHS)
_SKIPPED = {  # of a module's __dict__
    "_version", "_parameters", "_buffers", "_non_persistent_buffers_set", "_backward_hooks",
    "_backward_pre_hooks", "_forward_hooks",
    "_forward_hooks_with_kwargs", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks", "_modules", "_initializing", "dump_patches",
}  # fmt: skip


# -- Facts of a Python class ------------------------------------------------------------------


_INSTANCE_ANNOTATION = (
    "The TorchScript type system doesn't support instance-level annotations on empty non-base "
    "types in `__init__`. Instead, either 1) use a type annotation in the class body, or 2) wrap "
    "the type in `torch.jit.Attribute`."
)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (list, dict)) and not value)


def _is_container_annotation(node: ast.expr) -> bool:
    base = getattr(node, "value", None) if isinstance(node, ast.Subscript) else None
    return getattr(base, "attr", getattr(base, "id", "")) in ("List", "Dict", "Optional")


def _is_foundation(cls: type) -> bool:
    """True for what users' classes derive from: torch.nn.Module's bases and this package's
    classes."""
    return cls in _nn.Module.__mro__ or cls.__module__.partition(".")[0] == "rushlight"


class ClassFacts:
    """The common facts of modules of a class: read once."""

    def __init__(self, cls: type) -> None:
        # as a look through an instance finds them
        own = (c.__dict__.get("__annotations__") for c in cls.__mro__)
        self.annotations: dict[str, Any] = next((a for a in own if a), {})
        quantization = sys.modules.get("torch.ao.quantization")
        if quantization is not None and issubclass(cls, quantization.QuantWrapper):
            self.annotations = {}  # torch.jit.script looks past them: they name the float modules
        module = sys.modules.get(cls.__module__)
        self.scope = Scope(names=getattr(module, "__dict__", {}))
        self.unused = list(getattr(cls, "__jit_unused_properties__", ()))
        self.ignored_names = set(getattr(cls, "__jit_ignored_attributes__", ()))
        self.container = next((kind for base, kind in _CONTAINERS if issubclass(cls, base)), 0)
        self.constants = set(getattr(cls, "__constants__", ()))
        self.constants |= {name for name, ann in self.annotations.items() if _is_final(ann)}
        self._cls = weakref.ref(cls)
        self._in_init: set[str] | None = None
        self.properties: list[tuple[str, Any]] = []
        self.exported: list[str] = []
        self.kept: list[str] = []  # ignored methods: Python's
        self.copied: list[str] = []  # of containers: Python's where the program has none
        self.overloaded: dict[str, list[Any]] = {}
        self._read_members(cls)

    def is_annotated_in_init(self, name: str) -> bool:
        """True if `__init__` annotates the attribute with a container type where it is set; that
        annotation has no effect."""
        init = getattr(self._cls(), "__init__", None)
        if not isinstance(init, FunctionType) or name not in init.__code__.co_names:
            return False
        return name in self._annotated_in(init)

    def _annotated_in(self, init: FunctionType) -> set[str]:
        if self._in_init is None:
            self._in_init = set()
            try:
                text = inspect.getsource(init)
                tree = ast.parse(textwrap.dedent(text))
            except (OSError, SyntaxError):
                tree = ast.Module([], [])
            for node in ast.walk(tree):
                target: Any = None
                if isinstance(node, ast.AnnAssign):
                    target, annotation = node.target, node.annotation
                elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                    call = node.value
                    if call.args and getattr(call.func, "attr", "") == "annotate":
                        target, annotation = node.targets[0], call.args[0]
                if isinstance(target, ast.Attribute) and _is_container_annotation(annotation):
                    self._in_init.add(target.attr)
        return self._in_init

    def _read_members(self, cls: Any) -> None:
        base = _nn.Module.__dict__
        own = [c for c in cls.__mro__ if not _is_foundation(c)]
        members: dict[str, Any] = {}
        for c in reversed(cls.__mro__):
            members.update(c.__dict__)
        for name in sorted({name for c in own for name in c.__dict__}):
            member = members[name]
            if base.get(name) is member:
                continue
            if isinstance(member, property):
                is_skipped = name in self.unused or name in self.ignored_names
                if not is_skipped and not decorator_flags.is_ignored(member.fget):
                    self.properties.append((name, member))
                continue
            fn = member.__func__ if isinstance(member, staticmethod | classmethod) else member
            if not isinstance(fn, FunctionType):
                continue
            mark = decorator_flags.modifier(fn)
            if mark == decorator_flags.EXPORT:
                self.exported.append(name)
            elif mark in decorator_flags.IGNORED:
                self.kept.append(name)
            elif mark == decorator_flags.COPY_TO_SCRIPT_WRAPPER:
                self.copied.append(name)
            declared = _method_overloads(fn, cls)
            if declared:
                self.overloaded[name] = declared


def _method_overloads(fn: Any, cls: type) -> list[Any]:
    if fn.__module__ is None or "." in fn.__name__:
        return []
    declared = decorator_flags.method_overloads(fn)
    names = [name for c in cls.__mro__ for name in (c.__name__, c.__qualname__)] if declared else []
    return next((declared[name] for name in names if declared.get(name)), [])


def _is_final(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.split("[")[0].rpartition(".")[2] == "Final"
    return annotation is typing.Final or typing.get_origin(annotation) is typing.Final


def _final_inner(annotation: Any) -> Any:
    if isinstance(annotation, str) and annotation.endswith("]"):
        return annotation[annotation.index("[") + 1 : -1]
    args = typing.get_args(annotation)
    return args[0] if args else None


# -- Concrete types
# -----------------------------------------------------------------------------------------


class ConcreteType:
    """The type of modules that look alike, and the additional facts of their Python modules."""

    def __init__(self, store: Modules, py_class: Any, facts: ClassFacts) -> None:
        self.store = store
        self.py_class = py_class
        self.facts = facts
        self.type: Any = None
        self.attributes: list[tuple[str, Any, int]] = []
        self.modules: list[tuple[str, Any]] = []  # (name, ConcreteType, or a Type)
        self.constants: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}  # name -> an answer of kinds
        self.failed: dict[str, str] = {}
        self.ignored: set[str] = set()
        self.hooks: tuple[Any, ...] = ()
        self.pre_hooks: tuple[Any, ...] = ()
        self.compiled = False
        self.hook_functions: tuple[list[Any], list[Any]] = ([], [])
        self.overloads: dict[str, list[Any]] = {}
        self.pending: dict[str, Any] = {}

    def key(self) -> Any:
        constants = ((name, type(v).__name__, repr(v)) for name, v in self.constants.items())
        functions = (
            (name, id(answer[1]) if answer[0] == kinds.FUNCTION else answer[1])
            for name, answer in self.functions.items()
        )
        parts = (sorted(constants), sorted(functions), sorted(self.failed), sorted(self.ignored))
        modules = ((name, id(t)) for name, t in self.modules)
        rest = (self.attributes, modules, map(id, self.hooks), map(id, self.pre_hooks))
        return tuple(tuple(part) for part in (*parts, *rest))

    # the compiler calls this for names that the type lacks
    def _rush_attribute(self, name: str) -> Any:
        if name in self.overloads:
            return (kinds.OVERLOADS, self.overloads[name])
        if name in self.functions:
            return self.functions[name]
        member = _class_member(self.py_class, name)
        if isinstance(member, staticmethod):
            return self.store.entry.names.of(member.__func__)
        if isinstance(member, FunctionType):
            return self._method(name, member)
        if isinstance(member, classmethod):
            return self._method(name, member.__func__)
        if isinstance(member, property) and decorator_flags.is_ignored(member.fget):
            self.failed.setdefault(name, "(This property was marked as unused or ignored)")
        if name in self.failed:
            return (kinds.HIDDEN, self.failed[name])
        if name in self.ignored or name in self.facts.ignored_names:
            return (kinds.HIDDEN, "attribute was ignored during compilation")
        return None

    def _method(self, name: str, fn: Any) -> Any:
        d = self.store.entry
        if decorator_flags.is_ignored(fn):
            answer = d.names.ignored(fn, is_method=True)
            return answer if answer[0] == kinds.UNUSED else (*answer, True)
        return (kinds.METHOD, d.define(unwrapped(fn), name, self_type=self.type))


def _class_member(cls: Any, name: str) -> Any:
    for c in cls.__mro__:
        if name in c.__dict__:
            return None if _is_foundation(c) and c is not _nn.Module else c.__dict__[name]
    return None


def _failed_to_convert(value: Any, why: str, inferred: bool) -> str:
    hint = "Its type was inferred; try adding a type annotation for the attribute."
    more = hint if inferred else ""
    return (
        "(This attribute exists on the Python module, but we failed to convert Python type: "
        f"'{torch.typename(type(value))}' to a TorchScript type. {why}. {more})"
    )


def _valid_constant(name: str, value: Any, owner: str) -> Any:
    if isinstance(value, (*_CONSTANTS, complex, torch.memory_format)):
        return value
    if isinstance(value, tuple | list):
        return tuple(_valid_constant(name, v, owner) for v in value)
    names = ", ".join(torch.typename(t) for t in _CONSTANTS)
    raise TypeError(
        f"\n'{torch.typename(type(value))}' object in attribute '{owner}.{name}' is not a valid "
        f"constant.\nValid constants are:\n1. a nn.ModuleList\n2. a value of type {{{names}}}\n"
        "3. a list or tuple of (2)\n"
    )


class Modules:
    """The concrete types of one Entry."""

    def __init__(self, d: Entry) -> None:
        self.entry = d
        self._facts: weakref.WeakKeyDictionary[type, ClassFacts] = weakref.WeakKeyDictionary()
        self._types: weakref.WeakKeyDictionary[type, dict[Any, ConcreteType]] = (
            weakref.WeakKeyDictionary()
        )
        self._recent: list[ConcreteType] = []
        # of one script(): a tensor -> where its value is, for tied ones
        self._tensors: dict[int, Any] = {}
        self._depth = 0
        # loaded modules that are parts of ours: their programs must stay
        self._foreign: list[Any] = []

    def facts(self, cls: type) -> ClassFacts:
        found = self._facts.get(cls)
        if found is None:
            found = self._facts[cls] = ClassFacts(cls)
        return found

    # -- From a live module to its type -----------------------------------------------------------

    def concrete(self, module: Any, share: bool = True) -> ConcreteType:
        _check_initialized(module)
        own = module.__dict__.get("_concrete_type")
        if isinstance(own, ConcreteType):
            return own
        cls = type(module)
        c = ConcreteType(self, cls, self.facts(cls))
        self._read(c, module, share)
        key = c.key()
        known = self._types.setdefault(cls, {})
        if share and key in known:
            return known[key]
        self._make_type(c)
        if share:
            known[key] = c
        self._recent.append(c)
        return c

    def _make_type(self, c: ConcreteType) -> None:
        t = c.type = self.entry.unit.add_class(
            qualified_name(c.py_class), kinds.C_MODULE, c, c.facts.container
        )
        for name, of, flags in c.attributes:
            t.add_attr(name, of, flags)
        for name, sub in c.modules:
            t.add_attr(name, sub.type if isinstance(sub, ConcreteType) else sub, 0)
        for name, value in c.constants.items():
            t.add_constant(name, value)

    def _read(self, c: ConcreteType, module: Any, share: bool) -> None:
        facts, added = c.facts, set()
        skip = facts.ignored_names | set(module.__dict__.get("__jit_ignored_attributes__", ()))
        c.ignored = skip
        for flag, slots in ((kinds.PARAMETER, module._parameters), (kinds.BUFFER, module._buffers)):
            for name, value in slots.items():
                if name in skip:
                    continue
                t = self._type_of(facts, name, value)[0]
                if isinstance(t, str):
                    raise RuntimeError(f"Error inferring type for {name}: {value}: {t}")
                c.attributes.append((name, t, flag))
                added.add(name)
        for name, value in module._modules.items():
            if name not in skip:
                self._read_module(c, name, value, share)
                added.add(name)
        self._read_constants(c, module, added)
        seen = _SKIPPED | skip | added
        for name, value in module.__dict__.items():
            if name not in seen and not name.startswith("__"):
                self._read_attribute(c, name, value)
        c.hooks = tuple(module._forward_hooks.values())
        c.pre_hooks = tuple(module._forward_pre_hooks.values())

    def _read_module(self, c: ConcreteType, name: str, value: Any, share: bool) -> None:
        annotation = c.facts.annotations.get(name)
        if annotation is not None and isinstance(annotation, type | str):
            t = self._annotated(c.facts, name, annotation)
            if t is not None and _is_interface(t):
                c.modules.append((name, t))
                return
        if value is None:
            c.attributes.append((name, self.entry.types.simple(kinds.T_NONE), 0))
            return
        if isinstance(value, _rushlight.Module) and value._is_script:
            own = value.__dict__.get("_concrete_type")
            if not isinstance(own, ConcreteType):
                self._foreign.append(value)
                own = self.entry.unit.type_of_object(value)
            c.modules.append((name, own))
            return
        c.modules.append((name, self.concrete(value, share)))

    def _read_constants(self, c: ConcreteType, module: Any, added: set[str]) -> None:
        names = c.facts.constants | set(module.__dict__.get("__constants__", ()))
        for name in sorted(names):
            said = f"'{name}' was found in ScriptModule constants, "
            if name in added:
                slots = {"submodule": module._modules, "buffer": module._buffers}
                what = next((kind for kind, held in slots.items() if name in held), "parameter")
                said += f" but it is a non-constant {what}. Consider removing it."
                warnings.warn(said, stacklevel=2)
            elif not hasattr(module, name):
                said += "but was not actually set in __init__. Consider removing it."
                warnings.warn(said, stacklevel=2)
            else:
                value, owner = getattr(module, name), c.py_class.__name__
                c.constants[name] = _valid_constant(name, value, owner)
                added.add(name)

    def _read_attribute(self, c: ConcreteType, name: str, value: Any) -> None:
        if isinstance(value, bool | int | float | str) and name not in c.facts.annotations:
            c.attributes.append((name, self.entry.types.infer(value), 0))
            return
        if isinstance(value, FunctionType):
            try:
                c.functions[name] = (kinds.FUNCTION, self.entry.function(value))
            except Exception as error:  # noqa: BLE001 -- told when the program asks for it
                c.failed[name] = (
                    "(This function exists as an attribute on the Python module, but we failed to "
                    "compile it to a TorchScript function. \nThe error stack is reproduced "
                    f"here:\n{error}"
                )
            return
        if isinstance(value, _rushlight.Function):
            c.functions[name] = (kinds.FUNCTION, value)
            return
        if isinstance(value, BuiltinFunctionType) or isinstance(value, torch._ops.OpOverloadPacket):
            answer = self.entry.names.of(value)
            if answer is not None and answer[0] in (kinds.OPERATOR, kinds.PATH):
                c.functions[name] = answer
                return
        t, inferred = self._type_of(c.facts, name, value)
        if inferred and _is_empty(value) and c.facts.is_annotated_in_init(name):
            warnings.warn(_INSTANCE_ANNOTATION, stacklevel=2)
        if isinstance(t, str) or t is None:
            why = t or "its annotation means no type"
            c.failed[name] = _failed_to_convert(value, why, inferred)
        else:
            c.attributes.append((name, t, 0))

    def _annotated(self, facts: ClassFacts, name: str, annotation: Any) -> Any:
        if _is_final(annotation):
            annotation = _final_inner(annotation)
        t = self.entry.types.of(annotation, facts.scope)
        if t is None and isinstance(annotation, type) and not issubclass(annotation, _nn.Module):
            raise ValueError(f"Unknown type annotation: '{annotation}' at attribute '{name}'")
        return t

    def _type_of(self, facts: ClassFacts, name: str, value: Any) -> tuple[Any, bool]:
        """Return (the value's Type or the reason why there is none, whether it was inferred)."""
        annotation = facts.annotations.get(name)
        try:
            if annotation is not None:
                t = self._annotated(facts, name, annotation)
                if t is not None:
                    return t, False
            if isinstance(value, Attribute | torch.jit.Attribute):
                t = self.entry.types.of(value.type, facts.scope)
                return (t, False) if t is not None else (f"Unknown type: '{value.type}'", False)
        except RuntimeError as error:
            raise RuntimeError(f"Error inferring type for {name}: {value}: {error}") from error
        if isinstance(value, torch.Tensor):
            return self.entry.types.simple(kinds.T_TENSOR), True
        if value is None:
            return self.entry.types.simple(kinds.T_NONE), True
        t, plain = self.entry.types.infer(value), (list, tuple, dict, type, torch.ScriptObject)
        if isinstance(t, str) and not isinstance(value, plain):
            try:  # an object of a class that can be compiled
                return self.entry.classes.whole_type_of(type(value)) or t, True
            except Exception as error:  # noqa: BLE001 -- told when the program asks for it
                return f"{t}\n{error}", True
        return t, True

    # -- From a type to its methods ---------------------------------------------------------------

    def stubs(self, module: Any) -> list[tuple[str, Any]]:
        """Return (name, function) of the methods to compile."""
        facts, names, flags = self.facts(type(module)), [], decorator_flags
        forward = getattr(module, "forward", None)
        is_torchs = getattr(forward, "__func__", None) is _nn.Module.forward
        if forward is not None and not flags.is_ignored(forward) and not is_torchs:
            names.append("forward")
        names += [name for name in facts.exported if name not in names]
        for name, value in module.__dict__.items():
            if isinstance(value, python_types.MethodType) and flags.modifier(value) == flags.EXPORT:
                names.append(name)
        return [(n, _function_of(module, n)) for n in names if n not in facts.overloaded]

    def compile(self, c: ConcreteType, module: Any, stubs: list[tuple[str, Any]]) -> None:
        """Compile methods, properties and hooks, once per type."""
        if c.compiled:
            return
        c.compiled = True
        made, d, t = [], self.entry, c.type
        for name, declarations in c.facts.overloaded.items():
            fn = _function_of(module, name)
            check_overloads(unwrapped(fn), declarations)
            c.overloads[name] = []
            for i, declaration in enumerate(declarations):
                head = d.sources.of_function(declaration)
                f = d.define(unwrapped(fn), f"{name}__{i}", self_type=t, signature=head)
                c.overloads[name].append(f)
                made.append(f)
        for name, stub in stubs:
            made.append(self._define(t, name, stub))
        for name, member in c.facts.properties:
            made += add_property(d.define, t, name, member)
        for f in made:
            f.compile()
        self._compile_hooks(c)
        self._compile_container(c, module)

    def _define(self, t: Any, name: str, stub: Any) -> Any:
        if isinstance(stub, TextStub):
            return stub.define(self.entry, t)
        if isinstance(stub, decorator_flags.ScriptMethodStub):
            fn = unwrapped(stub.original_method)
            scope = Scope(fn)
            scope.locals = stub.resolution_callback
            return self.entry.define(fn, name, self_type=t, scope=scope)
        if not isinstance(stub, FunctionType):
            raise RuntimeError(
                f"Could not get the source of method '{name}' of type {type(stub).__name__}"
            )
        return self.entry.define(unwrapped(stub), name, self_type=t)

    def _compile_hooks(self, c: ConcreteType) -> None:
        forward = c.type.method("forward")
        if not (c.hooks or c.pre_hooks) or forward is None:
            return
        inputs, output = [t for _, t, _, _ in forward.arguments[1:]], forward.result
        seen: dict[str, Any] = {}
        hooks = [*((hook, False) for hook in c.hooks), *((hook, True) for hook in c.pre_hooks)]
        for hook, pre in hooks:
            name = hook.__name__
            if seen.setdefault(name, hook) is not hook:
                raise RuntimeError(
                    f"{'Pre-hook' if pre else 'Hook'} '{name}' on {c.py_class.__name__} has at "
                    "least two different python definitions. Please use unique names for all hooks."
                )
        for hook, pre in hooks:
            name = hook.__name__
            fn = unwrapped(hook)
            if c.type.method(name) is not None:
                raise RuntimeError(
                    f"Can't define hook: {name} on class: {c.type} because a method or hook with "
                    f"that name already exists."
                )
            f = self.entry.define(fn, name, self_type=c.type, flags=kinds.HOOK)
            if pre:
                check_pre_hook(f, name, c.py_class.__name__, inputs, f.result is not None)
                f.compile()
            else:
                check_hook(f, name, c.py_class.__name__, inputs, output)
                f.compile()
                output = f.result
            c.type.add_hook(f, pre)
            c.hook_functions[pre].append(f)

    def _compile_container(self, c: ConcreteType, module: Any) -> None:
        containers = (_nn.ModuleList, _nn.Sequential, _nn.ModuleDict)
        if c.facts.container not in (LIST, DICT) or not isinstance(module, containers):
            return
        have = set(c.type.methods)
        text = ""
        if "__len__" not in have:
            text += f"def __len__(self):\n   return {len(module)}\n"
        if c.facts.container == DICT and "__contains__" not in have:
            keys = list(module.keys())
            found = f"key in {keys!r}" if keys else "False"
            text += f"def __contains__(self, key: str):\n   return {found}\n"
        if text:
            for f in define_text(self.entry, c.type, text, Scope(names={})):
                f.compile()

    # -- From a type to an object -----------------------------------------------------------------

    def create(self, module: Any, c: ConcreteType, stubs: Any = None) -> Any:
        """Return the program of a module; it shares the module's state."""
        make_stubs = stubs or self.stubs
        script = self.entry.unit.module_of(c.type.create())
        for name, _, flags in c.attributes:
            value = getattr(module, name) if name not in _SKIPPED else module.__dict__[name]
            if isinstance(value, Attribute | torch.jit.Attribute):
                value = value.value
            self._fill(script, name, value, flags)
        for name, sub in c.modules:
            made = self._submodule(getattr(module, name), sub, make_stubs)
            try:
                script._set(name, made)
            except TypeError as error:
                message = attribute_error(script, name, made)
                raise RuntimeError(
                    f"Could not cast attribute '{name}' to type {sub}: {message}"
                ) from error
        self.compile(c, module, make_stubs(module))
        self._dress(script, module, c)
        return script

    def _fill(self, script: Any, name: str, value: Any, flags: int) -> None:
        if isinstance(value, torch.Tensor):
            known = self._tensors.get(id(value))
            if known is None:
                self._tensors[id(value)] = (script, name)
                script._set(name, value)
            else:
                script._set(name, value, *known)
            return
        try:
            self.entry.unit.set_attr(script, name, value)
        except RuntimeError as error:
            raise RuntimeError(attribute_error(script, name, value)) from error

    def _submodule(self, value: Any, sub: Any, stubs: Any) -> Any:
        if isinstance(value, _rushlight.Module) and value._is_script:
            return value
        if isinstance(sub, ConcreteType):
            return self.create(value, sub, stubs)
        return self._by_interface(value, sub)

    def _by_interface(self, module: Any, interface: Any) -> Any:
        """Compile the interface's methods of a module that is used through an interface."""
        c = self.concrete(module)
        names = list(interface.methods)

        def stubs(of: Any) -> list[tuple[str, Any]]:
            return [(n, _function_of(of, n)) for n in names] if of is module else self.stubs(of)

        made = self.create(module, c, stubs)
        for name in names:
            if c.type.method(name) is None:
                self._define(c.type, name, _function_of(module, name)).compile()
        return made

    def _dress(self, script: Any, module: Any, c: ConcreteType) -> None:
        """Set the Python attributes of a program: ignored methods and attributes, names of
        containers, hooks."""
        own = script.__dict__
        own["_concrete_type"] = c
        for name in c.facts.kept:
            member = _class_member(c.py_class, name)
            if name not in module.__dict__ and isinstance(member, FunctionType):
                own[name] = python_types.MethodType(member, script)
            else:
                own[name] = getattr(module, name)
        for name in c.ignored:
            if not isinstance(getattr(c.py_class, name, None), property) and hasattr(module, name):
                own[name] = getattr(module, name)
        for name in c.facts.copied:
            if not (name.startswith("__") and name.endswith("__")) and name not in c.type.methods:
                own[name] = python_types.MethodType(_class_member(c.py_class, name), script)
        for name in c.constants:
            own.setdefault(name, c.constants[name])
        for name, answer in c.functions.items():
            own.setdefault(name, module.__dict__.get(name, answer[1]))
        if c.hooks or c.pre_hooks:
            script._is_hooked = True
            script._forward_pre_hooks.update(enumerate(c.hook_functions[1]))
            script._forward_hooks.update(enumerate(c.hook_functions[0]))

    def outermost(self, body: Any) -> Any:
        """Run the body; types of a failed script() are removed."""
        if self._depth == 0:
            self._recent, self._tensors = [], {}
        self._depth += 1
        try:
            return self.entry.outermost(body)
        except BaseException:
            if self._depth == 1:
                for c in self._recent:
                    known = self._types.get(c.py_class, {})
                    for key in [k for k, v in known.items() if v is c]:
                        del known[key]
                    c.type.forget()
            raise
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._recent, self._tensors = [], {}


def _is_interface(t: Any) -> bool:
    return t.kind_number == kinds.T_INTERFACE


def _function_of(module: Any, name: str) -> Any:
    item = getattr(module, name)
    return getattr(item, "__func__", item)


def _check_initialized(module: Any) -> None:
    if isinstance(module, _rushlight.Module) and module._is_script:
        return
    said = f"'{torch.typename(type(module))}' has"
    if "_parameters" not in module.__dict__:
        raise RuntimeError(f"{said} not been initialized, did you forget to call 'super()'?")
    for name, value in module._parameters.items():
        if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
            raise RuntimeError(
                f"{said} uninitialized parameters {name}. Did you forget to run a forward pass?"
            )


# -- Texts
# --------------------------------------------------------------------------------------------------


class TextStub:
    """A method that `define` added as text before the module was a program."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text, self.scope = text, scope

    def define(self, d: Entry, t: Any) -> Any:
        return define_text(d, t, self.text, self.scope)[0]


def define_text(d: Entry, t: Any, text: str, scope: Scope, name: str = "<string>") -> list[Any]:
    """Declare the methods of a text."""
    text = textwrap.dedent(text)
    source = d.sources.of_text(name, text)
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        # the compiler's own parser says what is wrong
        _rushlight.define_text(d, None, text, "__torch__.", scope)
        raise RuntimeError(f"expected def: {error}") from error
    lines = [(node.lineno, node.name) for node in body if isinstance(node, ast.FunctionDef)]
    if len(lines) < len(body):
        raise RuntimeError("expected def but found 'ident' here")
    return [d.unit.define(method, source, line, scope, t) for line, method in lines]


def define(module: Any, text: str, frames_up: int = 2) -> None:
    """Implement ScriptModule.define."""
    frame = sys._getframe(frames_up)
    scope = Scope(names=frame.f_globals, local_names=dict(frame.f_locals))
    d = entry()
    if not module._is_script:
        text = textwrap.dedent(text)
        lines = text.splitlines(keepends=True)
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                if "_script_stubs" not in type(module).__dict__:
                    type(module)._script_stubs = {}
                body = "".join(lines[node.lineno - 1 : node.end_lineno]) + "\n"
                type(module)._script_stubs[node.name] = TextStub(body, scope)
        module.__dict__["_defined_in_init"] = True
        return
    t = d.unit.type_of_object(module)
    for name in re.findall(r"^[ \t]*def[ \t]+(\w+)", text, re.MULTILINE):
        if t.method(name) is not None:
            raise RuntimeError(f"Method '{name}' already defined.")
    for f in define_text(d, t, text, scope):
        f.compile()


# -- Entry points -----------------------------------------------------------------------------

_modules: Modules | None = None


def modules() -> Modules:
    """Return the concrete types of the process's Entry."""
    global _modules
    if _modules is None or _modules.entry is not entry():
        _modules = Modules(entry())
    return _modules


def _prepared(module: Any, memo: dict[int, Any]) -> Any:
    """Return the object that the module names to replace it in programs."""
    if not isinstance(module, _nn.Module) or isinstance(module, _rushlight.Module):
        return module
    if id(module) in memo:
        return memo[id(module)]
    _check_initialized(module)
    prepare = getattr(module, "__prepare_scriptable__", lambda: module)
    made = memo[id(module)] = prepare()
    for name, child in list(made._modules.items()):
        new = _prepared(child, memo)
        if new is not child:
            made._modules[name] = new
    return made


def script_module(module: Any, share_types: bool = True) -> Any:
    """Implement rushlight.script of a torch.nn.Module."""
    if isinstance(module, _rushlight.Module) and module._is_script:
        return module
    module = _prepared(module, {})
    m = modules()
    return m.outermost(lambda: m.create(module, m.concrete(module, share_types)))


def finish_script_module(module: Any) -> None:
    """Finish an instance of a user's subclass of ScriptModule after its __init__: the methods
    decorated with script_method become its program."""
    m = modules()

    def stubs(of: Any) -> list[tuple[str, Any]]:
        if of is module or hasattr(type(of), "_script_stubs"):
            return sorted(type(of)._script_stubs.items())
        return m.stubs(of)

    share = not module.__dict__.pop("_defined_in_init", False)
    made = m.outermost(lambda: m.create(module, m.concrete(module, share), stubs))
    c = made.__dict__["_concrete_type"]
    for name, _, _ in c.attributes:
        module.__dict__.pop(name, None)
    module._become(made)
    for name, value in made.__dict__.items():
        if name not in module.__dict__ or name == "_concrete_type":
            module.__dict__[name] = value
