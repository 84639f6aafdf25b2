"""Migrations of generated recipes, judged by running both versions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fsdp_migrate.api import migrate_source
from tests.fuzzing import share
from tests.python import recipes, written

PREAMBLE = (
    "from megatron.bridge.training.config import DistributedDataParallelConfig as DDP\n"
    "from megatron.bridge.training.config import DistributedInitConfig as Dist\n"
    "from megatron.bridge.training.config import CheckpointConfig as Checkpoint, ConfigContainer\n"
    "from dataclasses import replace\n\n\n"
)


def _without_imports(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith("from "))


def check(text: str, world: type[recipes.World] = recipes.World) -> str:
    """Migrate and compare in every world. Returns how the migration ended."""
    source = (PREAMBLE + text).encode()
    result = migrate_source(source, "recipe.py")
    if "a second run" in result.error:
        # The tool does not trust its own result and leaves the file as it is.
        assert result.output == source
        return "refused"
    assert not result.error, result.error + "\n" + text
    codes = {f.code for f in result.findings}
    if "FSDP020" in codes or any("could not be made" in f.why for f in result.findings):
        return "refused"
    if "FSDP022" in codes:
        # Behind a version guard the old store stays, and does nothing in the new release.
        return "guarded"
    before, after = _without_imports(source.decode()), _without_imports(result.output.decode())
    old, new = compile(before, "before", "exec"), compile(after, "after", "exec")
    for conditions, a, b, dist, ddp in recipes.worlds():
        if "FSDP021" in codes and ddp:
            continue
        if dist and (not _has_dist_store(before) or "Dist(" in before):
            # A new dist section undoes what an unknown base had on dist; nothing in this scope says that it did.
            continue
        then, cfg_then = world(conditions, a, b, dist, ddp, new=False).run(old)
        now, cfg_now = world(conditions, a, b, dist, ddp, new=True).run(new)
        shown = f"\n--- before\n{before}\n--- after\n{after}\n{conditions} a={a} b={b} dist={dist} ddp={ddp}"
        if dist and then != now and not dist_decided(before):
            continue
        assert then == now, f"{then} != {now}{shown}"
        if not now[-1] and not any("inherited" in f.message for f in result.findings):
            kept = ("format",) if "def shared" in text else ("format", "strategy", "average")
            assert all(recipes.settings(cfg_then)[k] == recipes.settings(cfg_now)[k] for k in kept), shown
    return "changed" if result.changed else "unchanged"


def _has_dist_store(text: str) -> bool:
    return "dist.use_megatron_fsdp" in text or "d.use_megatron_fsdp" in text or "setattr" in text


def dist_decided(text: str) -> bool:
    """Whether no ddp store stands alone over the unknown base's dist flag: such a store is left as it is."""
    ddp = ("ddp.use_megatron_fsdp", '.ddp, "use', "cfg.ddp =", "DDP(", "ddp = replace(")
    return not any(words in text for words in ddp)


@share(0.2)
@given(recipes.small_modules())
def test_small_recipes_mean_the_same(text: str) -> None:
    check(text)


@share(0.01)
@given(recipes.modules())
def test_generated_recipes_mean_the_same(text: str) -> None:
    check(text)


@share(0.04)
@given(st.lists(recipes.simple(), min_size=1, max_size=4))
def test_straight_lines_are_migrated_or_refused_for_a_reason(lines: list[list[str]]) -> None:
    body = [line for part in lines for line in part]
    head = ["def recipe(e):", "    cfg = base(e)", "    c = cfg", "    d = cfg.dist"]
    text = "\n".join([*head, *recipes.indent(body), "    return cfg", ""])
    check(text)


@share(0.54)
@given(written.programs())
def test_every_spelling_means_the_same(text: str) -> None:
    check(text, written.Written)
