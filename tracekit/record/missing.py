"""Memory of a process that a copy of it would not have: seen before an epoch, in its smaps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: What is said of each kind.
KINDS: Final = {
    "dontfork": "MADV_DONTFORK",
    "wipeonfork": "MADV_WIPEONFORK",
    "shared": "shared with processes that write to it",
}


def missing_memory(pid: int) -> dict[str, int]:
    """Kind of memory -> bytes that a copy-on-write copy of ``pid`` would lack, find zeroed, or see
    change under it; {} where there is none, or the process may not be looked at.

    Only what is in memory and may be reached counts; of shared memory only what another process
    maps as well and somebody has written to.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps").read_bytes().splitlines()
    except OSError:
        return {}
    found: dict[str, int] = {}
    resident = dirty = size = 0
    for line in lines:
        name, _, value = line.partition(b":")
        if name == b"Size":
            size, resident, dirty = _kilobytes(value), 0, 0
        elif name in (b"Rss", b"Swap", b"Shared_Hugetlb", b"Private_Hugetlb"):
            resident += _kilobytes(value)
        elif name == b"Shared_Dirty":
            dirty = _kilobytes(value)
        elif name == b"VmFlags":
            flags = set(value.split())
            if not flags & {b"rd", b"wr", b"ex"}:
                continue
            if b"dc" in flags:  # a device's pages are not counted as resident
                _add(found, "dontfork", size if flags & {b"io", b"pf"} else resident)
            elif b"wf" in flags and b"dp" not in flags:  # droppable: may be zeroed at any time
                _add(found, "wipeonfork", resident)
            elif b"ms" in flags:
                _add(found, "shared", dirty)
    return found


def described(missing: Mapping[str, int]) -> str:
    """For people: "12.5 MB of MADV_DONTFORK"."""
    return " and ".join(f"{n / 1e6:.3g} MB {KINDS[kind]}" for kind, n in sorted(missing.items()))


def _kilobytes(value: bytes) -> int:
    number = value.split()
    return int(number[0]) << 10 if number and number[0].isdigit() else 0


def _add(found: dict[str, int], kind: str, size: int) -> None:
    if size:
        found[kind] = found.get(kind, 0) + size
