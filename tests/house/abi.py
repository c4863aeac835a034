#!/usr/bin/env python3
"""abi.py CC [--update]: sizes and offsets of the public structs, values of the public enums, and
the exported functions, as the compiler sees them, are those of abi.txt.  `python3
tests/house/abi.py cc --update` writes it anew: read the difference, and say it in CHANGELOG.md;
what changes other than at a struct's end changes RUSH_BACKEND_ABI.

Structs that begin with struct_bytes may only grow, and new fields begin behind the recorded end:
what an older caller has as padding there is not zero.  --update refuses anything else; --break,
too, writes that."""

from __future__ import annotations

import difflib
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
RECORDED = pathlib.Path(__file__).with_name("abi.txt")
HEADERS = sorted(p.name for p in (TOP / "include" / "rushlight").glob("*.h"))


def plain(header: str) -> str:
    text = re.sub(
        r"/\*.*?\*/", "", (TOP / "include" / "rushlight" / header).read_text(), flags=re.S
    )
    return re.sub(r"^#.*(?:\\\n.*)*$", "", text, flags=re.M)


def fields(body: str) -> list[str]:
    """Return the names that a struct's declarations declare."""
    names, depth, part = [], 0, ""
    for c in body:
        depth += (c in "({") - (c in ")}")
        if c == ";" and depth == 0:
            pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", part)
            for one in [part] if pointer or "{" in part else part.split(","):
                found = pointer or re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*$", one.strip())
                if found and one.strip():
                    names.append(found[1])
            part = ""
        else:
            part += c
    return names


def braces(text: str, start: int) -> int:
    """Return the end of the bracket that opens at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    raise ValueError("unbalanced")


def program() -> str:
    lines = [
        "#include <stddef.h>",
        "#include <stdio.h>",
        *(f"#include <rushlight/{h}>" for h in HEADERS),
        "int main(void) {",
    ]
    for header in HEADERS:
        text = plain(header)
        for found in re.finditer(r"typedef (struct|enum) (\w+) \{", text):
            body = text[found.end() : braces(text, found.end() - 1)]
            name = found[2]
            if found[1] == "struct":
                lines.append(f'printf("struct {name} %zu\\n", sizeof({name}));')
                lines += [
                    f'printf("  {name}.{f} %zu\\n", offsetof({name}, {f}));' for f in fields(body)
                ]
            else:
                members = [m[1] for m in re.finditer(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())]
                lines += [f'printf("enum {name} {m} %d\\n", (int){m});' for m in members]
        for part in text.split("RUSH_API")[1:]:
            declaration = re.search(r"\b(rush_\w+)\s*\(", part.split(";")[0])
            if declaration:
                lines.append(f'printf("function {declaration[1]}\\n");')
    lines += ['printf("RUSH_BACKEND_ABI %u\\n", RUSH_BACKEND_ABI);', "return 0; }"]
    return "\n".join(lines) + "\n"


def seen(cc: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / "abi.c", pathlib.Path(folder) / "abi"
        source.write_text(program())
        subprocess.run([*cc, f"-I{TOP / 'include'}", str(source), "-o", str(out)], check=True)
        return subprocess.run([str(out)], check=True, capture_output=True, text=True).stdout


def sized_structs(text: str) -> dict[str, tuple[int, dict[str, int]]]:
    """Return for each struct that begins with struct_bytes its size and the offsets of its
    fields."""
    found: dict[str, tuple[int, dict[str, int]]] = {}
    for line in text.splitlines():
        if line.startswith("struct "):
            _, name, n_bytes = line.split()
            found[name] = (int(n_bytes), {})
        elif line.startswith("  "):
            struct, field, at = re.fullmatch(
                r"  (\w+)\.(\w+) (\d+"
                r")",
                line,
            ).groups()  # type: ignore[union-attr]
            found[struct][1][field] = int(at)
    return {name: struct for name, struct in found.items() if struct[1].get("struct_bytes") == 0}


def breaks(before: str, now: str) -> list[str]:
    """Return the changes that break callers compiled against `before`."""
    new, found = sized_structs(now), []
    for name, (n_bytes, fields_before) in sized_structs(before).items():
        if name not in new:
            found.append(f"{name} is gone")
            continue
        found += [
            f"{name}.{f} has moved" for f, at in fields_before.items() if new[name][1].get(f) != at
        ]
        found += [
            f"{name}.{f} lies in what was {name}'s padding: it begins at {at}, and should at "
            f"{n_bytes}"
            for f, at in new[name][1].items()
            if f not in fields_before and at < n_bytes
        ]
    return found


def main() -> int:
    now = seen(shlex.split(sys.argv[1]))
    trouble = breaks(RECORDED.read_text(), now)
    if trouble and "--break" not in sys.argv:
        print("\n".join(["older callers break:", *trouble]))
        return 1
    if "--update" in sys.argv:
        RECORDED.write_text(now)
        return 0
    before = RECORDED.read_text()
    if now != before:
        print(
            "the public interface differs from tests/house/abi.txt (--update writes it anew, see "
            "abi.py):"
        )
        print(
            "\n".join(
                difflib.unified_diff(
                    before.splitlines(), now.splitlines(), "recorded", "now", lineterm="", n=1
                )
            )
        )
    return int(now != before)


if __name__ == "__main__":
    sys.exit(main())
