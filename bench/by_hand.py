"""What SciPy would cost in the place of two small modules that are written by hand: importing it,
solving by it, and how far its answers are.

    python bench/by_hand.py

It needs SciPy, which tracekit does not.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tracekit.evaluation.ranks import kendall, spearman
from tracekit.mixture.least_squares import nnls


def seconds(call: Callable[[], object], rounds: int = 9) -> float:
    """Median of ``rounds``."""
    out = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        out.append(time.perf_counter() - begin)
    return statistics.median(out)


def imported(what: str) -> float:
    """Seconds that a new process takes to import ``what`` beside NumPy."""
    command = [sys.executable, "-c", f"import numpy{what}"]
    return seconds(lambda: subprocess.run(command, check=True), 5)


def main() -> int:
    """Print both."""
    from scipy import optimize, stats

    plain = imported("")
    for module in ("scipy.optimize", "scipy.stats"):
        print(f"import {module}: {imported(', ' + module) - plain:.2f} s beside numpy")
    random = np.random.default_rng(0)
    cores = np.exp(random.normal(0, 1, (2000, 1)) + random.normal(0, 0.2, (2000, 46)))
    true = cores @ np.maximum(random.normal(0, 1, 46), 0) * random.normal(1, 0.05, 2000)
    own, theirs = nnls(cores, true), optimize.nnls(cores, true)[0]
    print(
        f"2000 x 46, x >= 0: by hand {1e3 * seconds(lambda: nnls(cores, true)):.1f} ms, SciPy "
        f"{1e3 * seconds(lambda: optimize.nnls(cores, true)):.1f} ms, apart by "
        f"{np.abs(own - theirs).max() / theirs.max():.0e} of the largest coefficient"
    )
    a, b = random.integers(0, 20, (2, 46)).astype(float)
    for name, hand, scipy in (
        ("spearman", spearman, stats.spearmanr),
        ("kendall", kendall, stats.kendalltau),
    ):
        print(
            f"{name} of 46, ties: by hand {1e6 * seconds(partial(hand, a, b), 99):.0f} us, SciPy "
            f"{1e6 * seconds(partial(scipy, a, b), 99):.0f} us, apart by "
            f"{abs(hand(a, b) - scipy(a, b).statistic):.0e}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
