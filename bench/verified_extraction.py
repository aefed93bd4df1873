"""What ``extract --verify`` costs: processor time with it over that without, of interleaved runs.

    python bench/verified_extraction.py [--rows 400000] [--rounds 5]

Text and .tkt are shipped runs again and again, .tks a loop.  The
middle of the rounds' ratios is printed for each format.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests")]

import zstandard  # noqa: E402
from bench_tkt import GOLDEN, repeated  # noqa: E402
from oracles.tks_blocks import code_block, epoch_block  # noqa: E402
from repeat_trace import Repeater  # noqa: E402

import tracekit  # noqa: E402
from tracekit.inputs.tks import TksWriter  # noqa: E402


def text(path: Path, rows: int) -> None:
    with path.open("wb") as f:
        for piece in Repeater().pieces(rows):
            f.write(piece)


def tkt(path: Path, rows: int) -> None:
    compressed = (GOLDEN / "kern.arm.tkt.zst").read_bytes()
    with zstandard.ZstdDecompressor().stream_reader(compressed) as reader:
        path.write_bytes(repeated(reader.read(), rows).data)


def tks(path: Path, rows: int) -> None:
    """A loop of loads, stores and a branch over 4 MiB, in epochs of 20,000 instructions."""
    code = [
        b"\x48\x8b\x03",
        b"\x48\x01\xc8",
        b"\x48\x89\x03",
        b"\x74\x10",
        b"\x48\xff\xc3",
        b"\x90",
    ]
    codes = [(0x401000 + 16 * k, c) for k, c in enumerate(code)]
    per = 20_000
    writer = TksWriter(path, arch="x86", meta={"command": ["x"]}, force=True)
    writer.block(code_block(0, codes))
    for n in range(-(-rows // per)):
        made = []
        for i in range(per):
            k = i % 6
            at = 0x7000000 + 8 * ((i * 2654435761 + n) % (1 << 19))
            made.append((k, 0, [(at, 8, int(k == 2))] if k in (0, 2) else []))
        writer.block(epoch_block([n, 1, 1, *[0] * 11], made))
    writer.close({"epochs": -(-rows // per)})


def cpu(path: Path, verify: bool) -> float:
    level = "macro" if path.suffix == ".tks" else "micro"
    before = time.process_time()
    output = path.with_name("feats.zst")
    tracekit.extract(path, output, force=True, level=level, verify=verify)
    return time.process_time() - before


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--rows", type=int, default=400_000)
    p.add_argument("--rounds", type=int, default=5)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for make in (text, tkt, tks):
            path = Path(folder) / f"trace.{make.__name__}"
            make(path, args.rows)
            cpu(path, True)
            ratios = [cpu(path, True) / cpu(path, False) for _ in range(args.rounds)]
            print(f"{make.__name__}: {statistics.median(ratios):.2f} of the processor time without")
    return 0


if __name__ == "__main__":
    sys.exit(main())
