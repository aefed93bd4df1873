"""How the rows of one feature set are put together for one file: decided once, run chunk by
chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import schema
from tracekit.features import _assemble
from tracekit.features.sets import FeatureSet, entropy_nats

F32 = npt.NDArray[np.float32]

#: Rows that are filled at once: the block stays in a core's own cache while its columns are
#: written.
_BLOCK = 2048

_WINDOW_ENTROPY = entropy_nats(np.arange(17) / 16).astype(np.float32)


def _probability_entropy(kind: str) -> Callable[[npt.NDArray[np.float32]], F32]:
    def of(p: npt.NDArray[np.float32]) -> F32:
        out = np.zeros(len(p), np.float32)
        at = np.flatnonzero(p)
        q = p[at].astype(np.float64)
        values = entropy_nats(q) / np.log(2) if kind == "bits" else 2 * np.minimum(q, 1 - q)
        out[at] = values
        return out

    return of


class Plan:
    def __init__(self, spec: FeatureSet, statics: Any, entropy: str) -> None:
        self._table: F32 = np.zeros((len(statics), len(spec.columns)), np.float32)
        # (stored column or function of the chunk, what puts a block of it into out)
        self._dynamic: list[tuple[Callable[[Any], Any], Callable[[Any, F32], None]]] = []
        for k, f in enumerate(spec.features):
            if f.static is not None:
                self._table[:, k] = f.static(statics)
            elif f.dynamic is not None:
                self._dynamic.append((_computed(f.dynamic), _put(k)))
            else:
                assert f.column is not None
                self._dynamic.append(_stored(f.column, k, entropy))

    def fill(self, chunk: Any, begin: int, end: int, out: F32) -> None:
        """Rows [begin, end) of the chunk."""
        ids = chunk.column("static_id")
        values = [(get(chunk), put) for get, put in self._dynamic]
        for a in range(begin, end, _BLOCK):
            b = min(a + _BLOCK, end)
            block = out[a - begin : b - begin]
            _assemble.gather(self._table, ids[a:b], block)
            for v, put in values:
                put(v[a:b], block)


def _put(k: int) -> Callable[[Any, F32], None]:
    return lambda v, out: _assemble.put(v, out, k)


def _computed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda chunk: np.ascontiguousarray(function(chunk), np.float32)


def _stored(
    name: str, k: int, entropy: str
) -> tuple[Callable[[Any], Any], Callable[[Any, F32], None]]:
    if name in schema.BITS:
        mask = schema.BITS[name][0]
        return _column("bits"), lambda v, out: _assemble.put_bit(v, mask, out, k)
    if name.startswith("window_"):
        return _column(name), lambda v, out: _assemble.put_lookup(v, _WINDOW_ENTROPY, out, k)
    if name.startswith("p_"):
        of = _probability_entropy(entropy)
        return _column(name), lambda v, out: _assemble.put(of(v), out, k)
    if name.startswith("addr>>"):
        shift, width = (int(x) for x in name[6:].split("&"))
        mask = (1 << width) - 1
        return _column("addr"), lambda v, out: _assemble.put_bits_of(v, shift, mask, out, k)
    return _column(name), _put(k)


def _column(name: str) -> Callable[[Any], Any]:
    return lambda chunk: chunk.column(name)
