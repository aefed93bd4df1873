"""Recording under QEMU: rows counted by hand, the same as single steps, and programs unharmed."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tracekit.errors import RecordError, TracekitError, UsageError
from tracekit.inputs.tks import TksReader
from tracekit.isa import decode_many
from tracekit.record import RecordOptions, available, record_command
from tracekit.record.qemu import QemuOptions, QemuTotals, extract_qemu, find_program, record_qemu
from tracekit.record.qemu.launch import PLUGIN

HERE = Path(__file__).parent
RECORD = [sys.executable, "-m", "tracekit", "record", "--engine", "qemu"]
TIMEOUT = 300
ISAS = {
    "x86": ("qemu-x86_64", "gcc"),
    "arm": ("qemu-aarch64", "aarch64-linux-gnu-gcc"),
    "riscv": ("qemu-riscv64", "riscv64-linux-gnu-gcc"),
}


def _why_not() -> str | None:
    if shutil.which("qemu-x86_64") is None:
        return "needs qemu-user"
    return None if PLUGIN.exists() else "built without the plug-in for QEMU"


pytestmark = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")


class Row(NamedTuple):
    pc: int
    text: str
    bits: int
    accesses: tuple[tuple[int, int, int], ...]  # address, bytes, 1 = store


def rows_of(path: Path, thread: int | None = None) -> list[Row]:
    out: list[Row] = []
    with TksReader(path) as reader:
        for epoch in reader.epochs():
            if thread is not None and epoch.info["tid"] != thread:
                continue
            b: Any = epoch.rows
            first = [*map(int, b.first_access), len(b.address)]
            for i in range(len(b)):
                pc, length, _, raw = reader.table[int(b.encoding[i])]
                text = decode_many(reader.arch, [raw[:length]])[0].text  # type: ignore[arg-type]
                span = range(first[i], first[i + 1])
                accesses = tuple(
                    (int(b.address[a]), int(b.access_size[a]), int(b.is_store[a])) for a in span
                )
                out.append(Row(pc, text, int(b.bits[i]), accesses))
    return out


def build(isa: str, source: str, out: Path, *flags: str) -> Path:
    qemu, gcc = ISAS[isa]
    if shutil.which(qemu) is None or shutil.which(gcc) is None:
        pytest.skip(f"needs {qemu} and {gcc}")
    kind = ".s" if source.lstrip().startswith(".globl") else ".c"
    file = out.with_suffix(kind)
    file.write_text(source)
    bare = ("-nostdlib", "-static", "-no-pie") if kind == ".s" else ()
    subprocess.run([gcc, *bare, *flags, "-o", str(out), str(file)], check=True, timeout=TIMEOUT)
    return out


def kinds(rows: list[Row]) -> list[tuple[str, tuple[tuple[int, int], ...], int | None]]:
    """Mnemonic, (bytes, store) of each access, and the outcome where there is one."""
    return [
        (
            r.text.split()[0],
            tuple((n, s) for _, n, s in r.accesses),
            r.bits & 1 if r.bits & 2 else None,
        )
        for r in rows
    ]


LOAD8, STORE8, LOAD16, STORE16 = (8, 0), (8, 1), (16, 0), (16, 1)

# Each instruction is followed by what a person who reads the manual expects of it: mnemonic,
# accesses, outcome.  Loops are written out.
COUNTED: dict[str, tuple[str, list[tuple[str, tuple[tuple[int, int], ...], int | None]]]] = {
    "x86": (
        """
        .globl _start
        .bss
        .balign 64
buf:    .skip 256
        .data
ten:    .byte 0,0,0,0,0,0,0,0xa0,0x02,0x40
where:  .quad f
        .text
_start: lea buf(%rip), %rdi
        mov $2, %ecx
1:      movups %xmm0, 1(%rdi)
        dec %ecx
        jnz 1b
        movups (%rdi), %xmm1
        call f
        call *where(%rip)
        fldt ten(%rip)
        fstpt (%rdi)
        lea 64(%rdi), %rdi
        mov $3, %ecx
        rep stosb
        rep stosb
        lea buf(%rip), %rsi
        movsq
        push where(%rip)
        pop buf(%rip)
        lock addq $1, buf(%rip)
        jz 2f
        jmp 2f
        nop
2:      mov $60, %eax
        xor %edi, %edi
        syscall
f:      ret
""",
        [
            ("lea", (), None),
            ("mov", (), None),
            *[("movups", (STORE16,), None), ("dec", (), None), ("jne", (), 1)],
            *[("movups", (STORE16,), None), ("dec", (), None), ("jne", (), 0)],
            ("movups", (LOAD16,), None),
            *[("call", (STORE8,), 1), ("ret", (LOAD8,), 1)],
            *[("call", (LOAD8, STORE8), 1), ("ret", (LOAD8,), 1)],
            ("fld", ((10, 0),), None),
            ("fstp", ((10, 1),), None),
            *[("lea", (), None), ("mov", (), None)],
            ("rep", ((1, 1),) * 3, None),
            ("rep", (), None),
            ("lea", (), None),
            ("movsq", (LOAD8, STORE8), None),
            ("push", (LOAD8, STORE8), None),
            ("pop", (LOAD8, STORE8), None),
            ("lock", (LOAD8, STORE8), None),
            ("je", (), 0),
            ("jmp", (), 1),
            *[("mov", (), None), ("xor", (), None), ("syscall", (), None)],
        ],
    ),
    "arm": (
        """
        .globl _start
        .bss
        .balign 64
buf:    .skip 256
        .text
_start: adrp x1, buf
        add x1, x1, :lo12:buf
        mov x2, #2
1:      stp x2, x3, [x1]
        subs x2, x2, #1
        b.ne 1b
        ldp x4, x5, [x1]
        str q0, [x1, #16]
        ldr w6, [x1, #4]
        ldr b1, [x1]
2:      ldxr x7, [x1]
        stxr w8, x7, [x1]
        cbnz w8, 2b
        prfm pldl1keep, [x1]
        bl f
        tbz x2, #0, 3f
        nop
3:      mov x8, #93
        mov x0, #0
        svc #0
f:      ret
""",
        [
            *[("adrp", (), None), ("add", (), None), ("mov", (), None)],
            *[("stp", (STORE16,), None), ("subs", (), None), ("b.ne", (), 1)],
            *[("stp", (STORE16,), None), ("subs", (), None), ("b.ne", (), 0)],
            ("ldp", (LOAD16,), None),
            ("str", (STORE16,), None),
            ("ldr", ((4, 0),), None),
            ("ldr", ((1, 0),), None),
            *[("ldxr", (LOAD8,), None), ("stxr", (STORE8,), None), ("cbnz", (), 0)],
            ("prfm", (), None),
            *[("bl", (), 1), ("ret", (), 1), ("tbz", (), 1)],
            *[("mov", (), None), ("mov", (), None), ("svc", (), None)],
        ],
    ),
    "riscv": (
        """
        .globl _start
        .bss
        .balign 64
buf:    .skip 256
        .text
_start: lla a1, buf
        li a2, 2
1:      sd a2, 0(a1)
        addi a2, a2, -1
        bnez a2, 1b
        lw a3, 4(a1)
        fld fa0, 0(a1)
        lbu a4, 1(a1)
        sh a4, 2(a1)
        amoadd.d a5, a2, (a1)
        lr.w a6, (a1)
        sc.w a7, a2, (a1)
        beqz a2, 2f
        nop
2:      jal f
        li a7, 93
        li a0, 0
        ecall
f:      ret
""",
        [
            *[("auipc", (), None), ("addi", (), None), ("li", (), None)],
            *[("sd", (STORE8,), None), ("addi", (), None), ("bnez", (), 1)],
            *[("sd", (STORE8,), None), ("addi", (), None), ("bnez", (), 0)],
            ("lw", ((4, 0),), None),
            ("fld", (LOAD8,), None),
            ("lbu", ((1, 0),), None),
            ("sh", ((2, 1),), None),
            ("amoadd.d", (LOAD8, STORE8), None),
            ("lr.w", ((4, 0),), None),
            ("sc.w", ((4, 1),), None),
            ("beqz", (), 1),
            *[("jal", (), 1), ("ret", (), 1)],
            *[("li", (), None), ("li", (), None), ("ecall", (), None)],
        ],
    ),
}


def shown_by(totals: QemuTotals, got: list[Any], expected: list[Any]) -> list[Any]:
    """What is expected, less the accesses of x87's ten bytes that newer QEMU does not show, which
    must be counted."""
    missing = [k for k, (g, e) in enumerate(zip(got, expected, strict=True)) if e[1] and not g[1]]
    assert Counter(got[k][0] for k in missing) == Counter(totals.silent)
    assert {got[k][0] for k in missing} <= {"fld", "fstp"}
    return [(e[0], (), e[2]) if k in missing else e for k, e in enumerate(expected)]


@pytest.mark.parametrize("isa", ISAS)
def test_each_instruction_as_counted_by_hand(tmp_path: Path, isa: str) -> None:
    source, expected = COUNTED[isa]
    flags = ("-Wl,--no-relax", "-march=rv64gc") if isa == "riscv" else ()
    program = build(isa, source, tmp_path / "p", *flags)
    totals = record_qemu([str(program)], tmp_path / "o.tks")
    assert totals.exit_status == 0 and totals.end == "program_ended"
    got = kinds(rows_of(tmp_path / "o.tks"))
    # capstone writes compressed instructions as "c.sd" and the like.
    got = [(name.removeprefix("c."), a, t) for name, a, t in got]
    expected = shown_by(totals, got, expected)
    assert [g[1:] for g in got] == [e[1:] for e in expected], got
    if isa != "riscv":
        assert [g[0] for g in got] == [e[0] for e in expected]


BY_STEPS = """
#include <immintrin.h>
#include <string.h>
static char a[300], b[300];
static double d[8];
static void put(const char *s, long n) {
  long r;
  __asm__ volatile("syscall" : "=a"(r) : "a"(1), "D"(1), "S"(s), "d"(n) : "rcx", "r11", "memory");
}
__attribute__((used)) static long run(void) {
  long sum = 0;
  for (int i = 0; i < 300; i++) a[i] = i * 7, sum += a[i] & 3 ? a[i] : -i;
  void *to = b; const void *from = a; unsigned long n = 299;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
  for (int i = 0; i < 8; i++) d[i] = (double)sum / (i + 1);
  volatile long double wide = d[3]; wide *= 3; sum += (long)wide;
  __m128i v = _mm_loadu_si128((void *)(b + 3));
  _mm_storeu_si128((void *)(b + 61), _mm_add_epi8(v, v));
  __sync_fetch_and_add((long *)a, sum);
  __atomic_exchange_n((long *)b, sum, 5);
  unsigned long found;
  const char *s = a; n = 300;
  __asm__ volatile("xor %%eax,%%eax; repne scasb" : "+D"(s), "+c"(n) : : "rax", "memory");
  __asm__ volatile("push %0; pop %1" : : "m"(a[8]), "m"(a[16]) : "memory");
  put("ok\\n", 3);
  return sum + n;
}
__asm__(".globl _start\\n_start: and $-16, %rsp; call run; mov $231, %eax; xor %edi, %edi\\n"
        "syscall");
"""
FREESTANDING = (
    *("-O2", "-fno-pie", "-no-pie", "-nostdlib", "-static", "-ffreestanding"),
    "-fno-stack-protector",
)


@pytest.mark.skipif(available() is not None, reason="single steps need Linux on x86-64")
def test_rows_are_those_of_single_steps(tmp_path: Path) -> None:
    """The same rows, accesses and outcomes; the stack lies elsewhere in QEMU."""
    program = build("x86", BY_STEPS, tmp_path / "p", *FREESTANDING)
    totals = record_qemu([str(program)], tmp_path / "q.tks")
    full = RecordOptions(full=True, aslr=False)
    record_command([str(program)], tmp_path / "s.tks", full)
    ours, theirs = rows_of(tmp_path / "q.tks"), rows_of(tmp_path / "s.tks")
    assert len(ours) > 3000
    assert [r.pc for r in ours] == [r.pc for r in theirs]
    told = shown_by(totals, kinds(ours[1:]), kinds(theirs[1:]))
    for a, b, (_, sizes, _) in zip(ours[1:], theirs[1:], told, strict=True):
        assert a.bits & 3 == b.bits & 3, (a, b)
        assert tuple(x[1:] for x in a.accesses) == sizes, (a, b)
        for (x, *_), (y, *_) in zip(a.accesses, b.accesses, strict=bool(sizes)):
            assert x == y or x > 1 << 36, (a, b)  # data, or the stack


THREADS = """
#include <pthread.h>
#include <stdio.h>
static long sums[4];
static pthread_barrier_t together;
static void *run(void *p) {
  pthread_barrier_wait(&together);
  long i = (long)p, s = 0;
  for (long n = 0; n < 20000; n++) s += n ^ i;
  sums[i] = s;
  return 0;
}
int main(void) {
  pthread_t t[4];
  pthread_barrier_init(&together, 0, 4);
  for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, run, (void *)i);
  for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
  printf("%ld\\n", sums[0] + sums[1] + sums[2] + sums[3]);
  return 7;
}
"""


def run_both(command: list[str], out: Path, *options: str) -> dict[str, Any]:
    """Records; output and status must be those of a plain run."""
    plain = subprocess.run(command, capture_output=True, timeout=TIMEOUT)
    done = subprocess.run(
        [*RECORD, "-q", "--json", *options, "-o", str(out), "--", *command],
        capture_output=True,
        timeout=TIMEOUT,
    )
    assert done.stdout == plain.stdout, done.stderr
    status = plain.returncode if plain.returncode >= 0 else 128 - plain.returncode
    assert done.returncode == status, done.stderr
    totals: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    return totals


@pytest.mark.parametrize("isa", ISAS)
def test_a_stream_for_each_thread(tmp_path: Path, isa: str) -> None:
    program = build(isa, THREADS, tmp_path / "p", "-O1", "-static", "-pthread")
    done = record_qemu([str(program)], tmp_path / "o.tks")
    assert done.exit_status == 7 << 8
    assert done.threads == 5 and not done.anomalies
    with TksReader(tmp_path / "o.tks") as reader:
        epochs = list(reader.epochs())
    for tid in {e.info["tid"] for e in epochs}:
        rows = rows_of(tmp_path / "o.tks", tid)
        starts = [e.info["start_ns"] for e in epochs if e.info["tid"] == tid]
        assert starts == sorted(starts)
        restarts = [r for r in rows if r.bits & 4]
        assert len(rows) > 60_000 or tid == epochs[0].info["tid"]
        assert len(restarts) == 1, restarts  # its first row


SIGNALS = """
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
static sigjmp_buf back;
static volatile int handled, alarms;
static void fault(int s) { handled++; siglongjmp(back, 1); }
static void tick(int s) { alarms++; }
int main(void) {
  signal(SIGSEGV, fault);
  signal(SIGUSR1, tick);
  volatile int *nothing = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 3; i++)
    if (!sigsetjmp(back, 1)) *nothing = 5, puts("not reached");
  for (int i = 0; i < 2; i++) raise(SIGUSR1);
  printf("%d %d\\n", handled, alarms);
  return 0;
}
"""


def test_signals(tmp_path: Path) -> None:
    program = build("x86", SIGNALS, tmp_path / "p", "-O1", "-static", "-fno-pie", "-no-pie")
    totals = run_both([str(program)], tmp_path / "o.tks")
    rows = rows_of(tmp_path / "o.tks")
    names = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    at = {
        n: int(a, 16) for a, _, n in (x.split() for x in names.splitlines() if len(x.split()) == 3)
    }
    entries = [i for i, r in enumerate(rows) if r.pc == at["fault"]]
    assert len(entries) == 3 and all(rows[i].bits & 4 for i in entries)
    # The store that faulted was not completed, and is no row.
    assert all(
        not any(s for _, _, s in rows[i - 1].accesses) or "push" in rows[i - 1].text
        for i in entries
    )
    assert sum(r.pc == at["tick"] for r in rows) == 2
    assert not totals["anomalies"]


def test_a_program_that_dies(tmp_path: Path) -> None:
    program = build("x86", "int main(void) { *(volatile int *)8 = 1; }", tmp_path / "p", "-static")
    done = subprocess.run(
        [*RECORD, "-o", str(tmp_path / "o.tks"), "--", str(program)],
        capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 128 + signal.SIGSEGV
    rows = rows_of(tmp_path / "o.tks")
    main = int(next(
        x.split()[0] for x in subprocess.run(
            ["nm", str(program)], capture_output=True, text=True, check=True
        ).stdout.splitlines() if x.endswith(" T main")), 16)  # fmt: skip
    assert main <= rows[-1].pc < main + 32  # up to the store, which is no row
    assert not rows[-1].accesses or rows[-1].accesses[0][0] != 8


JIT = """
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
  unsigned char *code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int sum = 0;
  for (int i = 0; i < 5; i++) {
    unsigned char f[] = {0xb8, i, 0, 0, 0, 0xc3};  /* mov eax, i; ret */
    memcpy(code, f, sizeof f);
    sum += ((int (*)(void))code)();
  }
  printf("%d\\n", sum);
}
"""


def test_code_that_is_rewritten(tmp_path: Path) -> None:
    program = build("x86", JIT, tmp_path / "p", "-O1", "-static")
    run_both([str(program)], tmp_path / "o.tks")
    rows = rows_of(tmp_path / "o.tks")
    pairs = [(a.text, b.text) for a, b in itertools.pairwise(rows) if a.text[:9] == "mov eax, "]
    assert [a for a, b in pairs if b == "ret"][-5:] == [f"mov eax, {i or '0'}" for i in range(5)], (
        pairs
    )


def test_programs_that_it_executes_run_under_qemu_too(tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/sh -e\n/bin/echo one $1\n/bin/true && exec /bin/echo two\n")
    script.chmod(0o755)
    totals = run_both([str(script), "x"], tmp_path / "o.tks")
    # sh, which ends as echo, and what it forked for echo and true: an execution makes none.
    assert totals["processes"] == 3, totals
    alone = run_both([str(script), "x"], tmp_path / "a.tks", "--no-follow-exec")
    assert alone["instructions"] < totals["instructions"]


@pytest.mark.parametrize("count", [1, 1000, 12345])
def test_a_region_in_instructions(tmp_path: Path, count: int) -> None:
    program = build("x86", BY_STEPS, tmp_path / "p", *FREESTANDING)
    record_qemu([str(program)], tmp_path / "all.tks")
    whole = rows_of(tmp_path / "all.tks")
    options = QemuOptions(skip=777, insts=count)
    done = record_qemu([str(program)], tmp_path / "part.tks", options)
    assert done.exit_status == 0
    part = rows_of(tmp_path / "part.tks")
    assert [(r.pc, len(r.accesses)) for r in part] == [
        (r.pc, len(r.accesses)) for r in whole[777 : 777 + count]
    ]


def test_a_region_between_functions(tmp_path: Path) -> None:
    source = """
    #include <stdio.h>
    __attribute__((noinline)) int begin(int x) { __asm__ volatile(""); return x * 3; }
    __attribute__((noinline)) int end(int x) { __asm__ volatile(""); return x + 3; }
    int main(void) { puts("a"); int x = end(begin(4)); puts("b"); return x; }
    """
    for flags in (("-static", "-no-pie"), ("-pie", "-fPIE")):
        program = build("x86", source, tmp_path / "p", "-O1", *flags)
        options = QemuOptions(start="begin", stop="end")
        done = record_qemu([str(program)], tmp_path / "o.tks", options, force=True)
        assert done.exit_status == 15 << 8
        rows = rows_of(tmp_path / "o.tks")
        assert 3 <= len(rows) <= 12 and rows[0].text.startswith("lea"), rows
        assert "call" in rows[-1].text


MARKS = {
    "x86": "push %%rbx; mov ${0}, %%ebx; .byte 0x64, 0x67, 0x90; pop %%rbx",
    "arm": "hint #{1}",
    "riscv": "slti x0, x0, {0}",
}


@pytest.mark.parametrize("isa", ISAS)
def test_a_region_between_marks(tmp_path: Path, isa: str) -> None:
    begin, end = MARKS[isa].format("0x111", "0x70"), MARKS[isa].format("0x222", "0x71")
    source = f"""
    __attribute__((noinline)) int f(int x) {{ __asm__ volatile(""); return x * 3; }}
    int main(void) {{
      int sum = f(1);
      __asm__ volatile("{begin}" ::: "memory");
      for (int i = 0; i < 10; i++) sum += f(i);
      __asm__ volatile("{end}" ::: "memory");
      for (int i = 0; i < 100; i++) sum += f(i);
      __asm__ volatile("{begin}" ::: "memory");
      return f(sum) & 63;
    }}
    """
    program = build(isa, source, tmp_path / "p", "-O1", "-static")
    plain = record_qemu([str(program)], tmp_path / "all.tks")
    done = record_qemu([str(program)], tmp_path / "o.tks", QemuOptions(marks=True))
    assert done.exit_status == plain.exit_status
    rows = rows_of(tmp_path / "o.tks")
    calls = [r for r in rows if r.text.split()[0] in ("call", "bl", "jal")]
    assert len(calls) == 10 and 40 < len(rows) < 150
    marked = {"x86": "nop", "arm": "hint", "riscv": "slti"}[isa]
    assert marked in rows[0].text and marked not in rows[-1].text
    cut = record_qemu([str(program)], tmp_path / "c.tks", QemuOptions(marks=True, insts=7))
    assert cut.instructions == 7
    assert [r.pc for r in rows_of(tmp_path / "c.tks")] == [r.pc for r in rows[:7]]
    with pytest.raises(UsageError, match="--marks, or --start"):
        record_qemu([str(program)], tmp_path / "x.tks", QemuOptions(marks=True, start="f"))


def test_features_straight_from_the_program(tmp_path: Path) -> None:
    from tracekit import extract
    from tracekit.store.reader import TraceFile

    program = build("x86", BY_STEPS, tmp_path / "p", *FREESTANDING)
    same = QemuOptions(aslr=False)
    result, session = extract_qemu([str(program)], tmp_path / "f.zst", same)
    assert session.status == 0
    record_qemu([str(program)], tmp_path / "o.tks", same)
    extract(tmp_path / "o.tks", tmp_path / "g.zst", level="macro", threads="interleaved")
    with TraceFile(tmp_path / "f.zst") as f, TraceFile(tmp_path / "g.zst") as g:
        assert len(f) == len(g) == result.rows > 3000
        assert f.columns == g.columns
        told = {"pc", "addr", "taken", "fetch_dist", "load_dist", "data_reuse"} & set(f.columns)
        assert {"pc", "addr"} <= told, f.columns
        for column in told:
            assert (f.column(column) == g.column(column)).all(), column


# --- what goes wrong


def test_bad_programs_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(TracekitError, match="no such program"):
        find_program(["/no/such"], QemuOptions())
    text = tmp_path / "text"
    text.write_text("hello")
    text.chmod(0o755)
    with pytest.raises(TracekitError, match="neither an ELF file nor a script"):
        find_program([str(text)], QemuOptions())
    other = tmp_path / "mips"
    other.write_bytes(b"\x7fELF\x01\x01\x01" + bytes(11) + b"\x08\0" + bytes(100))
    other.chmod(0o755)
    with pytest.raises(TracekitError, match="a program for MIPS"):
        find_program([str(other)], QemuOptions())
    with pytest.raises(UsageError, match="is for x86, not for arm"):
        find_program(["/bin/true"], QemuOptions(isa="arm"))
    with pytest.raises(TracekitError, match=r"no such folder \(-L\)"):
        find_program(["/bin/true"], QemuOptions(root="/no/such"))


def test_qemu_absent_or_without_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "qemu"
    plain.write_text("#!/bin/sh\necho \"qemu: unknown option 'plugin'\" >&2\nexit 1\n")
    plain.chmod(0o755)
    with pytest.raises(RecordError, match="has no plug-ins"):
        find_program(["/bin/true"], QemuOptions(qemu=str(plain)))
    with pytest.raises(TracekitError, match="--qemu"):
        find_program(["/bin/true"], QemuOptions(qemu=str(tmp_path / "absent")))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RecordError, match="no QEMU for x86_64"):
        find_program(["/bin/true"], QemuOptions())


def test_a_missing_library_root(tmp_path: Path) -> None:
    program = build("arm", "int main(void) { return 0; }", tmp_path / "p")
    with pytest.raises(TracekitError, match=r"does not hold /lib/ld-linux-aarch64.so.1"):
        find_program([str(program)], QemuOptions(root=str(tmp_path)))
    if Path("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1").exists():
        assert record_qemu([str(program)], tmp_path / "o.tks").exit_status == 0


def test_the_recorder_is_killed(tmp_path: Path) -> None:
    """QEMU ends with it, what was written is readable, and the next run removes its folder."""
    source = "int main(void) { for (volatile long i = 0;; i++) ; }"
    program = build("x86", source, tmp_path / "p", "-static")
    recorder = subprocess.Popen([*RECORD, "-q", "-o", str(tmp_path / "o.tks"), "--", str(program)])
    try:
        part = None
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            part = next(iter(tmp_path.glob("o.tks.*part")), None)
            if part is not None and part.stat().st_size > 5_000:
                break
            time.sleep(0.05)
        child = int(
            Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()[0]
        )
        words = Path(f"/proc/{child}/cmdline").read_text().replace(",", "\0").split("\0")
        (folder,) = {Path(w.removeprefix("dir=")) for w in words if "dir=" in w}
    finally:
        recorder.kill()
        recorder.wait()
    assert part is not None and len(rows_of(part)) > 10_000
    deadline = time.monotonic() + TIMEOUT
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists()
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / "recorder").exists()
    subprocess.run([*RECORD, "-q", "-o", str(tmp_path / "2.tks"), "--", "true"], check=True)
    assert not folder.exists()


def test_qemu_is_killed(tmp_path: Path) -> None:
    source = """
    #include <signal.h>
    #include <unistd.h>
    int main(void) { for (volatile int i = 0; i < 1000; i++) ; kill(getpid(), SIGKILL); }
    """
    program = build("x86", source, tmp_path / "p", "-static", "-O1")
    done = record_qemu([str(program)], tmp_path / "o.tks")
    assert done.exit_status == signal.SIGKILL
    rows = rows_of(tmp_path / "o.tks")
    assert "syscall" in rows[-1].text  # to the very last one


@pytest.mark.slow
@pytest.mark.ci
def test_a_full_disk(tmp_path: Path) -> None:
    """The program ends, one line says why, nothing is left running."""
    source = "int main(void) { for (volatile long i = 0;; i++) ; }"
    program = build("x86", source, tmp_path / "p", "-static")
    limited = f"ulimit -f 512; exec {' '.join(RECORD)} -q -o {tmp_path}/o.tks -- {program}"
    done = subprocess.run(
        ["bash", "-c", f"trap '' XFSZ; {limited}"], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.splitlines()) == 1 and "Traceback" not in done.stderr, done.stderr
    assert "recorder is gone" not in done.stderr


def stand_in(tmp_path: Path, version: int, *flags: str) -> Path:
    """Stands for QEMU with one version of its interface (tests/qemu_host.c)."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    host, qemu = tmp_path / "host", tmp_path / "qemu"
    subprocess.run(
        ["gcc", "-w", f"-DVERSION={version}", *flags, "-rdynamic", "-o", str(host),
         str(HERE / "qemu_host.c"), "-ldl"],
        check=True, timeout=TIMEOUT,
    )  # fmt: skip
    qemu.write_text(
        "#!/bin/sh\n"
        'while [ $# -gt 0 ] && [ "$1" != -plugin ]; do shift; done\n'
        f'file="${{2%%,*}}"\nrest="${{2#*,}}"\nIFS=,\nexec {host} "$file" $rest\n'
    )
    qemu.chmod(0o755)
    return qemu


def recorded_there(tmp_path: Path, qemu: Path, machine: int) -> tuple[dict[str, Any], list[Row]]:
    """The stand-in runs a block of its own, whatever the program."""
    program = tmp_path / "program"
    head = b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HH", 2, machine)
    program.write_bytes(head + bytes(80))
    program.chmod(0o755)
    out = tmp_path / "o.tks"
    totals = record_qemu([str(program)], out, QemuOptions(qemu=str(qemu)))
    return totals.as_dict(), rows_of(out)


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version_of_the_interface(tmp_path: Path, version: int) -> None:
    from tracekit.record.qemu.launch import _ISAS, _probe

    qemu = stand_in(tmp_path, version)
    _, told = _probe(str(qemu), _ISAS[0])
    assert told == (7 if version == 7 else None)
    totals, rows = recorded_there(tmp_path, qemu, 62)
    assert totals["instructions"] == len(rows) == 3000 and not totals["silent"]
    assert [r.accesses for r in rows[:3]] == [((0x5000, 8, 0),), ((0x9000, 16, 1),), ()]
    assert [r.accesses for r in rows[-3:]] == [((0x6F38, 8, 0),), ((0x9000, 16, 1),), ()]


@pytest.mark.parametrize("version", range(1, 8))
def test_what_dc_zva_clears_is_known_where_registers_are(tmp_path: Path, version: int) -> None:
    """From version 2 on; before, its runs are counted."""
    totals, rows = recorded_there(tmp_path, stand_in(tmp_path, version, "-DARM"), 183)
    assert [r.text.split()[0] for r in rows[:3]] == ["mrs", "dc", "b"]
    cleared = [r.accesses for r in rows[1::3]]
    if version == 1:
        assert totals["silent"] == {"dc zva": 1000} and not any(cleared)
        return
    assert totals["silent"] == {}
    assert cleared == [((0x5000 + 128 * k, 128, 1),) for k in range(1000)]


def test_a_program_that_needs_avx512_is_not_started(tmp_path: Path) -> None:
    """The linker writes down what it was told: -z x86-64-v4."""
    source = "int main(void) { return 0; }"
    level = build("x86", source, tmp_path / "p", "-static", "-Wl,-z,x86-64-v3")
    find_program([str(level)], QemuOptions())
    needs = build("x86", source, tmp_path / "q", "-static", "-Wl,-z,x86-64-v4")
    with pytest.raises(RecordError, match="x86-64-v4") as e:
        find_program([str(needs)], QemuOptions())
    assert e.value.hint is not None and "-march=x86-64-v3" in e.value.hint
    for n in (0, 40, 70, 200):  # whatever is damaged
        data = bytearray(needs.read_bytes())
        data[n : n + 24] = b"\xff" * 24
        (tmp_path / "d").write_bytes(data)
        (tmp_path / "d").chmod(0o755)
        with contextlib.suppress(TracekitError):
            find_program([str(tmp_path / "d")], QemuOptions())


@pytest.mark.slow
def test_a_region_that_ends_does_not_end_the_program(tmp_path: Path) -> None:
    """QEMU 7.2 aborted in one of ten runs where the plug-in took its callbacks away."""
    if shutil.which("gzip") is None:
        pytest.skip("needs gzip")
    command = ["gzip", "-kc", sys.executable]
    plain = subprocess.run(command, capture_output=True, timeout=TIMEOUT)
    region = ["--force", "--insts", "600000", "-o", str(tmp_path / "x.tks")]
    for _ in range(20):
        done = subprocess.run(
            [*RECORD, "-q", *region, "--", *command],
            capture_output=True, timeout=TIMEOUT,
        )  # fmt: skip
        assert done.returncode == 0 and done.stdout == plain.stdout, done.stderr
