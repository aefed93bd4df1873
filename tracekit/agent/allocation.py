"""Of which programs further epochs narrow the answer most.

Neyman's allocation (Neyman 1934; Cochran, Sampling Techniques, 1977, section 5.5): as many epochs
as a program's time and the spread of its epochs' answers say.  A loop whose epochs all say the same
of the designs needs few.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

__all__ = ["spreads"]

#: Epochs' worth of what programs have in common that a program's own spread is mixed with.
PRIOR: Final = 4.0
Program = TypeVar("Program", bound=Hashable)


def spreads(
    epochs: Iterable[tuple[Program, float, Sequence[float]]],
) -> dict[Program | None, float]:
    """How far the epochs of each program differ in what they say of designs; None: of a program
    that has none.

    ``epochs``: program, the time that it stands for, and its times on the designs.  The spread is
    the standard deviation of a design's time over the designs' mean, each epoch weighed by its
    time, summed over designs in squares.  All are 1 where no program has two epochs, or all agree.
    """
    rows: dict[Program, list[tuple[float, list[float]]]] = {}
    for program, weight, times in epochs:
        mean = math.fsum(times) / len(times)
        rows.setdefault(program, []).append((weight, [t / mean for t in times]))
    squares: dict[Program, float] = {}
    for program, own in rows.items():
        total = math.fsum(w for w, _ in own)
        means = [math.fsum(w * x[d] for w, x in own) / total for d in range(len(own[0][1]))]
        scale = len(own) / total
        squares[program] = math.fsum(
            (scale * w * (a - m)) ** 2 for w, x in own for a, m in zip(x, means, strict=True)
        )
    free = sum(len(own) - 1 for own in rows.values())
    pooled = sum(squares.values()) / free if free else 0.0
    if pooled <= 0.0:
        return {None: 1.0, **dict.fromkeys(rows, 1.0)}
    found: dict[Program | None, float] = {None: math.sqrt(pooled)}
    for program, own in rows.items():
        found[program] = math.sqrt((squares[program] + PRIOR * pooled) / (len(own) - 1 + PRIOR))
    return found
