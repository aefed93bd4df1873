"""An agent on a mixed day played in ten minutes: what it costs, and what the programs lose.

    python bench/agent_day.py [--seconds 600] [--cpu 30%] [--loss 0.1%] [--user nobody] [--json]

Python (JSON and regular expressions), SQLite, gzip and a C compiler run side by side, each with
breaks.  The agent is the real one, in a process of its own, with a policy of
``--cpu`` (a day's 0.5 % would be less than one epoch in ten minutes).  Its processor time is the
kernel's, by `wait4`, with its workers; the copies' is added from its own log.  Its memory is read
each second while no worker lives.  It looks each second, ten times as often as unless told, since
the programs live for seconds.

Before the day the agent runs on the same programs with the policy that it has unless told, so that
no epoch can be paid for yet: what it costs without copies, from ten seconds after its start.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tracekit.agent.processes import idle_cores

_PR_SET_PDEATHSIG = 1
START = 10.0
"""Seconds after which the agent has started."""

PYTHON = "/usr/bin/python3" if os.geteuid() == 0 else sys.executable
JSON = """
import json, re, time
text = json.dumps([{"name": f"item {i}", "price": i * 1.5} for i in range(400)])
while True:
    begin = time.monotonic()
    while time.monotonic() < begin + 12:
        sum(o["price"] for o in json.loads(text)); re.findall(r"item \\d*7\\b", text)
    time.sleep(28)
"""
SQLITE = """
import sqlite3, time
db = sqlite3.connect(":memory:")
db.execute("create table t (a integer primary key, b text, c integer)")
rows = ((i, f"name {i * 7919 % 10007}", i % 97) for i in range(20000))
db.executemany("insert into t values (?, ?, ?)", rows)
query = "select c, count(*), max(b) from t where b like '%12%' group by c order by 2"
while True:
    begin = time.monotonic()
    while time.monotonic() < begin + 10:
        db.execute(query).fetchall()
    time.sleep(26)
"""
GZIP = "while :; do gzip -9 -c < {0} > /dev/null; sleep 50; done"
CC = "while :; do {1} -O2 -c -o /dev/null {0}; sleep 75; done"
SOURCE = """
static int f0(int *a, int m) { int s = 0; for (int i = 0; i < m; i++) s += a[i] * 3; return s; }
#define F(n) int f##n(int *a, int m) { int s = n; for (int i = 0; i < m; i++) \\
  s = s * 31 + a[(i * n) % m] / (i + 1) + (s & 1 ? f0(a, m / 2) : m); return s; }
"""


def start(folder: Path, user: str) -> list[subprocess.Popen[bytes]]:
    text = folder / "text"
    text.write_text("".join(f"{k * k % 99991} lorem {k % 17} ipsum\n" for k in range(2_000_000)))
    source = folder / "source.c"
    source.write_text(SOURCE + "".join(f"F({k})\n" for k in range(1, 5000)))
    who: dict[str, Any] = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam(user)
        who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    commands = [[PYTHON, "-c", JSON], [PYTHON, "-c", SQLITE], ["sh", "-c", GZIP.format(text)]]
    if (compiler := shutil.which("gcc")) is not None:
        commands.append(["sh", "-c", CC.format(source, compiler)])
    return [
        subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                         env={"PATH": "/usr/bin:/bin"}, start_new_session=True,
                         preexec_fn=end_with_us, **who)
        for c in commands
    ]  # fmt: skip


def end_with_us() -> None:
    """A program of the day must not outlive who measures it, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def ended(number: int, _: object) -> None:
    sys.exit(128 + number)


def on_processor(pid: int) -> float:
    """Seconds, of all threads."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks) / 1e9


def serve(policy: Path, seconds: float, log: Path) -> dict[str, Any]:
    """Run the agent; its time and memory, and those of its workers; and how many cores were
    idle."""
    begin = time.monotonic()
    _, at_first = idle_cores(None)
    with log.open("w") as to:
        process = subprocess.Popen(
            [sys.executable, "-m", "tracekit", "agent", "run", "--policy", str(policy),
             "--seconds", str(seconds)], stdout=subprocess.DEVNULL, stderr=to,
            preexec_fn=end_with_us,
        )  # fmt: skip
    alone, with_workers = [], []
    own: list[tuple[float, float]] = []  # when, and the seconds so far
    while True:
        pid, how, use = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        time.sleep(1.0)
        with contextlib.suppress(OSError, ValueError, IndexError):
            folder = Path(f"/proc/{process.pid}")
            resident = int((folder / "status").read_text().partition("VmRSS:")[2].split()[0])
            kids = (folder / "task" / str(process.pid) / "children").read_text().split()
            (with_workers if kids else alone).append(resident / 1000)
            own.append((time.monotonic() - begin, on_processor(process.pid)))
    if code := os.waitstatus_to_exitcode(how):
        sys.exit(f"the agent ended with {code}: {log.read_text()[-500:]}")
    later = [x for x in own if x[0] >= START] or [(0.0, 0.0), *own][-1:]
    last = own[-1] if own else later[0]
    return {
        "cpu": use.ru_utime + use.ru_stime,
        "start_cpu": later[0][1],
        "own_cpu": last[1],
        "own_share": (last[1] - later[0][1]) / max(1.0, last[0] - later[0][0]),
        "memory_mb": max(alone, default=0.0),
        "memory_mb_with_worker": max(with_workers, default=0.0),
        "idle_cores": idle_cores(at_first)[0],
    }


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=600.0)
    p.add_argument("--cpu", default="30%")
    p.add_argument("--loss", default="0.1%")
    p.add_argument("--look", type=float, default=120.0, help="seconds of the part before")
    p.add_argument(
        "--crowded",
        action="store_true",
        help="sample although no core is idle (with a high --loss)",
    )
    p.add_argument("--user", default="nobody", help="whose programs run, where this is root")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    signal.signal(signal.SIGTERM, ended)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        out = play(args, folder)
    print(json.dumps(out, indent=1) if args.json else told(out))
    return 0


def play(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The part before the day, and the day."""
    user = f'user = "{args.user}"\n' if os.geteuid() == 0 else ""
    usual = folder / "usual.toml"
    usual.write_text(f'[agent]\n{user}state = "{folder}/usual"\n[when]\nmains = false\n')
    policy = folder / "policy.toml"
    policy.write_text(
        f'[budget]\ncpu = "{args.cpu}"\nloss = "{args.loss}"\n[when]\nmains = false\n'
        f"idle = {str(not args.crowded).lower()}\n"
        f'[agent]\n{user}state = "{folder}/state"\nscan_seconds = 1\n'
    )
    processes = start(folder, args.user)
    try:
        looking = serve(usual, args.look, folder / "usual.log")
        begin = time.monotonic()
        day = serve(policy, args.seconds, folder / "day.log")
        seconds = time.monotonic() - begin
    finally:
        for child in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    command = [sys.executable, "-m", "tracekit", "agent"]
    tail = ["--policy", str(policy), "--json"]
    status, report = (
        json.loads(subprocess.run([*command, a, *tail], stdout=-1, check=True).stdout)
        for a in ("status", "report")
    )
    events = [json.loads(line) for line in (folder / "day.log").read_text().splitlines()]
    taken = [e for e in events if e["event"] == "sampled"]
    everything = status["today"]["cpu_seconds"]
    return {
        "seconds": seconds,
        "looking": looking,
        "day": {**day, "cpu_with_copies": everything, "share": everything / seconds},
        "allowed": status["today"]["cpu_allowed"],
        "epochs": len(taken),
        "known": sum(e["known"] for e in taken),
        "epoch_cpu": _spread([e["cpu_s"] for e in taken]),
        "prediction_cpu": _spread([e["prediction_s"] for e in taken if not e["known"]]),
        "instructions": _spread([e["instructions"] for e in taken]),
        "loss": status["loss"],
        "programs": report["programs"],
        "no_epoch": [e for e in events if e["event"].startswith("no epoch")],
    }


def told(out: dict[str, Any]) -> str:
    """The same, to read."""
    a, d = out["looking"], out["day"]
    lines = [
        f"without copies, the usual policy: {a['own_share']:.3%} of a core after a start of "
        f"{a['start_cpu']:.2f} s, {a['memory_mb']:.0f} MB; {a['idle_cores']:.2f} cores idle",
        f"the day: {d['share']:.1%} of a core with copies (allowed {out['allowed']:.0%}), "
        f"{d['memory_mb']:.0f} MB; {out['epochs']} epochs, {out['known']} of known signatures; "
        f"{d['idle_cores']:.2f} cores idle",
    ]
    for what in ("epoch_cpu", "prediction_cpu", "instructions"):
        s = out[what]
        lines.append(f"{what}: {s['least']:g} to {s['most']:g}, median {s['median']:g}")
    loss = out["loss"]
    lines.append(f"lost {loss['share']:.3%}, worst program {loss['worst_program']:.3%}")
    lines += [
        f"{r['observed_seconds']:>8.1f} s, {r['covered_seconds']:.1f} s covered, {r['epochs']:>4} "
        f"epochs, lost {r['lost_share']:.3%}, {r['executable']} {r['refused'] or ''}"
        for r in out["programs"]
    ]
    lines += [
        f"{e['event']}: {e['executable']} {e['why']} {e.get('message', '')}"
        for e in out["no_epoch"]
    ]
    return "\n".join(lines)


def _spread(values: list[float]) -> dict[str, float]:
    s = sorted(values) or [0.0]
    return {"least": s[0], "median": s[len(s) // 2], "most": s[-1]}


if __name__ == "__main__":
    sys.exit(main())
