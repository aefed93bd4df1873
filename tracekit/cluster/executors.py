"""Who does a run's tasks: this process, or Dask's workers.

An executor takes tasks as texts and gives each one's result as a text, in any order.  It counts
itself what Dask would count: a task whose worker ends is sent again, alone, up to `LOST` times.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import queue
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from tracekit._version import __version__
from tracekit.cluster.packing import from_text, to_text
from tracekit.cluster.perform import OTHER_VERSION, perform
from tracekit.cluster.task import error_to
from tracekit.cpus import available_cores
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.extras import install_command
from tracekit.io.files import read_json
from tracekit.io.remote import public_name

__all__ = ["Executor", "Work", "executor_of"]

LOST: Final = 8
"""How often a task's worker may end before the task counts as failed."""
SECONDS: Final = 1.0
"""What tasks that are sent together take, about."""
TOGETHER: Final = 64
"""Tasks that are sent together at most."""
WAITING: Final = 300.0
"""Seconds without any worker after which a run gives up."""
HANDING_OVER: Final = 300.0
"""Seconds that results have to come over the network."""
ANSWER: Final = 10
#: Of a scheduler: what Dask takes, or the file that it wrote.
_ADDRESS: Final = re.compile(r"(?:[a-z]+://)?[^\s:/]+:\d+/?|[a-z]+://\S+|.+\.json")
"""Seconds that a scheduler has to answer."""

#: A task's place among all, its title, its text, and its size in any unit.
Work = tuple[int, str, str, float]


class Executor(Protocol):
    """Does tasks of one kind."""

    @property
    def workers(self) -> int:
        """Tasks that are done at once."""

    def run(self, kind: str, common: str, works: Sequence[Work]) -> Iterator[tuple[int, str]]:
        """Each task's place and result, as they come."""

    def close(self) -> None:
        """Ends what was started for it."""


class _Serial:
    """One task after another in this process."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads

    @property
    def workers(self) -> int:
        return 1

    def run(self, kind: str, common: str, works: Sequence[Work]) -> Iterator[tuple[int, str]]:
        for place, _, text, _ in works:
            yield place, perform(__version__, kind, common, [text], self._threads)[0]

    def close(self) -> None:
        pass


class _Several:
    """Several tasks at once in threads of this process, for tasks that wait for programs that they
    start.  A thread ends with the process: nobody waits for those that are left at an error."""

    def __init__(self, count: int) -> None:
        self._count = count

    @property
    def workers(self) -> int:
        return self._count

    def run(self, kind: str, common: str, works: Sequence[Work]) -> Iterator[tuple[int, str]]:
        waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
        ended: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        for work in works:
            waiting.put(work)

        def do() -> None:
            with contextlib.suppress(queue.Empty):
                while True:
                    place, _, text, _ = waiting.get_nowait()
                    ended.put((place, perform(__version__, kind, common, [text], 1)[0]))

        for _ in range(min(self._count, len(works))):
            threading.Thread(target=do, daemon=True).start()
        try:
            for _ in works:
                yield ended.get()
        finally:
            with contextlib.suppress(queue.Empty):  # no new ones
                while True:
                    waiting.get_nowait()

    def close(self) -> None:
        pass


def executor_of(cluster: str | None, threads: int | None = None, at_once: int = 1) -> Executor:
    """The executor that ``--cluster`` names: None is this process; ``local`` or ``local:N`` are N
    workers on this computer; anything else is the address of a Dask scheduler, or the .json file
    that it wrote.  ``at_once``: tasks that this process does at once.

    Raises `UsageError` where Dask is not installed, or workers have another version of tracekit;
    `TracekitError` where nobody answers.
    """
    if cluster is None:
        return _Serial(threads) if at_once == 1 else _Several(at_once)
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise UsageError(
            "--cluster needs Dask, which is not installed", hint=install_command("cluster")
        ) from None
    found = re.fullmatch(r"local(?::(\d+))?", cluster)
    if found is None:
        if cluster.startswith("local:") or not _ADDRESS.fullmatch(cluster):
            raise UsageError(
                f"--cluster {ascii(cluster)[1:-1]}: neither local, local:N, a scheduler's address "
                "(tcp://HOST:PORT) nor its .json file"
            )
        return _Dask(cluster, 1)
    count = int(found[1]) if found[1] else available_cores()
    if not 1 <= count <= 4096:
        raise UsageError(f"--cluster {cluster}: 1 to 4096 workers")
    return _Local(count, threads)


def _together(rate: float | None, works: deque[Work], left: int, workers: int) -> list[Work]:
    """The next tasks to send: as many as take `SECONDS` at ``rate`` (seconds a unit), but not so
    many that others have nothing to do."""
    batch = [works.popleft()]
    if rate is None:
        return batch
    most = min(TOGETHER, math.ceil(left / (2 * workers)))
    seconds = batch[0][3] * rate
    while works and len(batch) < most and seconds + works[0][3] * rate < SECONDS:
        batch.append(works.popleft())
        seconds += batch[-1][3] * rate
    return batch


def _told(record: logging.LogRecord) -> bool:
    """Whether a message of asyncio's is for people: not what Dask leaves behind where a worker ends
    while its result is fetched, which is told by `Executor.run`."""
    e = record.exc_info[1] if record.exc_info else None
    return not (type(e).__name__ == "AllExit" and type(e).__module__ == "distributed.client")


def _by_itself(lost: int) -> bool:
    """Whether a task whose worker ended that often is done with no other one about, so that others
    do not count as lost with it."""
    return lost >= max(1, LOST // 2)


class _Dask:
    """The workers of a Dask cluster."""

    def __init__(self, address: str, threads: int | None) -> None:
        from distributed import Client

        class OurClient(Client):  # type: ignore[misc]  # Dask has no types
            """It is closed by `close`; one that never began has nothing to close."""

            def __del__(self) -> None: ...

        self._address, self._threads = public_name(address), threads
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        where: dict[str, Any] = {"address": address}
        if address.endswith(".json"):
            said = read_json(address)  # Dask would wait for it
            if not isinstance(said, dict) or not isinstance(said.get("address"), str):
                raise FormatError("no scheduler's file: it has no address", path=self._address)
            where = {"scheduler_file": address}
        try:
            self._client = OurClient(**where, timeout=ANSWER, set_as_default=False, name="tracekit")
        except (OSError, TimeoutError, ValueError) as e:
            what = "names no scheduler" if isinstance(e, ValueError) else "no scheduler answers"
            raise TracekitError(what, path=self._address) from None
        logging.getLogger("asyncio").addFilter(_told)
        self._check_versions()

    def _check_versions(self) -> None:
        """`UsageError` that names the workers with another tracekit, or with none."""
        # A function of Python's own: a worker with another tracekit may lack any of this one's.
        import pydoc

        found = self._client.run(pydoc.locate, "tracekit._version.__version__", on_error="return")
        others = [
            f"{name} ({v if isinstance(v, str) else 'none'})"
            for name, v in sorted(found.items())
            if v != __version__
        ]
        if others:
            self.close()
            raise _refused(others)

    @property
    def workers(self) -> int:
        """Tasks that are done at once; 0 while nobody is there."""
        threads = self._client.nthreads()
        return sum(threads.values())

    def run(self, kind: str, common: str, works: Sequence[Work]) -> Iterator[tuple[int, str]]:
        waiting, left = deque(works), len(works)
        lost: dict[int, int] = {}
        seconds = size = 0.0
        flying: dict[Any, list[Work]] = {}
        try:
            while waiting or flying:
                workers = max(1, self.workers)
                while waiting and len(flying) < 2 * workers:
                    rate = seconds / size if size else None
                    times = lost.get(waiting[0][0], 0)
                    if any(_by_itself(lost.get(b[0][0], 0)) for b in flying.values()) or (
                        flying and _by_itself(times)
                    ):
                        break
                    batch = _together(None if times else rate, waiting, left, workers)
                    flying[self._send(kind, common, batch)] = batch
                for future in self._ended(flying):
                    batch = flying.pop(future)
                    results = self._results(future)
                    if results is None:
                        for work in batch:
                            lost[work[0]] = lost.get(work[0], 0) + 1
                            if lost[work[0]] > LOST:
                                left -= 1
                                yield work[0], _gone(work[1])
                            else:
                                waiting.appendleft(work)
                        continue
                    for work, text in zip(batch, results, strict=True):
                        left -= 1
                        seconds += float(json.loads(text[text.rindex(',"seconds":') + 11 : -1]))
                        size += work[3]
                        yield work[0], text
        finally:
            with contextlib.suppress(Exception):
                self._client.cancel(list(flying))

    def _send(self, kind: str, common: str, batch: list[Work]) -> Any:
        title = re.sub(r"[^A-Za-z0-9_.+ -]", "_", batch[0][1].rpartition("/")[2])[:80]
        if len(batch) > 1:
            title += f" and {len(batch) - 1} more"
        # Dask shows what stands before the last dash as the task's name.
        key = f"{title.replace('-', '_')}-{time.monotonic_ns():016x}{batch[0][0]:06x}"
        future = self._client.submit(
            perform,
            __version__,
            kind,
            common,
            [w[2] for w in batch],
            self._threads,
            key=key,
            pure=False,
            retries=0,
        )
        future.add_done_callback(self._done.put)
        return future

    def _ended(self, flying: dict[Any, list[Work]]) -> list[Any]:
        """Those that have ended, at least one."""
        since = time.monotonic()
        while True:
            ended = []
            with contextlib.suppress(queue.Empty):
                ended.append(self._done.get(timeout=1))
                while True:
                    ended.append(self._done.get_nowait())
            if ended := [f for f in ended if f in flying]:
                return ended
            if self._client.status not in ("running", "connecting"):
                raise TracekitError(
                    "the scheduler went away",
                    path=self._address,
                    hint="the same command with the same --run goes on",
                )
            if self.workers:
                since = time.monotonic()
            elif time.monotonic() - since > WAITING:
                raise TracekitError(
                    f"no worker for {WAITING:.0f} s",
                    path=self._address,
                    hint="the same command with the same --run goes on",
                )

    def _results(self, future: Any) -> list[str] | None:
        """None where the worker ended, even where it was done and had not handed its results over:
        Dask would do the task again, in its own time."""
        results: list[str] | None = None
        until = time.monotonic() + HANDING_OVER
        while results is None:
            if future.status != "finished" or time.monotonic() > until:
                return None
            try:
                results = future.result(timeout=2)
            except TimeoutError:
                continue
            except Exception:  # KilledWorker and its kin: distributed has no common base
                return None
        if results[0].startswith(OTHER_VERSION):
            raise _refused([f"a worker that came later ({results[0][len(OTHER_VERSION) :]})"])
        return results

    def close(self) -> None:
        """Leaves the cluster."""
        logging.getLogger("asyncio").removeFilter(_told)
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)


class _Local(_Dask):
    """Workers on this computer, of a thread each, gone at the end."""

    def __init__(self, count: int, threads: int | None) -> None:
        import dask
        from distributed import LocalCluster

        from tracekit.io.output import scratch

        self._cleanup = contextlib.ExitStack()
        folder = self._cleanup.enter_context(scratch())
        settings = {
            "distributed.scheduler.allowed-failures": 0,  # counted here
            # A worker that ends is started again, each time.  Dask ends that for good where none is
            # there so long after one was lost, be it that a second one was just lost.
            "distributed.deploy.lost-worker-timeout": "365 days",
            "distributed.worker.profile.enabled": False,
            "distributed.admin.tick.limit": "1h",
            # Dask has memory given back at once, which costs more than half of a task's time.
            "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
        }
        self._cleanup.enter_context(dask.config.set(settings))
        self._cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            local_directory=str(folder),
            silence_logs=logging.CRITICAL,
        )
        self._cleanup.callback(self._cluster.close, timeout=10)
        share = threads or max(1, available_cores() // count)
        super().__init__(self._cluster.scheduler_address, share)

    def close(self) -> None:
        super().close()
        self._cleanup.close()


def _gone(title: str) -> str:
    e = TracekitError(
        f"its worker ended {LOST + 1} times: killed, or out of memory", path=public_name(title)
    )
    return to_text({"error": error_to(e), "seconds": 0.0})


def _refused(others: Sequence[str]) -> UsageError:
    return UsageError(
        f"workers have another version of tracekit than {__version__}: {', '.join(others)}",
        hint="install the same version there",
    )


def value_of(text: str) -> dict[str, Any]:
    """A result as a dictionary."""
    found: dict[str, Any] = from_text(text)
    return found
