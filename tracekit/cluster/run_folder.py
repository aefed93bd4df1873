"""A run is a folder: what was asked, what is done, what failed and why.

``run.json`` says what was asked, ``tasks.jsonl`` has a line for each task that ended; a task's last
line counts.  A kill leaves whole lines, and the next run of the same request does what is missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit._version import __version__
from tracekit.cluster.content import Stamp, content_of
from tracekit.cluster.packing import from_text, to_text
from tracekit.cluster.task import Outcome, Task, error_to
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.io.files import open_file, read_json, size_of
from tracekit.io.output import append_line, write_json
from tracekit.io.remote import remote_url

__all__ = ["Record", "RunFolder", "asked_of", "is_run", "records_of"]

ASKED, TASKS = "run.json", "tasks.jsonl"
FORMAT, VERSION = "tracekit-run", 1
#: Bytes of one line of tasks.jsonl.
MAX_LINE = 1 << 28


@dataclass(frozen=True)
class Record:
    """What a line says: ``state`` done or failed, ``value`` of what is done, ``error`` as JSON of
    what is not; ``sizes`` and ``times`` (of change, nanoseconds; None elsewhere than in files of
    this computer) of what was written, by path."""

    key: str
    name: str
    state: str
    seconds: float
    stamps: list[Stamp]
    content: list[str]
    sizes: Mapping[str, int]
    value: Any
    error: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, int | None] = field(default_factory=dict)


def is_run(folder: Path) -> bool:
    """Whether it says what was asked of it."""
    return (folder / ASKED).is_file()


def asked_of(folder: Path) -> dict[str, Any]:
    """What was asked; `TracekitError` where the folder is no run."""
    place = folder / ASKED
    if not is_run(folder):
        raise TracekitError("is no run: it has no run.json", path=str(folder))
    found = read_json(place, 1 << 30)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise FormatError("is no run's", path=str(place))
    if found.get("version") != VERSION:
        raise FormatError(
            f"a run of format {found.get('version')}", path=str(place), hint="update tracekit"
        )
    tasks, requests = found.get("tasks"), found.get("requests")
    if not isinstance(tasks, list) or not all(isinstance(t, list) and len(t) == 3 for t in tasks):
        raise FormatError("has no tasks", path=str(place))
    whole = isinstance(requests, list) and all(isinstance(r, dict) for r in requests)
    if not whole or not isinstance(found.get("tracekit"), str):
        raise FormatError("does not say what was asked", path=str(place))
    return found


def _lines(place: Path) -> Iterator[str]:
    """Whole ones: what a kill or a full disk cut short is left out."""
    if not place.exists():
        return
    with open_file(place) as f:
        while line := f.readline(MAX_LINE):
            if line.endswith(b"\n"):
                yield line.decode("utf-8", "replace")


def _ends_whole(place: Path) -> bool:
    if not place.exists() or place.stat().st_size == 0:
        return True
    with open_file(place) as f:
        f.seek(-1, os.SEEK_END)
        return f.read(1) == b"\n"


def records_of(folder: Path) -> dict[str, Record]:
    """The last record of each task, by its key.  A line that is no record (cut short by a kill, or
    damaged) is left out: its task counts as missing."""
    out: dict[str, Record] = {}
    for line in _lines(folder / TASKS):
        text, _, told = line.rstrip("\n").rpartition(_DIGEST)
        if told != f'{_digest(text)}"}}':
            continue
        try:
            record = Record(**from_text(text + "}"))
        except (FormatError, TypeError):
            continue
        if record.state in ("done", "failed"):
            out[record.key] = record
    return out


_DIGEST = ',"sha256":"'


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _sealed(line: Mapping[str, Any]) -> str:
    """A line whose last key is the digest of what stands before it: what is damaged is not taken
    for a result."""
    text = to_text(line)[:-1]
    return f'{text}{_DIGEST}{_digest(text)}"}}'


class RunFolder:
    """The folder of a run that goes on; one at a time (flock)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records = records_of(path)
        self._kinds: set[str] = set()  # that were asked for here
        if not _ends_whole(path / TASKS):
            append_line(path / TASKS, "")  # of its own, so that the next one is whole

    def asked(self) -> set[str]:
        """Keys of the tasks that were asked for so far: what they write is this run's own."""
        asked = asked_of(self.path)["tasks"] if (self.path / ASKED).exists() else []
        return {str(t[0]) for t in asked} | set(self._records)

    def ask(self, kind: str, common: Mapping[str, Any], tasks: Sequence[tuple[str, Task]]) -> None:
        """Writes down what is asked, in place of what an earlier run asked of this kind; tasks by
        their keys."""
        before = asked_of(self.path) if (self.path / ASKED).exists() else {}
        again = kind in self._kinds
        self._kinds.add(kind)
        requests = [r for r in before.get("requests", []) if again or r.get("kind") != kind]
        known = {str(t[0]): t for t in before.get("tasks", []) if again or t[1] != kind}
        known.update({key: [key, kind, task.title] for key, task in tasks})
        request = {"kind": kind, "options": common, "tasks": len(tasks), "time": _now()}
        asked = {
            "format": FORMAT,
            "version": VERSION,
            "tracekit": __version__,
            "requests": [*requests, request],
            "tasks": list(known.values()),
        }
        write_json(self.path / ASKED, asked, force=True)

    def done(self, key: str, task: Task, stamps: list[Stamp]) -> Record | None:
        """The record of a task that need not be done again: its inputs hold what they held, and
        its outputs are there, as it left them."""
        record = self._records.get(key)
        if record is None or record.state != "done":
            return None
        if record.stamps != stamps and not _same_content(task, record):
            return None
        for path, size in record.sizes.items():
            place = _address(path, task)
            try:
                if size_of(place) != size or _changed(place) != record.times.get(path, None):
                    return None
            except TracekitError:
                return None
        return record

    def add(self, key: str, outcome: Outcome, stamps: list[Stamp], sizes: dict[str, int]) -> None:
        """A line more."""
        e = outcome.error
        line: dict[str, Any] = {
            "key": key,
            "name": outcome.task.title,
            "state": "done" if e is None else "failed",
            "seconds": round(outcome.seconds, 6),
            "stamps": stamps,
            "content": list(outcome.content),
            "sizes": sizes,
            "value": outcome.value if e is None else None,
            "error": {} if e is None else error_to(e),
            "times": {p: _changed(_address(p, outcome.task)) for p in sizes},
        }
        append_line(self.path / TASKS, _sealed(line))
        self._records[key] = Record(**line)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _address(path: str, task: Task) -> str:
    """An output as the task addresses it: what is stored is its public name."""
    if remote_url(path) is None:
        return path
    name = path.rpartition("/")[2]
    return next((o for o in task.outputs if o.rpartition("/")[2] == name), path)


def _changed(place: str) -> int | None:
    """When a file of this computer was changed, in nanoseconds; None of others, and of none."""
    if remote_url(place) is not None:
        return None
    with suppress(OSError):
        return Path(place).stat().st_mtime_ns
    return None


def _same_content(task: Task, record: Record) -> bool:
    try:
        return [content_of(p) for p in task.inputs] == record.content
    except TracekitError:
        return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """This process alone goes on with the run; `UsageError` where another one does."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("another process goes on with this run", path=str(path)) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(fd)
