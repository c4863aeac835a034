"""Classes of errors for unsupported language features, named as in torch.jit.frontend."""

from __future__ import annotations

from .. import _rushlight


class FrontendError(Exception):
    """A text that is not a program."""


class NotSupportedError(FrontendError):
    """Python that TorchScript does not support."""


class UnsupportedNodeError(NotSupportedError):
    """A statement or expression that TorchScript does not support."""


CLASSES = (FrontendError, NotSupportedError, UnsupportedNodeError)
for _cls in CLASSES:
    _rushlight.set_error(_cls.__name__, _cls)


class UnknownTypeError(ValueError):
    """An annotation that names no type; the compiler puts the place directly behind the text, and
    raises ValueError."""


_rushlight.set_error("UnknownTypeError", ValueError)
