"""Benchmarks import their peers from this folder and oracles from tests/.

``pytest --benchmark-only`` runs this folder alone and prints a table a subject (table.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def pytest_configure(config: pytest.Config) -> None:
    """Plain pytest runs each bench once, as a test; ``--benchmark-only`` times them."""
    if not config.getoption("benchmark_only", False):
        config.option.benchmark_disable = True
        return
    config.option.benchmark_quiet = True  # the tables below instead
    if config.args_source is config.ArgsSource.TESTPATHS:
        config.args = [str(HERE)]  # the tests would be collected to be skipped, one line each


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What times nothing is deselected, not skipped one by one."""
    if config.getoption("benchmark_only", False):
        timed = ["benchmark" in getattr(item, "fixturenames", ()) for item in items]
        config.hook.pytest_deselected(items=[i for i, t in zip(items, timed, strict=True) if not t])
        items[:] = [i for i, t in zip(items, timed, strict=True) if t]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    from table import plain

    session = getattr(config, "_benchmarksession", None)
    if session is None or not config.getoption("benchmark_only", False):
        return
    benches = [b.as_dict(include_data=False) for b in session.benchmarks if not b.has_error]
    for line in plain(benches):
        terminalreporter.write_line(line)
