"""Devices that torch runs on, as options name them."""

from __future__ import annotations

import re
from typing import Any

from tracekit.errors import UsageError

__all__ = ["check_device"]


def check_device(torch: Any, device: str) -> str:
    """``device`` itself: cpu, cuda or cuda:N.

    Raises UsageError for what is none of them, and for a GPU that torch does not see.
    """
    found = re.fullmatch(r"cpu|cuda(?::(\d{1,4}))?", device)
    if not found:
        raise UsageError(f"device {device}: cpu, cuda or cuda:N")
    if device != "cpu":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise UsageError(f"device {device}: this torch sees no GPU", hint="--device cpu")
        if int(found[1] or 0) >= count:
            raise UsageError(f"device {device}: this torch sees {count} GPUs, from cuda:0 on")
    return device
