"""Overrides over a recipe, with Megatron-Bridge's merge semantics.

Source: megatron-bridge 0.6.2 training/utils/omegaconf_utils.py, `process_config_with_overrides`. A YAML file is merged
first (mappings deeply, lists as a whole), then the words in Hydra's grammar, then every resulting value is set on the
config. Bridge never removes an attribute: ``~key`` takes the key out of the overrides only and changes nothing.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

Override = tuple[str, Any, str, int]
"""Dotted path, value, file (or ``<override>``), line."""

WORDS_FILE: Final = "<override>"

_WORD = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<path>[A-Za-z_][\w.\-]*)(?:=(?P<value>.*))?", re.DOTALL)
_FLOAT = re.compile(
    r"[+-]?(\d[\d_]*\.[\d_]*|\.\d[\d_]*)(e[+-]?\d+)?|[+-]?\d[\d_]*e[+-]?\d+|[+-]?(inf|nan)", re.IGNORECASE
)
_INT = re.compile(r"[+-]?(0|[1-9](_?\d)*)")
_FUNCTION = re.compile(r"[A-Za-z_]\w*\(.*\)", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\()\[\]{}:=, \t])")


class OverrideError(ValueError):
    """An override that cannot be read. The message says which and why."""


def from_words(words: Sequence[str]) -> list[Override]:
    """Read ``key=value`` words: ``+``, ``++`` and ``~`` as in Hydra."""
    found: list[Override] = []
    for word in words:
        match = _WORD.fullmatch(word)
        if not match or (match["value"] is None and match["sign"] != "~"):
            raise OverrideError(f"{word!r} is not an override: write key=value")
        if match["sign"] == "~":
            continue
        found += _leaves(match["path"], parse_value(match["value"]), WORDS_FILE, 0)
    return found


def from_file(file: Path) -> list[Override]:
    """Read a YAML file of nested or dotted keys, each value with its line."""
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError as error:
        raise OverrideError(f"reading {file} needs PyYAML: pip install pyyaml") from error
    try:
        document = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise OverrideError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
    if document is None:
        return []
    if not isinstance(document, yaml.MappingNode):
        raise OverrideError(f"{file} is not a mapping of sections")
    constructor = yaml.SafeLoader("")
    constructor.flatten_mapping(document)

    def walk(path: str, node: Any) -> Iterator[Override]:
        if isinstance(node, yaml.MappingNode) and node.value:
            constructor.flatten_mapping(node)
            for key, value in node.value:
                yield from walk(f"{path}.{key.value}" if path else key.value, value)
        else:
            value = constructor.construct_object(node, deep=True)
            if isinstance(value, str) and node.style is None and isinstance(parse_value(value), float):
                value = parse_value(value)  # OmegaConf reads 1e-4 as a number, YAML 1.1 does not
            yield path, _plain(value), str(file), node.start_mark.line + 1

    return list(walk("", document))


def _plain(value: Any) -> Any:
    """JSON has no dates and no sets; YAML has."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _leaves(path: str, value: Any, file: str, line: int) -> Iterator[Override]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item, file, line)
    else:
        yield path, value, file, line


def parse_value(text: str) -> Any:
    """The value of a word in Hydra's grammar (hydra-core 1.3 core/override_parser)."""
    value, rest = _value(text.strip(), top=True)
    if rest.strip():
        raise OverrideError(f"{text!r} is not a value: unexpected {rest.strip()!r}")
    return value


def _value(text: str, *, top: bool) -> tuple[Any, str]:
    if text[:1] in ("'", '"'):
        end = 1
        while end < len(text) and text[end] != text[0]:
            end += 2 if text[end] == "\\" else 1
        if end >= len(text):
            raise OverrideError(f"{text!r} lacks its closing quote")
        return text[1:end].replace(f"\\{text[0]}", text[0]), text[end + 1 :]
    if text[:1] == "[":
        items: list[Any] = []
        rest = text[1:].lstrip()
        while rest[:1] != "]":
            item, rest = _value(rest, top=False)
            items.append(item)
            rest = _separator(rest.lstrip(), "]", text)
        return items, rest[1:]
    if text[:1] == "{":
        mapping: dict[str, Any] = {}
        rest = text[1:].lstrip()
        while rest[:1] != "}":
            key, colon, rest = rest.partition(":")
            if not colon:
                raise OverrideError(f"{text!r} is not a mapping")
            item, rest = _value(rest.lstrip(), top=False)
            mapping[key.strip()] = item
            rest = _separator(rest.lstrip(), "}", text)
        return mapping, rest[1:]
    end, escaped = 0, False
    while end < len(text) and (escaped or text[end] not in ("=" if top else ",]}=")):
        if top and text[end] == "," and not escaped:
            raise OverrideError(f"{text!r} is a sweep over several values: write one, or quote it")
        escaped = text[end] == "\\" and not escaped
        end += 1
    scalar = text[:end].strip()
    if _FUNCTION.fullmatch(scalar):
        raise OverrideError(f"{scalar!r} is not a plain value: write what the function gives, or quote it")
    return _scalar(scalar), text[end:]


def _separator(rest: str, closing: str, text: str) -> str:
    if rest[:1] == ",":
        return rest[1:].lstrip()
    if rest[:1] != closing:
        raise OverrideError(f"{text!r} lacks its closing {closing}")
    return rest


def _scalar(text: str) -> Any:
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered == "null":
        return None
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return _ESCAPED.sub(r"\1", text)
