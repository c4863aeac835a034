"""ScriptModule if torch is imported: a torch.nn.Module whose state belongs to the program.

An instance without a program (a user's subclass before its __init__ has run) is an ordinary
nn.Module. With one, parameters, buffers and submodules are the program's: `_parameters`, `_buffers`
and `_modules` are views of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .. import _rushlight
from . import decorator_flags, script_module
from .kinds import BUFFER, MODULE, PARAMETER

_KINDS = {"_parameters": PARAMETER, "_buffers": BUFFER, "_modules": MODULE}


class _View(dict[str, Any]):
    """The attributes of one kind, by name, with a dict's interface; the dict itself is empty, since
    the items belong to the program."""

    def __init__(self, module: Any, kind: int) -> None:
        self._of, self._kind = module, kind

    def _names(self) -> list[str]:
        kind, slot = self._kind, self._of._slot
        names = [name for name, has in self._of._slots() if has & kind]
        return [n for n in names if slot(n) is not None] if kind == MODULE else names

    def keys(self) -> Any:
        return self._names()

    def values(self) -> Any:
        return [self._of._slot(name) for name in self._names()]

    def items(self) -> Any:
        return [(name, self._of._slot(name)) for name in self._names()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __bool__(self) -> bool:
        return bool(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self._of._slot(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def __setitem__(self, name: str, value: Any) -> None:
        if self._kind == MODULE:
            if not isinstance(value, _rushlight.Module):
                raise RuntimeError(
                    "Cannot re-assign modules in a ScriptModule with non-scripted module, "
                    f"tried to replace existing module '{name}': {value}"
                )
            if name not in self:
                self._of.__dict__[name] = value
                return
        elif name not in self:
            raise RuntimeError(
                f"Can't add a new parameter after ScriptModule construction. Tried to add '{name}"
            )
        try:
            self._of._set(name, value)
        except TypeError:
            from .attribute_errors import attribute_error

            raise RuntimeError(attribute_error(self._of, name, value)) from None

    def __delitem__(self, name: str) -> None:
        raise RuntimeError(f"cannot delete '{name}' of a ScriptModule")

    pop = __delitem__  # type: ignore[assignment]

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __repr__(self) -> str:
        return repr(self.copy())


def _view_property(name: str) -> property:
    kind = _KINDS[name]

    def get(self: Any) -> Any:
        return _View(self, kind) if self._is_script else self.__dict__[name]

    def put(self: Any, value: Any) -> None:
        if not self._is_script:
            self.__dict__[name] = value

    return property(get, put)


class ScriptMeta(type(torch.nn.Module)):  # type: ignore[misc]
    """Subclasses of ScriptModule become programs when their __init__ has run."""

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        cls._script_stubs: dict[str, Any] = {}
        for base in reversed(bases):
            cls._script_stubs.update(getattr(base, "_script_stubs", {}))
        for key, value in list(members.items()):
            if isinstance(value, decorator_flags.ScriptMethodStub):
                delattr(cls, key)
                cls._script_stubs[value.original_method.__name__] = value
                cls._script_functions = {
                    **getattr(cls, "_script_functions", {}),
                    key: value.original_method,
                }
        if cls.__dict__.get("_disable_script_meta", False):
            return
        cls._wrap_init()

    def _wrap_init(cls) -> None:
        original = cls.__dict__.get("__init__", None)
        inherited = cls.__init__  # type: ignore[misc]

        @functools.wraps(inherited)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            if original is None:
                super(cls, self).__init__(*args, **kwargs)  # type: ignore[arg-type]
            else:
                original(self, *args, **kwargs)
            if type(self) is cls:
                from . import modules

                modules.finish_script_module(self)

        cls.__init__ = init  # type: ignore[misc]

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls.__dict__.get("_stands_for_all", False):
            return isinstance(instance, script_module.ScriptModule)
        return super().__instancecheck__(instance)


class ScriptModule(script_module.ScriptModule, torch.nn.Module, metaclass=ScriptMeta):
    """torch.nn.Module and rushlight.ScriptModule in one."""

    _disable_script_meta = True
    _stands_for_all = True
    _told_name = ""  # of its class, in messages
    __jit_unused_properties__ = "code code_with_constants graph inlined_graph original_name".split()

    _parameters = _view_property("_parameters")
    _buffers = _view_property("_buffers")
    _modules = _view_property("_modules")

    @property
    def forward(self) -> Any:
        """Call the program's forward; if it has none, Python's, if it was ignored."""
        try:
            return self.__dict__["forward"]
        except KeyError:
            raise AttributeError("forward") from None

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)

    def _construct(self) -> None:
        """Finish an instance that C made around a program."""
        torch.nn.Module.__init__(self)
        self.__dict__.pop("training", None)
        if self._is_hooked:
            self._forward_pre_hooks.update(enumerate(self._hooks(True)))
            self._forward_hooks.update(enumerate(self._hooks(False)))

    def _become(self, made: Any) -> None:
        """Take over the program of a module that was made from this one."""
        for name in (*_KINDS, "training"):
            self.__dict__.pop(name, None)
        self._adopt(made)

    def _parameter(self, name: str, value: Any) -> Any:
        """Return torch's tensor for a slot's tensor."""
        kind = next((has for have, has in self._slots() if have == name), 0)
        if kind & PARAMETER and type(value) is torch.Tensor:
            return torch.nn.Parameter(value.detach(), requires_grad=value.requires_grad)
        return value

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Call torch.nn.Module's; a state of tensors that are not torch's is copied too."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        has_torchs = any(isinstance(v, torch.Tensor) for v in state_dict.values())
        if self._is_script and has_torchs != bool(state_dict):
            return super().load_state_dict(state_dict, strict)
        return torch.nn.Module.load_state_dict(self, state_dict, strict, assign)

    def train(self, mode: bool = True) -> Any:
        """Set `training` here and in all submodules; returns self."""
        if not self._is_script:
            return torch.nn.Module.train(self, mode)
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        return super().train(mode)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Call torch.nn.Module's, for a module that is not a program yet."""
        if not self._is_script:
            torch.nn.Module.register_buffer(self, name, tensor, persistent)
        else:
            self._buffers[name] = tensor

    def register_parameter(self, name: str, param: Any) -> None:
        """Call torch.nn.Module's, for a module that is not a program yet."""
        if not self._is_script:
            torch.nn.Module.register_parameter(self, name, param)
        else:
            self._parameters[name] = param

    _call_impl = torch.nn.Module._call_impl

    def __getattr__(self, name: str) -> Any:
        if not self._is_script:
            return torch.nn.Module.__getattr__(self, name)
        overloaded = self._overloaded(name) if name == "forward" else None
        if overloaded is not None:
            return overloaded
        if not name.startswith("__") and self._has(f"__{name}_getter"):
            return self._program_method(f"__{name}_getter")()
        if name == "graph" and self._c is not None:
            raise RuntimeError("Method 'forward' is not defined.")
        raise AttributeError(
            f"'{self._told_name or type(self).__name__}' object has no attribute '{name}'"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if not self._is_script:
            if name == "training" and "_parameters" not in self.__dict__:
                self.__dict__[name] = value
            else:
                torch.nn.Module.__setattr__(self, name, value)
            return
        kind = next((has for have, has in self._slots() if have == name), None)
        if kind is not None:
            if kind & MODULE:
                self._modules[name] = value
            else:
                self._assign(name, value)
            return
        concrete = self.__dict__.get("_concrete_type")
        if concrete is not None and name in concrete.constants:
            raise RuntimeError(
                f"Can't set constant '{name}' which has value:{concrete.constants[name]}"
            )
        if concrete is None and self._has_constant(name):
            raise RuntimeError(f"Can't set constant '{name}' which has value:{self._slot(name)}")
        if self._has(f"__{name}_setter"):
            self._program_method(f"__{name}_setter")(value)
            return
        if isinstance(value, torch.nn.Parameter):
            self._parameters[name] = value
        if isinstance(value, torch.nn.Module) and not isinstance(value, _rushlight.Module):
            self._modules[name] = value
        object.__setattr__(self, name, value)

    def _has_constant(self, name: str) -> bool:
        """True if it is a constant of a loaded program."""
        try:
            self._slot(name)
        except AttributeError:
            return False
        return True

    def _assign(self, name: str, value: Any) -> None:
        try:
            self._set(name, value)
        except (TypeError, OverflowError):
            from .attribute_errors import assigned, attribute_error, converted

            if assigned(self, name, value):
                return
            other = converted(self, name, value)
            if other is value:
                raise RuntimeError(attribute_error(self, name, value)) from None
            self._assign(name, other)

    def __delattr__(self, name: str) -> None:
        if not self._is_script:
            torch.nn.Module.__delattr__(self, name)
        elif any(name in names for names in (self._parameters, self._buffers, self._modules)):
            raise RuntimeError("cannot delete methods or parameters of a script module")
        else:
            object.__delattr__(self, name)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        torch.nn.Module._apply(self, fn, recurse)
        self._refresh()
        return self

    def _refresh(self) -> None:
        """Read the tensors again: they may have other memory now."""
        if self._is_script:
            for name, kind in self._slots():
                if kind & (PARAMETER | BUFFER) and self._slot(name) is not None:
                    self._set(name, self._slot(name))

    def __dir__(self) -> list[str]:
        if not self._is_script:
            return torch.nn.Module.__dir__(self)
        concrete = self.__dict__.get("_concrete_type")
        more = dir(concrete.py_class) if concrete is not None and concrete.facts.container else ()
        return sorted({*script_module.ScriptModule.__dir__(self), *more})

    def __repr__(self) -> str:
        of: Any = script_module.ScriptModule if self._is_script else torch.nn.Module
        return of.__repr__(self)


def _of_torch(name: str) -> Any:
    """Return a method that calls torch.nn.Module's; for an exported program the plain class's,
    which finds the parts that its state names."""

    def method(self: Any, target: str) -> Any:
        of: Any = script_module.ScriptModule if self._is_exported() else torch.nn.Module
        return getattr(of, name)(self, target)

    return method


# nn.Module's methods, for those that the plain class has in a form without torch
for (
    _name
) in """named_children children named_modules modules named_parameters parameters named_buffers
buffers to float double half bfloat16 cpu cuda zero_grad state_dict apply requires_grad_""".split():
    setattr(ScriptModule, _name, getattr(torch.nn.Module, _name))
for _name in ("get_submodule", "get_parameter", "get_buffer"):
    setattr(ScriptModule, _name, _of_torch(_name))


def _hooked(name: str) -> Any:
    register = getattr(torch.nn.Module, name)

    @functools.wraps(register)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._is_hooked = True
        return register(self, *args, **kwargs)

    return method


for _name in "forward forward_pre full_backward full_backward_pre backward".split():
    setattr(ScriptModule, f"register_{_name}_hook", _hooked(f"register_{_name}_hook"))


class RecursiveScriptModule(ScriptModule):
    """A program that was loaded, or made from a module: what `load` and `script` return."""

    _disable_script_meta = True


_rushlight._set_module_class(RecursiveScriptModule)
