"""What the workers of test_processes.py do, where a spawned process can import it."""

from __future__ import annotations


def part(job: tuple) -> tuple[list, list, bytes]:
    f, begin, end = job
    x = f.features("perfvec", (begin, end))
    return (
        f.column("pc", (begin, end)).tolist(),
        f.targets("ticks", (begin, end)).tolist(),
        x.tobytes(),
    )
