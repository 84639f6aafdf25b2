"""Stretches of code in a document, made fit for a parser without moving a character.

What people put between code is written over in place: prompts count as indentation, output and elisions become
comments, magics become statements of the same length. A header that lost its body gets one that the file does not have.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fsdp_migrate.prefilter import MARK
from fsdp_migrate.segments import Excerpt, Line, Segment, Whole, lines_of
from fsdp_migrate.upstream import FLAG, NEW_SECTION, OLD_SECTION

_BY_WORD = {
    **dict.fromkeys(("python", "python3", "py", "ipython", "ipython3", "pycon", "doctest", "testcode"), "python"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console", "terminal", "shell-session", "slurm"), "shell"),
    **dict.fromkeys(("shellsession", "sh-session", "bash-session", "cmd", "ksh", "sbatch"), "shell"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("json", "jsonc", "json5"), "json"),
    "toml": "toml",
}
_BY_SUFFIX = {
    **dict.fromkeys((".py", ".ipynb"), "python"),
    **dict.fromkeys((".sh", ".bash", ".sbatch", ".slurm"), "shell"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    ".json": "json",
    ".toml": "toml",
}
_QUOTATION = re.compile(r"\d+:\d+:\S+")
_PYTHON_PROMPT = re.compile(r"[ \t]*+(?:>>>|\.\.\.:?|In \[\d+\]:)(?: |(?=\r?\n|$))")
_PYTHON_START = re.compile(r"[ \t]*(?:>>>|In \[\d+\]:)(?: |\r?\n|$)")
_SHELL_PROMPT = re.compile(r"[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.-]+@[^\s$#]+(?:[ \t][^\s$#]+)?)?[$%][ \t]+")
_MAGIC = re.compile(r"(?P<before>[ \t]*+(?:[\w.,\[\] ]++=[ \t]*+)?)(?P<magic>[!%?][^\r\n]*)")
_ELISION = re.compile(r"[ \t]*(?:\.\.\.|…|\[\.\.\.\]|<\.\.\.>|\(\.\.\.\))[ \t]*\r?\n?")
_HEADER = re.compile(
    r"(?P<code>[ \t]*(?:if|elif|else|for|while|with|try|except|finally|def|class|async)\b[^#\n]*:)"
    r"[ \t]*(?:#[^\n]*)?\r?\n?"
)


def language_of(info: str, content: str) -> str:
    """The language of a block, by what its first line says; ``text`` for what is none of ours."""
    words = re.findall(r"[^\s{}]+", info)
    if words and words[0] in ("code-block", "code-cell", "code", "sourcecode"):
        words = words[1:]
    first = words[0].lstrip(".").lower() if words else ""
    if first.split(",")[0] in _BY_WORD:
        return _BY_WORD[first.split(",")[0]]
    for word in words:
        # A quotation: 148:154:src/megatron/bridge/training/config.py
        suffix = os.path.splitext(word.strip("\"'").rsplit(":", 1)[-1])[1].lower()
        if suffix in _BY_SUFFIX:
            return _BY_SUFFIX[suffix]
    return "text" if words else _guessed(content)


def _guessed(content: str) -> str:
    sections = f"(?:{OLD_SECTION}|{NEW_SECTION})"
    for language, pattern in (
        ("python", rf"\.{sections}\.{FLAG}\b(?!=\S)|^[ \t]*>>>"),
        ("shell", rf"(?<![\w.]){sections}\.{FLAG}=\S"),
        ("yaml", rf"^[ \t]*{sections}:[ \t\r]*(?:#.*)?$|^[ \t]*{sections}\.{FLAG}:"),
        ("toml", rf"^[ \t]*\[{sections}\][ \t\r]*$"),
        ("json", rf'"{sections}"\s*:'),
    ):
        if re.search(pattern, content, re.MULTILINE):
            return language
    return "text"


def lines_in(text: str, start: int, end: int, quote: str = "") -> list[Line]:
    """The lines of a block without the indentation that all of them have, behind quote marks if it is quoted."""
    mark = re.compile(rf"[ \t]*(?:>[ \t]?){{{quote.count('>')}}}") if quote else re.compile("")
    bare: list[Line] = []
    for at, line in lines_of(text, start, end):
        found = mark.match(line)
        cut = found.end() if found else 0
        bare.append(Line(at, line[:cut], line[cut:]))
    return dedented(bare)


def dedented(lines: Sequence[Line], is_counted: Callable[[str], object] = str.strip) -> list[Line]:
    """Move the indentation that all (counted) lines share to what stands before them."""
    counted = [line.text for line in lines if line.text.strip() and is_counted(line.text)]
    common = counted[0][: len(counted[0]) - len(counted[0].lstrip(" \t"))] if counted else ""
    for text in counted:
        common = common[: _shared(common, text)]
    moved: list[Line] = []
    for line in lines:
        cut = _shared(common, line.text)
        moved.append(Line(line.raw, line.prefix + line.text[:cut], line.text[cut:]))
    return moved


def _shared(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)


def segments_of(language: str, lines: Sequence[Line], info: str = "") -> list[Segment]:
    """The segments that a block of this language amounts to. `info` may say that it quotes a source file."""
    quotes = _QUOTATION.fullmatch(info.strip()) is not None
    if not lines or not any(FLAG in line.text for line in lines):
        return []
    match language:
        case "python":
            code, magics = python_lines(lines)
            return [Excerpt("python", tuple(completed(code)), quotes=quotes), *magics]
        case "shell":
            return [Excerpt("shell", tuple(_shell_lines(lines)), quotes=quotes)]
        case "yaml":
            # Three dots would end the document.
            whole = tuple(_commented(line) if _ELISION.fullmatch(line.text) else line for line in lines)
            return [Excerpt("yaml", whole, quotes=quotes)]
        case _:
            return [Excerpt(language, tuple(lines), quotes=quotes)]


# ── Python ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def python_lines(lines: Sequence[Line]) -> tuple[list[Line], list[Segment]]:
    """Lines that are Python but for prompts, output and magics; and the shell commands among them."""
    magics: list[Segment] = []
    if any(_PYTHON_START.match(line.text) for line in lines):
        return [_behind(line, _PYTHON_PROMPT) or _commented(line) for line in lines], magics
    code: list[Line] = []
    command: list[Line] = []
    in_string = False
    for line in lines:
        found = _MAGIC.match(line.text) if not in_string else None
        if command or found:
            mark = 1 if found and not command else 0
            at = len(found["before"]) + mark if found and not command else 0
            command.append(Line(line.raw, line.prefix + line.text[:at], line.text[at:]))
            before = found["before"] if found and not len(command) > 1 else ""
            code.append(_filled(line, len(before) if len(command) == 1 else None))
            if not line.text.rstrip("\r\n").endswith("\\"):
                magics += _shell_segments(command)
                command = []
            continue
        code.append(line)
        in_string ^= (line.text.count('"""') + line.text.count("'''")) % 2 == 1
    return code, magics + _shell_segments(command)


def _shell_segments(lines: list[Line]) -> list[Segment]:
    return [Excerpt("shell", tuple(lines))] if any(FLAG in line.text for line in lines) else []


def _filled(line: Line, start: int | None) -> Line:
    """A magic as a statement of the same length; what continues it as a comment."""
    body = line.text.rstrip("\r\n")
    end = line.text[len(body) :]
    if start is None:
        return _commented(line)
    length = len(body) - start
    filler = "..." + " " * (length - 3) if length >= 3 else "0" * length
    return replace(line, text=body[:start] + filler + end)


def completed(lines: Sequence[Line]) -> Sequence[Line]:
    """The same lines, or the first repair of them that parses."""
    for repair in (list, _with_bodies, _without_elisions, lambda x: _with_bodies(_without_elisions(x))):
        repaired = repair(lines)
        try:
            ast.parse("".join(line.text for line in repaired))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return repaired
    return lines


def _with_bodies(lines: Sequence[Line]) -> list[Line]:
    """Headers whose body was left out get one."""
    done: list[Line] = []
    following = ""
    for line in reversed(lines):
        text = line.text
        header = _HEADER.fullmatch(text)
        if header and _indent(following) <= _indent(text):
            at = header.end("code")
            line = replace(line, text=text[:at] + " pass" + text[at:], added=(at, len(" pass")))
        done.append(line)
        if text.strip() and not text.lstrip().startswith("#"):
            following = text
    return done[::-1]


def _without_elisions(lines: Sequence[Line]) -> list[Line]:
    kept = dedented(lines, lambda text: not _ELISION.fullmatch(text))
    return [_commented(line) if _ELISION.fullmatch(line.text) else line for line in kept]


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


# ── Shell ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _shell_lines(lines: Sequence[Line]) -> list[Line]:
    """Commands without their prompts; what they printed becomes comments."""
    if not any(_SHELL_PROMPT.match(line.text) for line in lines):
        return list(lines)
    done: list[Line] = []
    continues = False
    for line in lines:
        command = line if continues else _behind(line, _SHELL_PROMPT)
        if continues and line.text.startswith("> "):
            command = Line(line.raw, line.prefix + "> ", line.text[2:])
        done.append(command or _commented(line))
        continues = command is not None and command.text.rstrip("\r\n").endswith("\\")
    return done


def _behind(line: Line, prompt: re.Pattern[str]) -> Line | None:
    found = prompt.match(line.text)
    return Line(line.raw, line.prefix + found[0], line.text[found.end() :]) if found else None


def _commented(line: Line) -> Line:
    """A line that is no code, as a comment of the same length."""
    return replace(line, text="#" + line.text[1:]) if line.text.strip() else line


# ── What is left of a document ──────────────────────────────────────────────────────────────────────────────────────


def rest_of(text: str, covered: Iterable[tuple[int, int]]) -> list[Segment]:
    """The text around the code, as one segment in which the code is blank."""
    parts: list[str] = []
    position = 0
    for start, end in sorted(covered):
        parts += (text[position:start], re.sub(r"[^\n]", " ", text[start:end]))
        position = end
    parts.append(text[position:])
    left = "".join(parts)
    return [Whole("text", left)] if FLAG in left or MARK in left else []
