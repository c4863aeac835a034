"""Constants of the extension's `Unit`: kinds of names, types and classes (rushlight/script.h)."""

from __future__ import annotations

# kinds of names: the first item of (kind, ...)
(
    PATH, OPERATOR, FUNCTION, OVERLOADS, DISPATCH, TYPE, VALUE, TUPLE, OBJECT, HOST_CALL, EXCEPTION,
    METHOD, UNUSED, HIDDEN,
) = range(1, 15)  # fmt: skip
# kinds of types
(
    T_ANY, T_NONE, T_TENSOR, T_BOOL, T_INT, T_FLOAT, T_COMPLEX, T_NUMBER, T_STRING, T_DEVICE,
    T_GENERATOR, T_STORAGE, T_STREAM, T_LIST, T_OPTIONAL, T_DICT, T_TUPLE, T_UNION, T_FUTURE,
    T_CLASS, T_INTERFACE, T_ENUM, T_AWAIT,
) = range(1, 24)  # fmt: skip
# kinds of classes
C_SCRIPT, C_INTERFACE, C_MODULE, C_MODULE_INTERFACE, C_ENUM, C_NAMED_TUPLE = range(6)
# flags of attributes (a module's slots: MODULE too), and of definitions
PARAMETER, BUFFER, MODULE = 1, 2, 4
STATIC, HOOK, DECLARED_ONLY, CLASS_METHOD = 1, 2, 4, 8
