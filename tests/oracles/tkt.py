"""The rows of a .tkt stream, read with struct by docs/tkt-format.md: (sid, facts, addr, ticks)."""

import struct

#: Of each form of ticks: fetch, any other stage, store.
TICKS = {0: "   ", 1: "BBI", 2: "iHI", 3: "QQQ"}


def rows(data: bytes) -> list[tuple[int, int, int, list[int]]]:
    """``facts``: the head's lowest four bits, 16 = has an address, 32 = untimed."""
    at = 16 + struct.unpack_from("<I", data, 12)[0]
    unit, stages, fetch, retire, sid = *struct.unpack_from("<QH", data, 24), 0, 0, -1
    known: dict[int, int] = {}
    out = []
    while data[at] != 15:
        if data[at] < 128:
            at += 4 + struct.unpack_from("<H", data, at + 2)[0]
            continue
        head = struct.unpack_from("<H", data, at)[0]
        form, jump, moved = head >> 8 & 3, " bhi"[head >> 10 & 3], "  bhiq"[head >> 12 & 7]
        store, size, thread = head >> 4 & 1, head >> 6 & 1, head >> 5 & 1
        told = [s for s in range(8) if form and (store if s == 7 else stages >> s & 1)]
        codes = [TICKS[form][(s > 0) + (s > 6)] for s in told] + [jump, moved]
        layout = "<H" + "".join(codes).replace(" ", "") + "H" * size + "B" * thread
        _, *values = struct.unpack_from(layout, data, at)
        at, ticks, base = at + struct.calcsize(layout), [0] * 8, fetch
        for s in told:
            v, base = values.pop(0), retire if s == 6 and form == 1 else base
            if form == 3 or s == 7:
                ticks[s] = v + (ticks[0] if form < 3 else 0)
            elif s == 0 or v != {1: 255, 2: 65535}[form]:
                ticks[s] = base + v * unit
            base = ticks[s] if s == 0 or (form == 1 and ticks[s]) else base
        fetch, retire = ticks[0] if form else fetch, ticks[6] or retire
        sid += 1 + (values.pop(0) if jump != " " else 0)
        if head >> 12 & 7:
            known[sid] = (known.get(sid, 0) + (values.pop(0) if moved != " " else 0)) % 2**64
        facts = head & 15 | 16 * (head >> 12 > 0) | 32 * (not form)
        out.append((sid, facts, known[sid] if head >> 12 else 0, ticks))
    return out
