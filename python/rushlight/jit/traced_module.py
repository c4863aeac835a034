"""Modules made by tracing: a class and an object for each nn.Module, with the recorded methods."""

from __future__ import annotations

from typing import Any

import torch

from .. import _rushlight
from . import decorator_flags, kinds, torch_modules
from .entry import entry
from .trace_run import Checker, Options, Recording, as_tuple, clone_inputs


class Built:
    """The program of an nn.Module: its types and its object, with those of its submodules."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.entry = entry()
        self.made: dict[int, tuple[Any, Any]] = {}  # by id of the nn.Module
        self.paths: dict[str, torch.nn.Module] = {}
        self.compiled: set[int] = set()  # ids of those that have compiled methods, too
        self.type, self.object = self.build(module, "")

    def build(self, module: torch.nn.Module, path: str) -> tuple[Any, Any]:
        self.paths[path] = module
        if id(module) not in self.compiled and exported(module):
            self.compiled.add(id(module))
            if id(module) not in self.made:
                self.build_with_exports(module)
        for name, child in module._modules.items():
            if child is not None:
                self.build(child, f"{path}.{name}" if path else name)
        if id(module) not in self.made:
            self.made[id(module)] = self.build_one(module)
        return self.made[id(module)]

    def more_slots(self, module: torch.nn.Module) -> list[tuple[str, Any]]:
        """Return tensors besides parameters and buffers that are attributes of the object."""
        return []

    def build_with_exports(self, module: torch.nn.Module) -> None:
        """Build a module with methods that are to be compiled."""
        from .modules import modules

        def stubs(of: Any) -> list[tuple[str, Any]]:
            return [(name, getattr(of, name).__func__) for name in exported(of)]

        store = modules()
        script = store.outermost(lambda: store.create(module, store.concrete(module, False), stubs))
        for path, child in module.named_modules():
            made = script
            for name in filter(None, path.split(".")):
                made = made._slot(name)
            self.made[id(child)] = self.entry.unit.type_of_object(made), made

    def build_one(self, module: torch.nn.Module) -> tuple[Any, Any]:
        unit = self.entry.unit
        if module._backward_hooks:
            raise ValueError(
                f"Modules that have backward hooks assigned can't be compiled: {module}"
            )
        if isinstance(module, _rushlight.Module):
            return unit.type_of_object(module), module
        cls = type(module)
        name = f"__torch__.{cls.__module__}.{cls.__name__}".replace("__main__.", "")
        made = unit.add_class(name, kinds.C_MODULE, None)
        tensor, boolean = unit.make_type(kinds.T_TENSOR), unit.make_type(kinds.T_BOOL)
        slots = []
        held = ((module._parameters, kinds.PARAMETER), (module._buffers, kinds.BUFFER))
        for entries, kind in held:
            for name, value in entries.items():
                if value is not None:  # as in torch, what is None is not there
                    made.add_attr(name, tensor, kind)
                    slots.append((name, value))
        for name, value in self.more_slots(module):
            made.add_attr(name, tensor, 0)
            slots.append((name, value))
        made.add_attr("training", boolean, 0)
        slots.append(("training", module.training))
        for name, child in module._modules.items():
            if child is not None:
                child_type, child_object = self.made[id(child)]
                made.add_attr(name, child_type, 0)
                slots.append((name, child_object))
        instance = made.create()
        for name, value in slots:
            unit.set_attr(instance, name, value)
        return made, instance


def exported(module: torch.nn.Module) -> list[str]:
    """Return the names of methods decorated with `export`."""
    if isinstance(module, _rushlight.Module):
        return []
    found: dict[str, None] = {}
    for cls in type(module).__mro__:
        if cls is torch.nn.Module:  # none of its hundred methods is
            break
        for name, f in vars(cls).items():
            if callable(f) and decorator_flags.modifier(f) == decorator_flags.EXPORT:
                found[name] = None
    return list(found)


def shown(module: Any, name: str) -> str:
    """Return the repr that torch has for traced modules."""
    lines = [f"({child}): {shown(m, m.original_name)}" for child, m in module.named_children()]
    inner = "".join("\n  " + line.replace("\n", "\n  ") for line in lines)
    own = f"original_name={module.original_name}"
    return f"{name}(\n  {own}{inner}\n)" if lines else f"{name}({own})"


class TracedModule(torch_modules.ScriptModule):
    """A module made by tracing; only the module that was traced can be called, not its
    submodules."""

    _disable_script_meta = True
    _told_name = "RecursiveScriptModule"  # torch's has one inside, which answers

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Trace submodules cannot be called.")

    def _get_name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return shown(self, self._name)


class TopLevelTracedModule(TracedModule):
    """The result of `trace` for a module."""

    _disable_script_meta = True
    __call__ = torch_modules.ScriptModule.__call__


def _tie(made: Any, tensors: list[tuple[str, Any]]) -> None:
    """Keep the traced module's tensors as the Python objects of the program's, wherever they
    are."""
    first: dict[int, tuple[Any, str]] = {}
    owners: dict[str, Any] = {}
    for where, tensor in tensors:
        path, _, name = where.rpartition(".")
        if path not in owners:
            owners[path] = made.get_submodule(path)
        owner = owners[path]
        known = first.setdefault(id(tensor), (owner, name))
        owner._set(name, tensor, *(known if known != (owner, name) else ()))


def _wrap(made: Any, built: Built) -> None:
    """Make submodules traced modules too, except those that were programs before or have compiled
    methods."""
    owners = {"": made}
    for path, module in built.paths.items():
        above, _, name = path.rpartition(".")
        if not path or isinstance(module, _rushlight.Module) or id(module) in built.compiled:
            continue
        owner = owners[above] if above in owners else made.get_submodule(above)
        wrapped = TracedModule()
        wrapped._become(owner._slot(name))
        wrapped.__dict__["_name"] = type(module).__name__
        owner._set(name, wrapped)
        owners[path] = wrapped


def trace_methods(module: torch.nn.Module, inputs: dict[str, Any], options: Options) -> Any:
    built = Built(module)
    names: dict[Any, str] = {}
    for path, child in built.paths.items():
        if path:
            names.setdefault(child, f"__module.{path}")
    tensors = [*module.named_parameters(remove_duplicate=False)]
    tensors += module.named_buffers(remove_duplicate=False)
    # a shared one is found where it is first
    places = list({id(t): (path, t) for path, t in reversed(tensors)}.values())
    checks: list[Any] = []
    stored: dict[str, Any] = {}
    for method, given in inputs.items():
        func = module if method == "forward" else getattr(module, method)
        signature = module.forward if method == "forward" else func
        given = given if options.named else as_tuple(given, torch)

        def record(values: Any, func: Any = func, signature: Any = signature) -> Recording:
            return Recording(func, values, options, names, places, signature, (module, built.type))

        kept = clone_inputs(given) if options.check else None
        stored[method] = given
        recording = record(given)
        recording.tracer.recorder.define(method)
        checks.append((func, method, kept, recording, record))
    made, program = TopLevelTracedModule(), built.object
    if not isinstance(program, _rushlight.Module):
        program = built.entry.unit.module_of(program)
    made._become(program)
    made.__dict__["_name"] = type(module).__name__
    if options.stored:
        made.__dict__["_traced_inputs"] = {
            m: list(given) if isinstance(given, tuple) else given for m, given in stored.items()
        }
    _wrap(made, built)
    _tie(made, tensors)
    if options.check:
        for func, method, kept, recording, record in checks:
            more = options.check_inputs
            for values in [kept] if more is None else [c[method] for c in more]:
                values = values if options.named else as_tuple(values, torch)
                Checker(options).run(func, values, getattr(made, method), recording, record)
    return made
