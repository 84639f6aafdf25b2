"""Megatron-Bridge functions that a recipe or script calls and whose effect on a config is known. In the child only.

* Public recipes of an absent Bridge answer with what the data files say they set.
* The functions that lay YAML files and command-line words over a config do so (0.6.2
  training/utils/omegaconf_utils.py), in both forms that the public scripts use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fsdp_migrate.trace import overlay
from fsdp_migrate.trace.public import public_recipe
from fsdp_migrate.trace.standins import MADE, RECORDER, Place, Recorded, StandIn, put, stand_in
from fsdp_migrate.trace.values import Unknown

_OVERLAYS = "\0overrides"


def known_call(release: str) -> Callable[[str, str, tuple[Any, ...], dict[str, Any]], Any]:
    """What `StandIn` asks before it answers a call. `NotImplemented` means: not known here."""

    def answer(text: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        overlaying = _OVERLAYING.get(name)
        if overlaying and text.startswith(("megatron.bridge.", "omegaconf.")):
            return overlaying(*args, **kwargs)
        if name.endswith("_config") and release and text.startswith("megatron.bridge."):
            return _recipe(text.rpartition(".")[0], name, release, args, kwargs)
        return NotImplemented

    return answer


def _recipe(home: str, name: str, release: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args or kwargs.keys() - {"peft_scheme"}:
        return NotImplemented  # arguments of the early releases change what the data files know
    known = public_recipe(home, name, release)
    if known is None:
        return NotImplemented
    config = stand_in(f"{home}.{name}()", made=True)
    place = (f"<megatron-bridge {known.release}>", 0)
    for path, value in known.settings.items():
        owner: Any = config
        *sections, leaf = path.split(".")
        for section in sections:
            owner = getattr(owner, section)
            owner.__dict__[MADE] = True
        put(owner, leaf, stand_in(value.text) if isinstance(value, Unknown) else value, place)
    return config


def lay_over(config: object, overrides: Iterable[overlay.Override]) -> None:
    """Set each override on a config, creating what an unknown base may have had."""
    for path, value, file, line in overrides:
        _set(config, path.split("."), value, (file, line))


def _set(owner: Any, names: list[str], value: object, place: Place) -> None:
    name, *below = names
    if isinstance(owner, dict):
        if below:
            _set(owner.setdefault(name, {}), below, value, place)
        else:
            owner[name] = value
    elif not below:
        if isinstance(owner, Recorded):
            put(owner, name, value, place)
        else:
            setattr(owner, name, value)
    else:
        if getattr(owner, name, None) is None:
            # Bridge cannot look into a section that is None: OmegaConf merges a plain mapping in its place.
            _set(owner, [name], {}, place)
        _set(getattr(owner, name), below, value, place)


def _overrides_in(value: object) -> list[overlay.Override]:
    return list(value.__dict__.get(_OVERLAYS, ())) if isinstance(value, StandIn) else []


def _overlay(text: str, overrides: list[overlay.Override]) -> StandIn:
    new = stand_in(text)
    new.__dict__[_OVERLAYS] = overrides
    return new


def _words(words: Any) -> list[overlay.Override]:
    return overlay.from_words([str(word) for word in words or ()])


def _process(config: Any, config_filepath: Any = None, cli_overrides: Any = None) -> Any:
    if config_filepath:
        lay_over(config, overlay.from_file(Path(str(config_filepath))))
    lay_over(config, _words(cli_overrides))
    return config


def _create(config_container: Any) -> tuple[StandIn, dict[str, Any]]:
    return _overlay("create_omegaconf_dict_config()", []), {}


def _load(file: Any) -> Any:
    if isinstance(file, StandIn):
        return NotImplemented
    return _overlay("OmegaConf.load()", overlay.from_file(Path(str(file))))


def _merge(*parts: Any) -> Any:
    return _overlay("OmegaConf.merge()", [override for part in parts for override in _overrides_in(part)])


def _parse(cfg: Any, overrides: Any) -> Any:
    return _overlay("parse_hydra_overrides()", _overrides_in(cfg) + _words(overrides))


def _to_container(cfg: Any, **_: Any) -> Any:
    return cfg if _overrides_in(cfg) or _OVERLAYS in getattr(cfg, "__dict__", {}) else NotImplemented


def _apply(config_obj: Any, overrides_dict: Any, excluded_fields: Any = None) -> Any:
    if isinstance(overrides_dict, StandIn) and _OVERLAYS not in overrides_dict.__dict__:
        RECORDER.assume("unknown overrides taken as none")
    lay_over(config_obj, _overrides_in(overrides_dict))
    return None


_OVERLAYING: dict[str, Callable[..., Any]] = {
    "process_config_with_overrides": _process,
    "create_omegaconf_dict_config": _create,
    "load": _load,
    "merge": _merge,
    "parse_hydra_overrides": _parse,
    "to_container": _to_container,
    "apply_overrides": _apply,
}
