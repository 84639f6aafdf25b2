"""Forms of the flag in Python, one by one: what stands there, what becomes of it, and the codes that remain."""

from __future__ import annotations

import io
import tokenize
from textwrap import dedent, indent
from types import SimpleNamespace
from typing import Any

import pytest

from fsdp_migrate.api import Options, migrate_source

DIST, DDP = "cfg.dist.use_megatron_fsdp", "cfg.ddp.use_megatron_fsdp"
COMPANIONS = """\
cfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"
cfg.ddp.average_in_collective = False
cfg.checkpoint.ckpt_format = "fsdp_dtensor"
"""
BRIDGE = """\
from megatron.bridge.training.config import CheckpointConfig, ConfigContainer
from megatron.bridge.training.config import DistributedDataParallelConfig, DistributedInitConfig


"""
LM = "from megatron.training.config import ConfigContainer, DistributedInitConfig\n\n\n"
MISSING = ["FSDP010", "FSDP011", "FSDP012"]


def function(body: str, parameters: str = "cfg") -> str:
    """A recipe with this body. ``DIST`` and ``DDP`` stand for the flag, a line ``COMPANIONS`` for the three."""
    lines = dedent(body).strip("\n").splitlines()
    text = "".join(
        indent(COMPANIONS, line.removesuffix("COMPANIONS")) if line.strip() == "COMPANIONS" else line + "\n"
        for line in lines
    )
    return f"def recipe({parameters}):\n" + indent(text, "    ").replace("DIST", DIST).replace("DDP", DDP)


def becomes(name: str, before: str, after: str, *left: str, parameters: str = "cfg") -> object:
    """A function body that is changed."""
    return pytest.param(function(before, parameters), function(after, parameters), list(left), id=name)


def stays(name: str, body: str, *left: str, parameters: str = "cfg") -> object:
    """A function body that is not changed."""
    return becomes(name, body, body, *left, parameters=parameters)


def module(name: str, before: str, after: str | None, *left: str) -> object:
    """A whole file; `after` is None if it stays."""
    return pytest.param(before, before if after is None else after, list(left), id=name)


def check(
    before: str, after: str, left: list[str], path: str = "recipes/recipe.py", options: Options | None = None
) -> None:
    options = options or Options()
    result = migrate_source(before.encode(), path, options)
    assert result.error == ""
    assert result.output.decode() == after
    assert sorted(f.code for f in result.remaining) == left
    again = migrate_source(after.encode(), path, options)
    assert again.output.decode() == after
    assert sorted(f.code for f in again.findings) == left
    assert comments(after) >= comments(before)


def comments(text: str) -> int:
    return sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline))


STORES = [
    becomes("augmented_or", "DIST |= on", "DDP |= on", parameters="cfg, on"),
    stays("augmented_and", "DIST &= on", "FSDP020", parameters="cfg, on"),
    stays("deletion", "del DIST", "FSDP020"),
    becomes("annotated", "DIST: bool = False", "DDP: bool = False"),
    becomes("tuple_of_targets", "DIST, cfg.x = False, 3", "DDP, cfg.x = False, 3", "FSDP013"),
    becomes("tuple_from_a_call", "DIST, cfg.x = pair()", "DDP, cfg.x = pair()", "FSDP013"),
    stays("both_flags_in_one_tuple", "DIST, DDP = True, False", "FSDP020"),
    stays(
        "both_flags_false_in_one_tuple",
        "DIST, DDP = False, False",
        "FSDP020",
    ),
    becomes("chained_with_a_name", "on = DIST = False", "on = DDP = False"),
    becomes("chained_with_its_twin", "DDP = DIST = False", "DDP = False"),
    becomes("setattr", 'setattr(cfg.dist, "use_megatron_fsdp", False)', 'setattr(cfg.ddp, "use_megatron_fsdp", False)'),
    becomes("subscripts", 'cfg["dist"]["use_megatron_fsdp"] = False', 'cfg["ddp"]["use_megatron_fsdp"] = False'),
    stays("read_of_a_dump", 'return cfg["dist"]["use_megatron_fsdp"]', "FSDP008"),
    stays("get_of_a_dump", 'return cfg.get("dist", {}).get("use_megatron_fsdp")', "FSDP008"),
    becomes("semicolons", "a = 1; DIST = False; b = 2", "a = 1; DDP = False; b = 2"),
    becomes("twin_after_a_semicolon", "DIST = False; DDP = False; b = 2", "DDP = False; b = 2"),
    becomes("backslash", "DIST = \\\n    False", "DDP = \\\n    False"),
    becomes("ddp_takes_what_dist_has", "DDP = DIST", "pass"),
    becomes("lone_true", "DIST = True", "DDP = True\nCOMPANIONS"),
    becomes("ddp_was_on_already", "DDP = True", "DDP = True\nCOMPANIONS"),
    becomes("call_as_root", "get().dist.use_megatron_fsdp = False", "get().ddp.use_megatron_fsdp = False"),
    stays(
        "call_as_root_twice",
        "get().dist.use_megatron_fsdp = True\nget().ddp.use_megatron_fsdp = False",
        "FSDP020",
    ),
    stays(
        "variable_subscript_in_root",
        "cfgs[i].dist.use_megatron_fsdp = True\ni += 1\ncfgs[i].ddp.use_megatron_fsdp = False",
        "FSDP020",
        parameters="cfgs, i",
    ),
]

BLOCKS = [
    becomes(
        "one_line_suite_without_companions", "if on: DIST = on", "if on: DDP = on", "FSDP013", parameters="cfg, on"
    ),
    becomes(
        "one_line_suite_opens_up_for_companions",
        "if on: DIST = True",
        "if on:\n    DDP = True\n    COMPANIONS",
        parameters="cfg, on",
    ),
    becomes("only_statement_leaves_pass", "DDP = False\nif on:\n    DIST = False", "DDP = False\nif on:\n    pass"),
    becomes("only_statement_of_a_line_leaves_pass", "DDP = False\nif on: DIST = False", "DDP = False\nif on: pass"),
    becomes(
        "comment_of_an_emptied_branch_stays",
        "DDP = False\nif on:\n    # why\n    DIST = False  # here",
        "DDP = False\nif on:\n    # why\n    pass\n    # here",
    ),
    stays("conditional_dist_before_ddp", "if on:\n    DIST = True\nDDP = False", "FSDP020"),
    becomes(
        "conditional_dist_after_ddp",
        "DDP = False\nif on:\n    DIST = True",
        "DDP = False\nif on:\n    DDP = True\n    COMPANIONS",
    ),
    stays("match_before_ddp", 'match mode:\n    case "fsdp":\n        DIST = True\nDDP = False', "FSDP020"),
    becomes(
        "match",
        'match mode:\n    case "fsdp":\n        DIST = True\n    case _:\n        DIST = False',
        'match mode:\n    case "fsdp":\n        DDP = True\n        COMPANIONS\n    case _:\n        DDP = False',
    ),
    becomes(
        "for_over_configs",
        "for cfg in cfgs:\n    DIST = True",
        "for cfg in cfgs:\n    DDP = True\n    COMPANIONS",
        parameters="cfgs",
    ),
    stays("for_over_sections", "for s in (cfg.dist, cfg.ddp):\n    s.use_megatron_fsdp = True", "FSDP020"),
    becomes(
        "try_for_another_reason",
        "try:\n    DIST = False\n    go(cfg)\nexcept ValueError:\n    pass",
        "try:\n    DDP = False\n    go(cfg)\nexcept ValueError:\n    pass",
    ),
    module(
        "async_function",
        "async def f(cfg):\n    async with lock:\n        cfg.dist.use_megatron_fsdp = False\n    await go(cfg)\n",
        "async def f(cfg):\n    async with lock:\n        cfg.ddp.use_megatron_fsdp = False\n    await go(cfg)\n",
    ),
    module(
        "decorated_function",
        '@register("x")\ndef f(cfg):\n    cfg.dist.use_megatron_fsdp = False\n',
        '@register("x")\ndef f(cfg):\n    cfg.ddp.use_megatron_fsdp = False\n',
    ),
    module(
        "decorator_that_reads",
        "@only(cfg.dist.use_megatron_fsdp)\ndef f():\n    pass\n",
        "@only(cfg.ddp.use_megatron_fsdp)\ndef f():\n    pass\n",
    ),
    module(
        "class_body",
        "class R:\n    cfg = base()\n    cfg.dist.use_megatron_fsdp = True\n",
        f"class R:\n    cfg = base()\n    {DDP} = True\n" + indent(COMPANIONS, "    "),
    ),
    module("module_body", f"cfg = base()\n{DIST} = True\n", f"cfg = base()\n{DDP} = True\n{COMPANIONS}"),
]

READS = [
    becomes("lambda_", "return lambda: DIST", "return lambda: DDP"),
    becomes("comprehension", "return [DIST for _ in range(3)]", "return [DDP for _ in range(3)]"),
    becomes("default_of_a_parameter", "def g(x=DIST):\n    return x", "def g(x=DDP):\n    return x"),
    becomes("f_string_field", 'return f"{DIST!r:>5}"', 'return f"{DDP!r:>5}"'),
    becomes("walrus", "if (on := DIST):\n    go(on)", "if (on := DDP):\n    go(on)"),
    becomes("keyword_value", "go(use_megatron_fsdp=DIST)", "go(use_megatron_fsdp=DDP)"),
    becomes("and_collapses", "return DIST and DDP", "return DDP"),
    becomes("or_with_another_stays", "return DIST or DDP or on", "return DDP or on", parameters="cfg, on"),
    becomes("assert_collapses", "assert DIST is on\nassert DDP is on", "assert DDP is on", parameters="cfg, on"),
]

ALIASES = [
    becomes("section", "d = cfg.dist\nd.use_megatron_fsdp = False", "d = cfg.dist\nDDP = False"),
    becomes(
        "walrus_section",
        "if (d := cfg.dist) is not None:\n    d.use_megatron_fsdp = False",
        "if (d := cfg.dist) is not None:\n    DDP = False",
    ),
    stays("section_rebound", "d = cfg.dist\ncfg.dist = new()\nd.use_megatron_fsdp = True\nreturn cfg", "FSDP020"),
    stays("root_rebound", "d = cfg.dist\ncfg = new()\nd.use_megatron_fsdp = True\nreturn cfg", "FSDP020"),
    becomes("root", "c = cfg\nc.dist.use_megatron_fsdp = False", "c = cfg\nc.ddp.use_megatron_fsdp = False"),
    module(
        "root_is_self",
        (
            "class A:\n    def f(self):\n        cfg = self\n        cfg.dist.use_megatron_fsdp = True\n"
            "        self.ddp.use_megatron_fsdp = False\n"
        ),
        "class A:\n    def f(self):\n        cfg = self\n        self.ddp.use_megatron_fsdp = True\n",
    ),
    becomes(
        "another_root_is_another_object",
        "DIST = False\ncfg = other()\nDDP = True\nCOMPANIONS\nreturn cfg",
        "DDP = False\ncfg = other()\nDDP = True\nCOMPANIONS\nreturn cfg",
    ),
    module(
        "dead_before_a_new_dist_section",
        BRIDGE + function("DIST = True\ncfg.dist = DistributedInitConfig()\nDDP = False"),
        BRIDGE + function("cfg.dist = DistributedInitConfig()\nDDP = False"),
    ),
    module(
        "dead_before_a_new_dist_section_without_ddp",
        BRIDGE + function("DIST = True\ncfg.dist = DistributedInitConfig()"),
        BRIDGE + function("cfg.dist = DistributedInitConfig()"),
    ),
    module(
        "companion_survives_a_new_checkpoint_section",
        BRIDGE + function('DIST = True\ncfg.checkpoint = CheckpointConfig(save="/x")'),
        BRIDGE
        + function(
            'DDP = True\ncfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"\n'
            "cfg.ddp.average_in_collective = False\n"
            'cfg.checkpoint = CheckpointConfig(save="/x", ckpt_format="fsdp_dtensor")'
        ),
    ),
]

# Functions called between two stores of the same config: on before, so on afterwards.
REACHED_FROM_ELSEWHERE = {
    "closure": f"""\
def result():
    cfg = base()

    def on():
        {DIST} = True

    on()
    {DDP} = False
    return cfg
""",
    "module_variable": f"""\
cfg = base()


def on():
    {DIST} = True


def result():
    on()
    {DDP} = False
    return cfg
""",
    "method": """\
class A:
    cfg = base()

    def on(self):
        self.cfg.dist.use_megatron_fsdp = True

    def run(self):
        self.on()
        self.cfg.ddp.use_megatron_fsdp = False
        return self.cfg


def result():
    return A().run()
""",
    "helper": f"""\
def on(cfg):
    {DIST} = True


def result():
    cfg = base()
    on(cfg)
    {DDP} = False
    return cfg
""",
}

CALLS = [
    module(
        "monkeypatch",
        'def test(monkeypatch, cfg):\n    monkeypatch.setattr(cfg.dist, "use_megatron_fsdp", False)\n    run(cfg)\n',
        'def test(monkeypatch, cfg):\n    monkeypatch.setattr(cfg.ddp, "use_megatron_fsdp", False)\n    run(cfg)\n',
    ),
    module(
        "patch_object",
        'def test(cfg):\n    with patch.object(cfg.dist, "use_megatron_fsdp", True):\n        run(cfg)\n',
        'def test(cfg):\n    with patch.object(cfg.ddp, "use_megatron_fsdp", True):\n        run(cfg)\n',
    ),
    module(
        "patch_object_as_decorator",
        'cfg = base()\n\n\n@patch.object(cfg.dist, "use_megatron_fsdp", True)\ndef test():\n    run(cfg)\n',
        'cfg = base()\n\n\n@patch.object(cfg.ddp, "use_megatron_fsdp", True)\ndef test():\n    run(cfg)\n',
    ),
    module(
        "patch_by_path",
        'def test(monkeypatch):\n    monkeypatch.setattr("pkg.cfg.dist.use_megatron_fsdp", True)\n    run()\n',
        None,
        "FSDP020",
    ),
    module(
        "dataclasses_replace",
        "import dataclasses\n\n\n" + function("cfg.dist = dataclasses.replace(cfg.dist, use_megatron_fsdp=False)"),
        "import dataclasses\n\n\n" + function("cfg.ddp = dataclasses.replace(cfg.ddp, use_megatron_fsdp=False)"),
    ),
    module(
        "dataclasses_replace_of_more",
        "import dataclasses\n\n\n" + function("cfg.dist = dataclasses.replace(cfg.dist, use_megatron_fsdp=False, x=1)"),
        None,
        "FSDP020",
        "FSDP020",
    ),
    module("f_string_word", 'X = f"dist.use_megatron_fsdp={on}"\n', 'X = f"ddp.use_megatron_fsdp={on}"\n'),
]

_KW = "DistributedInitConfig(use_megatron_fsdp"
CONSTRUCTORS = [
    module(
        "comments_in_arguments",
        BRIDGE
        + dedent("""\
        def f(model):
            return ConfigContainer(
                model=model,
                dist=DistributedInitConfig(
                    # sharding
                    use_megatron_fsdp=True,  # on
                    lazy=1,
                ),
                ddp=DistributedDataParallelConfig(
                    overlap=True,  # fast
                ),
                checkpoint=CheckpointConfig(ckpt_format="fsdp_dtensor"),
            )
        """),
        BRIDGE
        + dedent("""\
        def f(model):
            return ConfigContainer(
                model=model,
                dist=DistributedInitConfig(
                    # sharding
                    # on
                    lazy=1,
                ),
                ddp=DistributedDataParallelConfig(
                    overlap=True,  # fast
                    use_megatron_fsdp=True,
                    data_parallel_sharding_strategy="optim_grads_params",
                    average_in_collective=False,
                ),
                checkpoint=CheckpointConfig(ckpt_format="fsdp_dtensor"),
            )
        """),
    ),
    module(
        "last_argument_with_a_trailing_comma",
        BRIDGE + f"C = ConfigContainer(dist={_KW}=False,), ddp=DistributedDataParallelConfig(x=1,))\n",
        BRIDGE + "C = ConfigContainer(dist=DistributedInitConfig(), ddp=DistributedDataParallelConfig(x=1,))\n",
    ),
    module(
        "false_without_ddp",
        BRIDGE + f"C = ConfigContainer(dist={_KW}=False), model=model)\n",
        BRIDGE + "C = ConfigContainer(dist=DistributedInitConfig(), model=model)\n",
    ),
    module("true_without_ddp", BRIDGE + f"C = ConfigContainer(dist={_KW}=True), model=model)\n", None, "FSDP020"),
    module(
        "unpacked_ddp_arguments",
        BRIDGE + f"C = ConfigContainer(dist={_KW}=True), ddp=DistributedDataParallelConfig(**kw))\n",
        None,
        "FSDP020",
    ),
    module(
        "unpacked_dist_arguments",
        BRIDGE + f"C = ConfigContainer(dist={_KW}=False, **kw), ddp=DistributedDataParallelConfig())\n",
        BRIDGE + "C = ConfigContainer(dist=DistributedInitConfig(**kw), ddp=DistributedDataParallelConfig())\n",
    ),
    module(
        "handed_on",
        BRIDGE
        + "def make(**kwargs):\n    return DistributedInitConfig(**kwargs)\n\n\nC = make(use_megatron_fsdp=True)\n",
        None,
        "FSDP020",
    ),
    module(
        "a_helper_of_two_containers",
        BRIDGE
        + dedent(f"""\
        def ddp():
            return DistributedDataParallelConfig(overlap=True)


        A = ConfigContainer(dist={_KW}=True), ddp=ddp())
        B = ConfigContainer(dist=DistributedInitConfig(), ddp=ddp())
        """),
        None,
        "FSDP020",
    ),
]

GUARDS = [
    stays("hasattr", 'if hasattr(cfg.dist, "use_megatron_fsdp"):\n    DIST = True\nelse:\n    DDP = True', "FSDP022"),
    stays(
        "hasattr_and_more",
        'if on and hasattr(cfg.dist, "use_megatron_fsdp"):\n    DIST = True',
        "FSDP022",
        parameters="cfg, on",
    ),
    stays("attribute_error", "try:\n    DIST = True\nexcept AttributeError:\n    DDP = True", "FSDP022"),
    stays("attribute_error_on_a_read", "try:\n    x = DIST\nexcept AttributeError:\n    x = DDP\nreturn x", "FSDP022"),
    stays("version_number", "if VERSION < (0, 7):\n    DIST = True\nelse:\n    DDP = True", "FSDP022"),
    stays(
        "hasattr_and_an_early_return",
        'if not hasattr(cfg.dist, "use_megatron_fsdp"):\n    return\nDIST = False',
        "FSDP022",
    ),
]

LOOK_ALIKES = [
    module("flagscale", f"from flagscale.train.config import DistributedInitConfig\nC = {_KW}=True)\n", None),
    module(
        "a_fork_of_megatron_lm",
        "from flagscale.train.megatron.training.config import TrainConfig\n\n\n"
        "def f(cfg):\n    cfg.dist.use_megatron_fsdp = True\n",
        None,
        "FSDP020",
    ),
    module(
        "a_config_of_another_project",
        "from flagscale.config import DistributedInitConfig\n\n\ndef f(cfg):\n    cfg.dist.use_megatron_fsdp = True\n",
        None,
        "FSDP020",
    ),
    module("nemo_deploy", f"from nemo_deploy.llm.tron_utils import DistributedInitConfig\nC = {_KW}=True)\n", None),
    module("another_dataclass", "from dataclasses import replace\nC = replace(BASE, use_megatron_fsdp=True)\n", None),
    module(
        "a_parameter",
        "def wrap(model, use_megatron_fsdp=False):\n    return go(use_megatron_fsdp=use_megatron_fsdp)\n",
        None,
    ),
    module("a_schema", "class Work(TypedDict):\n    use_megatron_fsdp: bool\n", None),
    module("an_option", 'p.add_argument("--use-megatron-fsdp", dest="use_megatron_fsdp")\n', None),
    module("other_roots_in_words", 'X = ["engine.use_megatron_fsdp=True", "a.b.use_megatron_fsdp=1"]\n', None),
    module("other_keys", 'perf["use_megatron_fsdp"] = True\nx = kw.get("use_megatron_fsdp")\n', None),
    module(
        "self_dist_is_something_else",
        "class A:\n    def __init__(self):\n        self.dist = torch.distributions.Beta(1, 1)\n"
        "        self.dist.use_megatron_fsdp = True\n",
        None,
    ),
    module("torch_distributed", "import torch.distributed as dist\n\ndist.use_megatron_fsdp = True\n", None, "FSDP020"),
    module("a_parameter_called_dist", "def f(dist):\n    dist.use_megatron_fsdp = True\n", None, "FSDP020"),
]


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        *STORES,
        *BLOCKS,
        *READS,
        *ALIASES,
        *CALLS,
        *CONSTRUCTORS,
        *GUARDS,
        *LOOK_ALIKES,
    ],
)
def test_form(before: str, after: str, left: list[str]) -> None:
    check(before, after, left)


def base() -> SimpleNamespace:
    return SimpleNamespace(
        dist=SimpleNamespace(use_megatron_fsdp=False),
        ddp=SimpleNamespace(use_megatron_fsdp=False),
        checkpoint=SimpleNamespace(),
    )


@pytest.mark.parametrize(
    "source",
    [pytest.param(source, id=name) for name, source in REACHED_FROM_ELSEWHERE.items()],
)
def test_a_store_reached_from_another_scope_is_not_overruled(source: str) -> None:
    result = migrate_source(source.encode(), "recipes/recipe.py")
    assert not result.error
    if not result.changed:
        assert "FSDP020" in {f.code for f in result.remaining}
        return
    names: dict[str, Any] = {"base": base}
    exec(result.output, names)
    assert names["result"]().ddp.use_megatron_fsdp


COMPANION_FORMS = [
    becomes(
        "no_shard_is_kept_with_a_warning",
        'DIST = True\nCOMPANIONS\ncfg.ddp.data_parallel_sharding_strategy = "no_shard"',
        'DDP = True\nCOMPANIONS\ncfg.ddp.data_parallel_sharding_strategy = "no_shard"',
        "FSDP010",
    ),
    becomes(
        "average_true_is_kept_with_a_warning",
        "DIST = True\nCOMPANIONS\ncfg.ddp.average_in_collective = True",
        "DDP = True\nCOMPANIONS\ncfg.ddp.average_in_collective = True",
        "FSDP011",
    ),
    becomes(
        "a_format_that_is_no_literal_is_kept_with_a_warning",
        "DIST = True\nCOMPANIONS\ncfg.checkpoint.ckpt_format = fmt",
        "DDP = True\nCOMPANIONS\ncfg.checkpoint.ckpt_format = fmt",
        "FSDP012",
    ),
    module(
        "a_recipe_that_switches_off_must_not_inherit_the_format",
        f"def a():\n    cfg = base()\n    {DIST} = True\n    return cfg\n\n\n"
        f"def b():\n    cfg = a()\n    {DIST} = False\n    return cfg\n",
        f"def a():\n    cfg = base()\n    {DDP} = True\n{indent(COMPANIONS, '    ')}    return cfg\n\n\n"
        f"def b():\n    cfg = a()\n    {DDP} = False\n    return cfg\n",
        "FSDP012",
    ),
    module(
        "single_quotes",
        function("cfg.name = 'a'\nDIST = True"),
        function("cfg.name = 'a'\nDDP = True\nCOMPANIONS").replace('"', "'"),
    ),
    becomes(
        "library_code_gets_the_move_only",
        "DIST = True\nif cfg.ddp.average_in_collective:\n    go()",
        "DDP = True\nif cfg.ddp.average_in_collective:\n    go()",
        *MISSING,
    ),
]


@pytest.mark.parametrize(("before", "after", "left"), COMPANION_FORMS)
def test_companions(before: str, after: str, left: list[str]) -> None:
    check(before, after, left)


@pytest.mark.parametrize("path", ["tests/a.py", "test/a.py", "pkg/test_a.py", "pkg/a_test.py", "pkg/conftest.py"])
def test_a_test_file_gets_the_move_only(path: str) -> None:
    check(function("DIST = True"), function("DDP = True"), MISSING, path)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(function('cfg["dist"]["use_megatron_fsdp"] = True'), id="subscripts"),
        pytest.param(function("get().dist.use_megatron_fsdp = True", ""), id="call_as_root"),
    ],
)
def test_companions_that_cannot_be_added_are_reported(source: str) -> None:
    result = migrate_source(source.encode(), "recipes/recipe.py")
    assert sorted(f.code for f in result.remaining) == MISSING


UNSAFE = [
    pytest.param(
        function("DIST = on", "cfg, on"),
        function(f"DDP = on\nif DDP:\n{indent(COMPANIONS, '    ')}", "cfg, on"),
        id="companions_of_an_expression",
    ),
    pytest.param(
        function('cfg.checkpoint.pretrained_checkpoint = "/x"\ncfg.checkpoint.ckpt_format = "torch_dist"\nDIST = True'),
        function(
            'cfg.checkpoint.pretrained_checkpoint = "/x"\ncfg.checkpoint.ckpt_format = "fsdp_dtensor"\nDDP = True\n'
            'cfg.ddp.data_parallel_sharding_strategy = "optim_grads_params"\ncfg.ddp.average_in_collective = False'
        ),
        id="format_of_a_pretrained_checkpoint",
    ),
    pytest.param(
        function("DIST = True\nCOMPANIONS\ncfg.ddp.average_in_collective = True"),
        function("DDP = True\nCOMPANIONS\ncfg.ddp.average_in_collective = False"),
        id="average_in_collective",
    ),
]


@pytest.mark.parametrize(("before", "after"), UNSAFE)
def test_an_unsafe_fix_is_applied_on_request(before: str, after: str) -> None:
    assert migrate_source(before.encode(), "recipes/recipe.py").output.decode() != after
    check(before, after, [], options=Options(unsafe=True))


MAIN = Options(target="main")
_LM_CONTAINER = f"C = ConfigContainer(dist={_KW}=False), ddp=DistributedDataParallelConfig())\n"


@pytest.mark.parametrize("body", ["DIST = False", "return DIST"])
def test_megatron_lm_keeps_its_own_flag_up_to_main(body: str) -> None:
    before, after = LM + function(body), LM + function(body.replace("DIST", "DDP"))
    check(before, before, ["FSDP020"])
    check(before, after, [], options=MAIN)


def test_megatron_lm_keeps_its_own_keyword_up_to_main() -> None:
    before = "from megatron.core.distributed import DistributedDataParallelConfig\n" + LM + _LM_CONTAINER
    check(before, before, ["FSDP020"])
    check(before, before.replace("use_megatron_fsdp=False", ""), [], options=MAIN)


# ── Bytes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

ONE_LINE = f"def f(cfg):\n    {DIST} = False\n"
FULL, FULL_AFTER = function("DIST = True"), function("DDP = True\nCOMPANIONS")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(FULL.replace("\n", "\r\n"), FULL_AFTER.replace("\n", "\r\n"), id="crlf"),
        pytest.param(FULL.rstrip("\n"), FULL_AFTER.rstrip("\n"), id="no_newline_at_the_end"),
        pytest.param(
            FULL.rstrip("\n").replace("\n", "\r\n"),
            FULL_AFTER.rstrip("\n").replace("\n", "\r\n"),
            id="crlf_and_no_newline_at_the_end",
        ),
        pytest.param(FULL.replace("    ", "\t"), FULL_AFTER.replace("    ", "\t"), id="tabs"),
        pytest.param("x = 1\r\ny = 2\n" + FULL, "x = 1\r\ny = 2\n" + FULL_AFTER, id="mixed"),
        pytest.param("x = 1\n\x0c\n" + ONE_LINE, "x = 1\n\x0c\n" + ONE_LINE.replace("dist", "ddp"), id="form_feed"),
        pytest.param("\ufeff" + ONE_LINE, "\ufeff" + ONE_LINE.replace("dist", "ddp"), id="byte_order_mark"),
        pytest.param("x = 'é漢'\n" + ONE_LINE, "x = 'é漢'\n" + ONE_LINE.replace("dist", "ddp"), id="wide"),
    ],
)
def test_bytes_are_kept(before: str, after: str) -> None:
    result = migrate_source(before.encode(), "recipes/recipe.py")
    assert result.output == after.encode()
    assert not result.error


def test_an_encoding_cookie_is_obeyed() -> None:
    before = "# -*- coding: latin-1 -*-\n# café\n" + ONE_LINE
    result = migrate_source(before.encode("latin-1"), "recipes/recipe.py")
    assert result.output == before.replace("dist", "ddp").encode("latin-1")


@pytest.mark.parametrize(
    ("source", "word"),
    [
        pytest.param(FULL.replace("\n", "\r").encode(), "carriage return", id="lone_carriage_returns"),
        pytest.param(b"# \xff\n" + FULL.encode(), "encoding", id="not_utf8"),
        pytest.param(b"# coding: nope\n" + FULL.encode(), "unknown encoding", id="unknown_encoding"),
        pytest.param(b"def f(:\n" + FULL.encode(), "line 1", id="unparsable"),
        pytest.param(f"<<<<<<< a\n{DIST} = True\n=======\n>>>>>>> b\n".encode(), "line 1", id="merge_conflict"),
        pytest.param(f"if {DIST} = True:\n    pass\n".encode(), "line 1", id="assignment_in_a_condition"),
        pytest.param(FULL.encode() + b"\0", "null", id="null_byte"),
    ],
)
def test_what_cannot_be_read_is_reported_and_left(source: bytes, word: str) -> None:
    result = migrate_source(source, "recipes/recipe.py")
    assert result.output == source
    assert word in result.error


# ── Choices ─────────────────────────────────────────────────────────────────────────────────────────────────────────

TWO = f"def f(cfg):\n    {DIST} = False\n\n\ndef g(cfg):\n    {DIST} = False\n"


@pytest.mark.parametrize(("line", "changed"), [(2, [2]), (6, [6]), (4, [])])
def test_lines_choose_scopes(line: int, changed: list[int]) -> None:
    result = migrate_source(TWO.encode(), "recipes/recipe.py", lines=((line, line),))
    pairs = zip(TWO.splitlines(), result.output.decode().splitlines(), strict=True)
    assert [n for n, (old, new) in enumerate(pairs, start=1) if old != new] == changed


@pytest.mark.parametrize(
    ("options", "companions"),
    [
        (Options(select=("FSDP001",)), []),
        (Options(ignore=("FSDP01",)), []),
        (Options(ignore=("FSDP012",)), ["strategy", "average"]),
        (Options(select=("FSDP001", "FSDP012")), ["ckpt_format"]),
    ],
    ids=["move_only", "without_companions", "without_one", "with_one"],
)
def test_rules_choose_edits(options: Options, companions: list[str]) -> None:
    output = migrate_source(FULL.encode(), "recipes/recipe.py", options).output.decode()
    assert f"{DDP} = True" in output
    assert [word for word in ("strategy", "average", "ckpt_format") if word in output] == companions
