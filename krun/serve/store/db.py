"""The SQLite file of the store: schema, loading, writing inside a transaction. No rule of objects is here.

Owner: Store (store.py), on the loop's thread only. WAL: a reader of the file (a backup) never blocks us. A write of a spec
is synced to the disk before the client gets its answer (synchronous=FULL, some 0.6 ms); a write of status alone is not
(synchronous=NORMAL: safe against a crash of the process, not against a power cut), because status is computed anew.
"""

import os
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from krun.errors import KrunError

_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    grp TEXT NOT NULL, plural TEXT NOT NULL, ns TEXT NOT NULL, name TEXT NOT NULL, rv INTEGER NOT NULL, json BLOB NOT NULL,
    PRIMARY KEY (grp, plural, ns, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    rv INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, grp TEXT NOT NULL, plural TEXT NOT NULL, ns TEXT NOT NULL,
    name TEXT NOT NULL, json BLOB NOT NULL
);
"""


class Record(NamedTuple):
    """A row of `events`, or of `objects` with an empty type."""

    rv: int
    type: str
    group: str
    plural: str
    namespace: str
    name: str
    json: bytes


class Database:
    """One open file. Errors of every method: KrunError, with what failed and what to do."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            if path != ":memory:":
                # Secrets are in it: nobody else may read it. SQLite gives the -wal file the same mode.
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                os.fchmod(fd, 0o600)
                os.close(fd)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=True)
            # One writer: a second krun serve on the same file is refused instead of overwriting. Before the file is read: WAL then needs no
            # file for its index (-shm), and a store that is there is opened on a full disk.
            self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA busy_timeout=2000")
            # The store holds the objects itself: half a megabyte for the pages of a write.
            self._db.execute("PRAGMA cache_size=-512")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _VERSION):
                raise KrunError(
                    f"open store {path}: it is of version {version}, this krun reads {_VERSION}; use the krun that wrote it"
                )
            if version:
                self._db.executescript("BEGIN EXCLUSIVE;COMMIT;")
            else:
                self._db.executescript(f"BEGIN EXCLUSIVE;{_SCHEMA}PRAGMA user_version={_VERSION};COMMIT;")
        except (OSError, sqlite3.Error) as error:
            raise KrunError(
                f"open store {path}: {error}; is another krun serve running on it, is the disk full?"
            ) from error

    def close(self) -> None:
        """Closes the file; the WAL is written back."""
        self._db.close()

    def objects(self) -> Iterator[Record]:
        """Yields every object."""
        for rv, group, plural, namespace, name, data in self._db.execute(
            "SELECT rv, grp, plural, ns, name, json FROM objects"
        ):
            yield Record(rv, "", group, plural, namespace, name, data)

    def events(self, since: int) -> Iterator[Record]:
        """Yields the events after the version `since`, oldest first; nothing may be written meanwhile."""
        for row in self._db.execute(
            "SELECT rv, type, grp, plural, ns, name, json FROM events WHERE rv > ? ORDER BY rv", (since,)
        ):
            yield Record(*row)

    def first_rv(self) -> int:
        """Returns the version of the oldest event, 0 if there is none."""
        return int(self._db.execute("SELECT min(rv) FROM events").fetchone()[0] or 0)

    def last_rv(self) -> int:
        """Returns the version of the last write, 0 for an empty store: it never goes back, even if events are trimmed."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name='events'").fetchone()
        return int(row[0]) if row else 0

    def begin(self, durable: bool) -> None:
        """Begins a transaction."""
        self._db.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Ends the transaction. Errors: sqlite3.Error, the disk is full; the caller rolls back."""
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Undoes the transaction, if one is open."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def put(self, record: Record) -> None:
        """Writes an object and the event about it; record.rv is the event's row."""
        self._event(record)
        self._db.execute(
            "INSERT OR REPLACE INTO objects (grp, plural, ns, name, rv, json) VALUES (?, ?, ?, ?, ?, ?)",
            (record.group, record.plural, record.namespace, record.name, record.rv, record.json),
        )

    def remove(self, record: Record) -> None:
        """Removes an object and writes the event about it."""
        self._event(record)
        self._db.execute(
            "DELETE FROM objects WHERE grp=? AND plural=? AND ns=? AND name=?",
            (record.group, record.plural, record.namespace, record.name),
        )

    def _event(self, record: Record) -> None:
        self._db.execute(
            "INSERT INTO events (rv, type, grp, plural, ns, name, json) VALUES (?, ?, ?, ?, ?, ?, ?)", record
        )

    def trim(self, oldest: int) -> None:
        """Removes the events before `oldest`; inside a transaction."""
        self._db.execute("DELETE FROM events WHERE rv < ?", (oldest,))
