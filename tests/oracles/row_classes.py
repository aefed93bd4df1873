"""Classes of rows (tracekit.calibration.row_classes), row by row."""

from __future__ import annotations


def bucket(distance: int, buckets: int) -> int:
    if distance >= 100_000_000:
        return buckets - 1
    k = 0
    while k < buckets - 2 and distance > 32 << k:
        k += 1
    return k


def loads(ids, load, store, addr, distance) -> list[int]:
    out, last = [], {}
    for i, pc in enumerate(ids):
        if not load[i]:
            out.append(int(store[i]))
            continue
        before, step = last.get(pc, (None, None))
        now = None if before is None else int(addr[i]) - before
        last[pc] = (int(addr[i]), now)
        out.append(2 + 2 * bucket(int(distance[i]), 13) + bool(now and now == step))
    return out


def code(pc, distance) -> list[int]:
    out = []
    for a, b, d in zip([pc[0], *pc], pc, distance, strict=False):
        if a // 64 != b // 64:
            out.append(4 + bucket(int(d), 8))
        elif abs(b - a) > 8:
            out.append(3)
        else:
            out.append(0 if a // 16 == b // 16 else 1 if a // 32 == b // 32 else 2)
    return out


def behind(kind, taken, wrong) -> list[int]:
    own = []
    for k, t, w in zip(kind, taken, wrong, strict=True):
        own.append(0 if not k else 2 + w if w else 1 + t)
    return [0, *own][: len(own)]
