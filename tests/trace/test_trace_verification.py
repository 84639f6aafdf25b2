"""`verify`: a change that is not written yet, and the recipes it can affect."""

from __future__ import annotations

import pytest

from fsdp_migrate.trace import Status, affected_files, verify

FILES = {
    "pack/__init__.py": "from .common import base\n",
    "pack/common.py": """
        from megatron.bridge.training.config import ConfigContainer

        def base():
            cfg = ConfigContainer()
            cfg.dist.use_megatron_fsdp = True
            return cfg
    """,
    "caller.py": "import pack as p\ndef called_config():\n    return p.base()\n",
    "deeper.py": "from caller import (\n    called_config as c,\n)\ndef deep_config():\n    return c()\n",
    "unrelated.py": "import torch\ndef other_config():\n    return torch.ConfigContainer()\n",
    "failing.py": "import pack.common\ndef failing_config():\n    raise ValueError\n",
    "tests/test_recipe.py": "import pack\ndef tested_config():\n    return pack.base()\n",
}


@pytest.fixture
def common(repository):
    repository.write(FILES)
    return repository.root / "pack" / "common.py"


def test_affected_files_are_the_changed_ones_and_their_importers(repository, common):
    found = [file.relative_to(repository.root).as_posix() for file in affected_files([common], repository.root)]
    assert found == ["caller.py", "deeper.py", "failing.py", "pack/common.py"]


@pytest.mark.parametrize(
    ("replacement", "status"),
    [
        (b"cfg.ddp.use_megatron_fsdp = True", Status.MOVED),
        (b"cfg.ddp.use_megatron_fsdp = True; cfg.checkpoint.ckpt_format = 'fsdp_dtensor'", Status.COMPANIONS),
        (b"cfg.ddp.use_megatron_fsdp = False", Status.DIFFERENT),
        (b"pass", Status.DIFFERENT),
        (b"cfg.dist.use_megatron_fsdp = True  # comment", Status.UNCHANGED),
        (b"raise ValueError", Status.NOT_VERIFIED),
    ],
)
def test_verdicts(repository, common, replacement, status):
    before = common.read_bytes()
    after = before.replace(b"cfg.dist.use_megatron_fsdp = True", replacement)
    verdicts = {c.name: c.status for c in verify({common: after}, repository.root, release="")}
    assert verdicts == {"called_config": status, "deep_config": status, "failing_config": Status.NOT_VERIFIED}
    assert common.read_bytes() == before


def test_nothing_affected(repository):
    repository.write({"a.py": "x = 1\n"})
    assert verify({repository.root / "a.py": b"x = 2\n"}, repository.root) == ()
