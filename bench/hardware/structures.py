"""Small structures of machine code: cycles on this computer beside those of a machine's core.

    python bench/hardware/structures.py --machine here.json

Each kernel is a loop.  It is timed natively between two chains of additions, which are the clock;
the same program runs under QEMU, and its rows are simulated.  A difference shows what the core gets
wrong by itself, without a program around it.  x86-64; needs gcc and qemu-user.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from tracekit.hardware import HardwareMachine
from tracekit.hardware.simulation import simulate_hardware
from tracekit.store.reader import TraceFile

#: Of each loop under QEMU: half of them count, so that random bits are near their mean.
ROUNDS = 4000
R = [*(f"r{k}" for k in range(8, 14)), "rax", "rbx", "rcx"]
ZERO = "\n".join(f"xor {r}, {r}" for r in [*R, "rdx", "rbp", "r14"])
STATE = "mov r14, [rsi + 16384]\nmov r13, 0x5851f42d4c957f2d"
RANDOM = "imul r14, r13\nadd r14, 12345\nmov [rsi + 16384], r14\nmov r12, r14\nshr r12, 45\n"


def leas(n: int) -> str:
    """Independent operations."""
    return "".join(f"lea {R[k % 4]}, [rdi + {8 * (k % 7) + 8}]\n" for k in range(n))


def stores(lines: int) -> str:
    """A store to each of so many lines."""
    return "".join(f"mov [rdi + {64 * k}], rax\n" for k in range(lines))


def kernels() -> dict[str, tuple[str, str]]:
    """Name -> what runs once before the loop, and its body."""
    out = {
        "six independent operations": (ZERO, leas(6) * 8),
        "pairs that depend": (ZERO, f"{leas(1)}add r8, 3\n" * 40),
        "eight chains": (ZERO, "".join(f"add {r}, 3\n" for r in R[:8]) * 8),
        "a move and an operation": (ZERO, "mov rax, rdi\nadd rax, 3\n" * 40),
        "jumps to another line": ("", (leas(4) + "jmp 8f\n.p2align 6\n8:\n") * 12),
        "branches not taken": ("", (leas(2) + "test rdi, rdi\njz 9f\n") * 12),
        "calls": ("", "call 7f\n" * 4 + "jmp 6f\n7: lea r8, [rdi + 8]\nret\n6:\n"),
        "loads": ("", "".join(f"mov {R[k]}, [rdi + {64 * k}]\n" for k in range(4)) * 10),
        "a scaled index": (ZERO, "mov rax, [rdi + rax*8 + 16]\n" * 20),
        "loads across lines": ("", "mov rax, [rdi + 60]\nmov rbx, [rdi + 124]\n" * 16),
        "stores to eight lines": ("", stores(8) * 4),
        "stores to 32 lines": ("", stores(32)),
        "a store and a load": (ZERO, "mov [rdi], rax\nmov rax, [rdi]\nadd rax, 1\n" * 40),
        "the same of a byte": (ZERO, "mov [rdi], al\nmovzx eax, byte ptr [rdi]\n" * 40),
        "the same of vectors": ("", "movupd [rdi], xmm0\nmovupd xmm0, [rdi]\n" * 20),
        "two halves of a vector": (
            "", "movsd [rdi], xmm0\nmovsd [rdi + 8], xmm0\nmovupd xmm0, [rdi]\n" * 10,
        ),
        "a copy 4 kB and 64 bytes on": (
            "xor ecx, ecx",
            "".join(
                f"movups xmm{k}, [rdi + rcx + {16 * k}]\n"
                f"movups [rdi + rcx + {4160 + 16 * k}], xmm{k}\n"
                for k in range(4)
            )
            + "add rcx, 64\nand ecx, 2047\n",
        ),
        "additions": ("", "addsd xmm0, xmm14\n" * 20),
        "additions and multiplications": ("", "addsd xmm0, xmm14\nmulsd xmm0, xmm15\n" * 10),
        "a branch on random bits": (STATE, RANDOM + "test r12d, 1\njnz 8f\n" + leas(2) + "8:\n"),
        "the same before 30 operations": (
            STATE, RANDOM + "test r12d, 1\njnz 8f\n" + leas(2) + "8:\n" + leas(30),
        ),
        "two branches on random bits": (
            STATE,
            RANDOM
            + f"test r12d, 1\njnz 8f\n{leas(2)}8:\ntest r12d, 2\njnz 7f\n{leas(2)}7:\n",
        ),
    }  # fmt: skip
    for n in (12, 14, 16, 20, 24):
        out[f"lines of {n} instructions"] = ("", _line(n) * 32)
    for n in (12, 13):
        some = "".join(leas(1) if k % 2 else "mov rax, [rsi + 8]\n" for k in range(n - 1))
        out[f"lines of {n} and a jump"] = ("", (some + "jmp 8f\n.p2align 6\n8:\n") * 8)
    for name, first in (("", "cmp rdi, rsi"), (" with a constant", "cmp rdi, 7")):
        pair = f"{first}\nje 9f\n{leas(5)}mov rax, [rsi]\nmov rbx, [rsi]\nmov rax, [rsi]\n"
        some = f"{pair}{leas(2)}jmp 8f\n.p2align 6\n8:\n"
        out[f"lines with a comparison{name}"] = ("", some * 8)
    shift, multiply = "shlx r8, rdi, rsi\n", "imul r9, rdi, 7\n"
    out["shifts and branches"] = ("", f"{shift}cmp rdi, rsi\nje 9f\n" * 12)
    out["shifts and multiplications"] = ("", (shift + multiply) * 12)
    return out


def _line(n: int) -> str:
    nops = ["nop", "xchg ax, ax", "nop dword ptr [rax]", "nop dword ptr [rax + 0x40]"]
    nops += ["nop dword ptr [rax + rax + 0x40]", "nop word ptr [rax + rax + 0x40]"]
    lengths = [64 // n + (k < 64 % n) for k in range(n)]
    return "".join(nops[k - 1] + "\n" for k in lengths)


HEAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
__attribute__((noinline)) static void chain(long n) {
  __asm__ volatile("1: .rept 100\nadd $1, %%rax\n.endr\ndec %0\njnz 1b" : "+r"(n)::"rax", "cc");
}
static int order(const void *a, const void *b) {
  return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b);
}
"""
MAIN = r"""
int main(int c, char **v) {
  char *a = mmap(0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *b = a + (1 << 19) + 2048;
  for (int i = 0; i < 1 << 20; i += 64) a[i] = 0;
  for (unsigned i = 0; i < sizeof list / sizeof *list; ++i) {
    if (c > 1) { list[i](a, b, atol(v[1])); continue; }
    long n = 16;
    for (;; n *= 2) {
      double s = now();
      list[i](a, b, n);
      if (now() - s > 30000) break;
    }
    double r[41];
    for (int k = 0; k < 41; ++k) {
      double s = now(); chain(200);
      double t = now(); list[i](a, b, n);
      double u = now(); chain(200);
      double w = now(), clock = (t - s < w - u ? t - s : w - u) / 20000;
      r[k] = (u - t) / n / clock;
    }
    qsort(r, 41, sizeof *r, order);
    printf("%.4f\n", r[5]);
  }
}
"""


def source(some: dict[str, tuple[str, str]]) -> str:
    """The C program of all kernels: `loop_K` is where the loop of the K-th begins."""
    saved = ["rbx", "rbp", "r12", "r13", "r14", "r15"]
    out = [HEAD]
    for k, (setup, body) in enumerate(some.values()):
        text = [".intel_syntax noprefix", ".p2align 6", f"kernel_{k}:"]
        text += [f"push {r}" for r in saved] + ["mov r15, rdx", *setup.splitlines(), ".p2align 6"]
        text += [f".globl loop_{k}", f"loop_{k}:", *body.splitlines(), "dec r15", f"jnz loop_{k}"]
        text += ["9:", *(f"pop {r}" for r in reversed(saved)), "ret", ".att_syntax prefix"]
        out.append("__asm__(" + "\n".join(f'"{line}\\n"' for line in text) + ");\n")
        out.append(f"void kernel_{k}(void *, void *, long);\n")
    names = ", ".join(f"kernel_{k}" for k in range(len(some)))
    return "".join([*out, f"static void (*list[])(void *, void *, long) = {{{names}}};\n", MAIN])


def predicted(program: Path, machine: HardwareMachine, count: int) -> list[tuple[float, float]]:
    """Of each kernel: cycles and instructions of one round of its loop, in the second half."""
    tks, features = program.with_suffix(".tks"), program.with_suffix(".feats.zst")
    words = ["python", "-m", "tracekit"]
    record = [*words, "record", "--engine", "qemu", "-q", "-o", str(tks), "--", str(program)]
    subprocess.run([*record, str(ROUNDS)], check=True, capture_output=True)
    subprocess.run(
        [*words, "extract", str(tks), "-o", str(features)], check=True, capture_output=True
    )
    places = {}
    for line in subprocess.check_output(["nm", str(program)], text=True).splitlines():
        address, _, name = line.split()[-3:] if len(line.split()) == 3 else ("0", "", "")
        if name.startswith("loop_"):
            places[int(address, 16)] = int(name[5:])
    with TraceFile(features) as trace:
        kernel = np.array([places.get(int(pc), -1) for pc in trace.statics.pc])
        which = kernel[trace.column("static_id")]
        found = simulate_hardware(trace, [machine], rows=True)
        cycles = np.cumsum(np.asarray(found.cycles_by_row, np.float64)[:, 0])
    out = []
    for k in range(count):
        heads = np.flatnonzero(which == k)
        a, b, rounds = heads[len(heads) // 2], heads[-1], len(heads) - 1 - len(heads) // 2
        out.append((float(cycles[b] - cycles[a]) / rounds, float(b - a) / rounds))
    return out


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default="zen5", help="a file of tracekit calibrate, or a name")
    machine = HardwareMachine.load(parser.parse_args().machine)
    some = kernels()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "structures"
        program.with_suffix(".c").write_text(source(some))
        gcc = ["gcc", "-O1", "-static", "-no-pie", "-o", str(program)]
        subprocess.run([*gcc, str(program.with_suffix(".c"))], check=True)
        measured = [float(x) for x in subprocess.check_output([str(program)], text=True).split()]
        found = predicted(program, machine, len(some))
    print(
        f"{'cycles of a loop':<34}{'instructions':>13}{'measured':>10}{'predicted':>10}{'error':>9}"
    )
    for name, m, (cycles, rows) in zip(some, measured, found, strict=True):
        print(f"{name:<34}{rows:>13.0f}{m:>10.2f}{cycles:>10.2f}{cycles / m - 1:>+9.1%}")


if __name__ == "__main__":
    main()
