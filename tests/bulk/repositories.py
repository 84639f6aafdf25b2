"""Repositories of mixed content and trouble, the same for the same number, and what a run must say about each."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from hashlib import sha256
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

BRANCH = "fsdp-migrate/move"
FLAG = "use_megatron_fsdp"
RECIPE = f"def recipe():\n    cfg = base()\n    cfg.dist.{FLAG} = True\n    return cfg\n"
BY_HAND = f"def recipe(section):\n    cfg = base()\n    setattr(cfg.dist, '{FLAG}', section)\n    return cfg\n"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12\n"
_WHO = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in (
        ("NAME", "Somebody"), ("EMAIL", "somebody@example.com"), ("DATE", "1700000000 +0000"))},
}  # fmt: skip


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    done = subprocess.run(["git", "-C", folder, *words], input=given, capture_output=True, env=os.environ | _WHO)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def made(folder: Path, files: dict[str, str | bytes]) -> Path:
    """A repository with one commit on `main`."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", "--template=")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


def _recipe(folder: Path) -> None:
    made(folder, {"recipes/dense.py": RECIPE, "README.md": folder.name, "conf/a.yaml": f"dist:\n  {FLAG}: true\n"})


def _nothing(folder: Path) -> None:
    made(folder, {"README.md": folder.name, "src/a.py": "import os\n"})


def _by_hand(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE, "by_hand.py": BY_HAND})


def _dirty(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    (folder / "recipe.py").write_text(RECIPE + "\n# not committed\n")


def _untracked(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    (folder / "new.py").write_text(RECIPE)


def _submodule(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE, ".gitmodules": '[submodule "sub"]\n\tpath = sub\n\turl = ../absent\n'})
    git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git(folder, "commit", "-q", "-m", "Add a submodule")


def _lfs(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE, "weights.bin": POINTER})
    (folder / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git(folder, "add", ".gitattributes")
    git(folder, "commit", "-q", "-m", "Track weights")


def _line_ends(folder: Path) -> None:
    made(folder, {".gitattributes": "*.py text eol=crlf\n", "recipe.py": RECIPE})


def _link(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    (folder.parent / "outside.py").write_text(RECIPE)
    (folder / "link.py").symlink_to("../outside.py")
    (folder / "etc").symlink_to("/")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Link")


def _empty(folder: Path) -> None:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", "--template=")


def _unborn(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    git(folder, "symbolic-ref", "HEAD", "refs/heads/gone")


def _detached(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    git(folder, "checkout", "-q", "--detach")


def _branch_exists(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    git(folder, "branch", BRANCH, git(folder, "commit-tree", tree, "-m", "Not ours"))


def _checked_out(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    git(folder, "checkout", "-q", "-b", BRANCH)


def _bare(folder: Path) -> None:
    source = made(folder.with_name(folder.name + "-source"), {"recipe.py": RECIPE})
    git(source, "clone", "-q", "--bare", "--template=", ".", str(folder))
    shutil.rmtree(source)


def _no_repository(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "recipe.py").write_text(RECIPE)


def _corrupt(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    blob = git(folder, "rev-parse", "HEAD:recipe.py")
    os.unlink(folder / ".git" / "objects" / blob[:2] / blob[2:])


def _no_head(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    (folder / ".git" / "HEAD").write_text("garbage\n")


def _hostile(folder: Path) -> None:
    """Whatever runs because of this repository leaves a file behind."""
    made(folder, {"recipe.py": RECIPE, "data.txt": "data\n", ".gitattributes": "* filter=evil diff=evil ident\n"})
    trace = f"touch {folder.parent / 'executed'}; cat"
    for key in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv",
                "diff.external", "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor",
                "uploadpack.packObjectsHook", "core.alternateRefsCommand"):  # fmt: skip
        git(folder, "config", key, trace)
    hooks = folder / "hooks"
    hooks.mkdir()
    for name in ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "pre-push", "update",
                 "pre-receive", "post-receive", "post-update", "post-index-change"):  # fmt: skip
        (hooks / name).write_text(f"#!/bin/sh\n{trace}\n")
        (hooks / name).chmod(0o755)
    git(folder, "config", "core.hooksPath", str(hooks))


def _wrong_settings(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE, "fsdp-migrate.toml": "selekt = []\n"})


def _shallow(folder: Path) -> None:
    source = made(folder.with_name(folder.name + "-source"), {"recipe.py": "x = 1\n"})
    (source / "recipe.py").write_text(RECIPE)
    git(source, "commit", "-q", "-a", "-m", "Go on")
    git(source, "clone", "-q", "--depth", "1", "--template=", f"file://{source}", str(folder))
    shutil.rmtree(source)


def _odd_names(folder: Path) -> None:
    made(folder, dict.fromkeys(("a b.py", "-v.py", "[x].py", "é/ü.py", "new\nline.py", "\x1b[31m.py"), RECIPE))


def _encodings(folder: Path) -> None:
    latin = ("# -*- coding: latin-1 -*-\n# caf\xe9\n" + RECIPE).encode("latin-1")
    made(folder, {"latin.py": latin, "dos.py": RECIPE.replace("\n", "\r\n"), "bom.py": "\ufeff" + RECIPE})


def _huge(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE, "weights.bin": b"\0" * (3 << 20)})


def _check_fails(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE, "FAIL": ""})


def _check_kills(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE, "KILL": ""})


def _linked(folder: Path) -> None:
    made(folder, {"recipe.py": RECIPE})
    git(folder, "worktree", "add", "-q", "--detach", str(folder.with_name(folder.name + "-linked")))


class Kind(NamedTuple):
    make: Callable[[Path], None]
    state: str
    said: str = ""  # part of the reason, of a note or of what is left


KINDS = {
    "recipe": Kind(_recipe, "changed"),
    "nothing": Kind(_nothing, "unchanged"),
    "by-hand": Kind(_by_hand, "changed", "by_hand.py:3: FSDP"),
    "dirty": Kind(_dirty, "changed", "uncommitted changes are not looked at: recipe.py"),
    "untracked": Kind(_untracked, "changed"),
    "submodule": Kind(_submodule, "changed", "submodules are not looked at: 1"),
    "lfs": Kind(_lfs, "changed", "LFS pointers are not looked at: 1"),
    "line-ends": Kind(_line_ends, "changed"),
    "link": Kind(_link, "changed"),
    "empty": Kind(_empty, "failed", "HEAD names no commit"),
    "unborn": Kind(_unborn, "failed", "HEAD names no commit"),
    "detached": Kind(_detached, "changed", "its HEAD is detached"),
    "branch-exists": Kind(_branch_exists, "failed", "with other commits"),
    "checked-out": Kind(_checked_out, "failed", "checked out"),
    "bare": Kind(_bare, "changed"),
    "no-repository": Kind(_no_repository, "failed", "cannot be read"),
    "corrupt": Kind(_corrupt, "failed", ""),
    "no-head": Kind(_no_head, "failed", "cannot be read"),
    "hostile": Kind(_hostile, "changed"),
    "huge": Kind(_huge, "failed", "is huge: 3 MB"),
    "check-fails": Kind(_check_fails, "failed", "failed: FAIL is there"),
    "check-kills": Kind(_check_kills, "failed", "ended with signal 9"),
    "linked": Kind(_linked, "changed"),
    "wrong-settings": Kind(_wrong_settings, "failed", "did you mean select?"),
    "shallow": Kind(_shallow, "changed"),
    "odd-names": Kind(_odd_names, "changed"),
    "encodings": Kind(_encodings, "changed"),
}
MOSTLY = ("nothing", "recipe", "nothing", "by-hand", "nothing", "recipe")  # between one round of trouble and the next


def make(folder: Path, number: int) -> dict[str, str]:
    """`number` repositories below `folder`: their kinds by name. One of every kind, then mostly quiet ones."""
    kinds = islice(cycle([*KINDS, *MOSTLY * (len(KINDS) // 2)]), number)
    named = {f"{position:03}-{kind}": kind for position, kind in enumerate(kinds)}
    for name, kind in named.items():
        KINDS[kind].make(folder / name)
    return named


PLAN = f"""\
repositories = ["repositories/[0-9]*[!d]", "repositories/*d", "absent", "@list.txt", "ext::sh -c true"]
branch = "{BRANCH}"
message = "Move the flag\\n\\nSigned-off-by: Platform <platform@example.com>"
author = "Platform Team <platform@example.com>"
max-megabytes = 2
checks = [
  "test ! -e FAIL || {{ echo FAIL is there; exit 1; }}",
  ["sh", "-c", "test ! -e KILL || kill -9 $PPID"],
]
at-end = "push"
[options]
ignore = ["FSDP9"]
"""


def plan(folder: Path) -> Path:
    """A plan beside the repositories, with duplicates, an absent one and a URL that would run a program."""
    (folder / "list.txt").write_text("# twice\nrepositories/000-recipe\n")
    (folder / "plan.toml").write_text(PLAN)
    return folder / "plan.toml"


def snapshot(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Mode, time of change and content of everything below a folder, git's own files included."""
    found = {}
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = os.path.join(where, name)
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            else:
                content = sha256(Path(path).read_bytes()).hexdigest() if stat.S_ISREG(about.st_mode) else ""
            found[os.path.relpath(path, folder)] = (about.st_mode, about.st_mtime_ns, content)
    return found
