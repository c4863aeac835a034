"""Archives made or changed byte by byte, for tests of the readers."""

from __future__ import annotations

import io
import json
import struct
import zipfile


def records(data: bytes) -> dict[str, bytes]:
    """Record name (with its root folder) -> content."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return {name: z.read(name) for name in z.namelist()}


def pack(content: dict[str, bytes], aligned: bool = True, deflate: tuple[str, ...] = ()) -> bytes:
    """A zip of these records; data aligned to 64 bytes as PyTorch does, or wherever it falls."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in content.items():
            info = zipfile.ZipInfo(name)
            if any(part in name for part in deflate):
                info.compress_type = zipfile.ZIP_DEFLATED
            elif aligned:
                start = out.tell() + 30 + len(name.encode()) + 4
                room = -start % 64
                info.extra = b"FB" + room.to_bytes(2, "little") + b"Z" * room
            z.writestr(info, data)
    return out.getvalue()


def changed(data: bytes, **changes: bytes | None) -> bytes:
    """The archive with records replaced (by path below the root; None: removed)."""
    content = records(data)
    root = next(iter(content)).split("/")[0] + "/"
    for name, new in changes.items():
        content.pop(root + name, None)
        if new is not None:
            content[root + name] = new
    return pack(content)


def with_version(data: bytes, version: int, place: str = "version") -> bytes:
    return changed(data, **{"version": None, ".data/version": None, place: b"%d\n" % version})


LEGACY_TENSORS = [
    dict(
        dims=["2", "3"],
        offset="0",
        strides=["3", "1"],
        requiresGrad=True,
        dataType="FLOAT",
        data={"key": "tensors/0"},
        device="cpu",
    ),
    dict(
        dims=["2"],
        offset="1",
        strides=["1"],
        requiresGrad=False,
        dataType="FLOAT",
        data={"key": "tensors/1"},
        device="cpu",
    ),
    dict(
        dims=["2"],
        offset="0",
        strides=["1"],
        requiresGrad=False,
        dataType="INT64",
        data={"key": "tensors/2"},
        device="cpu",
    ),
]
LEGACY_MODULE = dict(
    submodules=[
        dict(
            torchscriptArena={"key": "code/fc.py"},
            parameters=[
                dict(isBuffer=False, tensorId="0", name="weight"),
                dict(isBuffer=True, tensorId="1", name="bias"),
            ],
            name="0",
            optimize=True,
            attributes=[dict(type="bool", name="training", id="0")],
        ),
    ],
    torchscriptArena={"key": "code/net.py"},
    name="Net",
    optimize=True,
    attributes=[
        dict(type="bool", name="training", id="0"),
        dict(type="List[int]", name="sizes", id="1"),
        dict(type="Dict[str, float]", name="scales", id="2"),
        dict(type="Optional[Tensor]", name="extra", id="3"),
        dict(type="Tensor", name="steps", id="4"),
        dict(type="float", name="ratio", id="5"),
    ],
)
LEGACY_ATTRIBUTES = (
    b"\x80\x02("
    + b"\x89"
    + b"ctorch.jit._pickle\nbuild_intlist\n"
    + b"](K\x03K\x04e"
    + b"\x85R"
    + b"}("
    + b"X\x01\x00\x00\x00a"
    + b"G"
    + struct.pack(">d", 2.5)
    + b"u"
    + b"N"
    + b"ctorch.jit._pickle\nbuild_tensor_from_id\nK\x02\x85R"
    + b"G"
    + struct.pack(">d", 0.5)
    + b"t."
)
LEGACY_NET = b"""op_version_set = 1
def forward(self,
    x: Tensor) -> Tensor:
  _0 = (getattr(self, "0")).forward(x, )
  y = torch.add(_0, CONSTANTS.c1, alpha=1)
  y0 = y
  for _2 in range(torch.len(self.sizes)):
    y1 = torch.mul(y0, self.ratio)
    y0 = y1
  if torch.__is__(self.extra, None):
    z = torch.mul(y0, self.scales["a"])
  else:
    extra = ops.prim.unchecked_unwrap_optional(self.extra)
    z = torch.add(y0, extra, alpha=1)
  return torch.add(z, torch.select(self.steps, 0, 1), alpha=1)
def ints(self,
    n: int=3) -> Tensor:
  return torch.div(self.steps, n)
"""
LEGACY_FC = b"""op_version_set = 1
def forward(self,
    input: Tensor) -> Tensor:
  output = torch.matmul(input, torch.t(self.weight))
  return torch.add_(output, self.bias, alpha=1)
"""


def legacy(version: int = 1, proto: int = 5) -> bytes:
    """An archive as PyTorch 1.0 to 1.3 wrote them: model.json, attributes.pkl, tensors/N, a file of
    functions a module."""

    def f(*v: float) -> bytes:
        return struct.pack(f"<{len(v)}f", *v)

    model = dict(
        protoVersion=str(proto),
        mainModule=LEGACY_MODULE,
        producerName="pytorch",
        producerVersion="1.0",
        tensors=LEGACY_TENSORS,
    )
    return pack(
        {
            "net/version": b"%d\n" % version,
            "net/model.json": json.dumps(model).encode(),
            "net/attributes.pkl": LEGACY_ATTRIBUTES,
            "net/tensors/0": f(1, 2, 3, 4, 5, 6),
            "net/tensors/1": f(9, 0.5, -0.5),
            "net/tensors/2": struct.pack("<qq", 7, 5),
            "net/code/net.py": LEGACY_NET,
            "net/code/fc.py": LEGACY_FC,
        }
    )
