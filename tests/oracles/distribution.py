"""Readouts of a distribution of cycles (docs/model-format.md), one target of one row at a time."""

import math


def read(logits, longs, readout, scale, cap):
    """logits [targets][exact + 1], longs [targets]."""
    out = []
    for own, long, factor in zip(logits, longs, scale, strict=True):
        exact, top = len(own) - 1, max(own)
        p = [math.exp(v - top) for v in own]
        p = [v / sum(p) for v in p]
        more = min(max(math.expm1(long), exact), cap)
        if readout == "mean":
            out.append(sum(k * p[k] for k in range(exact)) + p[exact] * more * factor)
            continue
        best = p.index(max(p))
        if readout == "median":
            best = next(k for k in range(exact + 1) if sum(p[: k + 1]) >= 0.5 or k == exact)
        out.append(more if best == exact else best)
    return out
