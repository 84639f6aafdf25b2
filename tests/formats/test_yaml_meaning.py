"""YAML before and after, loaded: ddp is dist OR ddp, the companions are there, everything else is equal."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from fsdp_migrate.api import migrate_source
from tests.fuzzing import share

COMPANIONS = {
    ("ddp", "data_parallel_sharding_strategy"): "optim_grads_params",
    ("ddp", "average_in_collective"): False,
    ("checkpoint", "ckpt_format"): "fsdp_dtensor",
}
LEGACY = ("torch_dist", "zarr", "torch", "torch_dcp")
FLAG = "use_megatron_fsdp"

FLAGS = st.sampled_from([None, "true", "false", "True", "False", "yes", "off"])
OTHERS = {
    "dist": ["use_torch_fsdp2: false", "distributed_timeout_minutes: 30", "nested:\n{i}{i}a: 1\n{i}{i}b: [1, 2]"],
    "ddp": [
        "overlap_grad_reduce: true",
        "data_parallel_sharding_strategy: 'optim'",
        'data_parallel_sharding_strategy: "no_shard" # why not',
        "average_in_collective: True",
        "text: |\n{i}{i}two\n{i}{i}lines",
    ],
    "checkpoint": ["save: /tmp/x", "ckpt_format: torch_dist", 'ckpt_format: "zarr"', "ckpt_format: fsdp_dtensor"],
    "model": ["seq_length: 8192", "name: 'é\"'"],
}
COMMENTS = st.sampled_from(["", "", "", "  # why", " #x"])


@st.composite
def block_section(draw: st.DrawFn, name: str, flag: str | None) -> str:
    indent = draw(st.sampled_from(["  ", "    ", " "]))
    keys = draw(st.lists(st.sampled_from(OTHERS[name]), max_size=2, unique_by=lambda k: k.split(":")[0]))
    lines = [
        key.replace("{i}", indent) + (draw(COMMENTS) if "\n" not in key and "#" not in key else "") for key in keys
    ]
    if flag is not None:
        lines.insert(draw(st.integers(0, len(lines))), f"{FLAG}: {flag}{draw(COMMENTS)}")
    if not lines:
        return f"{name}:" + draw(st.sampled_from(["", " null", " {}", " ~"])) + draw(COMMENTS)
    before = draw(st.sampled_from(["", "", f"{indent}# about the key\n", "\n"]))
    return f"{name}:{draw(COMMENTS)}\n{before}" + "\n".join(indent + line for line in lines)


@st.composite
def flow_section(draw: st.DrawFn, name: str, flag: str | None) -> str:
    keys = draw(st.lists(st.sampled_from(OTHERS[name][:2]), max_size=2, unique_by=lambda k: k.split(":")[0]))
    if flag is not None:
        keys.insert(draw(st.integers(0, len(keys))), f"{FLAG}: {flag}")
    space = draw(st.sampled_from(["", " "]))
    return f"{name}: {{{space}{', '.join(keys)}{space}}}" + draw(COMMENTS)


@st.composite
def document(draw: st.DrawFn) -> str:
    sections = []
    for name in draw(st.permutations(["dist", "ddp", "checkpoint", "model"])):
        if name != "dist" and draw(st.booleans()):
            continue
        flag = draw(FLAGS) if name in ("dist", "ddp") else None
        style = draw(st.sampled_from([block_section, block_section, flow_section]))
        sections.append(draw(style(name, flag)))
    between = draw(st.sampled_from(["\n", "\n\n", "\n# next\n"]))
    return between.join(sections)


@st.composite
def files(draw: st.DrawFn) -> str:
    text = "\n---\n".join(draw(st.lists(document(), min_size=1, max_size=2)))
    # A line behind a block of text without a line end would give it one, and is refused.
    text += draw(st.sampled_from(["\n" if text.endswith("lines") else "", "\n", "\n\n# end\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"])))


def meaning(data: Any) -> Any:
    """What the document means to the new release: flags merged, companions where FSDP is switched on here."""
    if not isinstance(data, dict):
        return data
    merged = {name: dict(value) if isinstance(value, dict) else value for name, value in data.items()}
    dist, ddp = merged.get("dist"), merged.get("ddp")
    old = dist.pop(FLAG, None) if isinstance(dist, dict) else None
    new = ddp.get(FLAG) if isinstance(ddp, dict) else None
    if old is not None and not dist:
        del merged["dist"]
    value = bool(old or new) if old is not None else new
    if value is None:
        return merged
    # Old Bridge: either flag switches it on.
    settings_ = merged["ddp"] = ddp or {}
    settings_[FLAG] = bool(value)
    if value:
        for (section, key), wanted in COMPANIONS.items():
            owner = merged[section] = merged.get(section) or {}
            if key not in owner or owner[key] in LEGACY:
                owner[key] = wanted
    return merged


@share(0.2)
@given(files())
def test_the_loaded_files_differ_by_the_move_alone(text: str) -> None:
    before = [meaning(d) for d in yaml.safe_load_all(text)]
    result = migrate_source(text.encode(), "conf.yaml")
    assert not result.error
    assert not any("could not be made" in f.why for f in result.findings)
    assert list(yaml.safe_load_all(result.output)) == before
    # Comments stay, and so do the line ends and the missing one at the end.
    after = result.output.decode()
    assert sorted(c.strip() for c in _comments(after)) == sorted(c.strip() for c in _comments(text))
    assert after.endswith("\n") == text.endswith("\n")
    assert after.count("\n") == after.count("\r\n") or "\r" not in after
    assert not migrate_source(result.output, "conf.yaml").changed


def _comments(text: str) -> list[str]:
    return [line[line.index("#") :] for line in text.splitlines() if "#" in line]
