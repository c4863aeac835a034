#!/usr/bin/env python3
"""wrap.py [--check] [FILE...]: bring lines of C, operator tables and Python to at most 100 columns;
all committed files without FILE.

    --check    change nothing; print the lines that are too long, and fail where there are some

C: clang-format (.clang-format, version 14 or newer) is handed the lines that are too long and no
others, so that tables stay as they were laid out.  Comments, and Python's documentation, are
refilled: words that do not fit go to the next line.  Operator tables (src/ops/table) are data: a
line that is too long is broken behind its last comma that fits.  Other Python: `ruff format`
(pyproject.toml has the width). Files of LEFT below are not touched.
"""

from __future__ import annotations

import argparse
import io
import pathlib
import re
import subprocess
import sys
import tokenize

TOP = pathlib.Path(__file__).resolve().parents[1]
WIDTH = 100
C = (".c", ".h", ".inc", ".def")
# Files that are not changed: tests depend on their text (messages cite it, archives were made of
# it).
LEFT = (
    "tests/script/*/*.py",
    "tests/data/*.py",
    "tests/data/*/*.py",
    "tests/python/programs*.py",
    "tests/python/script_programs*.py",
)
PRAGMA = re.compile(r"  # (?:noqa|type: ignore)\b.*$")
RULE = re.compile(r"^(\s*/\* -- .*? )-+ \*/$")


def committed() -> list[pathlib.Path]:
    run = subprocess.run(
        ["git", "-C", str(TOP), "ls-files"], capture_output=True, text=True, check=True
    )
    paths = [pathlib.Path(name) for name in run.stdout.splitlines()]
    left = {path for path in paths for pattern in LEFT if path.match(pattern)}
    return [TOP / path for path in paths if path.suffix in (*C, ".py") and path not in left]


def is_table(path: pathlib.Path) -> bool:
    return "src/ops/table/" in str(path) and not path.name.startswith("gen")


def long_lines(text: str) -> list[int]:
    return [i for i, line in enumerate(text.split("\n"), 1) if len(line) > WIDTH]


def complaints(path: pathlib.Path) -> list[int]:
    """Return lines that are too long, except addresses, data of tests and tools, and a line's own
    `# noqa` or `# type: ignore`, which cannot be moved."""
    text = path.read_text()
    rows = long_lines(text)
    if path.suffix == ".py" and not is_table(path) and rows:
        held, lines = rows_of_programs(text), text.split("\n")
        rows = [
            i
            for i in rows
            if i not in held
            and "https://" not in lines[i - 1]
            and len(PRAGMA.sub("", lines[i - 1])) > WIDTH
        ]
    return rows


def shorten_rules(text: str) -> str:
    """Shorten rules between sections to the width of the page."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        found = RULE.match(line)
        if found and len(line) != WIDTH:
            lines[i] = found[1] + "-" * (WIDTH - len(found[1]) - 3) + " */"
    return "\n".join(lines)


def spill(lines: list[str], i: int, prefix: str, ends: str) -> bool:
    """Move the words of line i that do not fit to the next line, or to a new one if that is not a
    continuation."""
    at = lines[i].rfind(" ", len(prefix) + 1, WIDTH + 1)
    if at <= len(prefix):
        return False
    rest = lines[i][at + 1 :]
    lines[i] = lines[i][:at].rstrip()
    following = lines[i + 1] if i + 1 < len(lines) else ""
    words = following[len(prefix) :]
    continues = (
        following.startswith(prefix)
        and not re.match(r"$|[ *|>#-]|\d+[.)] ", words)
        and not rest.endswith(ends)
    )
    if continues and not lines[i + 1].strip().startswith(ends or "\0"):
        lines[i + 1] = prefix + rest + " " + words
    else:
        lines.insert(i + 1, prefix + rest)
    return True


COMMENT = re.compile(r"^(\s*)(/\*|\*)( +)(?=\S)")


def wrap_comments(text: str) -> str:
    """Wrap lines that are C comments from their first column on."""
    lines, inside, i = text.split("\n"), False, 0
    while i < len(lines):
        line, found = lines[i], COMMENT.match(lines[i])
        opens = bool(found) and found[2] == "/*"
        if len(line) > WIDTH and found and (opens or inside) and not re.search(r"\*/.*\S", line):
            star = " *" if opens else "*"
            spill(lines, i, found[1] + star + found[3], "*/")
            line = lines[i]
        inside = (inside or "/*" in line) and line.rfind("*/") <= line.rfind("/*")
        i += 1
    return "\n".join(lines)


def docstring_rows(text: str) -> set[int]:
    """Return the rows inside of strings of several lines that are statements: documentation."""
    rows: set[int] = set()
    before = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.COMMENT):
            continue
        starts = before is None or before.type in (
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
        )
        if token.type == tokenize.STRING and starts and token.string.startswith('"""'):
            rows |= set(range(token.start[0], token.end[0] + 1))
        before = token
    return rows


def wrap_documentation(text: str) -> str:
    """Wrap docstrings and comments of Python."""
    lines, i = text.split("\n"), 0
    while i < len(lines):
        found = re.match(r"^(\s*)(# )?(?=\S)", lines[i])
        if len(lines[i]) > WIDTH and found:
            is_comment = found[2] and not lines[i].strip().startswith("#!")
            if is_comment or i + 1 in docstring_rows("\n".join(lines)):
                spill(lines, i, found[1] + (found[2] or ""), '"""')
        i += 1
    return "\n".join(lines)


def wrap_c(path: pathlib.Path, text: str) -> str:
    text = wrap_comments(shorten_rules(text))
    lines = long_lines(text)
    if not lines:
        return text
    command = [
        "clang-format",
        f"--assume-filename={path.with_suffix('.c')}",
        *(f"--lines={i}:{i}" for i in lines),
    ]
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=TOP)
    return run.stdout


def place_to_break(source: str, row: int) -> tuple[int, int] | None:
    """Return the column behind the last comma of line `row` that fits, between tokens, and the
    column at which the rest continues."""
    opened: list[tuple[int, int]] = []
    best = None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.start[0] > row:
            break
        if token.type == tokenize.OP and token.string in "([{":
            opened.append(token.end)
        elif token.type == tokenize.OP and token.string in ")]}" and opened:
            opened.pop()
        if token.type == tokenize.COMMENT and token.start[0] == row:
            return None  # what a comment is about stays on its line
        if token.start[0] == row and token.string == "," and opened and token.end[1] <= WIDTH:
            line, column = opened[-1]
            start = token.line[: len(token.line) - len(token.line.lstrip())]
            best = (token.end[1], column if line == row else len(start))
    return best


def wrap_table(text: str) -> str:
    done = 0
    while True:
        rows = [i for i in long_lines(text) if i > done]
        if not rows:
            return text
        row = rows[0]
        place = place_to_break(text, row)
        if place is None:
            done = row
            continue
        lines = text.split("\n")
        line = lines[row - 1]
        rest = line[place[0] :].strip()
        if not rest or len(line[: place[0]].rstrip()) <= place[1]:
            done = row
            continue
        following = lines[row] if row < len(lines) else ""
        aligned = len(following) - len(following.lstrip()) == place[1] and following.strip()
        if aligned and rest.endswith(",") and place[1] + len(rest) + 1 + len(aligned) <= WIDTH:
            rest += " " + aligned
            del lines[row]
        lines[row - 1 : row] = [line[: place[0]].rstrip(), " " * place[1] + rest]
        text = "\n".join(lines)


# -- Long texts in Python
# ----------------------------------------------------------------------------


def tokens_of(text: str) -> list[tuple[tokenize.TokenInfo, int]]:
    """Return the tokens, each with the number of brackets around it."""
    found, depth = [], 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.OP and token.string in ")]}":
            depth -= 1
        found.append((token, depth))
        if token.type == tokenize.OP and token.string in "([{":
            depth += 1
    return found


def place_in_string(line: str, start: int, end: int) -> int | None:
    """Return where a literal may end on this line: behind a space, outside of an f-string's
    braces."""
    prefix = re.match(r"[a-zA-Z]*", line[start:])
    first = start + (prefix.end() if prefix else 0) + 1
    best, depth, i = None, 0, first
    while i < min(end - 1, WIDTH - 1):
        if line[i] == "\\":
            i += 2
            continue
        if "f" in line[start:first].lower():
            depth += (line[i] == "{") - (line[i] == "}")
        if line[i] == " " and depth == 0 and i > first + 8:
            best = i + 1
        i += 1
    return best


def split_string(text: str) -> str | None:
    """Return the text with one literal of one line cut in two, or None if none is too long."""
    lines = text.split("\n")
    for token, depth in tokens_of(text):
        (row, start), (last, end) = token.start, token.end
        if token.type != tokenize.STRING or row != last or end <= WIDTH or '"""' in token.string:
            continue
        line = lines[row - 1]
        at = place_in_string(line, start, end)
        head = re.match(r"[a-zA-Z]*.", line[start:])
        if at is None or head is None:
            continue
        again = " " * start + head[0] + line[at:]
        if depth == 0:  # brackets around it: only where it ends the statement
            if line[end:].strip() or not re.search(r"(=|return|raise) $", line[:start]):
                continue
            pad = " " * (len(line) - len(line.lstrip()) + 4)
            lines[row - 1] = line[:start] + "("
            lines.insert(row, pad + line[start:at] + head[0][-1])
            lines.insert(row + 1, pad + head[0] + line[at:])
            lines.insert(row + 2, pad[4:] + ")")
        else:
            lines[row - 1] = line[:at] + head[0][-1]
            lines.insert(row, again)
        return "\n".join(lines)
    return None


def joins_at_top(expression: str) -> bool:
    """True if an operator is outside of all brackets and texts."""
    depth, quote, shown = 0, "", []
    for i, c in enumerate(expression):
        if quote:
            quote = "" if c == quote and expression[i - 1] != "\\" else quote
            continue
        quote = c if c in "\"'" else ""
        depth += (c in "([{") - (c in ")]}")
        shown.append(c if depth == 0 and not quote else ".")
    return re.search(r" (and|or|if|else|\+|-|\*|/) ", "".join(shown)) is not None


def break_program_line(line: str) -> list[str]:
    """Break a line of TorchScript inside of its brackets; put brackets around a bare expression."""
    bare = re.match(
        r"(\s*(?:[\w, .\[\]]+ [-+*/]?= |return |if |elif |while |assert ))([^#]*?)(:?)$", line
    )
    if bare and joins_at_top(bare[2]):
        line = f"{bare[1]}({bare[2]}){bare[3]}"
    places: list[tuple[int, int, int]] = []  # brackets, minus the column of the rest
    opened: list[int] = []
    quote = ""
    for i, c in enumerate(line[:WIDTH]):
        if quote:
            quote = "" if c == quote and line[i - 1] != "\\" else quote
        elif c in "\"'":
            quote = c
        elif c in "([{":
            opened.append(i)
        elif c in ")]}":
            opened = opened[:-1]
        elif c == " " and opened and re.search(r"(,| and| or| else| \+| -| \*)$", line[:i]):
            places.append((len(opened), -i, opened[-1] + 1))
    late = [place for place in places if -place[1] > WIDTH // 3] or places
    best = (-min(late)[1], min(late)[2]) if late else None
    indent = len(line) - len(line.lstrip())
    if best and len(line[best[0] :]) + best[1] <= WIDTH + 40 and best[1] < 72:
        return [line[: best[0]], " " * best[1] + line[best[0] + 1 :]]
    if best:
        return [line[: best[0]], " " * (indent + 6) + line[best[0] + 1 :]]
    if bare and not bare[2].startswith("("):
        return break_program_line(f"{bare[1]}({bare[2]}){bare[3]}")
    return [line]


def rows_of_programs(text: str) -> set[int]:
    """Return the rows inside of literals of several lines that are not documentation."""
    rows: set[int] = set()
    for token, _ in tokens_of(text):
        if token.type == tokenize.STRING and token.end[0] > token.start[0]:
            rows |= set(range(token.start[0], token.end[0] + 1))
    return rows - docstring_rows(text)


def wrap_programs(text: str) -> str:
    """Wrap bodies and formulas of operator tables, which are TorchScript."""
    for _ in range(2000):
        rows = [i for i in long_lines(text) if i in rows_of_programs(text)]
        lines = text.split("\n")
        for row in rows:
            made = break_program_line(lines[row - 1])
            if len(made) > 1 and len(made[0]) <= WIDTH:
                lines[row - 1 : row] = made
                text = "\n".join(lines)
                break
        else:
            return text
    return text


def wrap_strings(text: str) -> str:
    while (made := split_string(text)) is not None:
        text = made
    return text


def wrap(path: pathlib.Path) -> None:
    text = path.read_text()
    if path.suffix in C:
        made = wrap_c(path, text)
    else:
        made = wrap_strings(wrap_documentation(wrap_table(text)))
        made = wrap_table(wrap_programs(made)) if is_table(path) else made
    if made != text:
        path.write_text(made)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    paths = [path.resolve() for path in options.files] or committed()
    if not options.check:
        python = [str(path) for path in paths if path.suffix == ".py" and not is_table(path)]
        if python:
            subprocess.run(
                [sys.executable, "-m", "ruff", "format", "--quiet", *python], check=True, cwd=TOP
            )
        for path in paths:
            wrap(path)
    found = 0
    for path in paths:
        for i in complaints(path):
            found += 1
            print(f"{path.relative_to(TOP)}:{i}: longer than {WIDTH} columns")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
