"""docs/tks-format.md, word for word: the payloads of a recording's blocks."""

from __future__ import annotations

from tracekit.inputs.tks import CODE, EPOCH


def varint(v: int) -> bytes:
    out = b""
    while v >= 0x80:
        out += bytes([v & 0x7F | 0x80])
        v >>= 7
    return out + bytes([v])


def zigzag(d: int) -> bytes:
    return varint((d << 1 ^ (-1 if d < 0 else 0)) & (2**64 - 1) if d < 0 else d << 1)


def column(parts: list[bytes]) -> bytes:
    data = b"".join(parts)
    return varint(len(data)) + data


def signed(d: int) -> int:
    """Modulo 2^64, as a signed number."""
    return (d + 2**63) % 2**64 - 2**63


def code_block(before: int, codes: list[tuple[int, bytes]]) -> bytes:
    pcs = [
        zigzag(signed(pc - last))
        for (pc, _), last in zip(codes, [0] + [c[0] for c in codes], strict=False)
    ]
    lengths = [bytes([len(code)]) for _, code in codes]
    columns = column(pcs) + column(lengths) + column([c for _, c in codes])
    return bytes([CODE]) + varint(before) + varint(len(codes)) + columns


def epoch_block(
    fields: list[int], rows: list[tuple[int, int, list[tuple[int, int, int]]]]
) -> bytes:
    ids, bits, counts, addresses, sizes = [], [], [], [], []
    last_id = 0
    first: dict[int, int] = {}
    for encoding, bit, accesses in rows:
        ids.append(zigzag(encoding - last_id))
        last_id = encoding
        bits.append(bytes([bit]))
        counts.append(varint(len(accesses)))
        previous = first.get(encoding, 0)
        for k, (address, size, store) in enumerate(accesses):
            addresses.append(zigzag(signed(address - previous)))
            previous = address
            if k == 0:
                first[encoding] = address
            sizes.append(varint(size << 1 | store))
    head = (
        varint(len(fields)) + b"".join(map(varint, fields)) + varint(len(rows)) + varint(len(sizes))
    )
    return bytes([EPOCH]) + head + b"".join(map(column, (ids, bits, counts, addresses, sizes)))
