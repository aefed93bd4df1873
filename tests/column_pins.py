"""What pins the readers and the features: of one input of each format, a hash of every column, of
the table of static instructions, of what was odd, of every feature set and of the exports.

    PYTHONPATH=. python tests/column_pins.py [--write]

tests/test_column_pins.py compares with golden/columns.json.  Oracles (tests/oracles) say what is
right, of short inputs; these hold it for long ones, and for everything that an oracle leaves out.
"""

from __future__ import annotations

import functools
import hashlib
import json
import lzma
import random
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import synthetic
import zstandard
from drmemtrace_records import rec, thread_of
from oracles.tks_blocks import code_block, epoch_block

import tracekit
from tracekit import _core, schema
from tracekit.exporting.champsim import write_champsim

GOLDEN = Path(__file__).parent / "golden"
FILE = GOLDEN / "columns.json"
_TIMES = ("fetch", "decode", "rename", "dispatch", "issue", "complete", "retire", "store")


def _xz(name: str) -> bytes:
    return lzma.decompress((GOLDEN / name).read_bytes())


def _steps(seed: int, rows: int, places: int) -> Iterator[tuple[int, list[tuple[int, bool]]]]:
    """(place, [(address, whether it is stored to)]) of a walk with loops."""
    r, at = random.Random(seed), 0
    base = [r.randrange(1 << r.choice((12, 20, 30, 47))) for _ in range(places)]
    for n in range(rows):
        many = r.choices((0, 1, 2, 5), (50, 40, 8, 2))[0] if at % 5 else 0
        yield at, [(base[at] + 8 * (n % 40) * (at % 3), r.random() < 0.4) for _ in range(many)]
        at = r.randrange(places) if r.random() < 0.1 else (at + 1) % places


def _lackey() -> bytes:
    out = ["==1== Lackey\n"]
    for k, accesses in _steps(1, 4000, 300):
        out.append(f"I  {0x402000 + 4 * k + k % 3:08x},{1 + k % 9}\n")
        out += [f" {'SLM'[(k + store) % 3]} {at:08x},{1 << k % 7}\n" for at, store in accesses]
    return "".join(out).encode()


def _execlog(codes: tuple[int, ...]) -> bytes:
    out = []
    for n, (k, accesses) in enumerate(_steps(2, 4000, 300)):
        code = codes[k % len(codes)]
        out.append(f'{n // 900 % 2}, 0x{0x402000 + 4 * k:x}, 0x{code:x}, "x"')
        out += [f", {'store' if store else 'load'}, 0x{at:x}" for at, store in accesses]
        out.append(", uart, 0x9\n" if n % 50 == 7 else "\n")
    return "".join(out).encode()


def _champsim(wide: bool) -> bytes:
    kinds = (
        ((26,), (26, 25)),
        ((26,), (26,)),
        ((26,), (10,)),
        ((26, 6), (26, 6)),
        ((26, 6), (26, 6, 10)),
        ((26, 6), (6,)),
        ((26, 25), (6, 25)),
        ((25,), (10, 26)),
    )
    out, r = [], random.Random(3)
    for k, accesses in _steps(3, 4000, 300):
        dst, src = kinds[k % 8] if k % 3 == 0 else ((1 + k % 20,), (3, 5 + k % 30))
        n = 4 if wide else 2
        loads = [at for at, store in accesses if not store][:4]
        stores = [at for at, store in accesses if store][:n]
        one = struct.pack("<QBB", 0x402000 + 4 * k, k % 3 == 0, k % 3 == 0 and r.random() < 0.5)
        one += bytes(dst).ljust(n, b"\0") + bytes(src).ljust(4, b"\0")
        one = one.ljust(24 if wide else 16, b"\0")
        one += struct.pack(f"<{n + 4}Q", *stores, *[0] * (n - len(stores)),
                           *loads, *[0] * (4 - len(loads)))  # fmt: skip
        out.append(one.ljust(96 if wide else 64, b"\0"))
    return b"".join(out)


def _drmemtrace() -> bytes:
    kinds = (10, 11, 12, 13, 14, 15, 16, 48, 49, 10, 10, 10, 29, 31)
    out = []
    for n, (k, accesses) in enumerate(_steps(4, 4000, 300)):
        size = 1 + k % 8
        if n % 7 == 0:
            out.append(struct.pack("<HH8s", 47, size, bytes((k + j) % 256 for j in range(size))))
        out.append(rec(kinds[k % 14], size, 0x402000 + 8 * k))
        out += [rec(int(store), 1 << k % 7, at) for at, store in accesses]
        if n % 101 == 0:
            out.append(rec(28, (2, 20, 21, 0, 1, 25, 10, 11)[n // 101 % 8], n))
        if n % 190 == 3:
            out.append(rec(2 + n % 7, 0, 0x1000 + n))
    return thread_of(b"".join(out))


def _tks(folder: Path) -> bytes:
    from test_tks import write

    r = random.Random(5)
    code = (b"\x90", b"\x8b\x03", b"\x89\x03", b"\x74\x10", b"\xf3\xa4", b"\x0f\x05", b"\xc3",
            b"\xe8\x00\x00\x00\x00", b"\xff\xe0", b"\xc5\xfe\x6f\x03", b"\x48\x01\xd8")  # fmt: skip
    codes = [(0x402000 + 16 * k, code[k % len(code)]) for k in range(200)]
    blocks = [code_block(0, codes[:70]), code_block(70, codes[70:])]
    for _ in range(6):
        rows = [
            (k, r.randrange(4), [(at, 1 << k % 6, int(store)) for at, store in accesses])
            for k, accesses in _steps(r.randrange(99), 400, 200)
        ]
        fields = [r.randrange(1 << 40) for _ in _core.EPOCH_FIELDS]
        fields[_core.EPOCH_FIELDS.index("reason")] %= len(_core.END_REASONS)
        for name in ("pid", "tid"):
            fields[_core.EPOCH_FIELDS.index(name)] = 7
        blocks.append(epoch_block(fields, rows))
    write(folder / "made.tks", blocks)
    return (folder / "made.tks").read_bytes()


def _inputs(folder: Path) -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    """(name, content, options of extract)."""
    both: tuple[dict[str, Any], ...] = ({"level": "micro"}, {"level": "macro"})
    for name in ("lua.arm", "lua.x86", "strsort.riscv"):
        for options in both:
            yield name, _xz(f"{name}.trace.xz"), options
    for kind in ("both", "o3", "exec"):
        text = synthetic.text(7, 3000, exec_lines=kind != "o3", blocks=kind != "exec", size=400)
        yield f"synthetic_{kind}", text.encode(), {"level": "macro" if kind == "exec" else "micro"}
    for name in ("kern.arm", "kern.x86"):
        data = (GOLDEN / "tkt" / f"{name}.tkt.zst").read_bytes()
        tkt = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        yield f"{name}.tkt", tkt, both[name == "kern.x86"]
    macro = both[1]
    yield "lackey", _lackey(), macro
    yield "execlog_x86", _execlog((0x90, 0x38B, 0x389, 0x1074, 0xA4F3, 0x50F)), {
        **macro, "isa": "x86"}  # fmt: skip
    yield "execlog_arm", _execlog((0xF9400041, 0xF9000041, 0x8B020020, 0x54000040, 0xD65F03C0)), {
        **macro, "isa": "arm"}  # fmt: skip
    yield "made.champsimtrace", _champsim(False), macro
    yield "wide.champsimtrace", _champsim(True), macro
    yield "drmemtrace", _drmemtrace(), macro
    for path in sorted((GOLDEN / "drmemtrace").glob("*.zip")):
        yield path.name, path.read_bytes(), macro
    yield "made.tks", _tks(folder), macro


def _hash(value: Any) -> str:
    data = np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else value
    data = data if isinstance(data, bytes) else json.dumps(data).encode()
    return hashlib.sha256(data).hexdigest()[:12]


def _values(trace: tracekit.TraceFile, folder: Path) -> dict[str, str]:
    out = {c: _hash(trace[c]) for c in schema.COLUMNS if trace.timed or c not in _TIMES}
    out |= {f"static {k}": _hash(v) for k, v in trace.statics.arrays.items()}
    out["disassembly"] = _hash(list(trace.statics.disassembly))
    for name in ("perfvec", "perfvec-ref", "neuroscalar"):
        out[f"set {name}"] = _hash(trace.features(name)[:])
    write_champsim(trace.path, folder / "out.champsim", force=True)
    out["champsim"] = _hash((folder / "out.champsim").read_bytes())
    return out


@functools.cache
def all_values() -> dict[str, dict[str, str]]:
    out = {}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        for k, (title, data, options) in enumerate(_inputs(folder)):
            source = folder / str(k) / title
            source.parent.mkdir()
            source.write_bytes(data)
            result = tracekit.extract(source, source.with_name("feats.zst"), **options)
            odd = _hash(dict(result.anomalies))
            for n, target in enumerate(sorted(source.parent.glob("feats*.zst"))):
                with tracekit.open(target) as trace:
                    found = {"rows": str(len(trace)), "anomalies": odd}
                    name = f"{title} {options['level']} {n}"
                    out[name] = found | _values(trace, source.parent)
    return out


def stored() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def main() -> int:
    new, old = all_values(), stored() if FILE.exists() else {}
    for name, values in new.items():
        moved = [k for k, v in values.items() if old.get(name, {}).get(k) != v]
        print(f"{name}: {', '.join(moved) if moved else 'as it was'}")
    if "--write" in sys.argv[1:]:
        lines = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in new.items())
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
