"""The heredocs of a script: another program or a file, written down inside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from fsdp_migrate.segments import Excerpt, Line, Segment, lines_of
from fsdp_migrate.shell.words import Script, script_of, walk
from fsdp_migrate.upstream import FLAG

if TYPE_CHECKING:
    from tree_sitter import Node

_BY_COMMAND = ((re.compile(r"(?:.*/)?(?:i?python|torchrun)[\d.]*"), "python"), (re.compile(r"(?:.*/)?\w*sh"), "shell"))
_BY_SUFFIX = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".toml": "toml",
    ".md": "text",
    ".txt": "text",
}


def embedded(text: str) -> Sequence[Segment]:
    """The heredocs that name the flag, each in the language of the command or the file that gets it."""
    if FLAG not in text or "<<" not in text:
        return []
    script = script_of(text)
    return [segment for body in bodies(script) if FLAG in (segment := _segment(script, body)).text]


def bodies(script: Script) -> Iterator[Node]:
    return (node for node in script.nodes if node.type == "heredoc_body")


def _segment(script: Script, body: Node) -> Segment:
    start, end = script.span(body)
    # The body may end in the tabs before a `<<-` terminator.
    end = script.text.rfind("\n", start, end) + 1 or end
    drops_tabs = body.parent is not None and any(n.type == "<<-" for n in body.parent.children)
    lines = []
    for at, line in lines_of(script.text, start, end):
        kept = line.lstrip("\t") if drops_tabs else line
        lines.append(Line(at, line[: len(line) - len(kept)], kept))
    return Excerpt(_language(script, body), tuple(lines))


def _language(script: Script, body: Node) -> str:
    redirect = body.parent
    statement = redirect.parent if redirect is not None else None
    if statement is None:
        return "shell"
    for node in walk(statement):
        if node.type == "file_redirect" and script.of(node).startswith(">"):
            suffix = PurePosixPath(script.of(node).strip(">&| \t'\"")).suffix
            if suffix in _BY_SUFFIX:
                return _BY_SUFFIX[suffix]
    words = [
        script.of(n).strip("'\"")
        for n in walk(statement)
        if n.type in ("word", "string") and n.end_byte < body.start_byte
    ]
    if (words and words[0] == "tee") or "tee" in words:
        for word in words:
            if (suffix := PurePosixPath(word).suffix) in _BY_SUFFIX:
                return _BY_SUFFIX[suffix]
    for word in words:
        for pattern, language in _BY_COMMAND:
            if pattern.fullmatch(word):
                return language
    return "shell"
