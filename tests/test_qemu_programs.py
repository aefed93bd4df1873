"""Programs of all kinds under QEMU: output and exit status as without, counts as Valgrind's.

Each is skipped where its program or compiler is missing; all but the first ones are slow tests.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracekit.record.qemu.launch import PLUGIN

RECORD = [sys.executable, "-m", "tracekit", "record", "--engine", "qemu", "-q", "--json"]
TIMEOUT = 1200
pytestmark = pytest.mark.skipif(
    not PLUGIN.exists() or shutil.which("qemu-x86_64") is None, reason="needs qemu-user"
)

HELLO = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  char line[80];
  while (fgets(line, sizeof line, stdin)) printf("%d %s", argc, line);
  fprintf(stderr, "done\\n");
  return getenv("HOME") ? 3 : 4;
}
"""
THREADS = """
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int turn;
static void *run(void *p) {
  for (int i = 0; i < 50; i++) {
    pthread_mutex_lock(&m);
    while (turn % 3 != (long)p) pthread_cond_wait(&c, &m);
    turn++;
    pthread_cond_broadcast(&c);
    pthread_mutex_unlock(&m);
  }
  return 0;
}
int main(void) {
  pthread_t t[3];
  for (long i = 0; i < 3; i++) pthread_create(&t[i], 0, run, (void *)i);
  for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
  printf("%d\\n", turn);
  return 0;
}
"""
SIGNALS = """
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>
static volatile sig_atomic_t ticks, faults;
static sigjmp_buf back;
static void tick(int s) { ticks++; }
static void fault(int s) { faults++; siglongjmp(back, 1); }
int main(void) {
  struct itimerval often = {{0, 2000}, {0, 2000}};
  signal(SIGALRM, tick);
  signal(SIGSEGV, fault);
  signal(SIGFPE, fault);
  setitimer(ITIMER_REAL, &often, 0);
  while (ticks < 20) {
    volatile int *bad = (int *)8;
    if (!sigsetjmp(back, 1)) *bad = 1;
  }
  printf("%d\\n", ticks >= 20 && faults > 0);
  return 0;
}
"""
FORKS = """
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
  for (int i = 0; i < 4; i++)
    if (fork() == 0) {
      if (i & 1) execl("/bin/echo", "echo", "child", (char *)0);
      printf("forked %d\\n", i);
      fflush(stdout);
      _exit(i);
    } else {
      int s;
      wait(&s);
      printf("%d\\n", WEXITSTATUS(s));
      fflush(stdout);
    }
  return 9;
}
"""
KILLED = "#include <stdlib.h>\nint main(void) { abort(); }"
CROSS = {"arm": "aarch64-linux-gnu-gcc", "riscv": "riscv64-linux-gnu-gcc"}


def _program(tmp_path: Path, name: str) -> list[str]:
    """The command of a program, built where it must be."""
    kind, _, rest = name.partition(":")
    if kind == "c":
        source, _, flags = rest.partition(" ")
        isa, _, text = source.partition("/")
        compiler = CROSS.get(isa, "gcc")
        if shutil.which(compiler) is None:
            pytest.skip(f"needs {compiler}")
        file = tmp_path / "p.c"
        file.write_text(globals()[text])
        command = [
            compiler,
            "-O1",
            *flags.split(),
            "-pthread",
            "-o",
            str(tmp_path / "p"),
            str(file),
        ]
        subprocess.run(command, check=True, timeout=TIMEOUT)
        return [str(tmp_path / "p")]
    words = rest.replace("TMP", str(tmp_path)).split("|")
    if shutil.which(words[0]) is None:
        pytest.skip(f"needs {words[0]}")
    return words


PROGRAMS = [
    "c:x86/HELLO -static",
    "c:x86/HELLO",
    "c:arm/HELLO -static",
    "c:riscv/HELLO -static",
    "c:x86/THREADS -static",
    "c:x86/FORKS",
    "c:x86/KILLED",
    "c:x86/SIGNALS -static",
    "c:arm/HELLO",
    "c:riscv/HELLO",
    "c:arm/THREADS -static",
    "c:riscv/THREADS -static",
    "c:arm/SIGNALS -static",
    "c:riscv/SIGNALS -static",
    "c:x86/THREADS",
    "run:/bin/ls|/",
    "run:sh|-c|for i in 1 2 3; do echo $i; done | sort -r; false",
    "run:gzip|-9c|/etc/services",
    "run:awk|BEGIN { for (i = 0; i < 1000; i++) s += i * i; print s }",
    "run:sed|-n|/^root/p|/etc/passwd",
    "run:sqlite3|:memory:|create table t(a); insert into t values (1),(2); select sum(a) from t",
    "run:/usr/bin/python3|-c|import json; print(json.dumps({'a': [1, 2]}))",
    "run:node|-e|let s = 0; for (let i = 0; i < 100000; i++) s += i % 7; console.log(s)",
    "run:gcc|-S|-O1|-xc|/dev/null|-o-",
    "run:perl|-e|print join(',', map { $_ * 2 } 1..9), \"\\n\"; exit 5",
]
QUICK = 8


@pytest.mark.parametrize(
    "name",
    [pytest.param(p, marks=pytest.mark.slow) if i >= QUICK else p for i, p in enumerate(PROGRAMS)],
)
def test_output_and_status_as_without(tmp_path: Path, name: str) -> None:
    command = _program(tmp_path, name)
    isa = name.partition(":")[2].partition("/")[0]
    told = b"some\nlines\n"
    plain_command = command
    if isa in CROSS:  # nothing on this machine runs them but QEMU
        target = {"arm": "aarch64", "riscv": "riscv64"}[isa]
        plain_command = [f"qemu-{target}", "-L", f"/usr/{target}-linux-gnu", *command]
    plain = subprocess.run(plain_command, input=told, capture_output=True, timeout=TIMEOUT)
    done = subprocess.run(
        [*RECORD, "-o", str(tmp_path / "o.tks"), "--", *command],
        input=told,
        capture_output=True,
        timeout=TIMEOUT,
    )
    assert done.stdout == plain.stdout, done.stderr[-2000:]
    status = plain.returncode if plain.returncode >= 0 else 128 - plain.returncode
    assert done.returncode == status, done.stderr[-2000:]
    totals: dict[str, Any] = next(
        json.loads(line) for line in done.stderr.splitlines() if line.startswith(b'{"schema"')
    )
    assert totals["instructions"] > 1000
    if "SIGNALS" not in name:  # docs/qemu.md: accesses after a fault inside one of QEMU's helpers
        assert not totals["anomalies"], totals


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_counts_are_valgrinds(tmp_path: Path) -> None:
    """Of a program without a C library: instructions, loads and stores, one by one."""
    source = """
    static volatile long a[64];
    __attribute__((used)) void run(void) {
      for (int r = 0; r < 100; r++)
        for (int i = 0; i < 64; i++) a[i] += a[(i * 7) & 63];
    }
    __asm__(".globl _start\\n_start: call run\\n mov $231, %eax\\n xor %edi, %edi\\n syscall");
    """
    file, program = tmp_path / "p.c", tmp_path / "p"
    file.write_text(source)
    flags = ["-O2", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-tree-vectorize"]
    subprocess.run(["gcc", *flags, "-o", str(program), str(file)], check=True)
    text = subprocess.run(
        ["valgrind", "--tool=lackey", "--trace-mem=yes", str(program)],
        capture_output=True, text=True, timeout=TIMEOUT,
    ).stderr  # fmt: skip
    instructions = len(re.findall(r"^I  ", text, re.M))
    updates = len(re.findall(r"^ M ", text, re.M))
    accesses = len(re.findall(r"^ [LS] ", text, re.M)) + 2 * updates
    done = subprocess.run(
        [*RECORD, "-o", str(tmp_path / "o.tks"), "--", str(program)],
        capture_output=True, timeout=TIMEOUT, check=True,
    )  # fmt: skip
    totals = json.loads(done.stderr.splitlines()[-1])
    assert instructions > 50_000
    assert (totals["instructions"], totals["accesses"]) == (instructions, accesses)
