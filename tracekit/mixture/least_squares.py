"""Least squares with coefficients that are not negative (Lawson and Hanson 1974, chapter 23).

By hand: SciPy's takes seventeen times as long on a table's row and two seconds to be imported, for
the same coefficients to twelve digits (bench/by_hand.py).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.errors import TracekitError

F64 = npt.NDArray[np.float64]


def nnls(a: F64, b: F64) -> F64:
    """The x >= 0 that makes |a x - b| least: float64[columns of a]."""
    n = a.shape[1]
    gram, target = a.T @ a, a.T @ b
    x = np.zeros(n)
    # All are free at first: most of what turns out negative then goes in the first few steps.
    free = np.ones(n, bool)
    tolerance = 1e-10 * max(1.0, float(np.abs(target).max(initial=0.0)))
    for _ in range(30 * n + 30):
        while True:
            at = np.flatnonzero(free)
            step = np.zeros(n)
            step[at] = _solve(gram[np.ix_(at, at)], target[at])
            if step[at].min(initial=np.inf) > 0:
                x = step
                break
            # As far towards it as nothing gets negative; what hits zero is fixed there.
            low = at[step[at] <= 0]
            share = float((x[low] / np.maximum(x[low] - step[low], 1e-300)).min())
            x = x + share * (step - x)
            free[low[x[low] <= 1e-14 * max(1.0, float(x.max()))]] = False
            x[~free] = 0
        slope = target - gram @ x
        slope[free] = -np.inf
        if n == 0 or slope.max() <= tolerance:
            return x
        free[int(slope.argmax())] = True
    raise TracekitError("least squares did not converge", hint="are the features finite?")


def _solve(gram: F64, target: F64) -> F64:
    try:
        return np.asarray(np.linalg.solve(gram, target), np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.lstsq(gram, target, rcond=None)[0])
