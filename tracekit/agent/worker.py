"""The process that steps, parses and predicts: one epoch, then it ends.

It is given one line of JSON on standard input and answers in lines of JSON.  To sample, it says
"ready" when all is imported and is told the process then: many programs live for seconds.  Where an
agent runs as root, the worker opens the model, then gives up root, then looks at processes and
traces.  Predictions run at the lowest priority (SCHED_IDLE), which a process without rights never
leaves again: the next epoch has a worker of its own.  Stepping keeps its priority, since a program
that is stopped waits for it; the copy that it steps has the lowest.
"""

from __future__ import annotations

import base64
import ctypes
import importlib
import json
import os
import pkgutil
import resource
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracekit.agent.epoch import Loaded

__all__ = ["main"]

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_IOPRIO_WHO_PROCESS, _IOPRIO_IDLE, _SYS_IOPRIO_SET = 1, 3 << 13, 251
MAX_REQUEST: Final = 1 << 29
MODULES: Final = (
    "cryptography.exceptions",
    "cryptography.hazmat.primitives.ciphers.aead",
    "elftools.elf.elffile",
    "numpy.ma",  # np.unique and others import it when they are called
    "tracekit.agent.vault",
)
#: Packages of tracekit that an epoch may need: what a program executes says which of their modules.
ROOMS: Final = (
    "extraction", "features", "inputs", "io", "isa", "mixture", "prediction", "record", "sim",
    "store", "symbols",
)  # fmt: skip


def say(event: str, **values: Any) -> None:
    """A line to the agent."""
    print(json.dumps({"event": event, **values}), flush=True)


def give_up_root(uid: int, gid: int) -> None:
    """Become that user for good; raises `PermissionError` where root could be had back."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    try:
        os.setuid(0)
    except PermissionError:
        return
    raise PermissionError("root was not given up")


def prepare(request: dict[str, Any]) -> Callable[[], Loaded]:
    """Import and open whatever one epoch needs: where root is given up next, its user may not be
    able to read it.  The answer gives the model, or raises what is wrong with it."""
    for name in MODULES:
        importlib.import_module(name)
    for room in ROOMS:
        package = importlib.import_module(f"tracekit.{room}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
    from tracekit.agent.epoch import Source, model_of
    from tracekit.errors import TracekitError

    try:
        loaded = model_of(Source(*request["model"]), request["designs"])
    except (TracekitError, OSError) as e:
        problem = e

        def missing() -> Loaded:
            raise problem

        return missing
    return lambda: loaded


def lowest_priority() -> None:
    """Run, read and write when nobody else does."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(_SYS_IOPRIO_SET, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)


def _sample(request: dict[str, Any], model: Callable[[], Loaded]) -> None:
    from tracekit.agent.epoch import identify, memory_folder, take
    from tracekit.agent.vault import Vault
    from tracekit.extraction import extract
    from tracekit.io.output import scratch
    from tracekit.opening import open_trace

    say("ready")
    pid = sys.stdin.readline()
    if not pid.strip():
        return
    with scratch([memory_folder()]) as folder:
        recording = folder / "epoch.tks"
        taken = take(
            int(pid),
            request["epoch"],
            request["copy_seconds"],
            recording,
            lowest_priority=request["lowest_priority"],
        )
        if taken.why is not None:
            say("none", why=taken.why, lost=taken.lost, copy=taken.copy)
            return
        name = os.urandom(16).hex() + ".trace"
        sealed = Vault(base64.b64decode(request["key"])).seal(recording.read_bytes(), name)
        features = folder / "epoch.zst"
        extract(recording, features, level="macro", threads="interleaved")
        with open_trace(features) as trace:
            signature, sketch = identify(trace)
            say(
                "sampled",
                signature=signature,
                sketch=base64.b64encode(sketch).decode(),
                instructions=len(trace),
                lost=taken.lost,
                copy=taken.copy,
                name=name,
                trace=base64.b64encode(sealed).decode(),
            )
            if sys.stdin.readline() == "predict\n":
                _predict(model(), trace)


def _predict_sealed(request: dict[str, Any], model: Callable[[], Loaded]) -> None:
    from tracekit.agent.epoch import memory_folder
    from tracekit.agent.vault import Vault
    from tracekit.extraction import extract
    from tracekit.io.output import scratch, write_bytes
    from tracekit.opening import open_trace

    lowest_priority()
    data = Vault(base64.b64decode(request["key"])).open(
        base64.b64decode(request["trace"]), request["name"]
    )
    with scratch([memory_folder()]) as folder:
        write_bytes(folder / "epoch.tks", data)
        features = folder / "epoch.zst"
        extract(folder / "epoch.tks", features, level="macro", threads="interleaved")
        with open_trace(features) as trace:
            _predict(model(), trace)


def _predict(model: Loaded, trace: Any) -> None:
    from dataclasses import asdict

    from tracekit.agent.epoch import predictions

    before = resource.getrusage(resource.RUSAGE_SELF)
    lowest_priority()
    found = predictions(model, trace)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    say("predicted", predictions=[asdict(p) for p in found], cpu=spent)


def main() -> int:
    """Serve one request."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    request = json.loads(sys.stdin.readline(MAX_REQUEST))
    model = prepare(request)
    if request["user"] is not None:
        give_up_root(*request["user"])
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    from tracekit.errors import ProcessEndedError, TracekitError

    try:
        if request["op"] == "check":
            model()
            say("fits")
        elif request["op"] == "sample":
            _sample(request, model)
        else:
            _predict_sealed(request, model)
    except ProcessEndedError as e:
        say("none", why="gone", message=str(e)[:500], lost=0.0, copy=0.0)
    except TracekitError as e:
        # Messages name files and processes: for the log of this computer.
        say("none", why=type(e).__name__, message=str(e)[:500], lost=0.0, copy=0.0)
    except OSError as e:
        say("none", why="OSError", message=str(e)[:500], lost=0.0, copy=0.0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
