"""Archives made or changed byte by byte, for tests of the readers."""

from __future__ import annotations

import io
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
