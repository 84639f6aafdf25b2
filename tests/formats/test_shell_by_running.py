"""Scripts before and after, run: what `python` and `torchrun` get, read by Hydra's own parser, means the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdp_migrate.api import migrate_source
from tests.fuzzing import share

hydra = pytest.importorskip("hydra.core.override_parser.overrides_parser")

FLAG = "use_megatron_fsdp"
LEGACY = ("torch_dist", "zarr", "torch", "torch_dcp")

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `python` and a `torchrun` that write down what they get."""
    folder = tmp_path_factory.mktemp("bin")
    for name in ("python", "torchrun"):
        program = folder / name
        program.write_text('#!/bin/bash\n{ printf "%s\\0" "$@"; printf "\\1"; } >> "$CALLS"\n')
        program.chmod(0o755)
    return folder


def calls(script: str, stand_ins: Path, variables: dict[str, str]) -> list[list[str]]:
    """The arguments of every program that a script runs."""
    log = stand_ins / "calls"
    log.write_bytes(b"")
    path = f"{stand_ins}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "CALLS": str(log), **variables}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return [[a.decode() for a in call.split(b"\0")[:-1]] for call in log.read_bytes().split(b"\1")[:-1]]


def meaning(arguments: list[str]) -> dict[str, Any]:
    """The overrides of a command, the last of two equal keys, with the flag that old Bridge computed from both."""
    parser = hydra.OverridesParser.create()
    found: dict[str, Any] = {}
    for argument in arguments:
        if "=" in argument and not argument.startswith("-"):
            override = parser.parse_override(argument)
            found[override.key_or_group] = override.value()
    flags = [found.pop(f"{section}.{FLAG}") for section in ("dist", "ddp") if f"{section}.{FLAG}" in found]
    if flags:
        found[FLAG] = any(flags)
        if found[FLAG] and found.get("checkpoint.ckpt_format") in LEGACY:
            found["checkpoint.ckpt_format"] = "fsdp_dtensor"
    return found


VALUES = st.sampled_from(["true", "true", "false", "True", "${ON}", "$OFF", "$ON"])
OTHER_WORDS = st.sampled_from(
    [
        "train.train_iters=10",
        "dist.use_torch_fsdp2=false",
        "ddp.average_in_collective=false",
        "'model.name=a b'",
        "-v",
        "checkpoint.ckpt_format=fsdp_dtensor",
        "checkpoint.ckpt_format=torch_dist",
        'logger.name="x${ON}"',
    ]
)


@st.composite
def flag_word(draw: st.DrawFn) -> str:
    section = draw(st.sampled_from(["dist", "dist", "ddp"]))
    # Hydra refuses a plus on a key that exists, and on ddp it does.
    mark = draw(st.sampled_from(["", "", "++", "+"] if section == "dist" else ["", "++"]))
    word = f"{mark}{section}.{FLAG}={draw(VALUES)}"
    return draw(st.sampled_from(["{}", '"{}"', "{}"])).format(word)


@st.composite
def words(draw: st.DrawFn) -> list[str]:
    found = draw(st.lists(OTHER_WORDS, max_size=3))
    for word in draw(st.lists(flag_word(), max_size=3)):
        found.insert(draw(st.integers(0, len(found))), word)
    return found


@st.composite
def command(draw: st.DrawFn, extra: str = "") -> str:
    line = draw(st.sampled_from(["python train.py", "torchrun --nproc_per_node=8 train.py"]))
    for word in [*draw(words()), *([extra] if extra else [])]:
        line += draw(st.sampled_from([" ", " \\\n    ", "  "])) + word
    return line + draw(st.sampled_from(["", " # run", " > /dev/null", " || true"]))


@st.composite
def array(draw: st.DrawFn) -> str:
    inside = draw(words())
    separator = draw(st.sampled_from([" ", "\n    ", "  # why\n    "]))
    more = f"ARGS+=({' '.join(draw(words()))})\n" if draw(st.booleans()) else ""
    body = separator + separator.join(inside) if "\n" in separator else " ".join(inside)
    return f"ARGS=({body}\n)\n{more}" + draw(command('"${ARGS[@]}"'))


@st.composite
def collected(draw: st.DrawFn) -> str:
    bare = OTHER_WORDS.filter(lambda word: not set(word) & set("'\""))
    plain = st.lists(st.one_of(flag_word().map(lambda word: word.strip('"')), bare), max_size=3)
    lines = [f'OPTS="{" ".join(draw(plain))}"']
    for _ in range(draw(st.integers(0, 2))):
        adding = draw(st.sampled_from(['OPTS="$OPTS {}"', 'OPTS+=" {}"', 'OPTS="${{OPTS}} {}"']))
        under = draw(st.sampled_from(["{}", 'if [[ "$ON" == "true" ]]; then\n  {}\nfi', "if $OFF; then\n  {}\nfi"]))
        lines.append(under.format(adding.format(" ".join(draw(plain)))))
    return "\n".join(lines) + "\n" + draw(command("$OPTS"))


SCRIPTS = st.lists(st.one_of(command(), array(), collected()), min_size=1, max_size=2).map("\n\n".join)


@share(0.01)
@given(script=SCRIPTS)
def test_the_programs_get_the_same(script: str, stand_ins: Path) -> None:
    result = migrate_source(script.encode(), "run.sh")
    assert not result.error
    after = result.output.decode()
    assert not migrate_source(result.output, "run.sh").changed
    refused = any(f.code == "FSDP020" for f in result.findings)
    for on, off in (("true", "false"), ("false", "false")):
        variables = {"ON": on, "OFF": off}
        old, new = calls(script, stand_ins, variables), calls(after, stand_ins, variables)
        assert [meaning(call) for call in new] == [meaning(call) for call in old]
        if not refused:
            assert not [word for call in new for word in call if f"dist.{FLAG}" in word]
