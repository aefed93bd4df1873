"""Which processor this is, and which known machine is nearest to it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tracekit.hardware.measure.library import isa

__all__ = ["cpu_name", "nearest_machine"]

#: Vendor, family, models -> known machine; the first that fits.
_X86 = (
    ("AuthenticAMD", 26, range(256), "zen5"),
    ("AuthenticAMD", 25, (*range(0x10, 0x20), *range(0x60, 0xB0)), "zen4"),
    ("AuthenticAMD", 25, range(256), "zen3"),
    ("AuthenticAMD", 23, range(256), "zen3"),
    ("GenuineIntel", 6, (143, 207, 173, 174), "sapphire_rapids"),
    ("GenuineIntel", 6, (106, 108, 125, 126, 140, 141, 167), "icelake"),
    ("GenuineIntel", 6, range(256), "skylake"),
)
#: Arm's part numbers.
_ARM = {0xD0C: "neoverse_n1", 0xD49: "neoverse_n2", 0xD4F: "neoverse_v2", 0xD8E: "neoverse_n2"}


def _fields() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return {}
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def cpu_name() -> str:
    """This processor as the system names it, with family and model."""
    f = _fields()
    if "cpu family" in f:
        name = f.get("model name", f.get("vendor_id", "x86-64"))
        return f"{name} (family {f['cpu family']}, model {f.get('model', '?')})"
    if "CPU part" in f:
        return f"implementer {f.get('CPU implementer', '?')}, part {f['CPU part']}"
    return os.uname().machine


def nearest_machine() -> tuple[str, str | None]:
    """The known machine that is this processor or nearest to it, and a note where it is another."""
    f = _fields()
    if isa() == "x86":
        family, model = (int(f.get(k, "0") or 0) for k in ("cpu family", "model"))
        for vendor, fam, models, name in _X86:
            if f.get("vendor_id") == vendor and fam == family and model in models:
                relative = (vendor, family) == ("AuthenticAMD", 23) or (
                    name == "skylake" and model not in (78, 85, 94, 142, 158, 165, 166)
                )
                return name, _note(name) if relative else None
        return "skylake", _note("skylake")
    part = int(re.sub(r"[^0-9a-fx]", "", f.get("CPU part", "0")) or "0", 16)
    if part in _ARM and f.get("CPU implementer", "").lower() == "0x41":
        return _ARM[part], None if part != 0xD8E else _note("neoverse_n2")
    return "neoverse_n2", _note("neoverse_n2")


def _note(name: str) -> str:
    return f"no known machine is this processor: what was not measured is {name}'s"
