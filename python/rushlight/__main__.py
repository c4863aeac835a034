"""`python -m rushlight ...` runs the command `rushlight ...`, which the wheel contains."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator


def places() -> Iterator[str]:
    """Return the places where the command may be: the installer's folder, next to the interpreter,
    the build folder."""
    from importlib import metadata

    try:
        for file in metadata.files("rushlight") or ():
            if file.name == "rushlight" and file.parent.name == "bin":
                yield str(file.locate())
    except metadata.PackageNotFoundError:
        pass
    yield os.path.join(os.path.dirname(sys.executable), "rushlight")
    build = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    yield os.path.join(build, "cli", "rushlight")


def main() -> None:
    tried = list(places())
    for path in tried:
        if os.access(path, os.X_OK):
            os.execv(path, ["rushlight", *sys.argv[1:]])
    sys.exit(
        "rushlight: expected the command at one of "
        + ", ".join(tried)
        + ": install the package again"
    )


if __name__ == "__main__":
    main()
