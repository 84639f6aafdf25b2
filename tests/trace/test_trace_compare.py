"""The verdicts of `compare`, as a table."""

from __future__ import annotations

import pytest

from fsdp_migrate.trace import Setting, Status, TracedRecipe, Unknown, compare

DIST, DDP = "dist.use_megatron_fsdp", "ddp.use_megatron_fsdp"
STRATEGY, AVERAGE, FORMAT = "ddp.data_parallel_sharding_strategy", "ddp.average_in_collective", "checkpoint.ckpt_format"
A, B = Unknown("torch.a"), Unknown("torch.b")
COMPANIONS = {STRATEGY: "optim_grads_params", AVERAGE: False, FORMAT: "fsdp_dtensor"}


def recipe(settings, *, known: bool, line: int = 1) -> TracedRecipe:
    rows = tuple(Setting(path, value, "r.py", line + number) for number, (path, value) in enumerate(settings.items()))
    return TracedRecipe("r_config", "r.py", line, settings=rows, made=("",) if known else ())


def verdict(before, after, *, known: bool = True):
    [found] = compare([recipe(before, known=known)], [recipe(after, known=known, line=10)])
    return found


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ({}, {}, Status.UNCHANGED),
        ({DDP: True, "train.x": A}, {"train.x": A, DDP: True}, Status.UNCHANGED),
        ({DIST: True}, {DIST: True}, Status.UNCHANGED),
        # The table of what a twin becomes.
        ({DIST: True}, {DDP: True}, Status.MOVED),
        ({DIST: True, DDP: True}, {DDP: True}, Status.MOVED),
        ({DIST: True, DDP: False}, {DDP: True}, Status.MOVED),
        ({DIST: True, DDP: A}, {DDP: True}, Status.MOVED),
        ({DIST: False, DDP: True}, {DDP: True}, Status.MOVED),
        ({DIST: False, DDP: A}, {DDP: A}, Status.MOVED),
        ({DIST: False, DDP: False}, {DDP: False}, Status.MOVED),
        ({DIST: A}, {DDP: A}, Status.MOVED),
        ({DIST: A, DDP: A}, {DDP: A}, Status.MOVED),
        ({DIST: A, DDP: B}, {DDP: Unknown("(torch.a or torch.b)")}, Status.MOVED),
        ({DIST: A, DDP: B}, {DDP: Unknown("(torch.b or torch.a)")}, Status.MOVED),
        ({DIST: A, DDP: False}, {DDP: A}, Status.MOVED),
        ({DIST: A, DDP: True}, {DDP: True}, Status.MOVED),
        ({DIST: False}, {DDP: False}, Status.MOVED),
        ({DIST: False}, {}, Status.MOVED),
        # What must not pass.
        ({DIST: True}, {}, Status.DIFFERENT),
        ({DIST: True}, {DDP: False}, Status.DIFFERENT),
        ({DIST: True, DDP: False}, {DDP: False}, Status.DIFFERENT),
        ({DIST: False, DDP: True}, {DDP: False}, Status.DIFFERENT),
        ({DIST: A, DDP: B}, {DDP: B}, Status.DIFFERENT),
        ({DIST: A, DDP: B}, {DDP: Unknown("(torch.a and torch.b)")}, Status.DIFFERENT),
        ({DIST: A, DDP: False}, {DDP: False}, Status.DIFFERENT),
        ({DIST: False}, {DDP: True}, Status.DIFFERENT),
        ({DDP: True}, {DDP: False}, Status.DIFFERENT),
        ({DIST: True}, {DIST: True, DDP: False}, Status.DIFFERENT),
        ({DIST: True, "train.x": 1}, {DDP: True, "train.x": 2}, Status.DIFFERENT),
        ({DIST: True, "train.x": 1}, {DDP: True}, Status.DIFFERENT),
        ({"train.x": 1}, {"train.x": True}, Status.DIFFERENT),
        ({"train.x": A}, {"train.x": B}, Status.DIFFERENT),
        # Companions count while FSDP is on.
        ({DIST: True}, {DDP: True} | COMPANIONS, Status.COMPANIONS),
        ({DDP: True}, {DDP: True} | COMPANIONS, Status.COMPANIONS),
        ({DDP: True, FORMAT: "torch_dist"}, {DDP: True, FORMAT: "fsdp_dtensor"}, Status.COMPANIONS),
        ({DDP: True, STRATEGY: "no_shard"}, {DDP: True, STRATEGY: "optim"}, Status.COMPANIONS),
        ({DIST: False}, {DDP: False} | COMPANIONS, Status.DIFFERENT),
        ({}, COMPANIONS, Status.DIFFERENT),
        ({DIST: A}, {DDP: A} | COMPANIONS, Status.DIFFERENT),
        ({DDP: True}, {DDP: True, STRATEGY: "no_shard"}, Status.DIFFERENT),
        ({DDP: True}, {DDP: True, AVERAGE: 0}, Status.DIFFERENT),
        ({DDP: True} | COMPANIONS, {DDP: True}, Status.DIFFERENT),
    ],
)
def test_over_a_known_base(before, after, status):
    assert verdict(before, after).status is status


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ({DIST: True}, {DDP: True}, Status.MOVED),
        ({DIST: False}, {DDP: False}, Status.DECLARED),
        ({DIST: A}, {DDP: A}, Status.DECLARED),
        ({DIST: False}, {}, Status.MOVED),
        ({DIST: False}, {DDP: True}, Status.DIFFERENT),
        ({DIST: True}, {DDP: False}, Status.DIFFERENT),
        ({DIST: A}, {}, Status.DIFFERENT),
        ({DIST: A}, {DDP: B}, Status.DIFFERENT),
        ({DIST: True}, {}, Status.DIFFERENT),
        ({DIST: False, DDP: A}, {DDP: False}, Status.DIFFERENT),
    ],
)
def test_over_an_unknown_base(before, after, status):
    assert verdict(before, after, known=False).status is status


def test_a_difference_has_both_values_and_places():
    found = verdict({DIST: True, "train.x": 1}, {DDP: True, "train.x": 2})
    [difference] = found.differences
    assert str(difference) == "train.x: 1 (r.py:2) -> 2 (r.py:11)"
    lost = verdict({DIST: True}, {})
    assert [str(d) for d in lost.differences] == ["ddp.use_megatron_fsdp: True (r.py:1) -> not set"]


def test_companions_are_listed():
    found = verdict({DIST: True}, {DDP: True} | COMPANIONS)
    assert [setting.path for setting in found.companions] == list(COMPANIONS)
    assert found.differences == ()


def test_what_could_not_be_traced_is_never_fine():
    good = recipe({}, known=True)
    bad = TracedRecipe("r_config", "r.py", 1, reason="ValueError: x")
    for before, after in (([good], [bad]), ([bad], [good]), ([bad], [bad]), ([good], []), ([], [good])):
        [found] = compare(before, after)
        assert found.status is Status.NOT_VERIFIED
        assert found.detail


def test_an_object_built_in_place_of_an_unknown_one_is_a_difference():
    before = recipe({DDP: True}, known=False)
    after = TracedRecipe("r_config", "r.py", 1, settings=before.settings, made=("ddp",))
    [found] = compare([before], [after])
    assert found.status is Status.DIFFERENT


def test_a_traced_migration(repository):
    before = """
        from megatron.bridge.recipes.llama import llama3_8b_pretrain_config
        import torch

        def on_config():
            cfg = llama3_8b_pretrain_config()
            cfg.dist.use_megatron_fsdp = True
            return cfg

        def either_config():
            cfg = llama3_8b_pretrain_config()
            cfg.dist.use_megatron_fsdp = torch.a
            cfg.ddp.use_megatron_fsdp = torch.b
            return cfg
    """
    after = before.replace(
        "cfg.dist.use_megatron_fsdp = True",
        "cfg.ddp.use_megatron_fsdp = True; cfg.ddp.data_parallel_sharding_strategy = 'optim_grads_params'",
    )
    after = after.replace("            cfg.dist.use_megatron_fsdp = torch.a\n", "")
    wrong = after
    right = after.replace("= torch.b", "= torch.a or torch.b")
    traces = []
    for source in (before, right, wrong):
        repository.write({"recipe.py": source})
        traces.append(repository.trace("recipe.py", release="0.6"))
    assert [c.status for c in compare(traces[0], traces[1])] == [Status.COMPANIONS, Status.MOVED]
    assert [c.status for c in compare(traces[0], traces[2])] == [Status.COMPANIONS, Status.DIFFERENT]
