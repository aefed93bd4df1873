"""Lines of JSON on standard error, which systemd keeps."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, TextIO

__all__ = ["Log"]


class Log:
    """``log("sampled", instructions=100000)``: one line, its time first.  ``to``: standard error
    unless given."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to

    def __call__(self, event: str, **values: Any) -> None:
        """Write a line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = json.dumps({"time": at, "event": event, **values}, default=str)
        print(line, file=self._to or sys.stderr, flush=True)
