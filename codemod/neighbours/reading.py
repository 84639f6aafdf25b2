"""Sightings in a segment, whatever its language."""

from __future__ import annotations

from collections.abc import Sequence

from fsdp_migrate.languages import Asked, UnreadableError
from fsdp_migrate.neighbours.sighting import Sighting
from fsdp_migrate.segments import Segment


def read(segment: Segment, asked: Asked) -> Sequence[Sighting]:
    """The sightings in one segment. Quotations are as they are: what they quote stands elsewhere."""
    if segment.quotes:
        return []
    try:
        match segment.language:
            case "python":
                from fsdp_migrate.neighbours.python import read as python

                return python(segment.text, asked)
            case "yaml" | "json" | "toml":
                from fsdp_migrate.neighbours.config import read as config

                return config(segment.language, segment.text, asked)
            case "shell":
                from fsdp_migrate.neighbours.shell import read as shell

                return shell(segment.text, asked)
    except UnreadableError:
        pass  # The look for the flag says so.
    return []
