"""Identifies the build of the core of real processors and its tables, so that cached results of
another build are not reused."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from tracekit.sim import cores_digest

__all__ = ["hardware_digest"]


@functools.cache
def hardware_digest() -> str:
    """A hash of the code that walks (`tracekit.sim.cores_digest`), of this package's sources and of
    its instruction tables."""
    here = Path(__file__).parent
    out = hashlib.sha256(cores_digest().encode())
    for path in sorted([*here.rglob("*.py"), *here.rglob("*.json")]):
        out.update(hashlib.sha256(path.read_bytes()).digest())
    return out.hexdigest()
