"""gem5's cycles of the shared traces (commits/ and x86/commits/) and its machines."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard
from gem5_exec import SHARED


def folder(arch: str) -> Path:
    """Where exec/ and commits/ of an instruction set are."""
    return SHARED if arch == "arm" else SHARED / arch


def machine(name: str) -> dict[str, Any]:
    """A machine's parameters."""
    path = SHARED / "machines" / f"{name}.json"
    if not path.exists():
        path = SHARED / "x86" / "machines" / f"{name}.json"
    return json.loads(path.read_text())


def machine_names(arch: str) -> list[str]:
    """The rows of every array of commits/."""
    return json.loads((folder(arch) / "commits" / "machines.json").read_text())


def commits(arch: str, program: str, machines: Sequence[str]) -> npt.NDArray[np.uint16]:
    """Cycles between retirements: uint16 [machines, rows]."""
    packed = (folder(arch) / "commits" / f"{program}.npy.zst").read_bytes()
    data = zstandard.ZstdDecompressor().stream_reader(packed).read()
    names = machine_names(arch)
    return np.load(io.BytesIO(data))[[names.index(m) for m in machines]]
