"""Shell as a container (a script is one segment, its heredocs are more) and as a language."""

from __future__ import annotations

from collections.abc import Sequence

from fsdp_migrate.languages import Asked, Found
from fsdp_migrate.segments import Document, Segment, Whole, decode
from fsdp_migrate.shell.analyse import analyse
from fsdp_migrate.shell.words import script_of

__all__ = ["decode", "read", "split"]


def split(document: Document, path: str) -> Sequence[Segment]:
    return [Whole("shell", document.text)]


def read(text: str, asked: Asked) -> Sequence[Found]:
    """The cases of one script. The grammar takes everything; what it does not understand is reported, not edited."""
    return analyse(script_of(text), asked.target)
