"""basic_counts over one decompressed stream: the definitions of DynamoRIO's tool, record by
record."""

from __future__ import annotations

import struct

FETCH = {10, 11, 12, 13, 14, 15, 16, 31, 48, 49}


def drmemtrace_counts(data: bytes) -> dict[str, int]:
    n = dict.fromkeys(
        ("instructions", "no_fetch", "loads", "stores", "encodings", "schedule_markers"), 0
    )
    chunked, repeats, code, pcs = False, False, False, set()
    for kind, size, value in struct.iter_unpack("<HHQ", data[: len(data) // 12 * 12]):
        if kind in FETCH or kind == 29:
            n["instructions" if kind in FETCH else "no_fetch"] += 1
            n["encodings"] += code
            code = False
            if kind in FETCH:
                pcs.add(value)
        code |= kind == 47
        n["loads"] += kind == 0
        n["stores"] += kind == 1
        if kind == 28 and size in (2, 3):
            n["schedule_markers"] += not repeats
            repeats = repeats and size != 3
        chunked |= kind == 28 and size == 20
        repeats |= kind == 28 and size == 21 and chunked
    return {**n, "unique": len(pcs)}
