"""The entry of the compiler from Python: owns the one unit that all Python code is compiled into,
and answers the compiler's queries from live objects."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, MutableMapping
from types import FunctionType
from typing import Any

from .. import _rushlight
from . import decorator_flags, decorators, frontend, futures, kinds, runtime
from .classes import Classes
from .functions import ScriptFunction
from .names import Names
from .qualified_name import qualified_name
from .scope import Asking, Scope
from .sources import Sources, unwrapped
from .types import Types


def _has_type_comment(fn: Any) -> bool:
    try:
        return "# type:" in inspect.getsource(fn)
    except OSError:
        return False


def check_overloads(fn: Any, declarations: list[Any]) -> None:
    """Check that declarations have no more parameters than their implementation, and the same
    defaults."""
    theirs = _defaults(fn)
    for d in declarations:
        counts = [c.co_argcount + c.co_kwonlyargcount for c in (d.__code__, fn.__code__)]
        if counts[0] > counts[1]:
            raise RuntimeError(
                "Overload should not have more parameters than implementation function"
                f'  File "{d.__code__.co_filename}", line {d.__code__.co_firstlineno}\n'
            )
        _check_names(fn, d, counts[0])
        if not d.__annotations__ and not _has_type_comment(d):
            raise RuntimeError("Must explicitly add type annotations to overloaded functions")
        for name, value in _defaults(d).items():
            if name not in theirs or theirs[name] != value:
                raise frontend.FrontendError(
                    "Default parameters on overloads do not affect the runtime so they must equal "
                    "to the default parameter "
                    f"on the implementation function. Found on parameter {name}"
                )


def _check_names(fn: Any, declaration: Any, n: int) -> None:
    for i in range(n):
        want, got = declaration.__code__.co_varnames[i], fn.__code__.co_varnames[i]
        if want != got:
            raise RuntimeError(
                f"Overload parameters must have the same names. Found {want} and {got} on argument "
                f"{i}"
            )


def _defaults(fn: Any) -> dict[str, Any]:
    values, code = fn.__defaults__ or (), fn.__code__
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values, strict=True)), **(fn.__kwdefaults__ or {})}


class Entry:
    """Compiles live functions and classes. The extension calls the methods `name` to `call`."""

    function_type = ScriptFunction

    def __init__(self) -> None:
        self.unit = _rushlight.Unit(self)
        self.sources = Sources(self.unit)
        self.classes = Classes(self)
        self.types = Types(self.unit, self.classes)
        self.names = Names(self)
        # by the Python function
        self._functions: MutableMapping[Any, ScriptFunction] = weakref.WeakKeyDictionary()
        self._overloaded: MutableMapping[Any, list[ScriptFunction]] = weakref.WeakKeyDictionary()
        self._declared: MutableMapping[Any, Any] = weakref.WeakKeyDictionary()
        # declarations that have found their function
        self._used_overloads: dict[str, list[Any]] = {}
        self._depth = 0

        self.unit.set_wrapper(futures.wrap)
        for obj, form in (
            (decorators.annotate, "annotate"),
            (decorators.is_scripting, "is_scripting"),
            (decorators.is_tracing, "is_tracing"),
            (futures.fork, "fork"),
            (futures.wait, "wait"),
            (runtime.isinstance_, "isinstance"),
            (runtime.strict_fusion, "strict_fusion"),
        ):
            self.names.learn_form(obj, f"torch.jit.{form}")

    def use_torch_errors(self, torch: Any) -> None:
        """Let torch's classes of errors catch Rushlight's as well, if torch is imported."""
        theirs = sys.modules.get("torch.jit.frontend")
        plain = {"__init__": Exception.__init__, "__str__": Exception.__str__}
        for name in (cls.__name__ for cls in frontend.CLASSES):
            if hasattr(theirs, name):
                body = {**plain, "__module__": "rushlight.jit.frontend"}
                made = type(name, (getattr(theirs, name),), body)
                setattr(frontend, name, made)
                _rushlight.set_error(name, made)
        if issubclass(torch._C.JITException, _rushlight.Error):  # someone made ours theirs
            return
        body = {"__module__": "rushlight", "__doc__": _rushlight.Error.__doc__}
        both = type("Error", (_rushlight.Error, torch._C.JITException), body)
        _rushlight.set_error("Error", both)

    # -- Queries of the compiler -----------------------------------------------------------------

    def name(self, scope: Any, name: str) -> Any:
        found = scope.find(name, scope)
        if found is scope:  # a text may say torch where nobody has it
            return (kinds.PATH, name) if name == "torch" else None
        return self.names.of(found)

    def attr(self, obj: Any, name: str) -> Any:
        return self.names.attribute(obj, name)

    def called(self, obj: Any, n: int) -> Any:
        """What a call with n arguments does."""
        return self.names.called(obj, n)

    def block(self, obj: Any, text: str) -> Any:
        """What a block does that is left to Python, given as a function's text."""
        return self.names.ignored(self.sources.function_of_text(text))

    def type(self, scope: Any, dotted: str) -> Any:
        found = scope.find_dotted(dotted, scope)
        return None if found is scope or found is None else self.types.of(found, scope)

    def class_attr(self, obj: Any, name: str) -> Any:
        own = getattr(obj, "_rush_attribute", None)
        if own is not None and not isinstance(obj, type):
            return own(name)
        return self.classes.attribute(obj, name)

    def default(self, scope: Any, name: str, t: Any) -> Any:
        found = scope.default(name)
        if found is not None and isinstance(found[0], (list, dict)):
            raise RuntimeError(
                "Mutable default parameters are not supported because Python binds them to the "
                "function and they persist across function calls.\n As a workaround, make the "
                "default None and instantiate the default parameter within the body of the "
                f"function. Found {type(found[0])} on parameter {name}"
            )
        if found is not None and scope.is_overload:
            try:
                self.unit.convert(found[0], t)
            except TypeError:
                return NotImplemented
        return found

    def call(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return fn(*args)

    # -- Compiling -------------------------------------------------------------------------------

    def define(
        self,
        fn: Any,
        name: str,
        self_type: Any = None,
        flags: int = 0,
        drop_body: str | None = None,
        scope: Any = None,
        signature: Any = None,
    ) -> Any:
        """Declare a function under a qualified name, or a method under its own."""
        source, line = self.sources.of_function(fn)
        scope = scope or Scope(fn)
        scope.is_overload = signature is not None
        return self.unit.define(
            name, source, line, scope, self_type, flags, drop_body, *(signature or ())
        )

    def compiled(self, fn: Any) -> ScriptFunction:
        """Return a function's only ScriptFunction: declared now, compiled when it is called."""
        known = self._functions.get(fn)
        if known is None:
            inner = unwrapped(fn)
            drop = decorator_flags.UNUSED_CALL if decorator_flags.is_dropped(inner) else None
            known = ScriptFunction(self.define(inner, qualified_name(fn), drop_body=drop))
            known._rush_adopt(fn)
            self._functions[fn] = known
        return known

    def _compiled_with(self, fn: Any, names: Callable[[str], Any]) -> ScriptFunction:
        inner = unwrapped(fn)
        made = ScriptFunction(self.define(inner, qualified_name(fn), scope=Asking(inner, names)))
        made._rush_adopt(fn)
        return made

    def overloads_of(self, fn: Any) -> list[ScriptFunction]:
        """Return a function's overloads, each with the implementation's body."""
        try:
            name = qualified_name(fn)
        except (RuntimeError, AttributeError):
            return []
        known = self._overloaded.get(fn)
        if known is not None:
            return known
        used = self._used_overloads.get(name, ())
        declarations = [d for d in decorator_flags.overloads(name) if d not in used]
        if not declarations:
            return self._forgotten_overloads(fn, name)
        if fn in declarations:
            raise RuntimeError(
                f'Implementation for the function "{name}" is missing. Please make sure a '
                "definition is provided and defined after all overload declarations."
            )
        check_overloads(unwrapped(fn), declarations)
        made = self._overloads(fn, name, map(self.sources.of_function, declarations))
        self._used_overloads.setdefault(name, []).extend(declarations)
        return made

    def _overloads(self, fn: Any, name: str, heads: Iterable[Any]) -> list[ScriptFunction]:
        """Define the function once for each of the places that have its signatures."""
        inner = unwrapped(fn)
        made = self._overloaded[fn] = [
            ScriptFunction(self.define(inner, f"{name}__{i}", signature=head))
            for i, head in enumerate(heads)
        ]
        return made

    def _forgotten_overloads(self, fn: Any, name: str) -> list[ScriptFunction]:
        """Return the declarations that torch has removed after compiling them: they are above the
        function in its file."""
        state = sys.modules.get("torch.jit._state")
        if state is None or fn not in state._jit_function_overload_caching:
            return []
        return self._overloads(fn, name, self.sources.overloads_above(unwrapped(fn)))

    def declared(self, fn: Any) -> Any:
        """Declare a function that remains in Python, for its signature."""
        known = self._declared.get(fn)
        if known is None:
            known = self.define(unwrapped(fn), qualified_name(fn), drop_body="")
            self._declared[fn] = known
        return known

    def untyped(self, name: str, n: int, result: tuple[Any, Any] | None = None) -> Any:
        """Return the signature of a Python callable without annotations: n tensors; `result`: an
        annotation and its scope, otherwise the result is one tensor."""
        parameters = ", ".join(f"_{i}: Tensor" for i in range(n))
        kind = "Tensor" if result is None else "_result"
        names = {} if result is None else {"_result": self.types.of(*result)}
        source = self.sources.of_text("torch", f"def {name}({parameters}) -> {kind}:\n    pass\n")
        return self.unit.define(name, source, 1, Scope(names=names), None, 0, "")

    def function_of_graph(self, name: str, graph: Any) -> ScriptFunction:
        """Return a function with a copy of the graph."""
        graph = _rushlight.define_graph(self.unit, f"__torch__.{name}", None, str(graph), ())
        made = ScriptFunction(graph)
        made.text_name = made.__name__ = name
        return made

    # -- script()
    # ---------------------------------------------------------------------------------------------

    def outermost(self, body: Callable[[], Any]) -> Any:
        """Run body; classes that it made are removed if it fails."""
        if self._depth == 0:
            _rushlight.default_dtype()  # torch's is taken over
            self.classes.recent = []
        self._depth += 1
        try:
            return body()
        except BaseException:
            if self._depth == 1:
                self.classes.forget_recent()
            raise
        finally:
            self._depth -= 1

    def function(
        self, fn: FunctionType, names: Callable[[str], Any] | None = None
    ) -> ScriptFunction:
        """Return the function compiled. With `names`, which is searched first, the compiled
        function is not shared with other callers."""

        def body() -> ScriptFunction:
            made = self.compiled(fn) if names is None else self._compiled_with(fn, names)
            made.compile()
            return made

        return self.outermost(body)

    def class_(self, cls: Any, names: dict[str, Any] | None = None) -> Any:
        def body() -> Any:
            t = self.classes.compile(cls, names)
            t.complete()
            for name in t.methods:
                t.method(name).compile()
            return t

        return self.outermost(body)


_entry: Entry | None = None


def entry() -> Entry:
    """Return the process's only Entry; the first call makes it."""
    global _entry
    if _entry is None:
        _entry = Entry()
    return _entry
