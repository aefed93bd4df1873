"""``@compiled(variant)``: Numba's njit without the GIL, cached under a key that cannot go stale.

Numba's own cache looks at one source file's time stamp.  Kernels here are closures over intrinsics
whose IR comes from other files, so the key is a digest of all sources of this package, with the
variant's name, the signature, and the CPU (which Numba adds).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

__all__ = ["compiled"]

Function = Callable[..., Any]


@functools.cache
def _digest() -> str:
    out = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        out.update(path.read_bytes())
    return out.hexdigest()


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's on-disk cache, keyed by the package's sources and the variant."""

    def __init__(self, function: Callable[..., Any], variant: str) -> None:
        super().__init__(function)
        self._variant = variant

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (sig, codegen.magic_tuple(), self._variant, _digest())


def compiled(variant: str = "", reassociate: bool = False) -> Callable[[Function], Function]:
    """Compile at the first call of each signature, or load what an earlier process compiled.

    ``reassociate`` lets sums be split over lanes: another order, but one for all rows alike.
    """
    relaxed = {"reassoc", "contract"} if reassociate else False

    def decorate(function: Function) -> Function:
        dispatcher = numba.njit(nogil=True, error_model="numpy", fastmath=relaxed)(function)
        # where no folder can be written, every process compiles for itself
        with contextlib.suppress(RuntimeError):
            dispatcher._cache = _Cache(function, variant)
        return dispatcher  # type: ignore[no-any-return]

    return decorate
