"""Whether the kernel lets us trace a process, and if not, why."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from tracekit.errors import ProcessEndedError, RecordError

_KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD of linux/sched.h
_YAMA: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
_SCOPES: Final = {
    1: "only a program's own parent may trace it",
    2: "only root may trace",
    3: "nobody may trace",
}


def check_traceable(pid: int) -> None:
    """Raises `RecordError` with the reason where process ``pid`` is there and may not be traced.

    Opening a process's memory asks the kernel what attaching would ask, and stops nothing.
    """
    try:
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
            if ":\t" in line
        )
        flags = int(
            Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[6]
        )
        if status.get("State", "").startswith("Z"):
            raise ProcessEndedError(
                f"process {pid} has ended; its parent has not asked for its exit code"
            )
        if flags & _KERNEL_THREAD:
            raise RecordError(f"process {pid} is a kernel thread: it has no user code to record")
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return
    except OSError as e:
        if e.errno not in (errno.EACCES, errno.EPERM):
            return
    else:
        os.close(memory)
        return
    reason, hint = _reason(pid, status)
    raise RecordError(f"process {pid} may not be traced: {reason}", hint=hint)


def _reason(pid: int, status: dict[str, str]) -> tuple[str, str]:
    uids = {int(u) for u in status.get("Uid", "").split()}
    gids = {int(g) for g in status.get("Gid", "").split()}
    if os.getuid() == 0:
        return (
            "tracekit runs as root, without CAP_SYS_PTRACE",
            "give the container that capability (docker run --cap-add SYS_PTRACE)",
        )
    if uids - {os.getuid()}:
        return (
            f"it runs as user {_names(uids)}, and tracekit as {_names({os.getuid()})}",
            "run tracekit as that user, or as root",
        )
    if gids - {os.getgid()}:
        return "it runs with another group than tracekit", "run tracekit as root"
    try:
        owner = Path(f"/proc/{pid}/mem").stat().st_uid
    except OSError:
        owner = os.getuid()
    if owner != os.getuid():
        return (
            "it is not dumpable: it was set-user-id, cannot be read by its user, or asked for that "
            "(PR_SET_DUMPABLE)",
            "run tracekit as root",
        )
    try:
        scope = int(_YAMA.read_text())
    except (OSError, ValueError):
        scope = 0
    if scope in _SCOPES:
        hint = "sysctl kernel.yama.ptrace_scope=0 as root allows it"
        if scope == 1:
            hint = f"let tracekit start it (tracekit record -- PROGRAM), or {hint}"
        return f"{_YAMA} is {scope}, so {_SCOPES[scope]}", hint
    return (
        "a security module, a user namespace or its capabilities forbid it",
        "run tracekit as root",
    )


def explained(e: OSError) -> RecordError:
    """What the recorder's own error of (kind, message) means for a user."""
    kind, message = e.args
    hint = None
    if kind == "permission":
        hint = (
            "ptrace is not permitted: run as the program's user; "
            "/proc/sys/kernel/yama/ptrace_scope must be 0 (or 1 and tracekit starts the program); "
            "a container needs CAP_SYS_PTRACE"
        )
    return RecordError(str(message), hint=hint)


def _names(uids: set[int]) -> str:
    import pwd

    out = []
    for uid in sorted(uids):
        try:
            out.append(f"{pwd.getpwuid(uid).pw_name} ({uid})")
        except KeyError:
            out.append(str(uid))
    return ", ".join(out)
