"""Programs from example inputs: `trace` and `trace_module`, with the interface of torch.jit.

PyTorch computes code that uses torch, and torch_trace.py records it; the C library records code
that uses only rushlight.Tensors.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

from .. import _rushlight, ops
from .functions import ScriptFunction
from .qualified_name import qualified_name
from .runtime import is_enabled, warn_of_optimize
from .trace_run import (
    NOTHING,
    OUTPUTS,
    STRICT,
    Checker,
    Options,
    Recording,
    TracingCheckError,
    argument_names,
    as_tuple,
    clone_inputs,
    leaves,
    tracer_warning,
)
from .trace_state import here

__all__ = ["TracingCheckError", "trace", "trace_module"]


def __getattr__(name: str) -> Any:
    if name == "TracerWarning":
        return tracer_warning()
    if name in ("TracedModule", "TopLevelTracedModule"):
        from . import traced_module

        return getattr(traced_module, name)
    raise AttributeError(name)


# -- trace and trace_module
# --------------------------------------------------------------------------------------------------


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """Run `func` with the example inputs and return what it did as a program: a ScriptFunction, or
    a module for a torch.nn.Module."""
    warn_of_optimize(optimize)
    if not is_enabled():
        return func
    if isinstance(func, _rushlight.Module):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the "
            "object as is.",
            stacklevel=2,
        )
        return func
    torch = sys.modules.get("torch")
    named = example_kwarg_inputs is not None or example_inputs is None
    if named and not isinstance(example_kwarg_inputs, dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    inputs = example_kwarg_inputs if named else example_inputs
    module = _module_of(func, torch)
    if module is not None:
        owner, method = module
        checks = None if check_inputs is None else [{method: given} for given in check_inputs]
        flags = (strict, _force_outplace, _module_class, _compilation_unit, named, _store_inputs)
        more = (None, check_trace, checks, check_tolerance, *flags)
        return trace_module(owner, {method: inputs}, *more)
    if not named:
        inputs = as_tuple(inputs, torch)
    options = Options(check_trace, check_inputs, check_tolerance, strict, named, _force_outplace)
    if _only_ours(inputs):
        return _trace_ours(func, inputs, options)
    return _trace_function(func, inputs, options)


def trace_module(
    mod: Any,
    inputs: Any,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """Return a module whose methods are traced, each with the inputs under its name."""
    import torch

    warn_of_optimize(optimize)
    if not is_enabled():
        return mod
    if not isinstance(mod, torch.nn.Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    if isinstance(mod, _rushlight.Module):
        return mod
    from . import traced_module

    checks = (check_trace, check_inputs, check_tolerance)
    options = Options(*checks, strict, example_inputs_is_kwarg, _force_outplace, _store_inputs)
    return traced_module.trace_methods(mod, inputs, options)


def _module_of(func: Any, torch: Any) -> tuple[Any, str] | None:
    """Return (module, method) if that is what is traced."""
    if torch is None:
        return None
    if isinstance(func, torch.nn.Module):
        return func, "forward"
    owner = getattr(func, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        if func.__name__ != "forward":
            raise AttributeError(
                "trace doesn't support compiling individual module's functions.\nPlease use "
                "trace_module"
            )
        return owner, "forward"
    return None


def _only_ours(inputs: Any) -> bool:
    """True if all inputs are Rushlight's. Then PyTorch is not used."""
    found = leaves(inputs)
    if not found:
        return "torch" not in sys.modules
    return all(isinstance(leaf, _rushlight.Tensor) for leaf in found)


# -- Code of rushlight.Tensors
# --------------------------------------------------------------------------------------------------


def _trace_ours(func: Any, inputs: Any, options: Options) -> Any:
    seen: set[int] = set()

    def apart(value: Any) -> Any:
        """Copy a tensor that is passed twice, so that it becomes two inputs."""
        if isinstance(value, (list, tuple)):
            return type(value)(apart(v) for v in value)
        if isinstance(value, dict):
            return {k: apart(v) for k, v in value.items()}
        made = ops.aten.alias(value) if id(value) in seen else value
        seen.add(id(value))
        return made

    inputs = apart(inputs)
    given = tuple(inputs.values()) if options.named else inputs
    names = tuple(inputs) if options.named else tuple(argument_names(func))[: len(given)]
    recorded = _rushlight.trace_begin(given, names)
    try:
        here.n_of_library += 1
        try:
            result = func(**inputs) if options.named else func(*given)
        finally:
            here.n_of_library -= 1
        _check_output(result, options.strict)
        return _rushlight.trace_end(recorded, (result,))
    finally:
        _rushlight.trace_cancel(recorded)


def _check_output(result: Any, strict: bool) -> None:
    if result is None:
        raise RuntimeError(NOTHING)
    if strict and isinstance(result, dict):
        raise RuntimeError(STRICT)
    if isinstance(result, (list, dict, tuple)):
        for item in result.values() if isinstance(result, dict) else result:
            _check_output(item, strict)
    elif not isinstance(result, _rushlight.Tensor):
        raise RuntimeError(OUTPUTS)


# -- Code of torch
# --------------------------------------------------------------------------------------------------


def _function_name(func: Any) -> str:
    if isinstance(func, functools.partial):
        func = func.func
    try:
        return qualified_name(func)
    except (RuntimeError, AttributeError):
        return "__torch__." + type(func).__name__


def _trace_function(func: Any, inputs: Any, options: Options) -> Any:
    kept = clone_inputs(inputs) if options.check else None
    recording = Recording(func, inputs, options, {})
    function = ScriptFunction(recording.tracer.recorder.define(_function_name(func)))
    function._rush_adopt(func)
    function._rush_is_traced = True
    if options.check:
        check = Checker(options)
        again = options.check_inputs if options.check_inputs is not None else [kept]
        for given in again:
            given = given if options.named else as_tuple(given, recording.torch)
            check.run(func, given, function, recording, lambda g: Recording(func, g, options, {}))
    return function


# -- Checks
# --------------------------------------------------------------------------------------------------
