"""Peak memory of an extraction through a pipe: does it grow with the trace?

``python bench/memory.py [ROWS …]`` (default 1000000 20000000) prints a line each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPEAT = Path(__file__).with_name("repeat_trace.py")


def peak(rows: int) -> tuple[int, float]:
    """(peak resident bytes of the extracting process, seconds)."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        with subprocess.Popen(
            [sys.executable, str(REPEAT), str(rows)], stdout=subprocess.PIPE
        ) as text:
            command = [
                sys.executable,
                "-m",
                "tracekit",
                "extract",
                "-",
                "-o",
                f"{folder}/feats.zst",
                "--quiet",
            ]
            process = subprocess.Popen(command, stdin=text.stdout)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(process.returncode)
        return usage.ru_maxrss * 1024, time.monotonic() - start


if __name__ == "__main__":
    for n in [int(a) for a in sys.argv[1:]] or [1_000_000, 20_000_000]:
        size, seconds = peak(n)
        print(f"{n:>12,} rows: {size / 1e6:.0f} MB peak, {seconds:.0f} s")
