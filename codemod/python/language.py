"""Python as a container (a ``.py`` file is one segment) and as a language."""

from __future__ import annotations

from collections.abc import Sequence

from fsdp_migrate.languages import Asked, Found
from fsdp_migrate.python.analyse import analyse
from fsdp_migrate.python.project import Module
from fsdp_migrate.python.source import Source, decode, parse
from fsdp_migrate.segments import Document, Segment, Whole

__all__ = ["decode", "read", "split"]


def split(document: Document, path: str) -> Sequence[Segment]:
    return [Whole("python", document.text)]


def read(text: str, asked: Asked) -> Sequence[Found]:
    """The cases of one piece of Python.

    Raises:
        UnreadableError: it is not Python.
    """
    module = Module(asked.path, Source(text), parse(text))
    asked.project.add(module)
    return analyse(module, asked.project, asked.target)
