"""Incremental latency: retire time minus the largest retire time before it (features.md,
Targets)."""


def incremental(retire):
    """Retire ticks, 0 = none -> ticks a row; the first timed row takes 0."""
    out, largest = [], None
    for t in retire:
        out.append(max(t - largest, 0) if t and largest is not None else 0)
        largest = max(t, largest or 0) if t else largest
    return out
