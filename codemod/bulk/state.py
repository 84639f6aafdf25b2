"""What is remembered between runs: rows in SQLite beside the plan, written by one process at a time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator

from fsdp_migrate.bulk.rows import Row

_SCHEMA = 1


class BusyError(Exception):
    """Another run holds the lock; the text says which process."""


class StateError(Exception):
    """The state cannot be used; the text says what to do."""


@contextlib.contextmanager
def lock(path: str, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock. The system gives it up when its process ends, however it ends: none is ever stale.

    Raises:
        BusyError: somebody else holds it, and `wait` is false.
    """
    import fcntl

    with open(path, "a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            file.seek(0)
            raise BusyError(file.read(100).strip() or "another process") from None
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()}\n")
        file.flush()
        yield


class State:
    """The rows of one plan. `mode` is "preview" or "apply"; a row is kept under its repository's key."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, "state.sqlite")
        try:
            self._connection = sqlite3.connect(self.path, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _SCHEMA):
                raise StateError(f"{self.path} was written by another version of fsdp-migrate: use that, or remove it")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS rows (mode TEXT, repository TEXT, base TEXT, fingerprint TEXT, row TEXT, "
                "PRIMARY KEY (mode, repository)) WITHOUT ROWID"
            )
            self._connection.execute(f"PRAGMA user_version = {_SCHEMA}")
        except sqlite3.Error as error:
            raise StateError(f"{self.path} cannot be used ({error}): repair or remove it, and run again") from None

    def save(self, mode: str, row: Row) -> None:
        """Keep a row. It is there, whole, once this returns."""
        self._connection.execute(
            "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?)",
            (mode, row.key, row.base, row.fingerprint, row.to_json()),
        )

    def rows(self, mode: str) -> dict[str, Row]:
        """The rows by repository."""
        found = self._connection.execute("SELECT repository, row FROM rows WHERE mode = ?", (mode,))
        return {key: Row.from_json(text) for key, text in found}

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
