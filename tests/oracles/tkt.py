"""The rows of a .tkt stream, read with struct by docs/tkt-format.md: (sid, flags, addr, ticks)."""

import struct


def rows(data: bytes) -> list[tuple[int, int, int, list[int]]]:
    at = 16 + struct.unpack_from("<I", data, 12)[0]
    unit, stages, fetch, out = *struct.unpack_from("<QH", data, 24), 0, []
    while data[at] & 15 != 15:
        if data[at] & 15 != 2:
            at += 4 + struct.unpack_from("<H", data, at + 2)[0]
            continue
        (flags, _, sid), addr, ticks = struct.unpack_from("<BHI", data, at + 1), 0, [0] * 8
        at += 8
        if flags & 1:
            (addr,), at = struct.unpack_from("<Q", data, at), at + 8
        timed = [] if flags & 128 else [s for s in range(7) if stages >> s & 1]
        for s in timed + [7] * (flags >> 6 & 1):
            code = "Q" if flags & 32 else "i" if s == 0 else "I" if s == 7 else "H"
            (value,), at = struct.unpack_from("<" + code, data, at), at + struct.calcsize(code)
            base = fetch if s == 0 else ticks[0]
            ticks[s] = value if code == "Q" else base + value * (1 if s == 7 else unit)
            ticks[s] = 0 if (code, value) == ("H", 65535) else ticks[s]
            fetch = ticks[0] if s == 0 else fetch
        out.append((sid, flags, addr, ticks))
    return out
