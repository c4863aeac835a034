"""Seeds that are archives, pickles and other data files, whole or damaged by hand
(fuzz_seeds.py)."""

from __future__ import annotations

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

# -- Archives as sections
# -------------------------------------------------------------------------------------------


def sections(main: str, content: dict[str, bytes]) -> bytes:
    rest = b"".join(b"\n@@" + k.encode() + b"\n" + v for k, v in content.items() if k != main)
    return content[main] + rest


def below_root(data: bytes) -> dict[str, bytes]:
    content = archives.records(data)
    return {k.split("/", 1)[-1]: v for k, v in content.items()}


def wanted(path: str) -> bool:
    return not path.endswith(
        ("debug_pkl", "serialization_id", ".format_version", ".storage_alignment")
    )


def files() -> Iterator[bytes]:
    """Return small archives: the fixtures, a legacy one, and those of a corpus."""
    for path in sorted((TOP / "tests" / "data").glob("*.pt*")):
        yield path.read_bytes()
    yield archives.legacy()
    folder = os.environ.get("RUSHLIGHT_CORPUS")
    for path in sorted(pathlib.Path(folder).rglob("*.pt*")) if folder else []:
        if path.stat().st_size <= 2 * MOST_BYTES:
            yield path.read_bytes()


# (position in model.json, its replacement)
LEGACY_CHANGES: list[tuple[list, object]] = [
    (["tensors", 0, "dims"], [2, 3]),
    (["tensors", 0, "dims"], ["x"]),
    (["tensors", 0, "dims"], ["-2", "3"]),
    (["tensors", 0, "dims"], ["1"] * 70),
    (["tensors", 0, "dims"], ["1"]),
    (["tensors", 0, "dataType"], 1),
    (["tensors", 0, "dataType"], "NOTHING"),
    (["tensors", 0, "isQuantized"], True),
    (["tensors", 0, "more"], 1),
    (["tensors", 0, "offset"], "9223372036854775807"),
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
    (["mainModule", "getstateAttributeId"], "1"),
    (["mainModule", "submodules", 0, "getstateAttributeId"], "4"),
    (["mainModule", "submodules", 0, "parameters", 0, "tensorId"], "9"),
    (["mainModule", "submodules", 0, "parameters", 0, "more"], "9"),
    (["mainModule", "submodules", 0, "attributes", 0, "id"], "99"),
    (["mainModule", "submodules", 0, "attributes", 0, "type"], "float"),
    (["mainModule", "submodules", 0, "attributes", 0, "more"], 0),
    (["mainModule", "submodules", 0, "name"], "a.b"),
    (["mainModule", "name"], ""),
    (["mainModule"], {}),
    (["mainModule", "torchscriptArena"], {"key": "code/gone.py"}),
    (["protoVersion"], "99"),
    (["mainModule"], None),
]


def legacy_variants() -> Iterator[bytes]:
    """Return archives of PyTorch 1.0 to 1.3 with changed contents."""
    content = archives.records(archives.legacy())
    for path, new in LEGACY_CHANGES:
        model = json.loads(content["net/model.json"])
        at = model
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = new
        yield archives.pack(content | {"net/model.json": json.dumps(model).encode()}, aligned=False)
    state = (
        b"def __getstate__(self) -> int:\n  return 1\ndef __setstate__(self, s: %s) -> None:\n "
        b" self.ratio = 0.5\n"
    )
    for kind in (b"bool", b"List[int]", b"Tensor"):
        model = json.loads(content["net/model.json"])
        model["mainModule"]["getstateAttributeId"] = "0"
        changed = {
            "net/model.json": json.dumps(model).encode(),
            "net/code/net.py": content["net/code/net.py"] + state % kind,
        }
        yield archives.pack(content | changed, aligned=False)
    attributes = (
        content["net/attributes.pkl"].replace(b"\x80\x02(", b"\x80\x02](").replace(b"t.", b"e.")
    )
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


def code_of_files() -> Iterator[bytes]:
    """Return only the code records of archives, each as if it were a user's file."""
    for data in files():
        try:
            content = below_root(data)
        except zipfile.BadZipFile:
            continue
        yield from (v for k, v in content.items() if k.startswith("code/") and k.endswith(".py"))


# -- Pickles
# --------------------------------------------------------------------------------------------------


def text(s: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(s)) + s


def tensor_of(kind: bytes = b"FloatStorage", key: bytes = b"0") -> bytes:
    storage = (
        b"(" + text(b"storage") + b"ctorch\n" + kind + b"\n" + text(key) + text(b"cpu") + b"K\x04tQ"
    )
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
        "d": b"ctorch.jit._pickle\nrestore_type_tag\n}("
        + text(b"k")
        + b"](K\x01eu"
        + text(b"Dict[str, List[int]]")
        + b"\x86R",
        "tu": b"K\x01" + text(b"y") + b"\x86",
        "n": b"c__torch__\nN\n)\x81}(" + text(b"w") + t + text(b"training") + b"\x89ub",
        "p": b"c__torch__\nPair\n)\x81K\x01](" + text(b"z") + b"e\x86b",
        "c": b"c__torch__\nColor\n" + text(b"red") + b"R",
        "np": b"c__torch__\nPoint\nK\x01G" + struct.pack(">d", 2) + b"\x86R",
        "w": t,
        "b": tensor_of(b"FloatStorage", b"1"),
        "dev": b"ctorch\ndevice\n" + text(b"cpu") + b"\x85R",
        "z": b"cbuiltins\ncomplex\nG"
        + struct.pack(">d", 1)
        + b"G"
        + struct.pack(">d", 2)
        + b"\x86R",
        "o": b"N",
        "any": b"](K\x01" + text(b"q") + b"e",
        "training": b"\x89",
    }
    fields |= given
    return (
        b"\x80\x02c__torch__\nM\n)\x81}("
        + b"".join(text(k.encode()) + v for k, v in fields.items())
        + b"ub."
    )


def old_saved() -> bytes:
    """Return a file of torch.save before 1.6: magic number, protocol, facts, the value, keys,
    storages."""
    value = b"\x80\x02" + tensor_of() + b"."
    return (
        pickle.dumps(0x1950A86A20F9469CFC6C, 2)
        + pickle.dumps(1001, 2)
        + pickle.dumps(
            {
                "protocol_version": 1001,
                "little_endian": True,
                "type_sizes": {"short": 2, "int": 4, "long": 4},
            },
            2,
        )
        + value.replace(b"tQ", b"NtQ")
        + pickle.dumps(["0"], 2)
        + struct.pack("<q4f", 4, 1, 2, 3, 4)
    )


SHARED_ITEM: list[object] = [1]
PLAIN_DATA = [
    *(1, -1, 255, 65536, 2**31, 2**63, 2**70, -(2**80), 1.5, "x\u00e9\U0001f600", b"y\xff"),
    *((None, True, False), {"a": {1, 2}}, 1j, range(3), frozenset([1]), bytearray(b"z")),
    *((), (1,), (1, 2, 3), (1, 2, 3, 4), [], {}, SHARED_ITEM, SHARED_ITEM, "x" * 300),
]


def pickles() -> Iterator[bytes]:
    for protocol in range(6):
        yield pickle.dumps(PLAIN_DATA, protocol)
    yield (
        b"(lp0\nI00\naI01\naI-5\naL12L\naF1.5\naS'a\\x41\\n\\\\'\np1\naV\\u00e9\\U0001F600\ng1\nad."
    )
    yield (
        b"(dp0\nS'a'\nI1\ns(S'b'\nI2\nu(i__torch__\nM\n(cos\nsystem\nI1\no0(1N20Pname\nQ\x88"
        b"\x89T\x01\x00\x00\x00aU\x01bB\x01\x00\x00\x00c."
    )
    yield b"\x80\x04\x8c\x01m\x94\x8c\x01C\x94\x93\x94)}\x8c\x01k\x94K\x01s\x92\x94."
    yield (
        b"\x80\x05\x8d\x01\x00\x00\x00\x00\x00\x00\x00a\x8e\x01\x00\x00\x00\x00\x00\x00\x00b"
        b"\x96\x01\x00\x00\x00\x00\x00\x00\x00c\x98\x97."
    )
    yield b"\x82\x01\x83\x01\x02\x84\x01\x02\x03\x04."
    yield from module_pickles()
    yield old_saved()


def module_pickles() -> Iterator[bytes]:
    """Return data.pkl of a module, with tensors of every kind, and of single values."""
    yield module_pickle()
    kinds = "Double Half Long Int Short Char Byte Bool BFloat16 ComplexFloat QInt8 QUInt8"
    for kind in kinds.encode().split():
        yield module_pickle(w=tensor_of(kind + b"Storage"))
    quantized = (
        tensor_of(b"QInt8Storage")
        .replace(b"_rebuild_tensor_v2", b"_rebuild_qtensor")
        .replace(
            b"\x89ccoll",
            b"(ctorch\nper_tensor_affine\nG" + struct.pack(">d", 0.5) + b"K\x00t\x89ccoll",
        )
    )
    yield module_pickle(w=quantized)
    yield module_pickle(
        w=b"ctorch._utils\n_rebuild_parameter\n("
        + tensor_of()
        + b"\x88ccollections\nOrderedDict\n)RtR"
    )
    yield (
        b"\x80\x02}("
        + text(b"x")
        + tensor_of()
        + text(b"o")
        + b"ccollections\nOrderedDict\n)R("
        + text(b"y")
        + b"K\x01uu."
    )
    yield b"\x80\x02" + b"ctorch\nSize\n(K\x01K\x02t\x85R."
    for name in (
        b"torch\nfloat32",
        b"torch\nstrided",
        b"torch.serialization\n_get_layout",
        b"torch\ncontiguous_format",
        b"builtins\nset",
    ):
        yield b"\x80\x02c" + name + b"\n."
    yield from modules_that_lie()
    t = b"(" + tensor_of()[: tensor_of().index(b"RtR")]
    yield (
        b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctor"
        b"ch\nTensor\n" + t[t.index(b"((") :] + b"R}tR."
    )


def modules_that_lie() -> Iterator[bytes]:
    """Return modules with attributes that do not have their types."""
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


# -- Zip files
# --------------------------------------------------------------------------------------------------


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


# -- Other data files
# ------------------------------------------------------------------------------------------------


def data_files() -> Iterator[bytes]:
    def npy(header: bytes, data: bytes, major: int = 1) -> bytes:
        return (
            b"\x93NUMPY"
            + bytes([major, 0])
            + struct.pack("<H" if major == 1 else "<I", len(header))
            + header
            + data
        )

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
        yield npy(
            b"{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + b", 'more': 1}\n", four
        )
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
                "a": {
                    "dtype": dtype,
                    "shape": [1],
                    "data_offsets": [0, {"F": 4, "I": 4, "U": 1, "B": 2}[dtype[0]]],
                },
            }
        ).encode()
        yield struct.pack("<Q", len(header)) + header + four
    yield old_saved()
