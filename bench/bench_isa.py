"""Decoding machine code: new encodings against bare capstone, known ones against a bare dictionary.

    pytest bench/bench_isa.py --benchmark-only

The encodings are those of tests/golden/isa_*.json.  The floor of a new encoding is capstone's own
disassembly with details and registers, in Python; that of a known one a dictionary's look-up.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import capstone
import pytest
from table import done

from tracekit.isa import DecodedInst
from tracekit.isa.decoder import Decoder

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"
ARCHES = ("arm", "x86", "riscv")
ENGINES = {
    "arm": (capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM),
    "x86": (capstone.CS_ARCH_X86, capstone.CS_MODE_64),
    "riscv": (capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC),
}


def encodings(arch: str) -> list[bytes]:
    rows = json.loads((GOLDEN / f"isa_{arch}.json").read_text())
    return list(dict.fromkeys(bytes.fromhex(r[1]) for r in rows))


def check(codes: list[bytes], result: list[DecodedInst]) -> None:
    assert [i.length for i in result] == [len(c) for c in codes]


@pytest.mark.parametrize("arch", ARCHES)
def test_new(benchmark: Any, arch: str) -> None:
    benchmark.group = f"new encodings, {arch}"
    codes = encodings(arch)
    result = benchmark.pedantic(
        lambda d: d.decode_many(codes), setup=lambda: ((Decoder(arch),), {}), rounds=7
    )
    check(codes, result)
    done(benchmark, len(codes), "encodings")


@pytest.mark.parametrize("arch", ARCHES)
def test_new_floor_bare_capstone(benchmark: Any, arch: str) -> None:
    benchmark.group = f"new encodings, {arch}"
    codes = encodings(arch)
    engine = capstone.Cs(*ENGINES[arch])
    engine.detail = True

    def run() -> list[int]:
        out = []
        for c in codes:
            for i in engine.disasm(c, 0, 1):
                if arch != "riscv":  # capstone 5 has no register access there
                    i.regs_access()
                _ = i.operands
                out.append(i.size)
        return out

    assert benchmark.pedantic(run, rounds=7) == [len(c) for c in codes]
    done(benchmark, len(codes), "encodings")


@pytest.mark.parametrize("arch", ARCHES)
def test_known(benchmark: Any, arch: str) -> None:
    benchmark.group = f"known encodings, {arch}"
    decoder = Decoder(arch)
    codes = encodings(arch) * 100
    decoder.decode_many(codes)
    check(codes, benchmark.pedantic(decoder.decode_many, args=(codes,), rounds=7))
    done(benchmark, len(codes), "encodings")


@pytest.mark.parametrize("arch", ARCHES)
def test_known_floor_dictionary(benchmark: Any, arch: str) -> None:
    benchmark.group = f"known encodings, {arch}"
    decoder = Decoder(arch)
    codes = encodings(arch) * 100
    memo = dict(zip(codes, decoder.decode_many(codes), strict=True))
    check(codes, benchmark.pedantic(lambda: [memo[c] for c in codes], rounds=7))
    done(benchmark, len(codes), "encodings")
