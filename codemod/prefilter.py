"""Cheap questions about raw bytes. Most files end here, before anything is decoded, parsed or imported."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsdp_migrate.upstream import FLAG, FSDP_FORMAT

# What the tool's own comments begin with: one that nothing needs any more is reported.
TOOL = "fsdp-migrate:"
MARK = f"{TOOL} ignore"
_MARK = MARK.encode()
_FLAG = FLAG.encode()
_FORMAT = FSDP_FORMAT.encode()
# A store of False into ddp is the new spelling of "off": nothing to move, nothing to add. Only FSDP's own checkpoint
# format does not go with it.
_DONE = re.compile(rb"\bddp\.use_megatron_fsdp[ \t]*=[ \t]*False\b[^=]*$")
# What a line with the flag must look like to be worth a parse; everything else is another schema's.
_OLD = re.compile(rb"\bdist[\w.\])\"' ,\[]{0,12}use_megatron_fsdp|use_megatron_fsdp[\"']")
_STORE = re.compile(rb"\.use_megatron_fsdp[ \t]*(?:(?::[^,\n]*)?[|&^]?|,[^()\n]*[^=!<>()\n])=(?!=)")
_ON_KEYWORD = re.compile(rb"\buse_megatron_fsdp[ \t]*=(?!=)")
_OLD_CLASS = re.compile(rb"\bDistributedInitConfig\b")
_ALIAS = re.compile(rb"(?:=|,|\()[ \t]*[\w.]+\.dist\b(?![\w.])|\bdist[ \t]*=")
_CONTAINER = re.compile(rb"\bConfigContainer\(")
# A line with more flags is not looked at here: some of these patterns read to its end for each.
_FEW = 8


def may_matter(data: bytes) -> bool:
    """Whether a file of any kind names the flag at all, or speaks to this tool."""
    return _FLAG in data or _MARK in data


# The rules that look for other names are off unless selected; until then nobody asks the registry for their needles.
NEIGHBOURS = "FSDP2"


def may_select_neighbours(prefixes: Iterable[str]) -> bool:
    """Whether a selection of codes and prefixes has rules that look for other names than the flag."""
    return any(prefix.startswith(NEIGHBOURS) or NEIGHBOURS.startswith(prefix) for prefix in prefixes)


def names_any(data: bytes, needles: tuple[bytes, ...]) -> bool:
    """Whether a file has one of these names, or what the migration looks for."""
    return any(needle in data for needle in needles) or may_matter(data)


def python_may_matter(data: bytes) -> bool:
    """Whether a Python file has a line with the flag that could be the moved one, or one that switches it on."""
    position = data.find(_FLAG)
    if position < 0:
        return False
    has_format, has_class = _FORMAT in data, b"DistributedInitConfig" in data
    keywords = aliases = None
    while position >= 0:
        start = data.rfind(b"\n", 0, position) + 1
        end = data.find(b"\n", position)
        line = data[start : end if end >= 0 else len(data)]
        flags = line.count(_FLAG)
        if flags > _FEW:
            return True
        if flags > 1 or has_format or not _DONE.search(line):
            if _OLD.search(line) or _STORE.search(line):
                return True
            if _ON_KEYWORD.search(line):
                if keywords is None:
                    keywords = bool(_OLD_CLASS.search(data) or _CONTAINER.search(data))
                if keywords:
                    return True
            if aliases is None:
                aliases = bool(_ALIAS.search(data))
            if aliases:
                return True
            if has_class and b":" in line:
                return True
        position = data.find(_FLAG, end) if end >= 0 else -1
    return False


# Beside the flag, a file of another kind must have a section that could be Bridge's.
_SECTION = re.compile(rb"\b(?:dist|ddp)\b|\bDistributedInitConfig\b")


def kind_may_matter(kind: str, data: bytes) -> bool:
    """Whether a file of this kind could have the moved flag, switch it on, or speak to this tool."""
    if _MARK in data:
        return True
    if kind == "python":
        return python_may_matter(data)
    return _FLAG in data and _SECTION.search(data) is not None
