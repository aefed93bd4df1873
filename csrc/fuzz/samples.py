"""What the fuzz targets start from beside their corpus: small, and of every dialect."""

from __future__ import annotations

import random
import struct
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def gem5_samples() -> list[bytes]:
    sys.path.insert(0, str(ROOT / "tests"))
    import synthetic

    text = synthetic.text(1, 60)
    o3 = synthetic.text(2, 60, exec_lines=False)
    boom = "".join(
        f"{n:8d}; O3PipeView:fetch:{10 * n:8d}:0x0080000000:0:{n}:addi  a0, a0, 1\n"
        f"{n:8d}; O3PipeView:decode: {10 * n + 1}\n"
        f"{n:8d}; O3PipeView:retire: {10 * n + 9}:store: 0\n"
        for n in range(1, 30)
    )
    x86 = (
        "   5000: system.cpu0: A0 T0 : 0x401000 @main+4.0  :   JNZ_I : limm   t2, 0x10 : IntAlu :"
        "  D=0x0000000000000010  FetchSeq=3  flags=(IsInteger|IsMicroop|IsFirstMicroop)\n"
        "   5000: system.cpu0: 0x401000 @main+4.1  :   JNZ_I : wrip   t1, t2 : IntAlu :  "
        "FetchSeq=4  flags=(IsInteger|IsControl|IsCondControl|IsMicroop|IsLastMicroop)\n"
        "   6000: system.cpu1: 0x401006 @main+10    : add x0, [sp, #8]\n"
    )
    flagged = text.replace("\n", "\r\n").replace("O3PipeView:fetch", "O3PipeView: O3PipeView:fetch")
    alone = synthetic.text(3, 80, blocks=False)
    two = alone + alone.replace("system.cpu:", "system.cpu1:")
    long = synthetic.text(4, 400)
    return [s.encode() for s in (text, o3, boom, x86 * 8, flagged, two, long)]


def perfvec_samples() -> list[bytes]:
    r = random.Random(1)
    main, stores = [], []
    for n in range(60):
        store, op = n % 5 == 0, 48 if n % 5 == 0 else r.choice([1, 2, 47])
        head = [0, n if store else -1, 1000 * n, 500, 9000 + 500 * n, 500, 1000, 1500, 2000]
        body = [
            op,
            0,
            n % 7 == 0,
            0,
            1,
            *[0] * 9,
            int(op >= 47),
            4096 + 8 * r.randrange(30) if op >= 47 else 0,
            8,
        ]
        body += [0] * 10 + [0x400000 + 4 * (n % 12), 0, 0, *[0] * 9, 2, 1, 0, 1, 0, 2, 0, 3]
        if store:
            main.append(head)
            stores.append([*head, 9600, 9700, *body])
        else:
            main.append([*head, *body])
    text = [
        "\n".join(" ".join(str(int(v)) for v in line) for line in part) + "\n"
        for part in (main, stores)
    ]
    return ["\f".join(text).encode(), text[0].encode()]


def chunk_samples() -> list[bytes]:
    """Needs the built extension; without it the target starts from nothing."""
    sys.path.insert(0, str(ROOT))
    try:
        from tracekit import _core, schema
    except ImportError:
        return []
    out = []
    for text in gem5_samples()[:2]:
        source, stage = _core.Gem5Text(), _core.FeatureStage(8, 6, False, chunk_rows=1 << 15)
        source.feed(text)
        source.finish()
        stage.add(source.take(0))
        stage.finish()
        chunk = stage.chunk()
        hot, pcs = stage.hot(), source.table(0).columns()["pc"].tolist()
        data = struct.pack("<HH", chunk["rows"], len(pcs))
        for before, pc, bits in zip([0, *pcs], pcs, hot["hot_bits"].tolist(), strict=False):
            data += struct.pack("<IB", pc - before & 0xFFFFFFFF, bits)
        for name in schema.COLUMNS:
            stream = chunk["streams"].get(name, b"")
            data += struct.pack("<H", len(stream)) + stream
        out.append(data)
    return out


def tkt_samples() -> list[bytes]:
    """Whole streams, with stage ticks and without, behind the two bytes that the target takes."""

    def text(*names: str) -> bytes:
        return b"".join(struct.pack("<H", len(n)) + n.encode() for n in names)

    out = []
    for stages in (0xFF, 0x41, 0):
        body = struct.pack("<QQHHH", 10**12, 500, stages, 0, 1) + text(
            "arm", "system.cpu", "o3", "gem5"
        )
        for names in (
            ("No_OpClass", "IntAlu", "MemRead"),
            ("IsInteger", "IsLoad"),
            ("integer", "vector"),
        ):
            body += struct.pack("<H", len(names)) + text(*names)
        if stages == 0x41:
            packed = zlib.compress(b"[system.cpu]\ntype=BaseO3CPU\n")
            body += struct.pack("<I", len(packed)) + packed
        data = b"\x89TKT\r\n\x1a\n" + struct.pack("<HHI", 2, 15, len(body)) + body
        for i, words in enumerate(("ldr   x1, [x2]", "add   x1, x1, x3")):
            inst = struct.pack("<QQHHBB4s", 0x1000 + 4 * i, 1, 0, 2 - i, 4, 4, b"\x41\0\x40\xf9")
            inst += struct.pack("<BBHBBH", 1, 0, 2, 1, 0, 1) + text(words)
            data += struct.pack("<BBH", 1, 0, len(inst)) + inst
        for k in range(40):
            form = 0 if k % 11 == 0 else 1 + (k % 7 > 4) + (k % 13 == 0)
            addr, store = (k & 1) * (1 + k // 2 % 5), k % 5 == 0 and stages >> 7
            head = 128 | k % 16 | 16 * store | 32 * (k % 17 == 0) | 64 * (k % 9 == 0)
            head |= form << 8 | (k % 4) << 10 | addr << 12
            data += struct.pack("<H", head)
            for s in [s for s in range(7) if form and stages >> s & 1] + [7] * (form and store):
                code = "BiQ"[form - 1] if s == 0 else "IIQ"[form - 1] if s == 7 else "BHQ"[form - 1]
                data += struct.pack("<" + code, s)
            jump = -1 if k % 2 else 0
            data += struct.pack("<" + ("", "b", "h", "i")[k % 4], *[jump] * (k % 4 > 0))
            data += struct.pack("<" + ("", "", "b", "h", "i", "q")[addr], *[k - 20] * (addr > 1))
            data += struct.pack("<H", 8) * (k % 9 == 0) + b"\1" * (k % 17 == 0)
        out.append(
            b"\x3f" + bytes([stages & 1]) + data + struct.pack("<BBHQQQ", 15, 0, 24, 40, 2, 0)
        )
    return out


def tks_samples() -> list[bytes]:
    """A recording's blocks.  Needs the built extension, as chunk_samples does."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    try:
        from oracles.tks_blocks import code_block, epoch_block
    except ImportError:
        return []
    codes = [(0x401000, b"\x74\x10"), (0x401002, b"\x02\x2f"), (0x401000, b"\x0f\x05")]
    rows = [(k % 3, k % 4, [(0x7000 + 8 * k, 8, k & 1)] * (k % 3)) for k in range(40)]
    blocks = [
        *(b'\x01{"arch": "x86"}', code_block(0, codes[:2]), code_block(2, codes[2:])),
        *(epoch_block([n, 1, 1, *[0] * 11], rows) for n in range(2)),
        b"\x04{}",
    ]
    return [b"".join(struct.pack("<I", len(b)) + b for b in blocks)]


def other_samples(target: str) -> list[bytes]:
    """What the other targets start from: a few bytes of their formats."""
    if target == "fuzz_isa":
        texts = [
            *(
                "add   x1, x2, x3, LSL #2",
                "ldp   x0, x1, [sp, #16]!",
                "fmla  z0.d, p0/m, z1.d, z2.d",
                "b.ne  0x1000",
            ),
            *(
                "JNZ_I : limm   t2, 0x10",
                "MOV_R_M : ld   rax, DS:[rbx + 8*rcx + 0x10]",
                "syscall  : syscall",
            ),
            *("c_addi a0, 1", "fld fa0, 8(sp)", "beq a0, a1, 12", "amoadd.w.aq a0, a1, (a2)"),
        ]
        return [bytes([k % 8, k, 3, 5, 7]) + t.encode() for k, t in enumerate(texts)]
    if target == "fuzz_champsim":
        record = struct.pack(
            "<QBB2B4B2Q4Q", 0x400000, 1, 1, 26, 6, 25, 6, 0, 0, 0x1000, 0, 0x2000, 0, 0, 0
        )
        return [b"\x7e" + record * 20, b"\x7f" + (record + b"\0" * 32) * 20]
    if target == "fuzz_text_streams":
        execlog = "".join(
            f'0, 0x{0x401000 + 2 * (k % 9):x}, 0x{(k % 3 * 0x74 + 0x10):x}, "mov (%rax), %rbx"'
            + (f", load, 0x{0x7F00 + 8 * k:x}" if k % 3 == 0 else "")
            + (f", store, 0x{0x8F00 + k:x}, RAM" if k % 4 == 0 else "")
            + "\n"
            for k in range(40)
        )
        lackey = "".join(
            f"I  {0x401000 + 4 * (k % 7):08x},4\n" + (f" L 01ffe{k:03x},8\n" if k % 3 else "")
            for k in range(40)
        )
        # Twice at one pc, with an access and without.
        lackey += "I  00402000,4\n L 01ffe000,8\n M 01ffe008,4\nI  00402000,4\nI  00402000,4\n"
        return [b"\x03" + execlog.encode(), b"\x0e" + lackey.encode()]
    if target == "fuzz_tks":
        return tks_samples()
    if target == "fuzz_drmemtrace":

        def rec(kind: int, size: int, addr: int) -> bytes:
            return struct.pack("<HHQ", kind, size, addr)

        head = rec(19, 0, 7) + rec(28, 9, 0x40) + rec(24, 4, 11) + rec(25, 4, 10)
        return [
            b"\x20"
            + head
            + b"".join(rec(10, 4, 0x400000 + 4 * k) + rec(k % 2, 8, 0x1000 + k) for k in range(40))
        ]
    return [bytes(range(64))]


SAMPLES = {
    "fuzz_gem5_text": gem5_samples,
    "fuzz_perfvec_text": perfvec_samples,
    "fuzz_chunk": chunk_samples,
    "fuzz_tkt": tkt_samples,
}


def of(target: str) -> list[bytes]:
    """The samples of a target."""
    return SAMPLES[target]() if target in SAMPLES else other_samples(target)
