"""Small structures of machine code: cycles on this computer beside those of a machine's core.

    python bench/hardware/structures.py --machine here.json

Each kernel is a loop.  It is timed natively between two chains of additions, which are the clock;
the same program runs under QEMU, and its rows are simulated.  A difference shows what the core gets
wrong by itself, without a program around it.  x86-64; needs gcc and qemu-user.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tracekit.hardware import HardwareMachine
from tracekit.hardware.simulation import simulate_hardware
from tracekit.store.reader import TraceFile

#: Of each loop under QEMU, by its instructions: half of them count, so that random bits are near
#: their mean.
ROUNDS, INSTRUCTIONS = 4000, 200_000
#: Of random bits that are not learnt.
_WORDS = 4096
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
        "stores to halves of a line": ("", "mov [rdi], rax\nmov [rdi + 32], rax\n" * 16),
        "stores one behind the other": (
            "", "".join(f"mov [rdi + {8 * k}], rax\n" for k in range(32)),
        ),
        "jumps across two lines": (
            "", ".p2align 6\njmp 8f\n.skip 61, 0x90\n8: jmp 7f\n.p2align 6\n7:\n" * 8,
        ),
        "a store and a load": (ZERO, "mov [rdi], rax\nmov rax, [rdi]\nadd rax, 1\n" * 40),
        "a store and an addition of it": (ZERO, "mov [rdi], rax\nadd rax, [rdi]\n" * 20),
        "a store and a load by another register": (
            ZERO + "\nmov rcx, rdi", "mov [rdi], rax\nmov rax, [rcx]\nadd rax, 1\n" * 20,
        ),
        "the same with 32 loads": (
            ZERO + "\nmov rcx, rdi", "mov [rdi], rax\nmov rax, [rcx]\nadd rax, 1\n" * 32,
        ),
        "operations that depend at random": (ZERO, random_operations(400)),
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
    out["64 branches on random bits"] = ("mov r12, [rsi + 16392]", random_bits())
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
    return out | code()


def code() -> dict[str, tuple[str, str]]:
    """Loops of much code: how it lies in lines, jumps and calls in a random order, interpreters."""
    out = {}
    for before, behind in ((0, 3), (1, 2), (0, 8), (0, 9), (1, 9)):
        begin = ".p2align 6\n" + (".skip 61, 0x90\n" if before else "")  # a move has three bytes
        moves = "mov r8, rsi\n" * (before + behind)
        text = "".join(f"{begin}{1 + k % 2}:\n{moves}jmp {2 - k % 2}f\n" for k in range(32))
        name = f"{before} and {behind} moves and a jump"
        out[name] = ("", f"jmp 1f\n{text}{begin}1:\n")
    for count in (64, 512, 2048):
        out[f"{count} blocks of five and a jump"] = ("", blocks(count))
    for count in (16, 128, 1024):
        out[f"{count} functions"] = ("", functions(count))
    for length in (64, 128, 512):
        for threaded in (False, True):
            name = f"{length} steps of {'jumps' if threaded else 'a switch'}"
            out[name] = ("", interpreter(length, threaded))
    return out


def some(count: int, rng: random.Random) -> str:
    """Operations of several lengths."""
    kinds = ("lea {}, [rdi + 16]", "lea {}, [rsi + 200]", "mov {}d, 77777", "mov {}, [rsi + 200]")
    return "".join(rng.choice(kinds).format(rng.choice(R[:6])) + "\n" for _ in range(count))


def blocks(count: int) -> str:
    """Blocks of five operations that jump to each other in a random order."""
    rng = random.Random(1)
    order = rng.sample(range(count), count)
    then = dict(zip(order, [*order[1:], count], strict=True))
    name = f"block_{count}"
    body = "".join(f"{name}_{k}:\n{some(5, rng)}jmp {name}_{then[k]}\n" for k in range(count))
    return f"jmp {name}_{order[0]}\n{body}{name}_{count}:\n"


def functions(count: int) -> str:
    """Functions that are called in a random order, each from a place of its own."""
    rng = random.Random(1)
    order = rng.sample(range(count), count)
    name = f"function_{count}"
    calls = "".join(f"call {name}_{k}\n{some(2, rng)}" for k in order)
    enter, leave = "push rbx\npush rbp\n", "pop rbp\npop rbx\nret\n"
    bodies = "".join(f"{name}_{k}:\n{enter}{some(6, rng)}{leave}" for k in range(count))
    return f"{calls}jmp {name}_{count}\n{bodies}{name}_{count}:\n"


def interpreter(length: int, threaded: bool) -> str:
    """Sixteen actions in an order of ``length`` that repeats: each jumps to the next one, or all of
    them to a jump that they share."""
    rng = random.Random(1)
    name = f"interpreter_{length}_{int(threaded)}"
    following = "movzx eax, byte ptr [rbx]\ninc rbx\njmp [r14 + rax*8]\n"
    body = f"lea rbx, [rip + {name}_steps]\nlea r14, [rip + {name}_table]\n"
    body += f"{name}_next:\n{following}"
    for k in range(16):
        body += f"{name}_{k}:\n{some(rng.randrange(2, 9), rng)}"
        body += following if threaded else f"jmp {name}_next\n"
    table = "".join(f".quad {name}_{k}\n" for k in range(17))
    steps = "".join(f".byte {rng.randrange(16)}\n" for _ in range(length))
    data = f"{name}_table:\n{table}{name}_steps:\n{steps}.byte 16\n"
    return f"{body}{name}_16:\n.pushsection .data\n.p2align 3\n{data}.popsection\n"


def random_operations(count: int) -> str:
    """Operations on registers that are drawn."""
    rng = random.Random(1)
    some = ("add {}, {}", "xor {}, {}", "and {}, {}", "lea {}, [{} + 8]")
    return "".join(rng.choice(some).format(*rng.choices(R, k=2)) + "\n" for _ in range(count))


def random_bits() -> str:
    """Branches on the bits of words in turn, each over two operations (`tracekit calibrate`)."""
    rng = random.Random(1)
    body = f"lea rbx, [rip + bits]\nadd r12, 1\nand r12, {_WORDS - 1}\nmov [rsi + 16392], r12\n"
    body += "mov rax, [rbx + r12*8]\n" + f"shr rax, 1\njc 8f\n{leas(2)}8:\n" * 64
    words = "".join(f".quad {rng.getrandbits(64)}\n" for _ in range(_WORDS))
    return f"{body}.pushsection .data\n.p2align 3\nbits:\n{words}.popsection\n"


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
__attribute__((noinline)) static void independent(long n) {
  __asm__ volatile("1: .rept 25\n lea 1(%%rsi), %%r8\n lea 1(%%rsi), %%r9\n lea 1(%%rsi), %%r10\n"
                   "lea 1(%%rsi), %%r11\n.endr\ndec %0\njnz 1b"
                   : "+r"(n)::"r8", "r9", "r10", "r11", "cc");
}
// What independent operations take beside a chain: more where another thread shares the core.
static double look(void) {
  double s = now(); independent(200);
  double t = now(); chain(50);
  return (t - s) / (now() - t);
}
static int order(const void *a, const void *b) {
  return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b);
}
"""
MAIN = r"""
int main(int c, char **v) {
  char *a = mmap(0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *b = a + (1 << 19) + 2048;
  for (int i = 0; i < 1 << 20; i += 64) a[i] = 0;
  double looks[401];
  for (int k = 0; c == 1 && k < 401; ++k) looks[k] = look();
  qsort(looks, c == 1 ? 401 : 0, sizeof *looks, order);
  const double alone = c == 1 ? 1.12 * looks[20] : 0;
  for (unsigned i = 0; i < sizeof list / sizeof *list; ++i) {
    if (c > 1) { list[i](a, b, rounds[i]); continue; }
    long n = 16;
    for (;; n *= 2) {
      double s = now();
      list[i](a, b, n);
      if (now() - s > 20000) break;
    }
    double r[41], before = look();
    int found = 0;
    for (double begin = now(); found < 41 && now() - begin < 4e9;) {
      double s = now(); chain(100);
      double t = now(); list[i](a, b, n);
      double u = now(); chain(100);
      double w = now(), after = look();
      const int steady = t - s < 1.02 * (w - u) && w - u < 1.02 * (t - s);
      if (steady && before < alone && after < alone) r[found++] = (u - t) / n / ((t - s) / 10000);
      before = after;
    }
    if (found < 41) { fprintf(stderr, "another thread shares the core\n"); return 1; }
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
    lines = [len(body.splitlines()) for _, body in some.values()]
    rounds = ", ".join(str(max(100, min(ROUNDS, INSTRUCTIONS // n))) for n in lines)
    out.append(f"static void (*list[])(void *, void *, long) = {{{names}}};\n")
    return "".join([*out, f"static const long rounds[] = {{{rounds}}};\n", MAIN])


def predicted(program: Path, machine: HardwareMachine, count: int) -> list[tuple[float, float]]:
    """Of each kernel: cycles and instructions of one round of its loop, in the second half."""
    tks, features = program.with_suffix(".tks"), program.with_suffix(".feats.zst")
    words = [sys.executable, "-m", "tracekit"]
    record = [*words, "record", "--engine", "qemu", "-q", "-o", str(tks), "--", str(program)]
    subprocess.run([*record, "1"], check=True, capture_output=True)
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
