"""Identifies the build of the core model, so that cached results of another build are not
reused."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from tracekit import _core

__all__ = ["cores_digest"]


@functools.cache
def cores_digest() -> str:
    """A hash of the code that walks: of the compiled extension and of this package's sources.

    It also changes with what else the extension has; arrays made again cost less than old cores'
    cycles among new ones.
    """
    out = hashlib.sha256()
    for path in (Path(_core.__file__), *sorted(Path(__file__).parent.glob("*.py"))):
        out.update(hashlib.sha256(path.read_bytes()).digest())
    return out.hexdigest()
