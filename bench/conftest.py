"""Benchmarks import their peers from this folder and oracles from tests/."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def pytest_configure(config) -> None:
    """Plain pytest runs each bench once, as a test; ``--benchmark-only`` times them."""
    if not config.getoption("benchmark_only", False):
        config.option.benchmark_disable = True
