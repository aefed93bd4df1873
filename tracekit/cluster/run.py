"""Many tasks: those that are missing are done, each by itself, and what each gave is kept."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracekit.cluster.content import Stamp, size_in, stamps_of
from tracekit.cluster.executors import Executor, Work, executor_of, value_of
from tracekit.cluster.packing import to_text
from tracekit.cluster.run_folder import RunFolder, locked
from tracekit.cluster.task import Outcome, Task, error_from
from tracekit.errors import TracekitError
from tracekit.io.output import check_output, kept_folder
from tracekit.io.remote import public_name
from tracekit.progress import Progress
from tracekit.sim.spread import Question
from tracekit.text import counted

__all__ = ["Run", "values"]


def values(outcomes: Sequence[Outcome]) -> list[Any]:
    """What all tasks gave; the first error where one failed."""
    for o in outcomes:
        if o.error is not None:
            raise o.error
    return [o.value for o in outcomes]


class Run:
    """Does tasks; a context manager.

    ``cluster``: as `executor_of` takes it.  ``folder``: where records are kept, so that the same
    tasks are not done again; None keeps none.  ``threads``: of a task on this computer.
    ``at_once``: tasks that this process does at once where there is no cluster, a thread each.
    """

    def __init__(
        self,
        cluster: str | None = None,
        folder: str | Path | None = None,
        *,
        threads: int | None = None,
        at_once: int = 1,
        quiet: bool = True,
    ) -> None:
        self._cluster, self._threads, self._quiet = cluster, threads, quiet
        self._at_once = at_once
        self._path = None if folder is None else Path(folder)
        self._folder: RunFolder | None = None
        self._executor: Executor | None = None
        self._cleanup = contextlib.ExitStack()
        self.seconds_waited = 0.0  # for results, while tasks were done

    def __enter__(self) -> Run:
        with contextlib.ExitStack() as cleanup:
            if self._path is not None:
                cleanup.enter_context(kept_folder(self._path))
                cleanup.enter_context(locked(self._path))
                self._folder = RunFolder(self._path)
            self._executor = executor_of(self._cluster, self._threads, self._at_once)
            cleanup.callback(self._executor.close)
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def executor(self) -> Executor:
        """Who does the tasks."""
        assert self._executor is not None
        return self._executor

    def map(
        self,
        kind: str,
        tasks: Sequence[Task],
        common: Mapping[str, Any] | None = None,
        *,
        keep: bool = True,
        force: bool = True,
        show: bool = True,
    ) -> list[Outcome]:
        """What became of each task, in their order.  ``common``: options of them all.

        A task that fails fails alone; one that an earlier run has done, with the same options and
        version of tracekit and inputs that hold the same, is not done again.  ``keep``: write down
        what is done.  ``force``: outputs may be replaced that no earlier run was asked for.
        ``show``: progress, unless this run is quiet.
        """
        folder = self._folder if keep else None
        text = to_text(common or {})
        keys = [t.key(kind, text) for t in tasks]
        stamps = _stamps_of(tasks)
        ours = folder.asked() if folder is not None else set()
        if folder is not None:
            folder.ask(kind, _shown(common or {}), list(zip(keys, tasks, strict=True)))
        out: list[Outcome | None] = [None] * len(tasks)
        works: list[Work] = []
        for i, task in enumerate(tasks):
            own = [stamps[p] for p in task.inputs]
            known = _known(task, keys[i], own, folder, force or keys[i] in ours)
            if isinstance(known, TracekitError):
                out[i] = _ended(folder, keys[i], Outcome(task, error=known), [])
            elif known is not None:
                out[i] = known
            else:
                size = sum(size_in(s) for s in _stamps(own)) + 4096.0
                works.append((i, task.title, _text(task), size))
        works.sort(key=lambda w: -w[3])  # the long ones first: none of them is the last
        with _Shown(kind, works, len(tasks), quiet=self._quiet or not show) as shown:
            for i, result in self.executor.run(kind, text, works):
                own = [stamps[p] for p in tasks[i].inputs]
                out[i] = _ended(folder, keys[i], _outcome(tasks[i], result), _stamps(own))
                shown.add(i, out[i])
        assert all(o is not None for o in out)
        return [o for o in out if o is not None]

    def missing(
        self,
        kind: str,
        tasks: Sequence[Task],
        common: Mapping[str, Any] | None = None,
        *,
        force: bool = True,
    ) -> list[bool]:
        """Whether `map` of the same would do each task."""
        text, stamps = to_text(common or {}), _stamps_of(tasks)
        ours = self._folder.asked() if self._folder is not None else set()
        out = []
        for task in tasks:
            key, own = task.key(kind, text), [stamps[p] for p in task.inputs]
            out.append(_known(task, key, own, self._folder, force or key in ours) is None)
        return out

    def spread(self, kind: str, questions: Sequence[Question], *, keep: bool = True) -> list[Any]:
        """A `Spread`: questions as tasks, each by itself."""
        tasks = [
            Task(Path(public_name(path)).name, (path,), dict(options), label=f"{kind} {i}")
            for i, (path, options) in enumerate(questions)
        ]
        return values(self.map(kind, tasks, keep=keep, show=keep))


def _ended(folder: RunFolder | None, key: str, outcome: Outcome, stamps: list[Stamp]) -> Outcome:
    if folder is not None:
        written = outcome.value.get("written", {}) if outcome.error is None else {}
        folder.add(key, outcome, stamps, written)
    return outcome


def _stamps_of(tasks: Sequence[Task]) -> dict[str, Stamp | TracekitError]:
    """Of the inputs of all tasks."""
    paths = list(dict.fromkeys(p for t in tasks for p in t.inputs))
    return dict(zip(paths, stamps_of(paths), strict=True))


def _known(
    task: Task,
    key: str,
    stamps: Sequence[Stamp | TracekitError],
    folder: RunFolder | None,
    force: bool,
) -> Outcome | TracekitError | None:
    """What an earlier run gave, or why the task cannot be done; None where it is to be done."""
    bad = next((s for s in stamps if isinstance(s, TracekitError)), None)
    if bad is None and not force:
        bad = _occupied(task)
    if bad is not None:
        return bad
    if folder and (r := folder.done(key, task, _stamps(stamps))):
        return Outcome(task, r.value, None, r.seconds, tuple(r.content), again=True)
    return None


def _occupied(task: Task) -> TracekitError | None:
    """Why the outputs must not be written."""
    try:
        for output in task.outputs:
            check_output(output, False)
    except TracekitError as e:
        return e
    return None


def _stamps(found: Sequence[Stamp | TracekitError]) -> list[Stamp]:
    return [s for s in found if not isinstance(s, TracekitError)]


def _text(task: Task) -> str:
    return to_text(
        {
            "name": task.name,
            "inputs": list(task.inputs),
            "options": dict(task.options),
            "outputs": list(task.outputs),
            "label": task.label,
            "found": dict(task.found),
        }
    )


def _outcome(task: Task, text: str) -> Outcome:
    found = value_of(text)
    if "error" in found:
        return Outcome(task, error=error_from(found["error"]), seconds=found["seconds"])
    return Outcome(task, found["value"], None, found["seconds"], tuple(found["content"]))


def _shown(common: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they are written down: addresses without what is secret."""
    plain = json.loads(to_text(common))
    return {k: public_name(v) if isinstance(v, str) else v for k, v in plain.items()}


class _Shown:
    """Progress over all tasks: bytes of their inputs, how many are done, rows a second."""

    def __init__(self, kind: str, works: Sequence[Work], count: int, *, quiet: bool) -> None:
        self._sizes = {w[0]: w[3] for w in works}
        self._count, self._done = count, count - len(works)
        self._read, self._rows, self._failed = 0.0, 0, 0
        self._begin = time.monotonic()
        total = int(sum(self._sizes.values()))
        label = f"{kind.replace('_', ' ')}, {counted(count, 'task')}"
        self._progress = Progress(label, total or None, "B", quiet=quiet)

    def add(self, place: int, outcome: Outcome | None) -> None:
        assert outcome is not None
        self._done += 1
        self._read += self._sizes[place]
        if outcome.error is not None:
            self._failed += 1
        elif isinstance(outcome.value, dict):
            self._rows += int(outcome.value.get("rows") or 0)
        rate = self._rows / max(time.monotonic() - self._begin, 1e-9)
        note = f"{self._done} of {self._count}"
        if self._rows:
            note += f", {rate:,.0f} rows/s"
        if self._failed:
            note += f", {self._failed} failed"
        self._progress.update(int(self._read), note)

    def __enter__(self) -> _Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.close()
