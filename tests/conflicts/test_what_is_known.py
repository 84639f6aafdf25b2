"""What the rules about conflicts take for certain in each language. One rule stands for all of them."""

from __future__ import annotations

import pytest

from fsdp_migrate.api import Options, migrate_source

ON = "cfg.ddp.use_megatron_fsdp = True"
MAPPING = "cfg.dist.use_tp_pp_dp_mapping"
NAME = "CUDA_DEVICE_MAX_CONNECTIONS"
RUN = "torchrun train.py ddp.use_megatron_fsdp=true"


def codes(path: str, text: str) -> list[str]:
    options = Options(select=("FSDP104", "FSDP110", "FSDP122", "FSDP126"))
    result = migrate_source(text.encode(), path, options)
    assert not result.error
    return [finding.code for finding in result.findings]


def recipe(*lines: str, head: str = "") -> str:
    return "\n".join(
        [head, "def recipe(x):", "    cfg = base()", *(f"    {line}" for line in lines), "    return cfg", ""]
    )


PYTHON = {
    "stored": (ON, f"{MAPPING} = True"),
    "in a with block": (ON, "with x:", f"    {MAPPING} = True"),
    "through an alias": (ON, "dist = cfg.dist", "dist.use_tp_pp_dp_mapping = True"),
    "a keyword": (ON, "cfg.dist = DistributedInitConfig(use_tp_pp_dp_mapping=True)"),
    "the flag in a branch": (f"{MAPPING} = True", "if x:", f"    {ON}"),
    "looked at": (ON, f"{MAPPING} = True", "print(cfg)"),
    "trained with, then changed": (ON, f"{MAPPING} = True", "pretrain(cfg)"),
}


@pytest.mark.parametrize("lines", PYTHON.values(), ids=PYTHON.keys())
def test_a_setting_that_is_certain_in_python(lines: tuple[str, ...]) -> None:
    assert codes("recipes/recipe.py", recipe(*lines)) == ["FSDP104"]


PYTHON_UNKNOWN = {
    "stored again": (ON, f"{MAPPING} = True", f"{MAPPING} = False"),
    "in a branch": (ON, "if x:", f"    {MAPPING} = True"),
    "undone in a branch": (ON, f"{MAPPING} = True", "if x:", f"    {MAPPING} = False"),
    "in the other arm": ("if x:", f"    {ON}", "else:", f"    {MAPPING} = True"),
    "after an arm that returns": ("if x:", f"    {ON}", "    return cfg", f"{MAPPING} = True"),
    "after an arm that raises": ("if x:", f"    {ON}", "    raise ValueError", f"{MAPPING} = True"),
    "after a loop that returns": (
        "for i in x:",
        "    if i:",
        f"        {ON}",
        "        return cfg",
        f"{MAPPING} = True",
    ),
    "after a continue": ("for i in x:", "    if i:", f"        {ON}", "        continue", f"    {MAPPING} = True"),
    "before a return in an arm": ("if x:", f"    {MAPPING} = True", "    return cfg", ON),
    "in a handler": ("try:", f"    {ON}", "except E:", f"    {MAPPING} = True"),
    "undone in finally": (ON, f"{MAPPING} = True", "try:", "    x()", "finally:", f"    {MAPPING} = False"),
    "undone in a loop": (
        ON,
        f"{MAPPING} = True",
        "for s in (cfg.dist, cfg.ddp):",
        "    s.use_tp_pp_dp_mapping = False",
    ),
    "deleted": (ON, f"{MAPPING} = True", f"del {MAPPING}"),
    "unpacked": (ON, f"{MAPPING} = True", f"{MAPPING}, y = False, 1"),
    "the flag unpacked": (ON, f"{MAPPING} = True", "cfg.ddp.use_megatron_fsdp, y = x, 1"),
    "setattr": (ON, f"{MAPPING} = True", "setattr(cfg.dist, x, False)"),
    "__dict__": (ON, f"{MAPPING} = True", "cfg.dist.__dict__.update(x)"),
    "vars": (ON, f"{MAPPING} = True", "vars(cfg.dist).update(x)"),
    "handed on": (ON, f"{MAPPING} = True", "repair(cfg)"),
    "handed on in a dict": (ON, f"{MAPPING} = True", 'repair({"cfg": cfg})'),
    "kept in a list": (ON, f"{MAPPING} = True", "every = [cfg]", "every[0].dist.use_tp_pp_dp_mapping = False"),
    "handed to a namesake": (ON, f"{MAPPING} = True", "def setup(c):", "    c.dist = None", "setup(cfg)"),
    "a method": (ON, f"{MAPPING} = True", "cfg.dist.finalize()"),
    "rebound": (ON, f"{MAPPING} = True", "cfg.dist = other()"),
    "another config": (ON, "other = base()", "other.dist.use_tp_pp_dp_mapping = True"),
    "off in the end": (ON, f"{MAPPING} = True", "if x:", "    cfg.ddp.use_megatron_fsdp = False"),
    "expected to fail": (ON, f"{MAPPING} = True", "with pytest.raises(AssertionError):", "    cfg.validate()"),
}


@pytest.mark.parametrize("lines", PYTHON_UNKNOWN.values(), ids=PYTHON_UNKNOWN.keys())
def test_a_setting_that_is_not_certain_in_python(lines: tuple[str, ...]) -> None:
    assert codes("recipes/recipe.py", recipe(*lines)) == []


ENVIRONMENT = {
    "of the config": ("", (ON, f'cfg.env_vars["{NAME}"] = "1"'), 1),
    "of the config, as a dict": ("", (ON, f'cfg.env_vars = {{**x, "{NAME}": "1"}}'), 1),
    "of the config, perhaps": ("", (ON, f'cfg.env_vars = {{"{NAME}": "1", **x}}'), 0),
    "of the config, deleted": ("", (ON, f'cfg.env_vars["{NAME}"] = "1"', f'del cfg.env_vars["{NAME}"]'), 0),
    "of the config, under the process's": ("", (ON, f'cfg.env_vars["{NAME}"] = 1', f'os.environ["{NAME}"] = "8"'), 0),
    "of the process": ("", (ON, f'os.environ["{NAME}"] = "1"'), 1),
    "at import": (f'os.environ["{NAME}"] = "1"', (ON,), 1),
    "at import, for two recipes": (f'os.environ["{NAME}"] = "1"', (ON, "return cfg", "def f():", f"    {ON}"), 1),
    "at import, perhaps": (f'if y:\n    os.environ["{NAME}"] = "1"', (ON,), 0),
    "at import, taken back": (f'os.environ["{NAME}"] = "1"\nos.environ.pop("{NAME}")', (ON,), 0),
    "at import, other in the recipe": (f'os.environ["{NAME}"] = "1"', (ON, f'os.environ["{NAME}"] = "8"'), 0),
    "a default over a value": (f'os.environ["{NAME}"] = "8"\nos.environ.setdefault("{NAME}", "1")', (ON,), 0),
}


@pytest.mark.parametrize(("head", "lines", "found"), ENVIRONMENT.values(), ids=ENVIRONMENT.keys())
def test_environment_variables_in_python(head: str, lines: tuple[str, ...], found: int) -> None:
    assert codes("recipes/recipe.py", recipe(*lines, head=f"import os\n{head}")) == ["FSDP110"] * found


SHELL = {
    "exported": f"export {NAME}=1\n{RUN}\n",
    "of the command": f"{NAME}=1 {RUN}\n",
    "exported later": f"{NAME}=1\nexport {NAME}\n{RUN}\n",
    "declared": f"declare -x {NAME}='1'\n{RUN}\n",
    "env": f"env {NAME}=1 {RUN}\n",
    "srun": f"srun --export=ALL,{NAME}=1 {RUN}\n",
    "docker": f"docker run -e {NAME}=1 image {RUN}\n",
    "for an array": f'export {NAME}=1\nARGS=(ddp.use_megatron_fsdp=true)\ntorchrun train.py "${{ARGS[@]}}"\n',
    "with an array": f'ARGS=(ddp.use_megatron_fsdp=true)\n{NAME}=1 torchrun train.py "${{ARGS[@]}}"\n',
}


@pytest.mark.parametrize("text", SHELL.values(), ids=SHELL.keys())
def test_a_variable_that_a_command_certainly_gets(text: str) -> None:
    assert codes("run.sh", text) == ["FSDP110"]


SHELL_UNKNOWN = {
    "not exported": f"{NAME}=1\n{RUN}\n",
    "unset": f"export {NAME}=1\nunset {NAME}\n{RUN}\n",
    "in a branch": f"if [ $TP ]; then\n  export {NAME}=1\nfi\n{RUN}\n",
    "undone in a branch": f"export {NAME}=1\nif [ $TP ]; then\n  export {NAME}=8\nfi\n{RUN}\n",
    "behind a test": f"[ $TP ] && export {NAME}=1\n{RUN}\n",
    "in a function": f"f() {{\n  export {NAME}=1\n}}\n{RUN}\n",
    "undone by a function": f"f() {{ export {NAME}=8; }}\nexport {NAME}=1\nf\n{RUN}\n",
    "in a subshell": f"(export {NAME}=1; python a.py)\n{RUN}\n",
    "sourced over": f"export {NAME}=1\nsource ./env.sh\n{RUN}\n",
    "expanded": f"export {NAME}=${{N:-1}}\n{RUN}\n",
    "afterwards": f"{RUN}\nexport {NAME}=1\n",
    "of another command": f"{NAME}=1 python a.py; {RUN}\n",
    "of a container": f"export {NAME}=1\ndocker run image {RUN}\n",
    "not passed on": f"export {NAME}=1\nsrun --export=NONE {RUN}\n",
    "passed on otherwise": f"export {NAME}=1\nenv {NAME}=8 {RUN}\n",
    "dropped": f"export {NAME}=1\nenv -u {NAME} {RUN}\n",
    "undone below": f'export {NAME}=1\nA=(ddp.use_megatron_fsdp=true)\nunset {NAME}\ntorchrun t "${{A[@]}}"\n',
    "not with the array": f'A=(ddp.use_megatron_fsdp=true)\n{NAME}=1 python a.py\ntorchrun t "${{A[@]}}"\n',
}


@pytest.mark.parametrize("text", SHELL_UNKNOWN.values(), ids=SHELL_UNKNOWN.keys())
def test_a_variable_that_a_command_may_not_get(text: str) -> None:
    assert codes("run.sh", text) == []


WORDS = {
    "set": ("dist.use_tp_pp_dp_mapping=true", ["FSDP104"]),
    "set again": ("dist.use_tp_pp_dp_mapping=true dist.use_tp_pp_dp_mapping=false", []),
    "deleted": ("dist.use_tp_pp_dp_mapping=true ~dist.use_tp_pp_dp_mapping", []),
    "behind a list": ("model.x=[a,b] dist.use_tp_pp_dp_mapping=true", ["FSDP104"]),
    "wrong": ("ddp.data_parallel_sharding_strategy=zero3", ["FSDP122"]),
    "a sweep": ("ddp.data_parallel_sharding_strategy=optim,optim_grads", []),
    "a choice": ("'ddp.data_parallel_sharding_strategy=choice(optim,optim_grads)'", []),
    "asked for": ("'ddp.data_parallel_sharding_strategy=???'", []),
    "interpolated": ("'ddp.data_parallel_sharding_strategy=${x}'", []),
}


@pytest.mark.parametrize(("words", "found"), WORDS.values(), ids=WORDS.keys())
def test_what_hydra_makes_of_words(words: str, found: list[str]) -> None:
    assert codes("run.sh", f"{RUN} {words}\n") == found


def test_a_command_overrules_the_array_it_uses() -> None:
    array = "A=(ddp.use_megatron_fsdp=true dist.use_tp_pp_dp_mapping=true)\n"
    assert codes("run.sh", f'{array}torchrun train.py "${{A[@]}}"\n') == ["FSDP104"]
    assert codes("run.sh", f'{array}torchrun train.py "${{A[@]}}" dist.use_tp_pp_dp_mapping=false\n') == []


YAML = {
    "nested": ("dist:\n  use_tp_pp_dp_mapping: true\n", ["FSDP104"]),
    "merged": ("x: &x\n  use_tp_pp_dp_mapping: true\ndist:\n  <<: *x\n", ["FSDP104"]),
    "merged and set": ("x: &x\n  use_tp_pp_dp_mapping: true\ndist:\n  <<: *x\n  use_tp_pp_dp_mapping: false\n", []),
    "interpolated": ("dist:\n  use_tp_pp_dp_mapping: ${x}\n", []),
    "another document": ("---\ndist:\n  use_tp_pp_dp_mapping: true\n", []),
    "another root": ("variants:\n  dist:\n    use_tp_pp_dp_mapping: true\n", []),
    "an integer": (f"env_vars:\n  {NAME}: 1\n", ["FSDP110"]),
    "nothing": ("optimizer:\n  optimizer: null\n", []),
    "asked for": ("optimizer:\n  optimizer: ???\n", []),
}


@pytest.mark.parametrize(("text", "found"), YAML.values(), ids=YAML.keys())
def test_settings_in_yaml(text: str, found: list[str]) -> None:
    assert codes("conf/x.yaml", f"ddp:\n  use_megatron_fsdp: true\n{text}") == found
