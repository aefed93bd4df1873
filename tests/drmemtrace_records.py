"""Records of a drmemtrace, DynamoRIO's trace_entry_t, and one thread made of them."""

from __future__ import annotations

import struct

__all__ = ["rec", "thread_of"]


def rec(kind: int, size: int = 0, value: int = 0) -> bytes:
    """One record; ``kind``: of trace_type_t."""
    return struct.pack("<HHQ", kind, size, value)


def thread_of(body: bytes, filetype: int = 0x40, version: int = 5) -> bytes:
    """``body`` between a thread's header and footer."""
    header = rec(25, 0, version) + rec(28, 9, filetype) + rec(22, 4, 1) + rec(24, 4, 1)
    return header + body + rec(23, 4, 1) + rec(26)
