"""Loading and saving archives, with the interface of torch.jit.load and torch.jit.save."""

from __future__ import annotations

import errno
import os
import re
import sys
from typing import Any, BinaryIO

from . import _rushlight

_DEVICES = (
    "cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps "
    "meta hpu mtia privateuseone"
).split()


class _NoFile(FileNotFoundError, ValueError):
    """Both ValueError, as in torch, and FileNotFoundError, as usual in Python, with errno and
    filename."""

    def __init__(self, filename: str) -> None:
        super().__init__(errno.ENOENT, f"The provided filename {filename} does not exist", filename)

    def __str__(self) -> str:
        return str(self.strerror)


class _NotSaved(RuntimeError, OSError):
    """Both RuntimeError, as in torch, and OSError, as usual in Python."""


class ConstMap:
    """The constants of a method's code: `constants.c0`."""

    def __init__(self, const_mapping: dict[str, Any]) -> None:
        self.const_mapping = const_mapping

    def __getattr__(self, name: str) -> Any:
        try:
            return self.const_mapping[name]
        except KeyError:
            raise AttributeError(name) from None


def check_device(name: str) -> str:
    """Return the kind of a device's name (`cuda` for `cuda:1`); refuse other names with torch's
    message."""
    if not name:
        raise RuntimeError("Device string must not be empty")
    kind = re.sub(r":\d+$", "", name)
    if kind not in _DEVICES:
        kinds = ", ".join(_DEVICES)
        raise RuntimeError(f"Expected one of {kinds} device type at start of device string: {name}")
    return kind


def is_meta(map_location: Any) -> bool:
    """True if the device is meta. Otherwise tensors are loaded to the CPU; other devices are
    refused as in torch without such devices."""
    if map_location is None:
        return False
    kind = getattr(map_location, "type", None)  # torch.device
    if not isinstance(map_location, str) and not isinstance(kind, str):
        found = type(map_location)
        raise ValueError(
            f"map_location should be either None, string or torch.device, but got type: {found}"
        )
    kind = check_device(str(map_location))
    if kind == "cuda":
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        )
    if kind == "xla":
        raise RuntimeError(
            "supported devices include CPU, CUDA, HPU and privateuseone however got XLA"
        )
    if kind not in ("cpu", "meta"):
        raise RuntimeError(f"Rushlight is not linked with support for {kind} devices")
    if kind == "meta" and "torch" not in sys.modules:
        raise RuntimeError(
            "tensors of the device meta are torch's: import torch before the archive is loaded"
        )
    return kind == "meta"


def load(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    map_location: Any,
    extra_files: dict[str, Any] | None,
    options: dict[str, Any],
) -> Any:
    """Load a module of the type in `options`."""
    meta = is_meta(map_location)
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        if not os.path.exists(name):
            raise _NoFile(os.fsdecode(name))
        if os.path.isdir(name):
            raise ValueError(f"The provided filename {name} is a directory")
    elif not isinstance(source, (bytes, bytearray, memoryview)):
        if not hasattr(source, "read"):
            raise TypeError(
                f"load() takes a path, bytes or a binary file, not {type(source).__name__}"
            )
        source = source.read()
    module = _rushlight.load(source, meta=meta, **options)
    if extra_files:
        found = _rushlight.extra_files(module)
        extra_files.update({name: found.get(name, b"") for name in extra_files})
    return module


def save_to(
    module: Any, path: str, extra_files: dict[str, Any] | None = None, function: str | None = None
) -> None:
    """Write the archive to a path; after an error the file is as it was before."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise _NotSaved(f"Parent directory {folder} does not exist.")
    try:
        _rushlight.save(module, path, extra_files, function)
    except OSError as error:
        raise _NotSaved(str(error)) from None


def code_with_constants(of: Any, name: str) -> tuple[str, ConstMap]:
    """Return the code of a method, and the values of CONSTANTS in it."""
    text, constants = _rushlight.method_code(of, name)
    return text, ConstMap({f"c{i}": value for i, value in enumerate(constants)})


class Saving:
    """The methods common to modules and functions that can be saved."""

    __slots__ = ()

    def save(self, f: str | os.PathLike[str], _extra_files: dict[str, Any] | None = None) -> None:
        """Write an archive that torch.jit.load (of an exported program: torch.export.load) and
        rushlight.load open, to a path."""
        save_to(self, str(f), _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """Return the archive's bytes."""
        saved: bytes = _rushlight.save(self, None, _extra_files, None)
        return saved

    @property
    def code_with_constants(self) -> tuple[str, ConstMap]:
        """Return the code of forward, and the values of CONSTANTS in it."""
        return code_with_constants(self, "forward")


def save(
    m: Any, f: str | os.PathLike[str] | BinaryIO, _extra_files: dict[str, Any] | None = None
) -> None:
    """Save a module or a function as an archive that torch.jit.load and rushlight.load open; an
    exported program as one that torch.export.load opens.

    `f` is a path (after an error the file is as it was before), or an object with `write`.
    `_extra_files` are further files of the archive, name to content. The same program gives the
    same bytes.
    """
    if isinstance(f, (str, os.PathLike)):
        m.save(f, _extra_files=_extra_files or {})
    else:
        f.write(m.save_to_buffer(_extra_files=_extra_files or {}))
