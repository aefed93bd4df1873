"""Which share of what traces executed has an entry of its own in a machine's instruction table.

    python -m tracekit.hardware.coverage --machine zen5 a.feats.zst b.feats.zst

Ends with status 1 where it is under 99.9 % over all files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tracekit.errors import TracekitError
from tracekit.hardware.instruction_table import InstructionTable
from tracekit.hardware.machine import HardwareMachine
from tracekit.store.reader import TraceFile

__all__ = ["main"]

#: Of the executed instructions, so many shall have an entry of their own.
ENOUGH = 0.999


def main(words: Sequence[str] | None = None) -> int:
    """Print the share of each file and of all, and the forms that are missing."""
    parser = argparse.ArgumentParser("python -m tracekit.hardware.coverage", description=__doc__)
    parser.add_argument("--machine", default="zen5", help="its table counts (zen5)")
    parser.add_argument("files", nargs="+", help="features with machine code (.feats.zst)")
    args = parser.parse_args(words)
    try:
        share = _print(HardwareMachine.load(args.machine), args.files)
    except TracekitError as e:
        print(f"tracekit: {e}", file=sys.stderr)
        return 2
    return 0 if share >= ENOUGH else 1


def _print(machine: HardwareMachine, files: Sequence[str]) -> float:
    table = InstructionTable.load(machine.table)
    total = without = 0
    missing: dict[str, int] = {}
    for path in files:
        with TraceFile(path) as trace:
            found = table.coverage(trace.statics, machine.isa)
            n = int(trace.statics.count.sum())
        total += n
        without += sum(k for k, _ in found.missing.values())
        for form, (k, _) in found.missing.items():
            missing[form] = missing.get(form, 0) + k
        print(f"{found.share:9.5%}  {path}")
    share = 1 - without / total if total else 1.0
    print(f"{share:9.5%}  of {total:,} instructions have an entry in {machine.table}")
    for form, k in sorted(missing.items(), key=lambda item: -item[1])[:20]:
        print(f"  {k / total:9.5%}  {form}")
    return share


if __name__ == "__main__":
    sys.exit(main())
