"""Exported programs as data, with torch.export's names; torch is not needed.

>>> import rushlight.export
>>> program = rushlight.export.load("model.pt2")
>>> print(program)                               # as PyTorch prints it
>>> for node in program.graph.nodes: ...
>>> program.module()(x)                          # runs it

`load` reads the graph and nothing else; weights, metadata of nodes and sample inputs are read when
they are asked for.
"""

from __future__ import annotations

from ..pytree import register_dataclass
from . import treespec as treespec
from . import values as values
from .capture import draft_export, export
from .decompositions import default_decompositions
from .dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, dims
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, load, save
from .graph_signature import ExportBackwardSignature, ExportGraphSignature
from .unflatten import UnflattenedModule, unflatten

__all__ = [
    "AdditionalInputs",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ShapesCollection",
    "UnflattenedModule",
    "default_decompositions",
    "dims",
    "draft_export",
    "export",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]
