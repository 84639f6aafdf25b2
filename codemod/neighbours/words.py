"""Override words with an old name, in any text that is one word or a list of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fsdp_migrate.neighbours.names import Moved

# What only Bridge's launchers and overrides have. Other projects have sections called train and model, too.
_BRIDGE = re.compile(
    r"megatron[-_. /]?bridge|\b(?:ddp|dist)\.use_(?:megatron|custom)_fsdp\b|\bcheckpoint\.ckpt_format\b", re.I
)


def is_bridge(text: str) -> bool:
    """Whether a text shows that its overrides are Bridge's."""
    return _BRIDGE.search(text) is not None


def spans(text: str, rows: Sequence[Moved]) -> Iterator[tuple[Moved, int, int]]:
    """Every ``section.field=`` with an old name: its row, and where the name stands."""
    for row in rows:
        for match in re.finditer(rf"(?<![\w.-]){re.escape('.'.join(row.old))}(?==)", text):
            yield row, *match.span()
