"""Inputs of the validation's programs, the same bytes in each run: ``make_inputs.py KIND FILE``."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path


def text(r: random.Random) -> bytes:
    """Words of a made-up language, the frequent ones short; 6 MB."""
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = [
        "".join(r.choice(letters[: 8 + i % 18]) for _ in range(2 + (i.bit_length() + i % 5) // 2))
        for i in range(1, 20000)
    ]
    out: list[str] = []
    size = 0
    while size < 6_000_000:
        n = r.randrange(4, 18)
        line = " ".join(words[int(len(words) ** r.random()) - 1] for _ in range(n))
        out.append(line)
        size += len(line) + 1
    return ("\n".join(out) + "\n").encode()


def code(r: random.Random, functions: int = 220) -> bytes:
    """C: functions of loops and conditions."""
    out = ["#include <stdint.h>", "#include <string.h>", "static int64_t table[1024];"]
    names: list[str] = []
    for f in range(functions):
        out.append(f"int64_t f{f}(int64_t a, int64_t b, const int64_t *p, int64_t n)\n{{")
        out.append("  int64_t x = a, y = b, s = 0;")
        for k in range(r.randrange(3, 8)):
            i = f"i{k}"
            out.append(f"  for (int64_t {i} = {k}; {i} < n; {i} += {r.randrange(1, 4)}) {{")
            out.append(
                f"    x = (x * {r.randrange(3, 99)} + p[{i}]) ^ (y >> {r.randrange(1, 31)});"
            )
            out.append(f"    if (x > {r.randrange(1000)} && p[{i}] != y)")
            called = r.choice(names) if names and r.random() < 0.5 else None
            step = f"{called}(x, y, p, n / 2)" if called else f"table[x & {r.randrange(1023)}]"
            out.append(f"      s += {step};")
            out.append(f"    else y = (y - {i}) * (x & {r.randrange(1, 255)}); }}")
        out.append("  return s + x - y;\n}")
        names.append(f"f{f}")
    return "\n".join(out).encode()


def document(r: random.Random) -> bytes:
    """JSON: an array of records."""
    out = []
    for i in range(30000):
        tags = ", ".join(f'"{r.getrandbits(20):x}"' for _ in range(r.randrange(5)))
        out.append(
            f'{{"id": {i}, "name": "n{r.getrandbits(30):x}", "score": {r.random():.4f}, '
            f'"tags": [{tags}], "owner": {{"id": {r.randrange(900)}, "ok": true}}}}'
        )
    return ("[" + ",\n".join(out) + "]\n").encode()


def spaced(r: random.Random) -> bytes:
    """The long text with some of its blanks doubled."""
    blanks = (b" ", b"  ")
    words = long_text(r).split(b" ")
    return b"".join(w + blanks[r.random() < 0.02] for w in words)[:-1]


def long_text(r: random.Random) -> bytes:
    """The text eight times."""
    return text(r) * 8


def sums(r: random.Random) -> bytes:
    """For bc: pi, e and roots to some hundred digits."""
    roots = "".join(f"sqrt({r.randrange(2, 10**6)})\n" for _ in range(300))
    return f"scale=500\n4*a(1)\ne(1)\nscale=400\n{roots}".encode()


def macros(r: random.Random) -> bytes:
    """For m4: a recursion, and sums."""
    step = "`eval(fib(decr($1)) + fib(decr(decr($1))))'"
    head = f"define(`fib', `ifelse($1, 0, 0, $1, 1, 1, {step})')"
    lines = [f"fib({r.randrange(14, 20)}) eval({r.randrange(999)} * 7 % 13)" for _ in range(60)]
    return "\n".join([head, *lines, ""]).encode()


KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "text": text,
    "code": code,
    "module": lambda r: code(r, 30),
    "document": document,
    "spaced": spaced,
    "long": long_text,
    "sums": sums,
    "macros": macros,
}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(f"usage: make_inputs.py {'|'.join(KINDS)} FILE")
    Path(sys.argv[2]).write_bytes(KINDS[sys.argv[1]](random.Random(24)))
