"""Recording real programs: they must not notice, and what is written must be what they did."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracekit.analysis.hotspots import hot
from tracekit.errors import RecordError, TracekitError, UsageError
from tracekit.inputs.tks import Epoch, TksReader, format_summary, summary
from tracekit.record import Recording, RecordOptions, available, procfs, record_command, record_pid

RECORD = [sys.executable, "-m", "tracekit.cli.main", "record"]
TIMEOUT = 300  # seconds, for what would be a hang: no test passes or fails by speed
NEEDS_GCC = shutil.which("gcc") is None


def _why_not() -> str | None:
    why = available()
    if why is not None:
        return why
    if NEEDS_GCC:
        return "needs gcc"
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(9)"])
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(0x4206, child.pid, None, None) != 0:  # PTRACE_SEIZE
            return f"ptrace is not permitted here: {os.strerror(ctypes.get_errno())}"
        return None
    finally:
        child.kill()
        child.wait()


pytestmark = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")

# No test depends on how fast anything runs: a program says "ready" when it is where it is to be
# recorded, and stays there until its standard input ends.
TOLD_TO_STOP = """
#include <poll.h>
static int told_to_stop(void) {
  struct pollfd p = {0, POLLIN, 0};
  return poll(&p, 1, 0) == 1;  /* not EINTR */
}
"""
PROGRAMS = {
    # A fixed amount of work whose result tells whether anything went wrong; busy to the end.
    "work": """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
static uint32_t table[4096];
static uint32_t work(long n) {
  uint32_t x = 1;
  for (long i = 0; i < n; i++) {
    x = x * 1664525 + 1013904223;
    table[x >> 20] += x;
    if (x & 0x10000) x ^= table[i & 4095];
  }
  return x;
}
int main(int argc, char **argv) {
  puts("ready");
  fflush(stdout);
  uint32_t x = work(1000000);
  while (!told_to_stop()) work(1000000);
  printf("%u\\n", x);
  return 42;
}
""",
    # Four busy threads with their own memory and a private mutex.
    "threads": """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long total;
static volatile int stop;
static void *run(void *arg) {
  while (!stop) {
    char *p = malloc(5000);
    memset(p, (int)(long)arg, 5000);
    long sum = 0;
    for (int i = 0; i < 5000; i++) sum += p[i];
    if (sum != 5000 * (long)arg) abort();
    free(p);
    pthread_mutex_lock(&lock);
    total++;
    pthread_mutex_unlock(&lock);
  }
  return 0;
}
int main(int argc, char **argv) {
  pthread_t t[4];
  char c;
  for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, run, (void *)(i + 1));
  if (write(1, "ready\\n", 6) != 6) return 2;
  if (read(0, &c, 1)) return 1;  /* one EOF, never EINTR */
  stop = 1;
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  puts(total > 0 ? "ok" : "nothing");
  return 3;
}
""",
    # Waits in system calls of different kinds; notices every EINTR and lost byte.
    "waits": """
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static int fd[2];
static volatile sig_atomic_t children;
static void on_child(int s) { (void)s; children++; }
static int sent;
static void *feed(void *arg) {
  while (!told_to_stop()) {
    usleep(2000);
    if (write(fd[1], &sent, sizeof sent) != sizeof sent) abort();
    sent++;
  }
  close(fd[1]);
  return 0;
}
int main(int argc, char **argv) {
  struct sigaction on = {.sa_handler = on_child};  /* no SA_RESTART */
  sigaction(SIGCHLD, &on, 0);
  if (pipe(fd)) return 1;
  pthread_t t;
  pthread_create(&t, 0, feed, 0);
  if (write(1, "ready\\n", 6) != 6) return 2;
  int got, expected = 0;
  for (;;) {
    struct pollfd p = {fd[0], POLLIN, 0};
    struct timespec tenth = {0, 1000000}, left;
    if (nanosleep(&tenth, &left) != 0) return 10;
    if (poll(&p, 1, -1) != 1) return 11;
    ssize_t r = read(fd[0], &got, sizeof got);
    if (r == 0) break;
    if (r != sizeof got || got != expected++) return 12;
  }
  if (waitpid(-1, 0, 0) != -1 || errno != ECHILD) return 13;
  if (children) return 14;
  pthread_join(t, 0);
  return expected == sent ? 7 : 15;
}
""",
    # Forks children all the time, reaps each, and counts its SIGCHLDs; two live throughout.
    "forks": """
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile sig_atomic_t signals;
static void on_child(int s) { (void)s; signals++; }
int main(int argc, char **argv) {
  struct sigaction on = {.sa_handler = on_child, .sa_flags = SA_RESTART};
  sigaction(SIGCHLD, &on, 0);
  int n = 0;
  pid_t busy[2];
  for (int i = 0; i < 2; i++) {
    busy[i] = fork();
    if (busy[i] < 0) return 18;
    if (busy[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (volatile long x = 0;; x++) {}
    }
  }
  printf("%d %d\\nready\\n", (int)busy[0], (int)busy[1]);
  fflush(stdout);
  while (!told_to_stop()) {
    pid_t p = fork();
    if (p == 0) { volatile long x = 0; while (x < 200000) x++; _exit(n & 63); }
    if (p < 0) return 20;
    int status;
    if (waitpid(p, &status, 0) != p || status != (n & 63) << 8) return 21;
    n++;
  }
  for (int i = 0; i < 2; i++) {
    int status;
    kill(busy[i], SIGTERM);
    if (waitpid(busy[i], &status, 0) != busy[i] || status != SIGTERM) return 19;
  }
  if (waitpid(-1, 0, 0) != -1 || errno != ECHILD) return 22;
  return signals == n + 2 ? 9 : 23;
}
""",
    # Known accesses, marked by the byte that each stores.
    "accesses": """
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
static uint64_t data[512] __attribute__((aligned(64)));
static int32_t offsets[8] = {0, 9, 18, 27, 36, 45, 54, 63};
int main(void) {
  asm volatile("int3_here: nop" ::: "memory");
  uint64_t *p = data;
  long n = 40;
  void *d = data + 256, *s = data;
  asm volatile("push %%rax; pop %%rax" ::: "memory");
  asm volatile("lock incq 8(%0)" ::"r"(p) : "memory");
  asm volatile("rep movsq" : "+D"(d), "+S"(s), "+c"(n)::"memory");
  n = 3; d = data + 300;
  asm volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(0) : "memory");
  n = 0;
  asm volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(0) : "memory");
  asm volatile("btsq %1, (%0)" ::"r"(p), "r"(130L) : "memory");
#ifdef __AVX2__
  __m256i i = _mm256_loadu_si256((__m256i *)offsets);
  __m256i m = _mm256_set_epi32(-1, 0, -1, 0, -1, 0, -1, -1), r = _mm256_setzero_si256();
  asm volatile("vpgatherdd %1, (%2,%3,4), %0" : "+x"(r), "+x"(m) : "r"(p), "x"(i) : "memory");
#endif
  asm volatile("pushfq; popq %%rax" ::: "rax", "memory");
  printf("%p\\n", (void *)data);
  return 0;
}
""",
    # Rewrites its own code: the same pc, two contents.
    "jit": """
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
  unsigned char *c = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned char code[] = {0xb8, 1, 0, 0, 0, 0xc3};
  int sum = 0;
  for (int i = 0; i < 10; i++) {
    code[1] = (unsigned char)(i / 5);
    memcpy(c, code, sizeof code);
    sum += ((int (*)(void))c)();
  }
  return sum;
}
""",
    "shared": """
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
  volatile long *p = mmap(0, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  long n = 0;
  puts("ready");
  fflush(stdout);
  while (!told_to_stop())
    for (int i = 0; i < 1000000; i++) { ++n; ++*p; }
  return n == *p ? 5 : 6;  /* an increment by a copy would show */
}
""",
    # Ends when the pipe of the name that it is given has been written to.
    "seccomp": """
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
int main(int argc, char **argv) {
  struct sock_filter f[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog p = {1, f};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 98;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) return 99;
  char c;
  return read(open(argv[1], O_RDONLY), &c, 1) == 1 ? 4 : 5;
}
""",
    # Answers each signal, all of which queue.
    "signals": """
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void on_signal(int s) { if (write(1, "!", 1) != 1) _exit((s & 0) + 9); }
int main(void) {
  struct sigaction on = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGRTMIN, &on, 0);
  puts("ready");
  fflush(stdout);
  while (!told_to_stop())
    for (volatile int i = 0; i < 100000; i++) {}
  return 6;
}
""",
    # No libc, because a 32-bit one may be missing.
    "small": """
void _start(void) {
  char c;
  long r;
  __asm__ volatile("int $0x80" : "=a"(r) : "0"(4), "b"(1), "c"("ready\\n"), "d"(6) : "memory");
  __asm__ volatile("int $0x80" : "=a"(r) : "0"(3), "b"(0), "c"(&c), "d"(1) : "memory");
  __asm__ volatile("int $0x80" ::"a"(1), "b"(5));
}
""",
}
FLAGS = {
    "threads": ["-pthread"],
    "waits": ["-pthread"],
    "accesses": ["-march=native", "-static"],
    "jit": ["-static"],
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("programs")
    out = {}
    for name, source in PROGRAMS.items():
        file = folder / f"{name}.c"
        file.write_text(
            source if name == "small" else f"#define _GNU_SOURCE\n{TOLD_TO_STOP}{source}"
        )
        flags = (
            ["-m32", "-nostdlib", "-static"] if name == "small" else ["-O1", *FLAGS.get(name, [])]
        )
        done = subprocess.run(
            ["gcc", "-w", *flags, "-o", folder / name, file], capture_output=True, text=True
        )
        if done.returncode == 0:
            out[name] = str(folder / name)
        elif name != "small":
            pytest.fail(done.stderr)
    return out


def options(**given: object) -> RecordOptions:
    """Small epochs in quick succession; at normal priority, since the machine may be busy."""
    small: dict[str, Any] = {"epoch": 60, "period": 0.0, "lowest_priority": False}
    return RecordOptions(**{**small, **given})


def relatives(pid: int) -> list[str]:
    """Processes that run the same program, or are its children: dead ones too."""
    exe = Path(f"/proc/{pid}/exe").readlink() if Path(f"/proc/{pid}/exe").exists() else None
    found = []
    for p in Path("/proc").iterdir():
        if not p.name.isdigit() or int(p.name) == pid:
            continue
        try:
            parent = int((p / "stat").read_text().rpartition(")")[2].split()[1])
            mine = exe is not None and (p / "exe").readlink() == exe
        except OSError:
            parent, mine = int_or(p), False
        if parent == pid or mine:
            found.append((p / "stat").read_text() if (p / "stat").exists() else p.name)
    return found


def runs_alone(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return "TracerPid:\t0" in status and not re.search("State:\t[Tt]", status)


def int_or(p: Path) -> int:
    try:
        return int((p / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return -1


def started(command: list[str]) -> subprocess.Popen[bytes]:
    """The program, once it has said that it is ready, and what it said before as `.said`."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    said: list[bytes] = []
    while (line := child.stdout.readline()) != b"ready\n":
        assert line, "ended before it was ready"
        said.append(line)
    child.said = said  # type: ignore[attr-defined]
    return child


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def broken_flow(e: Epoch, codes: list[tuple[int, int]]) -> list[int]:
    """Rows that do not follow from the row before: the oracle of program order."""
    ids, bits = e.rows.encoding.tolist(), e.rows.bits.tolist()
    out = []
    for i in range(1, len(ids)):
        pc, length = codes[ids[i - 1]]
        jumps = bits[i - 1] & 3 == 3
        if not bits[i] & 4 and not jumps and codes[ids[i]][0] != pc + length:
            out.append(i)
    return out


def read(path: Path) -> tuple[TksReader, list[Epoch]]:
    with TksReader(path) as reader:
        return reader, list(reader.epochs())


def codes_of(reader: TksReader) -> list[tuple[int, int]]:
    return [(reader.table[i][0], reader.table[i][1]) for i in range(len(reader.table))]


ELSEWHERE = """
import sys, json
from tracekit.record import RecordOptions, record_pid
t = record_pid(int(sys.argv[1]), sys.argv[2], RecordOptions(**json.loads(sys.argv[3])))
print(json.dumps(t.as_dict()))
"""


def elsewhere(pid: int, out: Path, given: RecordOptions) -> list[str]:
    """A recorder that is not the program's parent: copies are then the program's own children."""
    return [sys.executable, "-c", ELSEWHERE, str(pid), str(out), json.dumps(vars(given))]


@pytest.mark.parametrize(("name", "code"), [("threads", 3), ("waits", 7), ("forks", 9)])
def test_hundred_snapshots(programs: dict[str, str], tmp_path: Path, name: str, code: int) -> None:
    child = started([programs[name]])
    out = tmp_path / "x.tks"
    given = options(count=100, wait=0.5, follow_forks=name == "forks")
    recorder = subprocess.run(elsewhere(child.pid, out, given), capture_output=True, text=True)
    assert recorder.returncode == 0, recorder.stderr
    totals = json.loads(recorder.stdout)
    assert totals["epochs"] == 100, totals
    assert child.poll() is None
    if name != "forks":
        assert wait_for(lambda: not relatives(child.pid)), relatives(child.pid)
    output, _ = child.communicate(timeout=TIMEOUT)
    assert (child.returncode, output) == (code, b"ok\n" if name == "threads" else b"")
    assert list(tmp_path.iterdir()) == [out]
    reader, epochs = read(out)
    assert len(epochs) == 100
    codes = codes_of(reader)
    assert not any(broken_flow(e, codes) for e in epochs)
    reasons = Counter(e.reason for e in epochs)
    if name == "threads":
        assert len({e.info["tid"] for e in epochs}) >= 4
        assert reasons["length"] > 50, reasons
    if name == "forks":
        # The two that live throughout always run, so that they take turns.
        busy = {int(p) for p in child.said[0].split()}  # type: ignore[attr-defined]
        assert busy <= {e.info["pid"] for e in epochs}


@pytest.fixture
def running(programs: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    child = started([programs["threads"]])
    yield child
    child.communicate(timeout=TIMEOUT)
    assert child.returncode == 3


def test_started_program_keeps_its_exit_code_and_output(
    programs: dict[str, str], tmp_path: Path
) -> None:
    plain = subprocess.run([programs["work"]], stdin=subprocess.DEVNULL, capture_output=True)
    out = tmp_path / "x.tks"
    command = [*RECORD, "-o", str(out), "--period", "0.05"]
    command += ["--epoch", "300", "--json", "--", programs["work"]]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as recorder:
        assert recorder.stderr is not None and b" epoch 0: " in recorder.stderr.readline()
        output, told = recorder.communicate(timeout=TIMEOUT)
    assert (recorder.returncode, output) == (42, plain.stdout)
    totals = json.loads(told.splitlines()[-1])
    assert totals["epochs"] >= 1 and os.waitstatus_to_exitcode(totals["exit_status"]) == 42
    s = summary(out)
    assert (
        s["complete"]
        and s["epochs"] == totals["epochs"]
        and s["instructions"] == totals["instructions"]
    )
    assert sum(s["reasons"].values()) == s["epochs"]
    assert "why epochs ended" in format_summary(s)
    json.dumps(s)


def test_killed_recorder_leaves_the_program_and_no_copy(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    rng = random.Random(1)
    for _ in range(6):
        out = tmp_path / "x.tks"
        for part in tmp_path.glob("x.tks.*.part"):
            part.unlink()
        recorder = subprocess.Popen(elsewhere(running.pid, out, options(epoch=400)))
        assert wait_for(lambda: any(tmp_path.glob("x.tks.*.part")))
        time.sleep(0.05 + rng.random() * 0.4)
        recorder.kill()
        recorder.wait()
        assert running.poll() is None
        assert wait_for(lambda: not relatives(running.pid)), relatives(running.pid)
        assert wait_for(lambda: runs_alone(running.pid))
    # Every thread still makes progress.
    for task in Path(f"/proc/{running.pid}/task").iterdir():
        if int(task.name) != running.pid:
            before = (task / "schedstat").read_text()
            assert wait_for(lambda: (task / "schedstat").read_text() != before)  # noqa: B023


def test_shared_memory_is_not_written_by_copies(programs: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "x.tks"
    child = started([programs["shared"]])
    record_pid(child.pid, out, options(epoch=3000, count=20))
    child.communicate(timeout=TIMEOUT)
    assert child.returncode == 5
    _, epochs = read(out)
    assert "shared_memory" in {e.reason for e in epochs}


def test_full_recording_has_every_access(
    programs: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.tks"
    record_command([programs["accesses"]], out, options(full=True, epoch=1 << 24))
    reader, epochs = read(out)
    assert {"accesses:main", "accesses:_start"} <= set(hot(out).parts)
    data = int(capfd.readouterr().out, 16)
    codes = codes_of(reader)
    assert not any(broken_flow(e, codes) for e in epochs)
    # One instruction after another from the marked one on.
    code = {i: reader.table[i][3][: reader.table[i][1]].hex() for i in range(len(reader.table))}
    e = epochs[-1]
    ids = e.rows.encoding.tolist()
    first, ends = (
        e.rows.first_access.tolist(),
        [*e.rows.first_access.tolist()[1:], len(e.rows.address)],
    )

    def accesses(hexcode: str) -> list[list[tuple[int, int, int]]]:
        r = e.rows
        return [
            [
                (int(r.address[a]), int(r.access_size[a]), int(r.is_store[a]))
                for a in range(first[i], ends[i])
            ]
            for i in range(len(ids))
            if code[ids[i]] == hexcode and main[0] <= codes[ids[i]][0] <= main[1]
        ]

    movs = next(i for i in range(len(ids) - 1, -1, -1) if code[ids[i]] == "f348a5")
    main = (codes[ids[movs]][0] - 200, codes[ids[movs]][0] + 400)
    (copied,) = accesses("f348a5")
    assert copied == [
        x for i in range(40) for x in ((data + 8 * i, 8, 0), (data + 2048 + 8 * i, 8, 1))
    ]
    assert sorted(map(len, accesses("f3aa"))) == [0, 3]
    assert max(accesses("f3aa"), key=len) == [(data + 2400 + i, 1, 1) for i in range(3)]
    (push,), (pop,) = accesses("50")[:1], accesses("58")[:1]
    assert push[0][1:] == (8, 1) and pop == [(push[0][0], 8, 0)]
    every = [x for i in range(movs, len(ids)) for x in zip_accesses(e, first[i], ends[i])]
    assert (data + 16, 8, 1) in every and (data + 16, 8, 0) in every  # bit 130 of data
    before = [x for i in range(movs) for x in zip_accesses(e, first[i], ends[i])]
    assert before.count((data + 8, 8, 0)) == before.count((data + 8, 8, 1)) == 1  # lock inc
    if "avx2" in Path("/proc/cpuinfo").read_text():
        gathers = [
            zip_accesses(e, first[i], ends[i])
            for i in range(len(ids))
            if code[ids[i]].startswith("c4") and ends[i] - first[i] == 5
        ]
        assert gathers == [[(data + 4 * 9 * k, 4, 0) for k in (0, 1, 3, 5, 7)]]


def zip_accesses(e: Epoch, a: int, b: int) -> list[tuple[int, int, int]]:
    r = e.rows
    return list(
        zip(
            r.address[a:b].tolist(),
            r.access_size[a:b].tolist(),
            r.is_store[a:b].tolist(),
            strict=True,
        )
    )


def test_rewritten_code_is_told_apart(programs: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "x.tks"
    totals = record_command([programs["jit"]], out, options(full=True, epoch=1 << 24))
    assert os.waitstatus_to_exitcode(totals.exit_status or 0) == 5
    reader, epochs = read(out)
    by_content = {
        reader.table[i][3][:5]: i
        for i in range(len(reader.table))
        if reader.table[i][3][2:5] == b"\0\0\0"
    }
    counts = Counter(epochs[0].rows.encoding.tolist())
    pcs = {reader.table[i][0] for c, i in by_content.items() if c[:1] == b"\xb8" and counts[i] == 5}
    both = [i for i in range(len(reader.table)) if reader.table[i][0] in pcs and counts[i] == 5]
    assert len(both) == 2 and len(pcs) == 1
    assert epochs[0].reason == "exited"


def test_same_instructions_in_place_and_by_snapshot(
    programs: dict[str, str], tmp_path: Path
) -> None:
    """The loop of `work` has the same pcs and strides, whoever is stepped."""
    seen = []
    for in_place in (False, True):
        out = tmp_path / f"{in_place}.tks"
        child = started([programs["work"]])
        try:
            record_pid(child.pid, out, options(epoch=1000, count=2, in_place=in_place))
            assert child.poll() is None
            assert wait_for(lambda: runs_alone(child.pid))  # noqa: B023
        finally:
            child.communicate(timeout=TIMEOUT)
        assert child.returncode == 42
        reader, epochs = read(out)
        assert [e.info["in_place"] for e in epochs] == [int(in_place)] * 2
        assert not any(broken_flow(e, codes_of(reader)) for e in epochs)
        seen.append({c[0] & 0xFFF for c in codes_of(reader)})
        parts = hot(out).parts
        assert parts["work:work"] > 1000 and parts.total() == 2000, parts
        assert all(len(e.rows) == 1000 for e in epochs)
    assert len(seen[0] & seen[1]) >= 5


def test_clear_messages(
    programs: dict[str, str],
    tmp_path: Path,
    running: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "x.tks"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    wait_for_child = Recording._wait_for_child
    ended = []

    def told(recording: Recording, number: int) -> None:
        fifo.write_bytes(b"x")  # the program ends once the recording has failed, not before
        wait_for_child(recording, number)
        ended.append(os.waitstatus_to_exitcode(recording.totals.exit_status or 0))

    with monkeypatch.context() as patch, pytest.raises(RecordError, match="seccomp filter"):
        patch.setattr(Recording, "_wait_for_child", told)
        record_command([programs["seccomp"], str(fifo)], out, options())
    fifo.unlink()
    assert ended == [4]
    if "small" in programs:
        small = started([programs["small"]])
        with pytest.raises(RecordError, match="32-bit"):
            record_pid(small.pid, out, options(count=1))
        small.communicate(timeout=TIMEOUT)
        assert small.returncode == 5
    with pytest.raises(TracekitError, match="no process"):
        record_pid(2**22 - 1, out, options())
    with pytest.raises(TracekitError, match="cannot start"):
        record_command(["/no/such/program"], out, options())
    with pytest.raises(RecordError, match="No such file"):
        record_command(["/no/such/program"], out, options(full=True))
    with pytest.raises(UsageError):
        record_command(["true"], out, options(full=True, in_place=True))
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import ctypes, sys\nseize = ctypes.CDLL(None).ptrace\n"
            "for t in sys.argv[1:]: seize(0x4206, int(t), None, None)\n"
            "print('held', flush=True)\nsys.stdin.read()",
            *[t.name for t in Path(f"/proc/{running.pid}/task").iterdir()],
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
            with pytest.raises(RecordError, match="traced already, by process"):
                record_pid(running.pid, out, options())
        finally:
            holder.kill()
    assert not list(tmp_path.iterdir())


def test_signals_reach_the_program(programs: dict[str, str], tmp_path: Path) -> None:
    """A program that is sent one signal after another while it is recorded gets each, once."""
    child = started([programs["signals"]])
    assert child.stdout is not None
    answers, done = child.stdout, threading.Event()
    sent = 0

    def send() -> None:
        nonlocal sent
        while not done.is_set() or sent < 60:
            os.kill(child.pid, signal.SIGRTMIN)
            sent += 1
            assert answers.read(1) == b"!", (child.wait(), sent)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        totals = record_pid(child.pid, tmp_path / "x.tks", options(count=60))
    finally:
        done.set()
        sender.join()
    assert totals.epochs == 60
    output, _ = child.communicate(timeout=TIMEOUT)
    assert (child.returncode, output) == (6, b"") and sent >= 60


def test_overhead_limit_chooses_the_period(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    out = tmp_path / "x.tks"
    totals = record_pid(running.pid, out, options(max_overhead=0.2, count=3, epoch=20))
    assert totals.period is not None and totals.epochs == 3
    with TksReader(out) as reader:
        list(reader.epochs())
        assert reader.totals is not None and reader.totals["period"] == totals.period


def test_interrupted_recording_is_complete(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    out = tmp_path / "x.tks"
    command = [*RECORD, "-o", str(out), "--period", "0", "--epoch", "100", "--normal-priority"]
    recorder = subprocess.Popen([*command, "--pid", str(running.pid)], stderr=subprocess.PIPE)
    assert recorder.stderr is not None
    while b" epoch 2: " not in (line := recorder.stderr.readline()):
        assert line
    recorder.send_signal(signal.SIGINT)
    _, errors = recorder.communicate(timeout=TIMEOUT)
    assert recorder.returncode == 0, errors
    assert running.poll() is None and wait_for(lambda: not relatives(running.pid))
    s = summary(out)
    assert s["complete"] and s["totals"]["end"] == "user"


def test_columns_survive_the_file(running: subprocess.Popen[bytes], tmp_path: Path) -> None:
    out = tmp_path / "x.tks"
    record_pid(running.pid, out, options(count=3, epoch=500))
    _, epochs = read(out)
    for e in epochs:
        r = e.rows
        assert len(r.encoding) == len(r.bits) == len(r.first_access) == len(e.rows)
        assert len(r.address) == len(r.access_size) == len(r.is_store)
        assert np.all(np.diff(r.first_access.astype(np.int64)) >= 0)
        assert e.info["requested"] == 500 and e.info["steps"] >= len(r)


@pytest.mark.skipif(not procfs.counts_waiting(), reason="the kernel does not count it")
def test_waiting_for_a_processor_is_counted() -> None:
    only = {min(os.sched_getaffinity(0))}
    busy = [sys.executable, "-c", "while True: pass"]
    with contextlib.ExitStack() as stack:
        two = [
            stack.enter_context(
                subprocess.Popen(busy, preexec_fn=lambda: os.sched_setaffinity(0, only))
            )
            for _ in range(2)
        ]
        for one in two:
            stack.callback(one.kill)
        before = [procfs.waited_seconds(one.pid) for one in two]
        assert wait_for(
            lambda: all(procfs.waited_seconds(o.pid) > b for o, b in zip(two, before, strict=True))
        )
    assert procfs.waited_seconds(two[0].pid) == 0
