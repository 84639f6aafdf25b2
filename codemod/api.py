"""The public API: bytes in, a result out. The command line, stdin, editors and tests all call this."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fsdp_migrate.discover import explain, kind_of, read
from fsdp_migrate.findings import Result
from fsdp_migrate.prefilter import kind_may_matter, may_matter, may_select_neighbours

if TYPE_CHECKING:
    from fsdp_migrate.python.project import Project

Lines = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Options:
    """What a run asks for.

    `select` and `ignore` are code prefixes (nothing selected: every rule that is on by itself). `unsafe` applies fixes
    that want a second look. `target` is the Bridge release the code is for: 0.4, 0.5, 0.6 or main. `root_names` and
    `section_names` are what a project calls roots and sections beside Bridge's own names. With `add_ignores` nothing
    is fixed: comments are written that exempt every error and warning.

    Settings files are not read here: `settings.Chosen().options(path)` gives the options that hold for a file.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    unsafe: bool = False
    target: str = ""
    root_names: tuple[str, ...] = ()
    section_names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    add_ignores: bool = False


def migrate_source(source: bytes, path: str, options: Options = Options(), *, lines: Lines = ()) -> Result:
    """Migrate one file.

    Args:
        source: its bytes; encoding and line ends are kept.
        path: its name, which tells its kind, whether it is a test and where the project's other modules are.
        lines: ranges of lines, counted from 1 and inclusive, that findings must touch; empty: the whole file.

    Never raises for what is in the file: `Result.error` says what went wrong.
    """
    if not _may_matter(path, source, options):
        return Result(path, source, source)
    return _migrate(source, path, options, lines)


def _may_matter(path: str, source: bytes, options: Options) -> bool:
    if options.select and may_select_neighbours(options.select):
        from fsdp_migrate.registry import enabled, needles

        if any(needle in source for needle in needles(enabled(options.select, options.ignore))):
            return True
    # The closer look goes by Bridge's names for the sections.
    return may_matter(source) and (bool(options.section_names) or kind_may_matter(kind_of(path, source), source))


def _migrate(source: bytes, path: str, options: Options, lines: Lines) -> Result:
    from fsdp_migrate.engine import Choice, migrate
    from fsdp_migrate.naming import Names
    from fsdp_migrate.registry import enabled

    chosen = enabled(options.select, options.ignore)
    names = Names(options.root_names, options.section_names)
    choice = Choice(chosen, options.unsafe, options.target, lines, options.add_ignores, names)
    return migrate(source, path, choice, _project())


def migrate_file(path: str, options: Options = Options(), *, lines: Lines = ()) -> Result | None:
    """Migrate one file on disk, without writing it. None: it has nothing to do with the flag. Never raises."""
    try:
        # A link has been followed where links count; and what was a file may be a named pipe by now.
        source = read(os.path.realpath(path), bool)
    except FileNotFoundError:
        return Result(path, b"", b"", error="is not there (any more): check its name, or run again")
    except OSError as error:
        return Result(path, b"", b"", error=explain(path, error))
    if source is None or not _may_matter(path, source, options):
        return None
    return _migrate(source, path, options, lines)


def migrate_paths(paths: Iterable[str], options: Options = Options()) -> Iterator[Result]:
    """Migrate files one by one, without writing them. Files that have nothing to do with the flag give no result."""
    for path in paths:
        result = migrate_file(path, options)
        if result is not None:
            yield result


@cache
def _project() -> Project:
    """The modules of this process; one cache serves all its files, and reads a file again once it has changed."""
    from fsdp_migrate.python.project import Project

    return Project()
