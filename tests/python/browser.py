"""A Chromium without a window, driven through its own pipe (the DevTools protocol: JSON ended by
NUL), and PNG pixels."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import struct
import subprocess
import time
import zlib

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)


def find() -> str | None:
    named = os.environ.get("RUSHLIGHT_BROWSER")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page.  `errors` are the messages of its console that are no mere information."""

    def __init__(
        self,
        path: str,
        profile: pathlib.Path,
        dark: bool = False,
        size: tuple[int, int] = (1440, 900),
    ) -> None:
        commands, ours = os.pipe()
        theirs, answers = os.pipe()

        def pipes() -> None:  # the browser reads from 3 and writes to 4
            spare = (
                os.dup(commands),
                os.dup(answers),
            )  # in ascending order: neither is overwritten before its turn
            for n, fd in enumerate(spare, 3):
                os.dup2(fd, n)
                os.set_inheritable(n, True)

        quiet = (
            "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars "
            "--no-first-run"
        )
        size_, profile_ = f"--window-size={size[0]},{size[1]}", f"--user-data-dir={profile}"
        args = [path, *quiet.split(), "--remote-debugging-pipe", size_, profile_, "about:blank"]
        self.process = subprocess.Popen(
            args,
            preexec_fn=pipes,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self.write, self.read = ours, theirs
        self.buffer, self.number, self.session = b"", 0, None
        self.errors: list[str] = []
        page = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=theme)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.write)
        os.close(self.read)

    def message(self, deadline: float) -> dict:
        while b"\0" not in self.buffer:
            if not select.select([self.read], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser says nothing")
            part = os.read(self.read, 1 << 20)
            if not part:
                raise EOFError("the browser is gone")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method: str, **params: object) -> dict:
        self.number += 1
        question = {"id": self.number, "method": method, "params": params}
        if self.session:
            question["sessionId"] = self.session
        os.write(self.write, json.dumps(question).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            said = self.message(deadline)
            if said.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(said["params"]["exceptionDetails"].get("exception", said)))
            if said.get("method") == "Log.entryAdded" and said["params"]["entry"]["level"] in (
                "error",
                "warning",
            ):
                self.errors.append(said["params"]["entry"]["text"])
            if said.get("id") == self.number:
                assert "error" not in said, said
                return said["result"]

    def run(self, expression: str) -> object:
        """Evaluate a JavaScript expression; return its value as plain data."""
        got = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def open(self, page: pathlib.Path, ask: str = "") -> None:
        self.ask("Page.navigate", url="about:blank")
        self.ask("Page.navigate", url=f"file://{page}#{ask}")
        deadline = time.monotonic() + 60
        while self.run("document.documentElement?.dataset.ready") != "1":
            assert time.monotonic() < deadline, "the page was never ready"
        self.settle()

    def settle(self) -> None:
        """Until two frames were drawn."""
        self.run("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(() => f(0))))")

    def mouse(self, kind: str, x: float, y: float, **more: object) -> None:
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float, times: int = 1) -> None:
        for n in range(1, times + 1):
            self.mouse("mousePressed", x, y, button="left", clickCount=n)
            self.mouse("mouseReleased", x, y, button="left", clickCount=n)
        self.settle()

    def key(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = {
            "Enter": 13,
            "ArrowDown": 40,
            "ArrowUp": 38,
            "Escape": 27,
            "Home": 36,
            "End": 35,
        }.get(key, 0)
        self.ask(
            "Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text
        )
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.settle()

    def screenshot(self, scale: float = 1) -> bytes:
        width, height = self.run("[innerWidth, innerHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png", clip=clip)["data"])


def pixels(png: bytes) -> tuple[int, int, list[bytes], int]:
    """Width, height, rows, bytes a pixel of an 8-bit PNG."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, head = 8, b"", b""
    while at < len(png):
        (n,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        if kind == b"IHDR":
            head = png[at + 8 : at + 8 + n]
        elif kind == b"IDAT":
            data += png[at + 8 : at + 8 + n]
        at += 12 + n
    width, height, depth, colour = struct.unpack(">IIBB", head[:10])
    assert depth == 8 and colour in (2, 6)
    step = 3 if colour == 2 else 4
    raw, rows, above = zlib.decompress(data), [], bytes(width * step)
    for y in range(height):
        start = y * (width * step + 1)
        filter_, row = raw[start], bytearray(raw[start + 1 : start + 1 + width * step])
        for i in range(len(row) if filter_ else 0):
            left, up = row[i - step] if i >= step else 0, above[i]
            corner = above[i - step] if i >= step else 0
            guess = left + up - corner
            near = min(
                (abs(guess - left), 0, left),
                (abs(guess - up), 1, up),
                (abs(guess - corner), 2, corner),
            )[2]
            row[i] = (row[i] + (0, left, up, (left + up) // 2, near)[filter_]) & 255
        above = bytes(row)
        rows.append(above)
    return width, height, rows, step
