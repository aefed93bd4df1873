"""What this package adds to tracekit; pyproject.toml names the three."""

from __future__ import annotations

import tracekit
from tracekit.inputs import Source, Translated

memory = tracekit.FeatureSet(
    "example-memory",
    1,
    (
        tracekit.Feature("bytes", static=lambda table: table.access_size),
        tracekit.Feature("distance", column="data_distance"),
    ),
)


def csv(head: bytes, path: str) -> Source | None:
    """Lines of "pc,code,address" in hexadecimal, of AArch64; no address where there is no load."""
    if not head.startswith(b"pc,code,address\n"):
        return None
    rest = b""

    def translate(block: bytes) -> bytes:
        nonlocal rest
        *lines, rest = (rest + block).split(b"\n")
        return b"".join(execlog(line) for line in lines if line != b"pc,code,address")

    return Translated("example-csv", "execlog", translate, lambda: execlog(rest), isa="arm")


def execlog(line: bytes) -> bytes:
    """One line of ours as one of QEMU's execlog."""
    if not line:
        return b""
    pc, code, address = line.split(b",")
    access = b", load, 0x" + address if address else b""
    return b'0, 0x%s, 0x%s, "?"%s\n' % (pc, code, access)


def machines() -> dict[str, dict[str, int | float | str]]:
    """Two machines by name."""
    base = tracekit.Machine.load("u007").to_dict()
    return {"example-small": {**base, "rob": 64}, "example-large": {**base, "rob": 512}}
