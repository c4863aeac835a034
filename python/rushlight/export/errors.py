"""Errors of `export`: torch.export's classes if torch is imported, ours otherwise.

They are ValueErrors besides, which callers without torch can catch.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

_HELP = (
    "\n\nThe error above occurred when calling export. If you would like to view some more "
    "information about this error, and get a list of all other errors that may occur in your "
    "export call, you can replace your `export()` call with `draft_export()`."
)


@functools.cache
def _user_error() -> type[Exception] | None:
    """Return the class of errors in what the user gave."""
    if "torch" not in sys.modules:
        return None
    from torch._dynamo.exc import UserError

    return type("UserError", (UserError, ValueError), {"__module__": __name__})


def user_error(kind: str, text: str, case_name: str | None = None) -> Exception:
    """Return an error of torch's kind: INVALID_INPUT, CONSTRAINT_VIOLATION ...  `case_name`: what
    torch's documentation calls it, to which torch's class adds where that is."""
    cls: Any = _user_error()
    if cls is None:
        return ValueError(text)
    from torch._dynamo.exc import UserErrorType

    found: Exception = cls(UserErrorType[kind], text, case_name=case_name)
    return found


def shapes_error(text: str) -> Exception:
    """Return the error for dynamic_shapes that do not suit the arguments."""
    return user_error("INVALID_INPUT", text, "dynamic_shapes_validation")


@functools.cache
def _constraint_error() -> type[Exception]:
    if "torch" not in sys.modules:
        return ValueError
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    return type(
        "ConstraintViolationError", (ConstraintViolationError, ValueError), {"__module__": __name__}
    )


def constraint_violation(text: str) -> Exception:
    """Return the error for an example that is not in the range of its dimension."""
    return _constraint_error()(text + _HELP)


@functools.cache
def _data_error() -> type[Exception]:
    if "torch" not in sys.modules:
        return RuntimeError
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    def init(self: Any, text: str) -> None:
        RuntimeError.__init__(self, text)
        self.cond = None

    members = {"__module__": __name__, "__init__": init}
    return type("GuardOnDataDependentSymNode", (GuardOnDataDependentSymNode,), members)


def translated(error: Exception) -> Exception:
    """Return the core's error as torch.export raises it."""
    text = str(error)
    if isinstance(error, ValueError) and "Constraints violated" in text:
        return user_error("CONSTRAINT_VIOLATION", text + _HELP)
    if isinstance(error, RuntimeError) and "depends on data" in text:
        return _data_error()(text + _HELP)
    return error
