"""YAML as a container and as a language. Positions are PyYAML's, the parser that OmegaConf reads the file with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import yaml

from fsdp_migrate.config.analyse import analyse
from fsdp_migrate.config.changes import Change
from fsdp_migrate.config.tree import Entry, Node
from fsdp_migrate.findings import Edit
from fsdp_migrate.languages import Asked, Found, UnreadableError
from fsdp_migrate.segments import Document, Segment, Whole, decode

__all__ = ["decode", "read", "split"]

# YAML 1.1, as PyYAML's SafeLoader resolves plain scalars.
_WORDS = {
    **dict.fromkeys(["yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
}
# libyaml is ten times as fast and gives the same positions, but not every build of PyYAML has it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]{,99})")  # a longer one is no setting, and Python may refuse it
# Far beyond any configuration, and quick: aliases in anchors in anchors stand for billions of values.
_MOST_VALUES = 1_000_000


def split(document: Document, path: str) -> Sequence[Segment]:
    return [Whole("yaml", document.text)]


def read(text: str, asked: Asked) -> Sequence[Found]:
    """The cases of one file or stretch of YAML.

    Raises:
        UnreadableError: it is not YAML.
    """
    from fsdp_migrate.config.scripts import places

    return analyse(text, YAML, asked.path, asked.target, places(text, YAML.documents(text)))


class _Yaml:
    null = "null"

    # Analysing, editing and checking an edit look at the same few texts.
    @staticmethod
    @lru_cache(maxsize=4)
    def documents(text: str) -> Sequence[Node]:
        if "\r" in text.replace("\r\n", ""):
            raise UnreadableError("has a carriage return without a line feed; convert the line ends first")
        return _Builder(text).documents()

    def edits(self, text: str, documents: Sequence[Node], changes: Sequence[Change]) -> Sequence[Edit]:
        from fsdp_migrate.config.yaml_edits import edits_of

        return edits_of(text, documents, changes)


YAML = _Yaml()


class _Builder:
    """Nodes from the parser's events, which keep aliases and comments' places, as a composed tree does not."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.events = yaml.parse(text, Loader=_LOADER)
        self.count = 0  # of the values that a program gets, each alias counted as what it stands for
        self.weights: dict[str, int] = {}

    def documents(self) -> list[Node]:
        found: list[Node] = []
        try:
            for event in self.events:
                if isinstance(event, yaml.DocumentStartEvent):
                    found.append(self.node(next(self.events)))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f" (line {mark.line + 1})" if mark is not None else ""
            raise UnreadableError(f"is not valid YAML: {error.problem or error.context}{where}") from None
        except yaml.YAMLError as error:
            raise UnreadableError(f"is not valid YAML: {' '.join(str(error).split())}") from None
        return found

    def node(self, event: yaml.Event) -> Node:
        before = self.count
        self.count += self.weights.get(event.anchor or "", 1) if isinstance(event, yaml.AliasEvent) else 1
        if self.count > _MOST_VALUES:
            raise UnreadableError(f"stands for more than {_MOST_VALUES:,} values, by its aliases: migrate it by hand")
        node = self._node(event)
        if node.anchor:
            self.weights[node.anchor] = self.count - before
        return node

    def _node(self, event: yaml.Event) -> Node:
        start, end = _span(event)
        if isinstance(event, yaml.AliasEvent):
            return Node("alias", start, end, event.anchor)
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        anchor = event.anchor or ""
        if isinstance(event, yaml.ScalarEvent):
            quote = event.style if event.style in ("'", '"') else ""
            value: object = event.value
            tag = event.tag or ""
            # libyaml gives plain scalars an empty style, the Python parser none.
            if not event.style and not tag:
                value = _plain(event.value)
            return Node("scalar", start, end, value, quote=quote, anchor=anchor, tag=tag)
        tag = event.tag if event.tag and event.tag != "!" else ""
        if isinstance(event, yaml.SequenceStartEvent):
            node = Node("sequence", start, end, flow=bool(event.flow_style), anchor=anchor, tag=tag)
            while not isinstance(inner := next(self.events), yaml.SequenceEndEvent):
                node.items.append(self.node(inner))
            last = node.items[-1].end if node.items else end
        else:
            node = Node("mapping", start, end, flow=bool(event.flow_style), anchor=anchor, tag=tag)
            while not isinstance(inner := next(self.events), yaml.MappingEndEvent):
                key = self.node(inner)
                node.entries.append(Entry(key, self.node(next(self.events))))
            last = node.entries[-1].end if node.entries else end
        # A block ends with its last value; the parser's own mark lies behind the comments that follow.
        node.end = _span(inner)[1] if node.flow else last
        return node


def _span(event: yaml.Event) -> tuple[int, int]:
    assert event.start_mark is not None and event.end_mark is not None
    return event.start_mark.index, event.end_mark.index


def _plain(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    return int(text.replace("_", "")) if _INTEGER.fullmatch(text) else text
