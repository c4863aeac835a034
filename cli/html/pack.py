"""pack.py page.html page.css PART.js... OUT.h: the page of `rushlight show --html` as two C arrays,
before and after its data.

The style and the script, whose parts are joined, are put into the page; a policy with the script's
hash lets a browser run this script and no other, and load nothing at all."""

from __future__ import annotations

import base64
import hashlib
import pathlib
import re
import sys


def c_array(name: str, text: str) -> str:
    data = text.encode()
    rows = [", ".join(str(byte) for byte in data[i : i + 32]) for i in range(0, len(data), 32)]
    return f"static const char {name}[{len(data)}] = {{\n  " + ",\n  ".join(rows) + "\n};\n"


def squeeze_css(text: str) -> str:
    """Without comments, and without space where none is needed."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?([{};,]) ?", r"\1", re.sub(r": (?=[^{}]*})", ":", text)).strip()


def squeeze_js(text: str) -> str:
    """Without indentation and lines that are comments: the script is written so that no string
    spans lines."""
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def main() -> None:
    html, css, *parts = (pathlib.Path(path).read_text() for path in sys.argv[1:-1])
    js = "\n".join(parts)
    js, css = "\n" + squeeze_js(js) + "\n", "\n" + squeeze_css(css) + "\n"
    if "</script" in js.lower() or "</style" in css.lower():
        sys.exit("pack.py: the script or the style would end its own block")
    digest = base64.b64encode(hashlib.sha256(js.encode()).digest()).decode()
    for mark, text in (("{{css}}", css), ("{{js}}", js), ("{{hash}}", digest)):
        if html.count(mark) != 1:
            sys.exit(f"pack.py: {mark} must stand once in the page")
        html = html.replace(mark, text)
    head, tail = html.split("{{data}}")
    text = (
        "/* Made by html/pack.py. */\n"
        + c_array("html_page_head", head)
        + c_array("html_page_tail", tail)
    )
    pathlib.Path(sys.argv[-1]).write_text(text)


if __name__ == "__main__":
    main()
