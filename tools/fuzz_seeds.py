#!/usr/bin/env python3
# ruff: noqa: E501
"""fuzz_seeds.py TARGET FOLDER: first inputs for a fuzz target, and FOLDER.dict, words that libFuzzer puts in.

From the fixtures, the tests' texts and this file; with RUSHLIGHT_CORPUS (a made corpus) from its small archives too.
An archive becomes an input of sections: see fuzz/fuzz.h.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pathlib
import pickle
import re
import struct
import sys
import zipfile
from collections.abc import Iterator

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(TOP / "tests" / "python"))

import archives  # noqa: E402

MOST_BYTES = 32768
TEXT = """
class M(Module):
  __parameters__ = ["w", ]
  w : Tensor
  training : bool
  def forward(self: __torch__.M, x: Tensor, k: Optional[List[int]]=None) -> Tuple[Tensor, Dict[str, int]]:
    if torch.gt(x, 0):
      y = ops.prim.NumToTensor(1)
    else:
      y, z = annotate(List[int], []), {"a": 1.5e-3, "b": "\\303\\251"}
    for i in range(10):
      y = torch.add(x, y[1:, ..., None], alpha=-2j) if not True else f"{x}"
    while not bool(y) and x is not None: x += 1
    return (y, z)
"""
JSON = rb'{"a": [1, -2.5e10, null, true, false, "\u00e9\ud83d\ude00\n\"\\\/\b\f\r\t"], "b": {"c": {}, "e": []}, "d": NaN, "i": -Infinity}'
GRAPHS = [
    """graph(%x : Tensor,
      %n.1 : int,
      %l : int[],
      %o : Tensor?,
      %d : Dict(str, Tensor)):
  %2 : int = prim::Constant[value=1]()
  %3 : float = prim::Constant[value=0.10000000000000001]()
  %4 : float = prim::Constant[value=-3.]()
  %5 : str = prim::Constant[value="a\\n\\"\\303\\251"]()
  %6 : NoneType = prim::Constant()
  %7 : int[] = prim::Constant[value=[1, 2, 3]]()
  %8 : (int, str) = prim::Constant[value=(1, "x")]()
  %9 : Device = prim::Constant[value="cpu"]()
  %10 : complex = prim::Constant[value=1.5-2.j]()
  %11 : Dict(str, int) = prim::Constant[value={"a": 1}]()
  %12 : int? = prim::Constant()
  %13 : bool = aten::gt(%n.1, %2)
  %t : Tensor = prim::Constant[value={1}]()
  %inf : float = prim::Constant[value=inf]()
  %b : bool = prim::Constant[value=1]()
  %y : int, %z : int = prim::If(%13) # f.py:3:4
    block0():
      %16 : int = aten::add(%n.1, %2)
      -> (%16, %2)
    block1():
      -> (%n.1, %n.1)
  %w : int = prim::Loop(%n.1, %13, %2)
    block0(%i : int, %c : int):
      %r : int = aten::mul(%i, %c)
      -> (%13, %r)
   = prim::Print(%y, %z)
  %17 : Tensor = foo::bar[a=1, b=[1, 2], c="x", d=1.5, e=[1.5, 2.], f=["a", "b"]](%x)
  %18 : bool = prim::isinstance[types=[int, str]](%y)
  %19 : Tensor = aten::relu_(%x)
  %20 : Tensor[] = prim::ListConstruct(%x, %19)
  %21 : (Tensor, int) = prim::TupleConstruct(%x, %2)
  %22 : Tensor, %23 : int = prim::TupleUnpack(%21)
  return (%17)
""",
    """graph(%x : Tensor):
  %f : Future[Tensor] = prim::fork_0(%x)
  %y : Tensor = aten::wait(%f)
  return (%y)
with prim::fork_0 = graph(%x : Tensor):
  return (%x)
""",
    """graph(%self : __torch__.M,
      %x.1 : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):
  %w : Tensor = prim::GetAttr[name="w"](%self)
  %y : Tensor = prim::CallMethod[name="f"](%self, %x.1)
   = prim::SetAttr[name="w"](%self, %y)
  %z : Tensor = prim::CallFunction[name="__torch__.g"](%y)
  %e : Enum<__torch__.E> = foo::bar()
  %i : InterfaceType<I> = foo::bar()
  %n : NamedTuple(a : int, b : Tensor) = foo::bar()
  %u : Union[int, str] = foo::bar()
  %d : Dict(str, int[]) = foo::bar()
  return (%w, %z)
""",
    """graph(%x : Tensor):
  %1 : bool = prim::Constant[value=1]()
  %2 : int[] = prim::Constant[value=[]]()
  %3 : (int, float)[] = prim::Constant[value=[(1, 2.5), (3, nan)]]()
  %4 : Long() = prim::Constant[value={3}]()
  %5 : Tensor = prim::Constant[value={2.5}]()
  %6 : Dict(int, str?) = prim::Constant[value={1: "a", 2: None}]()
  %7 : Device = prim::Constant[value="cuda:1"]()
  %8 : Device = prim::Constant[value="meta"]()
  %9 : bool? = prim::Constant[value=True]()
  %10 : bool = prim::Constant[value=False]()
  %11 : str = prim::Constant[value="\\a\\x\\101"]()
  %12 : Tensor[] = cond[a=-1, b=[-1, 2], c=1e5, d=nan, e="x"](%x)
    block0(%q : Tensor):
      -> (%q)
  %13 : int, %14 : Tensor = foo::many(%x, %1, %2)
  return ()
""",
    "graph(%x : Tensor):\n  return (%x) # f.py:1:2\nmore",
    "graph():\n  %1 : Tensor = prim::Constant[value=<Tensor>]()\n  return ()",
    'graph():\n  %1 : int = prim::Constant[value="a]()\n  return ()',
    "graph():\n  %1 : Future[int] = prim::Constant[value=1]()\n  return ()",
    "graph():\n  %1 : Dict(int) = foo::bar()\n  return ()",
    "graph():\n  %1 : int = foo::bar[a=[" + ", ".join(["1"] * 70) + "]]()\n  return ()",
    "graph(%x : Tensor):\n  return (%x)\nwith prim::fork_7 = graph():\n  return ()",
    'graph():\n  %1 : Device = prim::Constant[value="moon"]()\n  return ()',
    'graph():\n  %1 : Tensor = prim::CallFunction[name="gone"]()\n  return ()',
]
SCHEMAS = [
    "aten::f.Tensor(Tensor(a!) self, Tensor(b|c -> *)? other, *, Scalar alpha=1, int[2] k=[1, 2], float p=0.5, "
    'str m="x", bool t=True, int? n=None, ScalarType? dtype=None, Device device="cpu", Tensor[] l=[], '
    "Dict(str, int) d, (int, str) u, Layout layout=strided, MemoryFormat f=contiguous_format, complex z=1j) -> Tensor(a!)",
    "prim::g(...) -> ...",
    "prim::h(Any x, Future(int) f, RRef(t) r, t[](a!) l, Generator? g, __torch__.torch.classes.q.C c) -> (Tensor(a), int n)",
    "a::b(SymInt[] s=[-1, 0], float[]? f=None, int x=-9223372036854775808, Stream s, Storage t, QScheme q) -> ()",
    "a::b(Tensor(a -> b) x, float f=1e-05, float g=inf, int reduction=Mean, str s='q\\'\\n', Tensor[](a!) o) -> Tensor[](a!)",
    "a::b(int[3](a) x=1, bool[4] m, Optional[int] o, Union(int, float) u, List(int) l, Tensor? t=[], Await(int) w) -> int?",
]


# -- Archives as sections -------------------------------------------------------------------------------------------


def sections(main: str, content: dict[str, bytes]) -> bytes:
    rest = b"".join(b"\n@@" + k.encode() + b"\n" + v for k, v in content.items() if k != main)
    return content[main] + rest


def below_root(data: bytes) -> dict[str, bytes]:
    content = archives.records(data)
    return {k.split("/", 1)[-1]: v for k, v in content.items()}


def wanted(path: str) -> bool:
    return not path.endswith(("debug_pkl", "serialization_id", ".format_version", ".storage_alignment"))


def files() -> Iterator[bytes]:
    """Small archives: the fixtures, a legacy one, and what a corpus has."""
    for path in sorted((TOP / "tests" / "data").glob("*.pt*")):
        yield path.read_bytes()
    yield archives.legacy()
    folder = os.environ.get("RUSHLIGHT_CORPUS")
    for path in sorted(pathlib.Path(folder).rglob("*.pt*")) if folder else []:
        if path.stat().st_size <= 2 * MOST_BYTES:
            yield path.read_bytes()


def legacy_variants() -> Iterator[bytes]:
    """Archives of PyTorch 1.0 to 1.3 that say something else."""
    content = archives.records(archives.legacy())
    tensor, module = ["tensors", 0], ["mainModule"]
    for path, new in [
        ([*tensor, "dims"], [2, 3]),
        ([*tensor, "dims"], ["x"]),
        ([*tensor, "dims"], ["-2", "3"]),
        ([*tensor, "dims"], ["1"] * 70),
        ([*tensor, "dims"], ["1"]),
        ([*tensor, "dataType"], 1),
        ([*tensor, "dataType"], "NOTHING"),
        ([*tensor, "isQuantized"], True),
        ([*tensor, "more"], 1),
        ([*tensor, "offset"], "9223372036854775807"),
        (
            ["tensors"],
            [
                {
                    "dims": ["1"],
                    "strides": ["1"],
                    "offset": "0",
                    "dataType": "UINT8",
                    "isQuantized": True,
                    "scale": 0.5,
                    "zeroPoint": "3",
                    "data": {"key": "tensors/0", "x": 1},
                }
            ]
            * 20,
        ),
        ([*module, "getstateAttributeId"], "1"),
        ([*module, "submodules", 0, "getstateAttributeId"], "4"),
        ([*module, "submodules", 0, "parameters", 0, "tensorId"], "9"),
        ([*module, "submodules", 0, "parameters", 0, "more"], "9"),
        ([*module, "submodules", 0, "attributes", 0, "id"], "99"),
        ([*module, "submodules", 0, "attributes", 0, "type"], "float"),
        ([*module, "submodules", 0, "attributes", 0, "more"], 0),
        ([*module, "submodules", 0, "name"], "a.b"),
        ([*module, "name"], ""),
        (["mainModule"], {}),
        ([*module, "torchscriptArena"], {"key": "code/gone.py"}),
        (["protoVersion"], "99"),
        (["mainModule"], None),
    ]:
        model = json.loads(content["net/model.json"])
        at = model
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = new
        yield archives.pack(content | {"net/model.json": json.dumps(model).encode()}, aligned=False)
    state = b"def __getstate__(self) -> int:\n  return 1\ndef __setstate__(self, s: %s) -> None:\n  self.ratio = 0.5\n"
    for kind in (b"bool", b"List[int]", b"Tensor"):
        model = json.loads(content["net/model.json"])
        model["mainModule"]["getstateAttributeId"] = "0"
        changed = {"net/model.json": json.dumps(model).encode(), "net/code/net.py": content["net/code/net.py"] + state % kind}
        yield archives.pack(content | changed, aligned=False)
    attributes = content["net/attributes.pkl"].replace(b"\x80\x02(", b"\x80\x02](").replace(b"t.", b"e.")
    yield archives.pack(content | {"net/attributes.pkl": attributes}, aligned=False)
    yield archives.pack(content | {"net/attributes.pkl": b"\x80\x02K\x01."}, aligned=False)
    yield archives.pack({k: v for k, v in content.items() if "attributes" not in k}, aligned=False)
    yield archives.pack({k: v for k, v in content.items() if "version" not in k}, aligned=False)


def section_seeds(main: str) -> Iterator[bytes]:
    for data in files():
        try:
            content = {k: v for k, v in below_root(data).items() if wanted(k)}
        except zipfile.BadZipFile:
            continue
        if main in content:
            yield sections(main, content)
        elif main.startswith("code/"):  # traced and scripted functions: the class is elsewhere
            code = [k for k in content if k.startswith("code/") and k.endswith(".py")]
            if code and "data.pkl" in content:
                yield b"\n" + sections(main, {main: b"", **content})


# -- Pickles ---------------------------------------------------------------------------------------------------------


def text(s: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(s)) + s


def tensor_of(kind: bytes = b"FloatStorage", key: bytes = b"0") -> bytes:
    storage = b"(" + text(b"storage") + b"ctorch\n" + kind + b"\n" + text(key) + text(b"cpu") + b"K\x04tQ"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + b"K\x00K\x02K\x02\x86K\x02K\x01\x86\x89ccollections\nOrderedDict\n)RtR"
    )


def module_pickle(**given: bytes) -> bytes:
    t = tensor_of()
    fields: dict[str, bytes] = {
        "a": b"K\x05",
        "f": b"G" + struct.pack(">d", 0.5),
        "s": text(b"x"),
        "t": b"N",
        "li": b"ctorch.jit._pickle\nbuild_intlist\n](K\x01K\x02e\x85R",
        "lt": b"ctorch.jit._pickle\nbuild_tensorlist\n](" + t + b"e\x85R",
        "d": b"ctorch.jit._pickle\nrestore_type_tag\n}(" + text(b"k") + b"](K\x01eu" + text(b"Dict[str, List[int]]") + b"\x86R",
        "tu": b"K\x01" + text(b"y") + b"\x86",
        "n": b"c__torch__\nN\n)\x81}(" + text(b"w") + t + text(b"training") + b"\x89ub",
        "p": b"c__torch__\nPair\n)\x81K\x01](" + text(b"z") + b"e\x86b",
        "c": b"c__torch__\nColor\n" + text(b"red") + b"R",
        "np": b"c__torch__\nPoint\nK\x01G" + struct.pack(">d", 2) + b"\x86R",
        "w": t,
        "b": tensor_of(b"FloatStorage", b"1"),
        "dev": b"ctorch\ndevice\n" + text(b"cpu") + b"\x85R",
        "z": b"cbuiltins\ncomplex\nG" + struct.pack(">d", 1) + b"G" + struct.pack(">d", 2) + b"\x86R",
        "o": b"N",
        "any": b"](K\x01" + text(b"q") + b"e",
        "training": b"\x89",
    }
    fields |= given
    return b"\x80\x02c__torch__\nM\n)\x81}(" + b"".join(text(k.encode()) + v for k, v in fields.items()) + b"ub."


def old_saved() -> bytes:
    """torch.save before 1.6: magic number, protocol, facts, the value, keys, storages."""
    value = b"\x80\x02" + tensor_of() + b"."
    return (
        pickle.dumps(0x1950A86A20F9469CFC6C, 2)
        + pickle.dumps(1001, 2)
        + pickle.dumps({"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}, 2)
        + value.replace(b"tQ", b"NtQ")
        + pickle.dumps(["0"], 2)
        + struct.pack("<q4f", 4, 1, 2, 3, 4)
    )


def pickles() -> Iterator[bytes]:
    shared: list[object] = [1]
    data = [
        1,
        -1,
        255,
        65536,
        2**31,
        2**63,
        2**70,
        -(2**80),
        1.5,
        "x\u00e9\U0001f600",
        b"y\xff",
        (None, True, False),
        {"a": {1, 2}},
    ]
    data += [
        1j,
        range(3),
        frozenset([1]),
        bytearray(b"z"),
        (),
        (1,),
        (1, 2, 3),
        (1, 2, 3, 4),
        [],
        {},
        shared,
        shared,
        "x" * 300,
    ]
    for protocol in range(6):
        yield pickle.dumps(data, protocol)
    yield b"(lp0\nI00\naI01\naI-5\naL12L\naF1.5\naS'a\\x41\\n\\\\'\np1\naV\\u00e9\\U0001F600\ng1\nad."
    yield b"(dp0\nS'a'\nI1\ns(S'b'\nI2\nu(i__torch__\nM\n(cos\nsystem\nI1\no0(1N20Pname\nQ\x88\x89T\x01\x00\x00\x00aU\x01bB\x01\x00\x00\x00c."
    yield b"\x80\x04\x8c\x01m\x94\x8c\x01C\x94\x93\x94)}\x8c\x01k\x94K\x01s\x92\x94."
    yield b"\x80\x05\x8d\x01\x00\x00\x00\x00\x00\x00\x00a\x8e\x01\x00\x00\x00\x00\x00\x00\x00b\x96\x01\x00\x00\x00\x00\x00\x00\x00c\x98\x97."
    yield b"\x82\x01\x83\x01\x02\x84\x01\x02\x03\x04."
    yield module_pickle()
    for kind in (
        b"Double",
        b"Half",
        b"Long",
        b"Int",
        b"Short",
        b"Char",
        b"Byte",
        b"Bool",
        b"BFloat16",
        b"ComplexFloat",
        b"QInt8",
        b"QUInt8",
    ):
        yield module_pickle(w=tensor_of(kind + b"Storage"))
    quantized = (
        tensor_of(b"QInt8Storage")
        .replace(b"_rebuild_tensor_v2", b"_rebuild_qtensor")
        .replace(b"\x89ccoll", b"(ctorch\nper_tensor_affine\nG" + struct.pack(">d", 0.5) + b"K\x00t\x89ccoll")
    )
    yield module_pickle(w=quantized)
    yield module_pickle(w=b"ctorch._utils\n_rebuild_parameter\n(" + tensor_of() + b"\x88ccollections\nOrderedDict\n)RtR")
    yield b"\x80\x02}(" + text(b"x") + tensor_of() + text(b"o") + b"ccollections\nOrderedDict\n)R(" + text(b"y") + b"K\x01uu."
    yield b"\x80\x02" + b"ctorch\nSize\n(K\x01K\x02t\x85R."
    for name in (
        b"torch\nfloat32",
        b"torch\nstrided",
        b"torch.serialization\n_get_layout",
        b"torch\ncontiguous_format",
        b"builtins\nset",
    ):
        yield b"\x80\x02c" + name + b"\n."
    one = b"ctorch.jit._pickle\nbuild_tensor_from_id\nK\x00\x85R"
    for field, value in {
        "w": one,
        "np": b"c__torch__\nPoint\nK\x01\x85R",
        "c": b"c__torch__\nColor\n" + text(b"blue") + b"\x85R",
        "p": b"c__torch__\nPair\n)\x81K\x01b",
        "n": b"c__torch__\nColor\n)\x81}b",
        "li": b"ctorch.jit._pickle\nbuild_boollist\n](\x88\x89e\x85R",
        "d": b"ctorch.jit._pickle\nrestore_type_tag\n}" + text(b"Dict[str, Bogus]") + b"\x86R",
        "lt": b"]q\x05h\x05a",
        "any": b"ctorch.jit._pickle\nbuild_doublelist\n](G" + struct.pack(">d", 1) + b"e\x85R",
        "dev": b"ctorch\ndevice\n" + text(b"cuda") + b"K\x00\x86R",
        "f": b"K\x05",
        "a": b"c__torch__.torch.classes.quantized\nGone\n)\x81}b",
    }.items():
        yield module_pickle(**{field: value})
    t = b"(" + tensor_of()[: tensor_of().index(b"RtR")]
    yield (
        b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n"
        + t[t.index(b"((") :]
        + b"R}tR."
    )
    yield old_saved()


# -- Zip files -------------------------------------------------------------------------------------------------------


def zips() -> Iterator[bytes]:
    code = b"def f(x): return x" + b" + x" * 50
    for options in ({}, {"compression": zipfile.ZIP_DEFLATED}):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", **options) as z:
            z.writestr("m/version", b"3\n")
            z.writestr("m/code/f.py", code)
            z.writestr("m/folder/", b"")
            z.writestr("m/" + "long" * 130, b"x")
            z.writestr("elsewhere", b"x" * 10)
            z.comment = b"a comment"
        yield out.getvalue()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z, z.open("m/wide", "w", force_zip64=True) as f:
        f.write(code)
    yield out.getvalue()
    plain = archives.pack({"m/a": b"1", "m/b": code}, aligned=False)
    yield plain + b" "  # odd: check_all
    yield as_zip64(plain)
    yield reversed_directory(plain)
    for old, new in (
        (b"m/b", b"m/a"),
        (b"m/b", b"../"),
        (b"m/b", b"/mb"),
        (b"m/b", b"m\\b"),
        (b"m/b", b"m/\xff"),
        (b"m/b", b"m//"),
    ):
        yield plain.replace(old, new)
    central = plain.index(b"PK\x01\x02")
    for at, value in (
        (8, b"\x01"),
        (8, b"\x20"),
        (10, b"\x63"),
        (16, b"\0"),
        (20, b"\x7f"),
        (24, b"\xff\xff\xff\xff"),
        (28, b"\xff"),
        (30, b"\x04"),
        (42, b"\x09"),
    ):
        yield plain[: central + at] + value + plain[central + at + len(value) :]


def directory_of(data: bytes) -> tuple[int, int, int]:
    end = data.rindex(b"PK\x05\x06")
    n, size, at = struct.unpack("<HII", data[end + 10 : end + 20])
    return n, size, at


def as_zip64(data: bytes) -> bytes:
    n, size, at = directory_of(data)
    end = at + size
    end64 = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, n, n, size, at)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, end, 1)
    last = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return data[:end] + end64 + locator + last


def reversed_directory(data: bytes) -> bytes:
    _, size, at = directory_of(data)
    parts = re.split(b"(?=PK\x01\x02)", data[at : at + size])[1:]
    return data[:at] + b"".join(reversed(parts)) + data[at + size :]


# -- Other data files ------------------------------------------------------------------------------------------------


def data_files() -> Iterator[bytes]:
    def npy(header: bytes, data: bytes, major: int = 1) -> bytes:
        return b"\x93NUMPY" + bytes([major, 0]) + struct.pack("<H" if major == 1 else "<I", len(header)) + header + data

    four = struct.pack("<4f", 1, 2, 3, 4)
    for major in (1, 2, 3):
        yield npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n", four, major)
    yield npy(b"{'descr': '>f4', 'fortran_order': True, 'shape': (4,), }\n", four)
    for descr in (b"|V4", b"<U3", b"", b"x", b"<f9", b">i8", b"|O", b"[('a', '<f4')]"):
        yield npy(b"{'descr': '" + descr + b"', 'fortran_order': False, 'shape': (2, 2), }\n", four)
    for shape in (
        b"(-1,)",
        b"(0, 9223372036854775807, 4)",
        b"(9223372036854775807, 4)",
        b"(99,)",
        b"(" + b"1, " * 70 + b")",
        b"4",
        b"(1 2)",
    ):
        yield npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + b", 'more': 1}\n", four)
    yield b"\x93NUMPY\x09\x00"
    for header in (
        {
            "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
        },
        {
            "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
            "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            "c": {"dtype": "F32", "shape": [1], "data_offsets": [12, 16]},
        },
        {
            "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
            "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]},
        },
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 5]}},
        {"a": {"dtype": "F32", "shape": [2**62, 8], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1] * 70, "data_offsets": [0, 4]}},
        {"a": {"shape": [1]}},
        {f"t{i}": {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i in range(16)},
    ):
        text_of = json.dumps(header).encode()
        yield struct.pack("<Q", len(text_of)) + text_of + four
    yield struct.pack("<Q", 2**63) + b"{}"
    for descr in (b"|b1", b"|u1", b"|i1", b"<i2", b"<i4", b"<i8", b"<f2", b"<f8", b"<c8", b"<c16"):
        yield npy(b"{'descr': '" + descr + b"', 'fortran_order': False, 'shape': (), }\n", four)
    for dtype in ("F32", "I32", "U8", "BOOL", "BF16", "F16", "I64", "F64", "I8", "I16"):
        header = json.dumps(
            {
                "__metadata__": {"format": "pt"},
                "a": {"dtype": dtype, "shape": [1], "data_offsets": [0, {"F": 4, "I": 4, "U": 1, "B": 2}[dtype[0]]]},
            }
        ).encode()
        yield struct.pack("<Q", len(header)) + header + four
    yield old_saved()


# -- What only PyTorch writes ------------------------------------------------------------------------------------------


def node(target: str, outputs: list[object], *args: tuple[str, object]) -> dict[str, object]:
    inputs = [{"name": name, "arg": arg} for name, arg in args]
    return {"target": target, "inputs": inputs, "outputs": outputs, "metadata": {}}


def tensor_named(name: str) -> dict[str, object]:
    return {"as_tensor": {"name": name}}


def crafted() -> Iterator[bytes]:
    """The fixture's program with other nodes: arguments of every kind, operators on symbols, what few programs have."""
    content = {k: v for k, v in below_root((TOP / "tests" / "data" / "digits.pt2").read_bytes()).items() if wanted(k)}
    x, y = tensor_named("x"), tensor_named("y")
    add = node("torch.ops.aten.add.Tensor", [tensor_named("c")], ("self", tensor_named("a")), ("other", tensor_named("b")))
    graph = {"inputs": [tensor_named("a"), tensor_named("b")], "outputs": [tensor_named("c")], "nodes": [add]}
    body = {"as_graph": {"name": "g", "graph": graph}}
    n = {"as_sym_int": {"as_name": "n"}}
    size = node("torch.ops.aten.sym_size.int", [n], ("self", x), ("dim", {"as_int": 0}))
    half = node("_operator.truediv", [{"as_sym_float": {"as_name": "h"}}], ("", n), ("", {"as_int": 2}))
    h = {"as_sym_float": {"as_name": "h"}}
    more = node("_operator.gt", [{"as_sym_bool": {"as_name": "m"}}], ("", n), ("", {"as_int": 2}))
    m = {"as_sym_bool": {"as_name": "m"}}
    relu = node("torch.ops.aten.relu.default", [y], ("self", x))
    out_n = {"as_sym_int": {"as_name": "k"}}
    lists = [
        {"as_bools": [True, False]},
        {"as_strings": ["a", "b"]},
        {"as_floats": [1.5]},
        {"as_ints": [1]},
        {"as_sym_ints": [{"as_int": 1}, {"as_name": "n"}]},
        {"as_sym_floats": [{"as_float": 0.5}, {"as_name": "h"}]},
        {"as_sym_bools": [{"as_bool": True}, {"as_name": "m"}]},
        {"as_optional_tensor": {"as_tensor": {"name": "x"}}},
        {"as_optional_tensor": {"as_none": True}},
        {"as_optional_tensors": [{"as_tensor": {"name": "x"}}, {"as_none": True}] * 9},
        {"as_tensors": [{"name": "x"}] * 20},
        {"as_nested_tensors": [[{"name": "x"}]]},
        {"as_int_lists": [[1], []]},
        {"as_float_lists": [[1.5]]},
        {"as_complex": {"real": 1.0, "imag": 2.0, "more": 0}},
        {"as_device": {"type": "cpu", "index": 1}},
        {"as_memory_format": 99},
        {"as_memory_format": 1},
        {"as_layout": 7},
        {"as_scalar_type": 99},
        {"as_sym_int": {"as_int": 1}},
        {"as_sym_bool": {"as_bool": False}},
        {"as_sym_int": {}},
        {"as_bogus": 1},
    ]
    programs = [
        [
            node(
                "torch.ops.higher_order.associative_scan",
                [{"as_tensors": [{"name": "y"}]}],
                ("", body),
                ("", {"as_tensors": [{"name": "x"}]}),
                ("", {"as_tensors": []}),
            )
        ],
        [node("torch.ops.higher_order.associative_scan", [y], ("", body), ("", {"as_tensors": []}))],
        [
            node(
                "torch.ops.higher_order.map_impl",
                [y],
                ("", body),
                ("", {"as_tensors": [{"name": "x"}]}),
                ("", {"as_tensors": [{"name": "x"}]}),
            )
        ],
        [
            node(
                "torch.ops.higher_order.cond",
                [y],
                ("", x),
                ("", body),
                ("", body),
                ("", {"as_tensors": [{"name": "x"}, {"name": "x"}]}),
            )
        ],
        [node("torch.ops.higher_order.cond", [y], ("", {"as_int": 1}), ("", body), ("", body), ("", {"as_tensors": []}))],
        [
            node(
                "torch.ops.higher_order.while_loop",
                [y],
                ("", body),
                ("", body),
                ("", {"as_tensors": [{"name": "x"}, {"name": "x"}]}),
                ("", {"as_tensors": []}),
            )
        ],
        [
            node(
                "torch.ops.higher_order.with_effects",
                [tensor_named("t"), y],
                ("", {"as_none": True}),
                ("", {"as_string": "torch.ops.aten.relu.default"}),
                ("", x),
            )
        ],
        [node("torch.ops.higher_order.with_effects", [y], ("", {"as_none": True}))],
        [
            node(
                "torch.ops.higher_order.wrap_with_set_grad_enabled", [y], ("", {"as_bool": False}), ("", body), ("", x), ("", x)
            )
        ],
        [node("torch.ops.higher_order.wrap_with_set_grad_enabled", [y])],
        [
            node(
                "torch.ops.higher_order.wrap_with_autocast",
                [y],
                ("", {"as_string": "cpu"}),
                ("", {"as_scalar_type": 13}),
                ("", {"as_bool": True}),
                ("", {"as_none": True}),
                ("", body),
                ("", x),
                ("", x),
            )
        ],
        [size, half, more, node("torch.sym_ite", [out_n], ("", m), ("", n), ("", {"as_int": 7})), relu],
        [size, half, more, node("torch.sym_ite", [out_n], ("", n), ("", n), ("", h)), relu],
        [size, node("torch.sym_ite", [out_n], ("", n)), relu],
        [
            size,
            node("_operator.pos", [out_n], ("", n)),
            node("torch.sym_int", [{"as_sym_int": {"as_name": "j"}}], ("", n)),
            relu,
        ],
        [
            size,
            half,
            node("_operator.add", [h], ("", n), ("", h)),
            node("_operator.neg", [{"as_sym_float": {"as_name": "q"}}], ("", h)),
            relu,
        ],
        [size, node("_operator.pow", [out_n], ("", n), ("", n)), node("_operator.add", [out_n], ("", n)), relu],
        [size, node("_operator.add", [out_n], ("", n), ("", body)), relu],
        [node("torch.ops.aten.max.dim", [y], ("self", x), ("dim", {"as_int": 0}))],
        [node("torch.ops.aten.split.Tensor", [y], ("self", x), ("split_size", {"as_int": 1}))],
        [node("torch.ops.aten.relu.default", [{"as_tensors": [{"name": "y"}]}], ("self", x))],
        [node("torch.ops.aten.mul.Tensor", [y], ("self", {"as_int": 2}), ("other", x))],
        [node("torch.ops.aten.mul.Tensor", [y], ("self", x), ("other", {"as_complex": {"real": 0.0, "imag": 1.0}}))],
        [
            node(
                "torch.ops.aten.upsample_nearest2d.vec",
                [y],
                ("input", x),
                ("output_size", {"as_none": True}),
                ("scale_factors", {"as_ints": [2, 2]}),
            )
        ],
        [node("torch.ops.aten.sum.dim_IntList", [y], ("self", x), ("dim", {"as_int": 0}))],
        [node("torch.ops.aten.cat.default", [y], ("tensors", {"as_ints": []}))],
        [node("torch.ops.aten.dropout.default", [y], ("input", x), ("p", {"as_int": 0}), ("train", {"as_bool": False}))],
        [node("torch.ops.aten.add.Tensor", [y], ("self", x))],
        [node("torch.ops.aten.add.Tensor", [y], ("self", x), ("bogus", x))],
        [node("torch.ops.aten.add.Tensor", [y], ("self", {"as_string": "a"}), ("other", x))],
        [node("torch.ops.aten.__contains__.int_list", [y], ("l", x))],
        [node("torch.ops.aten.list.t", [y], ("l", {"as_ints": [1]}))],
        *([size, half, more, node("torch.ops.foo.bar.default", [y], ("a", kind))] for kind in lists),
    ]
    for nodes in programs:
        model = json.loads(content["models/model.json"])
        module = model["graph_module"]
        module["graph"] |= {"nodes": nodes, "outputs": [y], "tensor_values": {}}
        for spec in module["signature"]["output_specs"]:
            spec["user_output"] = {"arg": y}
        yield sections("models/model.json", content | {"models/model.json": json.dumps(model).encode()})


def exported() -> Iterator[bytes]:
    """Exported programs with control flow, symbols, autocast; nothing without torch."""
    try:
        import torch
        from torch._higher_order_ops.associative_scan import associative_scan
        from torch._higher_order_ops.map import map as torch_map
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops.while_loop import while_loop
    except ImportError:
        return
    batch = torch.export.Dim("b", min=2, max=9)
    x = torch.ones(3, 2)
    half = torch.autocast("cpu", dtype=torch.bfloat16)

    def cast(x: torch.Tensor) -> object:
        with half:
            return x @ x.t(), torch.cat([x, x @ x.t()], 1)

    def symbols(x: torch.Tensor) -> object:
        b = x.size(0)
        y = x.new_zeros(b * 2 + 1, (b - 1) // 2, max(b, 4)) if b > 1 else x
        return y, x.reshape(-1, b % 5 + 1 if False else 1), b * 0.5, torch.sym_ite(b > 3, b, 7) if False else b, float(b)

    def kinds(x: torch.Tensor) -> object:
        y = torch.cat([x, x]).to(torch.float64, memory_format=torch.channels_last if False else torch.contiguous_format)
        z = torch.full([2], 1 + 2j), torch.arange(3, dtype=torch.int32), x[torch.tensor([0, 1])], x[:, [0]], x[..., None]
        return (
            y,
            z,
            torch.nn.functional.interpolate(x[None, None], scale_factor=[2.0, 1.5], mode="bilinear"),
            x.sum(),
            torch.empty_like(x),
            x.chunk(2),
        )

    programs = [
        (lambda x: torch.cond(x.sum() > 1, lambda a: a + 1, lambda a: a.sin(), (x,)), (x,), None),
        (lambda x: while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x)), (x,), None),
        (lambda x: torch_map(lambda a, k: a + k, x, torch.ones(2)), (x,), None),
        (lambda x: scan(lambda c, a: (c + a, c * a), torch.zeros(2), x), (x,), None),
        (lambda x: associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"), (x,), None),
        (cast, (x,), None),
        (symbols, (x,), ({0: batch},)),
        (kinds, (x,), None),
        (lambda x: torch.no_grad()(lambda a: a * 2)(x), (x,), None),
        (lambda x, k=2, *, n=None: {"a": x * k, "b": [x, None, 1.5, "s"]}, (x, 3), None),
    ]
    for f, args, dynamic in programs:
        module = type("M", (torch.nn.Module,), {"forward": lambda self, *a, f=f: f(*a)})()
        module.register_buffer("w", torch.ones(2, 2))
        try:
            out = io.BytesIO()
            torch.export.save(
                torch.export.export(module, args, dynamic_shapes=(dynamic,) if dynamic else None, strict=False), out
            )
            content = {k: v for k, v in below_root(out.getvalue()).items() if wanted(k) and not k.startswith("data/sample")}
        except Exception as e:  # noqa: BLE001
            print(f"no seed: {str(e).splitlines()[0]}", file=sys.stderr)
            continue
        model = json.loads(content["models/model.json"])
        for node in model["graph_module"]["graph"]["nodes"]:
            node["metadata"] = {}
        content["models/model.json"] = json.dumps(model).encode()
        yield sections("models/model.json", content)


def saved() -> Iterator[bytes]:
    """data.pkl of tensors that are no plain ones; nothing without torch."""
    try:
        import torch
    except ImportError:
        return
    x = torch.ones(2, 2)
    values = [
        torch.nn.Parameter(x),
        torch.quantize_per_tensor(x, 0.5, 3, torch.quint8),
        torch.quantize_per_channel(x, torch.ones(2), torch.zeros(2, dtype=torch.int64), 0, torch.qint8),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch._neg_view(x),
        torch.ones(2, dtype=torch.uint16),
        x.to(torch.float8_e4m3fn),
        {"a": [x, x[0], torch.float16, torch.device("cpu"), torch.Size([1]), torch.strided]},
        torch.nn.Linear(2, 2).state_dict(),
        torch.nn.Parameter(x).to(torch.bfloat16),
    ]
    for value in values:
        for zipped in (True, False):
            out = io.BytesIO()
            torch.save(value, out, _use_new_zipfile_serialization=zipped)
            if not zipped:
                yield out.getvalue()
                continue
            content = {k: v for k, v in below_root(out.getvalue()).items() if wanted(k)}
            yield sections("data.pkl", content)
            yield sections("data.pkl", content | {"byteorder": b"big"})


# -- All of it -------------------------------------------------------------------------------------------------------


UNIT = """
import torch
import math as m, enum
import torch.nn.functional as F
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union
from enum import Enum
from torch import Tensor

ONE = 1
PAIR = (1, -2.5)
Ints = List[int]

class Mode(Enum):
    A = 1
    B = 2

class Point(NamedTuple):
    x: int
    y: float = 2.5

class Acc(object):
    total: int
    def __init__(self, start: int = -3):
        self.total = start
        self.names: Dict[str, int] = {}
    @property
    def twice(self) -> int:
        return self.total * 2
    @twice.setter
    def twice(self, v: int):
        self.total = v // 2
    @property
    def once(self) -> int:
        return self.total
    @staticmethod
    def make(k: int) -> "Acc":
        return Acc(k)
    def __add__(self, other: "Acc") -> "Acc":
        return Acc(self.total + other.total)
    def __len__(self) -> int:
        return 3

def commented(x, n, o):
    # type: (Tensor, int, Optional[Tensor]) -> Tuple[Tensor, int]
    if o is not None and hasattr(o, "shape"):
        return o, n
    return x, n

def built(x: Tensor, n: int, o: Optional[int], u: Union[int, str, None], a: Any):
    t = tuple((1, 2, 3))
    d = dict(a=1, b=2)
    e = dict([(1, 2.0), (3, 4.0)])
    l = list((1, 2))
    z: Ints = list()
    f = torch.jit.fork(commented, x, n, o=None)
    g = torch.jit.wait(f)
    h = getattr(x, "shape", None)
    if torch.jit.is_scripting() and not torch.jit.is_tracing():
        n += ONE
    if isinstance(u, (int, str)) or isinstance(a, tuple) or isinstance(a, list):
        n -= 1
    for i, (p, q) in enumerate(zip(range(3), [1.0, 2.0, 3.0]), 1):
        n += i + p + int(q)
    k = [v * 2 for v in l]
    c = {s: 1 for s in ["a", "b"]}
    r = x[..., None, 1:, ::2, 0] if x.dim() > 3 else x
    x[0] = 1
    x[1:, 0] += 2
    w = t[-1] + t[0:2][0] + (1, 2.0, "a")[0]
    acc = Acc() + Acc.make(2)
    acc.twice = 4
    mode = Mode.A
    assert len(acc) == 3, f"{n} {w} {mode.name}"
    with torch.no_grad():
        y = F.relu(x) @ x
    if m.isnan(0.5) or float("inf") > m.pi ** 2:
        raise ValueError("x", n)
    while True:
        n = n * 2 if n % 3 else n << 1
        if n > 100 or (o is None and n == 5) or n in l:
            break
        elif n < -9:
            continue
    point = Point(1)
    del l[0]
    print("a", n, x.dtype, x.device, point.y, PAIR)
    return max(1, 2), sorted(b), any([True]), len(k), c["a"], abs(-1), y[y == 1], h
"""
SMALL = [
    "def f(x: Tensor, *a): return x",
    "async def f(x): return x",
    "class C(torch.nn.Module):\n  def f(self): return 1\ndef g(): return C()",
    "class C(Other):\n  pass\ndef g(): return C()",
    "class C:\n  @classmethod\n  def f(cls): return 1\ndef g(): return C.f()",
    "def f():\n  global a, b\n  return 1",
    "def f(t: Tuple[int, str], i: int): return t[i]",
    "def f(t: Tuple[int, int], i: int): return t[i], t[0:i], t[::0]",
    "def f(x: int): return x[0]",
    "def f(x: Tensor): return x[..., ...], x[..., 0]",
    "def f(a: int = -1, b: float = -0.5, c: complex = 2j, d: List[int] = [1], e: Tuple[int, str] = (1, 'x'), f: Dict[str, int] = {'a': 1}): return a",
    "def f(d: torch.device = torch.device('cpu'), t: torch.dtype = torch.float32, n: Optional[int] = None): return d",
    "def f(x):\n  # type: (int, int) -> int\n  return x",
    "def f(x):\n  # type: (...) -> int\n  return x",
    "def f(x):  # type: ignore\n  return x",
    "def f(x, **k): return x",
    "def f(x):\n  try:\n    return x\n  except ValueError as e:\n    pass\n  finally:\n    pass",
    "from . import a\nfrom ..b import *\nimport torch.nn.functional as F\nfrom torch.nn import functional\ndef f(x): return functional.relu(x)",
    "def f(x):\n  if x:\n    return 1",
    "def f(x: Optional[Tensor]):\n  if 0 < 1 and None is x or x is not None and x.dim() == 1:\n    return 1\n  return 2",
    "def f(x: int): return 1 if x else 'a'",
    "def f(n: int):\n  def inner(q: int) -> int:\n    return q + n\n  return inner(1), (lambda v: v), f'{n:>3} {n!r}'",
    "def f(l: List[int]): return [v for v in l if v > 1]",
    "def f(x: int): return super().f(x)",
    "def f(x: int): return tuple([1, 2])",
    "def f(x):\n  a = zip()\n  b = range(1, 2, step=3)\n  c = sorted([1], key=1)\n  return dict([1], a=1)",
    "def f(a: List[Tensor]):\n  a[0], b = a[1], 2\n  (c, *d) = a\n  e = f = 1\n  return d",
    "def f(x: Tensor): return torch.tensor([[1, 2], [3, 4]], dtype=torch.float32), torch.jit.annotate(List[int], []), F.relu(x)",
]
ARCHIVED = """
class M(Module):
  __parameters__ = ["w", ]
  __buffers__ = ["b", ]
  __forward_pre_hooks__ = ["pre", ]
  __forward_hooks__ = ["post", ]
  __annotations__["0"] = int
  training : bool
  a : int
  K : Final[Dict[str, int]] = {"a": 1}
  L : Final[List[float]] = [inf, -1.5, nan]
  D : Final[Device] = torch.device("cpu")
  Z : Final[complex] = 2j
  E : Final[__torch__.Color] = __torch__.Color.red
  C : Final[int] = CONSTANTS.c0
  def forward(self: __torch__.M, x: Tensor, *, k: int=CONSTANTS.c0) -> Tensor:
    _0 = uninitialized(Tensor)
    _1 = uninitialized(List[int])
    _2 = uninitialized(Dict[str, int])
    _3 = (uninitialized(str), uninitialized(float), uninitialized(Device), uninitialized(__torch__.Color), uninitialized(Union[int, str]))
    _4 = uninitialized(__torch__.P)
    o = __torch__.C2.__new__(__torch__.C2)
    _5 = (o).__init__(1, )
    c = ops.prim.unchecked_unwrap_optional(annotate(Optional[int], 3))
    d = unchecked_cast(List[int], [1])
    e = torch.format("{}", 1)
    f = fork(self.other, x)
    g = torch.wait(f)
    i = (self).f(x, )
    ops.prim.RaiseException("x", "builtins.ValueError")
    return torch.add(x, x, alpha=k)
  def other(self: __torch__.M, x: Tensor) -> Tensor:
    def lam(q: Tensor) -> Tensor:
      return torch.neg(q)
    return lam(x)
  def pre(self: __torch__.M, x: Tuple[Tensor]) -> Tuple[Tensor]:
    return x
  def post(self: __torch__.M, x: Tuple[Tensor], y: Tensor) -> Tensor:
    return y
class Color(Enum):
  red = 1
  green = 2
class P(NamedTuple):
  x : int
  y : float
class I(Interface):
  def f(self: __torch__.I, x: int) -> int:
    pass
class C2:
  x : int
  def __init__(self: __torch__.C2, x: int) -> NoneType:
    self.x = x
  def get(self: __torch__.C2) -> int:
    return self.x
"""


def texts_of_tests() -> Iterator[bytes]:
    """TorchScript in the tests: files, and functions one by one."""
    for path in sorted((TOP / "tests" / "script").glob("*/*.py")):
        yield from ((a + b).encode() for a, b in cases_of(path.read_text()))
    yield from (x.encode() for x in (UNIT, *SMALL))
    for part in re.split(r"\n(?=def |class )", UNIT):
        yield ("import torch\n" + part).encode()
    for path in sorted((TOP / "tests" / "script").glob("*/*.py")):
        yield path.read_bytes()
    source = (TOP / "tests" / "python" / "programs_script.py").read_text()
    head = "import torch\nimport math\nimport enum\nfrom torch import Tensor\nfrom typing import *\n"
    for part in re.split(r"\n\n\n(?=@|def |class )", source):
        part = re.sub(r"^@calls\(.*?\)\n(?=@|def |class )", "", part, flags=re.S)
        part = re.sub(r"^@torch\.jit\.\w+\n", "", part, flags=re.M)
        if part.startswith(("def ", "class ")) and "nn.Module" not in part:
            yield (head + part + "\n").encode()
    yield TEXT.encode()


def cases_of(source: str) -> Iterator[tuple[str, str]]:
    """The head of a file with each function on its own: one that fails must not hide the others."""
    parts = re.split(r"\n\n\n(?=def |class )", source)
    head = "\n\n\n".join([parts[0], *(p for p in parts[1:] if p.startswith("class "))]) + "\n\n\n"
    yield head, ""
    yield from ((head, p) for p in parts[1:] if p.startswith("def "))


def code_of_files() -> Iterator[bytes]:
    """The code records of archives alone, each as if it were a user's file."""
    for data in files():
        try:
            content = below_root(data)
        except zipfile.BadZipFile:
            continue
        yield from (v for k, v in content.items() if k.startswith("code/") and k.endswith(".py"))


def seeds(target: str) -> Iterator[bytes]:
    if target == "zip":
        yield from zips()
        yield from (p.read_bytes() for p in sorted((TOP / "tests" / "data").glob("*.pt*")))
    elif target == "pickle":
        yield from pickles()
        yield from section_seeds("data.pkl")
        yield from saved()
    elif target == "model":
        yield JSON
        yield from section_seeds("models/model.json")
        yield from crafted()
        yield from exported()
    elif target == "source":
        yield from texts_of_tests()
        yield TEXT.encode() + b"\n@@version\n3\n"
        state = text(b"training") + b"\x89" + text(b"a") + b"K\x01" + text(b"0") + b"K\x02"
        yield ARCHIVED.encode() + b"\n@@data.pkl\n\x80\x02c__torch__\nM\n)\x81}(" + state + b"ub.\n@@version\n3\n"
        for part in ("forward", "other"):
            yield (
                ARCHIVED.replace("forward(self", "x(self").replace(part + "(self", "forward(self").encode()
                + b"\n@@version\n3\n"
            )
        yield from section_seeds("code/__torch__.py")
        yield from code_of_files()
    elif target == "schema":
        lines = [x for x in (TOP / "src" / "ops" / "schemas.txt").read_text().splitlines() if x and x[0] != "#"]
        yield from (x.encode() for x in SCHEMAS + lines[::60])
    elif target == "ir":
        yield from (x.encode() for x in GRAPHS)
    elif target == "archive":
        for data in files():
            yield data
            try:
                yield archives.pack(archives.records(data), aligned=False)  # stored, so that a mutation reaches the records
            except zipfile.BadZipFile:
                pass
        yield from legacy_variants()
        yield from data_files()
        yield b"not an archive"


WORDS = {
    "zip": [
        "PK\\x01\\x02",
        "PK\\x03\\x04",
        "PK\\x05\\x06",
        "PK\\x06\\x06",
        "PK\\x06\\x07",
        "\\x01\\x00\\x10\\x00",
        "../",
        "\\xff\\xff\\xff\\xff",
    ],
    "pickle": """ctorch._utils\\x0a_rebuild_tensor_v2\\x0a ctorch._utils\\x0a_rebuild_parameter\\x0a ctorch._utils\\x0a_rebuild_qtensor\\x0a
        ctorch.jit._pickle\\x0abuild_intlist\\x0a ctorch.jit._pickle\\x0abuild_tensorlist\\x0a ctorch.jit._pickle\\x0arestore_type_tag\\x0a
        ccollections\\x0aOrderedDict\\x0a c__torch__\\x0aM\\x0a c__torch__\\x0aPair\\x0a c__torch__\\x0aColor\\x0a c__torch__\\x0aPoint\\x0a
        ctorch\\x0adevice\\x0a cbuiltins\\x0acomplex\\x0a cbuiltins\\x0aset\\x0a storage FloatStorage \\x80\\x02 )\\x81 ub.
        \\x0a@@data/2\\x0a""".split(),
    "model": """"as_tensor" "as_tensors" "as_int" "as_ints" "as_float" "as_floats" "as_bool" "as_bools" "as_none" "as_string" "as_sym_int"
        "as_sym_ints" "as_graph" "as_scalar_type" "as_device" "as_layout" "as_memory_format" "as_optional_tensors" "as_sym_bool" "as_expr"
        "as_name" "inputs" "outputs" "nodes" "target" "name" "arg" "metadata" "user_input" "parameter" "buffer" "tensor_constant"
        "user_output" "buffer_mutation" "user_input_mutation" "range_constraints" "min_val" "max_val" "graph_module" "signature"
        "torch.ops.aten.add.Tensor" "torch.ops.higher_order.cond" "torch.ops.higher_order.while_loop" "torch.ops.higher_order.scan"
        "torch.ops.higher_order.wrap_with_set_grad_enabled" "_operator.add" "torch.sym_ite" null true 1 -1 0.5 [] {}""".split(),
    "source": """def class return if elif else for while in not and or is None True False pass break continue raise assert with as lambda
        import from global del yield async await try except finally __torch__. self : -> \\x0a\\x20\\x20 annotate( unchecked_cast(
        uninitialized( torch. ops.prim. ops.aten. List[ Dict[ Tuple[ Optional[ Union[ Tensor int float str bool complex Any NamedTuple Enum
        Module Interface __parameters__ __buffers__ f\\" \\" ''' ** // << >= != += *= @ ~ ... := CONSTANTS.c0 range( zip( enumerate( len(
        isinstance( getattr( hasattr( sorted( \\x0a@@data.pkl\\x0a""".split(),
    "schema": """Tensor Scalar int float bool str complex Dict( Future( RRef( Await( Union( Optional[ List( Generator Device Layout ScalarType
        MemoryFormat SymInt Any (a!) (a) (a|b) (*) -> [] [2] ? = * ... None True False Mean contiguous_format strided long
        __torch__.torch.classes. t1 NoneType Storage Stream""".split(),
    "ir": """graph( %x return ( prim::Constant[value= prim::If( prim::Loop( block0( block1( aten::add( prim::ListConstruct( prim::TupleConstruct(
        prim::fork_0 with : = -> Tensor int float str bool NoneType Device complex int[] int? Dict(str,\\x20int) Future[ Float( strides=[
        requires_grad= device=cpu { } [types=[ [name=" # __torch__.M Function""".split(),
    "archive": [
        "PK\\x01\\x02",
        "PK\\x03\\x04",
        "PK\\x05\\x06",
        "data.pkl",
        "code/",
        "constants.pkl",
        "version",
        "models/model.json",
        "\\x93NUMPY",
    ],
}


def main() -> None:
    target, folder = sys.argv[1].removeprefix("fuzz_"), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for data in seeds(target):
        if len(data) <= (2 * MOST_BYTES if target == "archive" else MOST_BYTES):
            (folder / hashlib.sha1(data).hexdigest()[:16]).write_bytes(data)
    words = (w.replace('"', '\\"') if '\\"' not in w else w for w in WORDS[target])
    folder.with_suffix(".dict").write_text("".join(f'"{w}"\n' for w in words))


if __name__ == "__main__":
    main()
