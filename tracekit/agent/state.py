"""What an agent remembers: SQLite in WAL mode, so that ``status`` reads while ``run`` writes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tracekit.agent.disk import room
from tracekit.agent.schema import migrate
from tracekit.errors import TracekitError
from tracekit.io.output import kept_folder

__all__ = ["COVERED", "DAY", "Known", "Prediction", "State"]

DAY, HOUR = 86_400, 3600
_UNPREDICTED: Final = (
    "coalesce((SELECT sum(s.weight) FROM signatures s WHERE s.program = programs.id{}"
    " AND NOT EXISTS (SELECT 1 FROM predictions p WHERE p.signature = s.signature)), 0)"
)
COVERED: Final = f"max(0, covered - {_UNPREDICTED.format('')})"
"""Of a row of programs, in SQL: seconds that epochs stand for that have predictions."""


@dataclass(frozen=True)
class Prediction:
    """An epoch on a design: ``cycles`` of its clock, ``half`` of the 90 % interval."""

    design: str
    model: str
    model_version: str
    cycles: float
    half: float
    clock_ghz: float
    distance: float | None = None


@dataclass(frozen=True)
class Known:
    """A signature that stands for its like: ``sketch`` is compared with those of new epochs."""

    signature: str
    sketch: bytes
    designs: frozenset[str]


class State:
    """The database in ``folder``, which is made where it is missing (mode 0700)."""

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        self.folder = folder
        self.path = folder / "state.sqlite"
        if not create and not self.path.exists():
            raise TracekitError("no agent has run with this state", path=str(folder))
        before = os.umask(0o077)
        try:
            with kept_folder(folder):
                self.db = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        except sqlite3.Error as e:
            raise TracekitError(f"cannot open: {e}", path=str(self.path)) from None
        finally:
            os.umask(before)
        with contextlib.suppress(sqlite3.DatabaseError):  # which `migrate` tells
            self.db.execute("PRAGMA journal_mode = WAL")
            self.db.execute("PRAGMA synchronous = NORMAL")
            self.db.execute("PRAGMA wal_autocheckpoint = 100")
            self.db.execute("PRAGMA journal_size_limit = 400000")
            self.db.execute("PRAGMA foreign_keys = ON")
            self.db.execute("PRAGMA secure_delete = ON")
            self.db.execute("PRAGMA cache_size = -2000")
        try:
            migrate(self.db, str(self.path))
        except BaseException:
            self.db.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self.db.close()

    def __enter__(self) -> State:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        self.close()
        if isinstance(error, sqlite3.Error):  # a disk that is full, say
            raise TracekitError(f"cannot be used: {error}", path=str(self.path)) from None

    @contextlib.contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """All of it or nothing.  ``durable``: it and all before it outlast a power failure; others
        may be lost with one, as a whole and only together with all that came later."""
        if durable:
            self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield self.db
        except BaseException:
            if self.db.in_transaction:  # of a full disk SQLite itself ends it
                self.db.execute("ROLLBACK")
            raise
        else:
            self.db.execute("COMMIT")
        finally:
            if durable:
                self.db.execute("PRAGMA synchronous = NORMAL")

    # ---- settings and counts

    def setting(self, name: str, default: str = "") -> str:
        """A value that was kept."""
        row = self.db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return default if row is None else str(row[0])

    def keep(self, name: str, value: str) -> None:
        """Keep a value."""
        self.db.execute(
            "INSERT OR REPLACE INTO settings VALUES (?, ?)",
            (name, value),
        )

    def count(self, what: str) -> None:
        """One more of what happened."""
        self.db.execute(
            "INSERT INTO counts VALUES (?, 1) ON CONFLICT(what) DO UPDATE SET number = number + 1",
            (what,),
        )

    def spend(self, now: float, **amounts: float) -> None:
        """Processor seconds (``agent``, ``epochs``, ``predictions``) and epochs (``taken``,
        ``known``) of the day."""
        names = ", ".join(amounts)
        sums = ", ".join(f"{n} = {n} + excluded.{n}" for n in amounts)
        marks = ", ".join("?" * (len(amounts) + 1))
        self.db.execute(
            f"INSERT INTO spent (day, {names}) VALUES ({marks})"
            f" ON CONFLICT(day) DO UPDATE SET {sums}",
            (int(now // DAY), *amounts.values()),
        )

    # ---- time

    def observe(self, now: float, seconds: dict[str, float], alive: dict[str, float]) -> None:
        """Processor seconds of programs since the last call, and seconds that each was there."""
        if not seconds and not alive:
            return
        with self.transaction() as db:
            for executable in seconds.keys() | alive.keys():
                s = seconds.get(executable, 0.0)
                db.execute(
                    "INSERT INTO programs (executable, pending, observed, alive, seen)"
                    " VALUES (?, ?, ?, ?, ?)"
                    " ON CONFLICT(executable) DO UPDATE SET pending = pending + excluded.pending,"
                    " observed = observed + excluded.observed, alive = alive + excluded.alive,"
                    " seen = excluded.seen",
                    (executable, s, s, alive.get(executable, 0.0), now),
                )
            if total := sum(seconds.values()):
                db.execute(
                    "INSERT INTO observed VALUES (?, ?, ?) ON CONFLICT(hour) DO UPDATE SET"
                    " seconds = seconds + excluded.seconds, unsent = unsent + excluded.unsent",
                    (int(now // HOUR), total, total),
                )

    def programs(self) -> set[str]:
        """Executables that are known."""
        return {e for (e,) in self.db.execute("SELECT executable FROM programs")}

    def forget(self, executables: Sequence[str] | None = None) -> None:
        """Delete programs with their epochs; None: all, with what was observed.  An agent that runs
        sees by the setting ``forgotten`` that it is to do so, too."""
        with self.transaction() as db:
            if executables is None:
                db.execute("DELETE FROM programs")
                db.execute("DELETE FROM observed")
            for name in executables or ():
                db.execute("DELETE FROM programs WHERE executable = ?", (name,))
            self.keep("forgotten", str(int(self.setting("forgotten", "0")) + 1))

    def pending(self) -> dict[str, float]:
        """Program -> processor seconds that no epoch stands for yet."""
        return dict(self.db.execute("SELECT executable, pending FROM programs WHERE pending > 0"))

    def lose(self, executable: str, seconds: float) -> None:
        """What an epoch cost the program."""
        self.db.execute(
            "UPDATE programs SET lost = lost + ? WHERE executable = ?", (seconds, executable)
        )

    def refuse(self, now: float, executable: str, why: str) -> None:
        """Why no epoch can be had of a program."""
        self.db.execute(
            "INSERT INTO programs (executable, refused, seen) VALUES (?, ?, ?)"
            " ON CONFLICT(executable) DO UPDATE SET refused = excluded.refused,"
            " seen = excluded.seen",
            (executable, why, now),
        )

    def hold(self, executable: str, why: str) -> None:
        """Why a program that has had no epoch has none yet."""
        self.db.execute(
            "UPDATE programs SET refused = ?"
            " WHERE executable = ? AND epochs = 0 AND refused IS NULL",
            (why, executable),
        )

    # ---- epochs

    def known(self, executable: str) -> list[Known]:
        """The signatures of a program."""
        rows = self.db.execute(
            "SELECT s.signature, s.sketch, group_concat(p.design, char(10)) FROM signatures s"
            " JOIN programs ON programs.id = s.program LEFT JOIN predictions p USING (signature)"
            " WHERE executable = ? GROUP BY s.signature",
            (executable,),
        )
        return [Known(s, k, frozenset((d or "").split("\n")) - {""}) for s, k, d in rows]

    def answers(self, designs: Sequence[str]) -> list[tuple[str, float, list[float]]]:
        """Of each signature that has all of the designs: program, weight, and times on them (ns an
        instruction)."""
        marks = ", ".join("?" * len(designs))
        found: dict[str, tuple[str, float, dict[str, float]]] = {}
        for signature, executable, weight, design, time in self.db.execute(
            "SELECT s.signature, executable, s.weight, design,"
            " p.cycles / p.clock_ghz / s.instructions FROM signatures s"
            " JOIN programs ON programs.id = s.program JOIN predictions p USING (signature)"
            f" WHERE s.weight > 0 AND design IN ({marks})",
            tuple(designs),
        ):
            found.setdefault(signature, (executable, weight, {}))[2][design] = time
        return [
            (executable, weight, [times[d] for d in designs])
            for executable, weight, times in found.values()
            if len(times) == len(designs)
        ]

    def add_epoch(
        self,
        now: float,
        executable: str,
        signature: str,
        sketch: bytes,
        instructions: int,
        trace: tuple[str, int] | None,
    ) -> float | None:
        """An epoch that stands for all of the program's time that none stood for: that weight; None
        where the program is not known (any more).  ``trace``: its file and bytes."""
        with self.transaction() as db:
            row = db.execute(
                "SELECT id, pending FROM programs WHERE executable = ?", (executable,)
            ).fetchone()
            if row is None:
                return None
            program, weight = row
            db.execute(
                "UPDATE programs SET pending = 0, covered = covered + ?, epochs = epochs + 1,"
                " refused = NULL WHERE id = ?",
                (weight, program),
            )
            db.execute(
                "INSERT INTO signatures (signature, program, sketch, instructions, weight, seen)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(signature) DO UPDATE SET"
                " epochs = epochs + 1, weight = weight + excluded.weight, seen = excluded.seen",
                (signature, program, sketch, instructions, weight, now),
            )
            if weight > 0:
                db.execute(
                    "INSERT INTO unsent VALUES (?, ?, ?) ON CONFLICT(signature, hour) DO UPDATE SET"
                    " weight = weight + excluded.weight",
                    (signature, int(now // HOUR), weight),
                )
            if trace is not None:
                db.execute(
                    "INSERT INTO traces (signature, file, bytes, taken) VALUES (?, ?, ?, ?)",
                    (signature, *trace, now),
                )
        return float(weight)

    def predicted(self, signature: str, found: Sequence[Prediction]) -> None:
        """What an epoch takes on designs; nothing is kept where it was forgotten meanwhile."""
        with self.transaction() as db:
            known = db.execute("SELECT 1 FROM signatures WHERE signature = ?", (signature,))
            if known.fetchone() is None:
                return
            for p in found:
                db.execute(
                    "INSERT OR REPLACE INTO predictions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (signature, p.design, p.model, p.model_version, p.cycles, p.half,
                     p.clock_ghz, p.distance),
                )  # fmt: skip
            db.execute("UPDATE traces SET predicted = 1 WHERE signature = ?", (signature,))

    def unpredicted(self) -> list[tuple[str, str]]:
        """Signature and file of traces that wait."""
        return list(
            self.db.execute("SELECT signature, file FROM traces WHERE predicted = 0 ORDER BY id")
        )

    def drop_traces(self, where: str, *values: Any) -> list[str]:
        """Forget traces; the files that are to be deleted."""
        rows = self.db.execute(f"SELECT file FROM traces WHERE {where}", values).fetchall()
        self.db.execute(f"DELETE FROM traces WHERE {where}", values)
        return [str(f) for (f,) in rows]

    def remove(self, files: Sequence[str]) -> None:
        """Delete files of traces."""
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).unlink()

    def strays(self) -> list[str]:
        """Files of traces that the database does not know (a kill came in between)."""
        kept = {str(f) for (f,) in self.db.execute("SELECT file FROM traces")}
        return [p.name for p in self.folder.glob("*.trace") if p.name not in kept]

    def used(self) -> int:
        """Bytes of everything in the folder."""
        total = 0
        for p in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                total += p.stat().st_size
        return total

    def room(self) -> int:
        """Bytes that are free on the folder's disk."""
        return room(self.folder)

    def prune(self, before: float) -> None:
        """Forget what is older than ``before``: signatures not seen since, programs that have none
        and were not seen since, hours, days."""
        with self.transaction() as db:
            files = [
                str(f)
                for (f,) in db.execute(
                    "SELECT file FROM traces JOIN signatures USING (signature) WHERE seen < ?",
                    (before,),
                )
            ]
            old = _UNPREDICTED.format(" AND s.seen < ?")  # it never was covered
            db.execute(f"UPDATE programs SET covered = max(0, covered - {old})", (before,))
            db.execute("DELETE FROM signatures WHERE seen < ?", (before,))
            db.execute(
                "DELETE FROM programs WHERE seen < ? AND NOT EXISTS"
                " (SELECT 1 FROM signatures WHERE program = programs.id)",
                (before,),
            )
            db.execute("DELETE FROM observed WHERE hour < ?", (int(before // HOUR),))
            db.execute("DELETE FROM spent WHERE day < ?", (int(before // DAY),))
        self.remove(files)
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
