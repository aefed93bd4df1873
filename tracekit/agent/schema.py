"""The tables of an agent's state, version by version."""

from __future__ import annotations

import sqlite3
from typing import Final

from tracekit.errors import FormatError, TracekitError

__all__ = ["VERSION", "migrate"]

#: What brings a database from version k to k + 1.
STEPS: Final = (
    """
CREATE TABLE programs (
  id INTEGER PRIMARY KEY, executable TEXT NOT NULL UNIQUE, pending REAL NOT NULL DEFAULT 0,
  observed REAL NOT NULL DEFAULT 0, covered REAL NOT NULL DEFAULT 0,
  lost REAL NOT NULL DEFAULT 0, alive REAL NOT NULL DEFAULT 0,
  epochs INTEGER NOT NULL DEFAULT 0, refused TEXT);
CREATE TABLE signatures (
  signature TEXT PRIMARY KEY, program INTEGER NOT NULL REFERENCES programs ON DELETE CASCADE,
  sketch BLOB NOT NULL, instructions INTEGER NOT NULL, epochs INTEGER NOT NULL DEFAULT 1,
  weight REAL NOT NULL DEFAULT 0, seen REAL NOT NULL);
CREATE INDEX signatures_program ON signatures(program);
CREATE TABLE predictions (
  signature TEXT NOT NULL REFERENCES signatures ON DELETE CASCADE, design TEXT NOT NULL,
  model TEXT NOT NULL, model_version TEXT NOT NULL, cycles REAL NOT NULL, half REAL NOT NULL,
  clock_ghz REAL NOT NULL, distance REAL, PRIMARY KEY (signature, design)) WITHOUT ROWID;
CREATE TABLE unsent (
  signature TEXT NOT NULL REFERENCES signatures ON DELETE CASCADE, hour INTEGER NOT NULL,
  weight REAL NOT NULL, PRIMARY KEY (signature, hour)) WITHOUT ROWID;
CREATE TABLE observed (hour INTEGER PRIMARY KEY, seconds REAL NOT NULL, unsent REAL NOT NULL);
CREATE TABLE traces (
  id INTEGER PRIMARY KEY, signature TEXT NOT NULL REFERENCES signatures ON DELETE CASCADE,
  file TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL, taken REAL NOT NULL,
  predicted INTEGER NOT NULL DEFAULT 0);
CREATE TABLE queue (
  sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL DEFAULT 0);
CREATE TABLE spent (
  day INTEGER PRIMARY KEY, agent REAL NOT NULL DEFAULT 0, epochs REAL NOT NULL DEFAULT 0,
  predictions REAL NOT NULL DEFAULT 0, taken INTEGER NOT NULL DEFAULT 0,
  known INTEGER NOT NULL DEFAULT 0);
CREATE TABLE counts (what TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
""",
    # when a program was last seen: those that nobody has run for long are forgotten
    """
ALTER TABLE programs ADD COLUMN seen REAL NOT NULL DEFAULT 0;
UPDATE programs SET seen = CAST(strftime('%s', 'now') AS REAL);
""",
)
VERSION: Final = len(STEPS)


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Bring the database up to `VERSION`, each step in a transaction; `FormatError` for one of a
    later version, or that is no database, `TracekitError` where it cannot be used."""
    try:
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
        if found > VERSION:
            raise FormatError(
                f"is of version {found}; this tracekit knows {VERSION}", path=path, hint="update it"
            )
        for number in range(found, VERSION):
            db.executescript(f"BEGIN; {STEPS[number]} PRAGMA user_version = {number + 1}; COMMIT;")
    except sqlite3.OperationalError as e:  # a disk that is full, another process that holds it
        raise TracekitError(f"cannot be used: {e}", path=path) from None
    except sqlite3.DatabaseError as e:
        raise FormatError(f"is no state of an agent: {e}", path=path) from None
