"""Unified diffs of bytes, such that `git apply` and `patch -p1` accept every one of them."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from io import StringIO

from fsdp_migrate.alike import Span, spans
from fsdp_migrate.render import neutral
from fsdp_migrate.worktree import toplevel

CONTEXT = 3  # lines

_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


def unified_diff(path: str, old: bytes, new: bytes) -> bytes:
    """The diff from `old` to `new`, or nothing when they are equal."""
    return b"".join(_lines(patch_name(path), old, new)) if old != new else b""


def patch_name(path: str) -> str:
    """The name that `git apply`, run in the working directory, expects.

    Like git itself: relative to the root of the working tree (of the file's own, when that is another one), outside of
    every repository to the working directory.
    """
    # Git changes no file through a symbolic link.
    whole = os.path.realpath(path)
    here = os.path.realpath(".")
    for root in (_toplevel(here), _toplevel(os.path.dirname(whole)), here):
        if root is not None:
            begin = os.path.join(root, "")
            if whole.startswith(begin):
                return whole[len(begin) :].replace(os.sep, "/")
    return whole.replace(os.sep, "/").lstrip("/")


_toplevel = lru_cache(maxsize=1024)(toplevel)


def quoted(name: str) -> bytes:
    """A name as git prints it with its default settings: in quotes when it has bytes that a line cannot hold."""
    raw = os.fsencode(name)
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in raw):
        return raw
    return b'"%s"' % "".join(_ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in raw).encode()


def _lines(name: str, old: bytes, new: bytes) -> Iterator[bytes]:
    before, after = quoted("a/" + name), quoted("b/" + name)
    # Without the tab, `patch` takes the name to end at its first blank.
    end = b"\t\n" if b" " in before else b"\n"
    yield b"diff --git %s %s\n--- %s%s+++ %s%s" % (before, after, before, end, after, end)
    # Only at line feeds: git knows no other line end, and a form feed or a lone CR is part of a line.
    a, b = _split(old), _split(new)
    headings = _headings(name, old)
    for group in _groups(a, b):
        (_, first_a, _, first_b, _), (_, _, last_a, _, last_b) = group[0], group[-1]
        changed = next(start for equal, start, *_ in group if not equal)
        heading = headings[bisect_right(headings, (changed + 1, "~")) - 1][1] if headings else ""
        yield b"@@ -%s +%s @@%s\n" % (_range(first_a, last_a), _range(first_b, last_b), heading.encode())
        for equal, start_a, end_a, start_b, end_b in group:
            if equal:
                yield from (_line(b" ", line) for line in a[start_a:end_a])
            else:
                yield from (_line(b"-", line) for line in a[start_a:end_a])
                yield from (_line(b"+", line) for line in b[start_b:end_b])


def _headings(name: str, data: bytes) -> list[tuple[int, str]]:
    """From which line on a hunk is in which part of the file, for files whose lines say little; else nothing.

    Git prints such words behind the second ``@@`` too, and takes a diff with any.
    """
    if not name.endswith(".ipynb"):
        return []
    from fsdp_migrate.documents.notebook import cell_lines
    from fsdp_migrate.languages import UnreadableError

    try:
        lines = cell_lines(data.decode("utf-8"))
    except (UnicodeDecodeError, UnreadableError):
        return []
    return [(0, ""), *((line, f" cell {number}") for number, line in enumerate(lines, 1))]


def _split(data: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + _NO_NEWLINE


def _range(start: int, end: int) -> bytes:
    # An empty range is said to begin at the line before it.
    return b"%d,%d" % (start + (end > start), end - start) if end - start != 1 else b"%d" % (start + 1)


def _groups(a: Sequence[bytes], b: Sequence[bytes]) -> Iterator[list[Span]]:
    """Groups of spans with `CONTEXT`."""
    group: list[Span] = []
    for equal, start_a, end_a, start_b, end_b in spans(a, b):
        if not equal:
            group.append((equal, start_a, end_a, start_b, end_b))
            continue
        if group:
            shown = min(CONTEXT, end_a - start_a)
            if end_a - start_a <= 2 * CONTEXT and (end_a < len(a) or end_b < len(b)):
                group.append((equal, start_a, end_a, start_b, end_b))
                continue
            yield [*group, (equal, start_a, start_a + shown, start_b, start_b + shown)]
        shown = min(CONTEXT, end_a - start_a)
        group = [(equal, end_a - shown, end_a, end_b - shown, end_b)]
    if any(not equal for equal, *_ in group):
        yield group


def shown(diff: bytes, *, colour: bool) -> str:
    """A diff to be read, not applied: nothing in it commands the terminal but our own colours, which rich makes."""
    lines = [neutral(line.decode("utf-8", "surrogateescape"), keep="\t") for line in diff.split(b"\n")[:-1]]
    if not colour:
        return "".join(line + "\n" for line in lines)
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=StringIO(), force_terminal=True, color_system="standard", highlight=False, legacy_windows=False
    )
    with console.capture() as capture:
        for line in lines:
            style = next((style for sign, style in _STYLES if line.startswith(sign)), "")
            console.print(Text(line, style), soft_wrap=True)
    return capture.get()


_STYLES = (
    ("diff ", "bold"),
    ("--- ", "bold"),
    ("+++ ", "bold"),
    ("@@", "cyan"),
    ("-", "red"),
    ("+", "green"),
    ("\\", "dim"),
)
