"""How the rows of one feature set are put together for one file: decided once, run chunk by
chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import schema
from tracekit.errors import TracekitError, UsageError
from tracekit.features import _assemble
from tracekit.features.sets import FeatureSet, entropy_nats

F32 = npt.NDArray[np.float32]

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


#: Puts the values of rows [begin, end) of a chunk into an assembly.
_Step = Callable[[Any, int, int, _assemble.Assembly], None]


class Plan:
    """How the features of a set are assembled from a file's columns."""

    def __init__(self, spec: FeatureSet, statics: Any, entropy: str) -> None:
        self._table: F32 = np.zeros((len(statics), len(spec.columns)), np.float32)
        self._steps: list[_Step] = []
        for k, f in enumerate(spec.features):
            what = f"feature {f.name} of the set {spec.name}"
            if f.static is not None:
                self._table[:, k] = _values(what, f.static, statics, len(statics))
            elif f.dynamic is not None:
                self._steps.append(_computed(what, f.dynamic, k))
            else:
                assert f.column is not None
                self._steps.append(_stored(f.column, f.bits, k, entropy))

    def rows(self, chunk: Any, begin: int, end: int) -> _assemble.Assembly:
        """Rows [begin, end) of the chunk, decoded: ``take`` puts windows of them together."""
        out = _assemble.Assembly(self._table, chunk.column("static_id")[begin:end])
        for step in self._steps:
            step(chunk, begin, end, out)
        return out

    def fill(self, chunk: Any, begin: int, end: int, out: F32) -> None:
        """Rows [begin, end) of the chunk."""
        self.rows(chunk, begin, end).take(np.zeros(1, np.int64), out[None])


def _values(what: str, function: Callable[[Any], Any], of: Any, count: int) -> F32:
    """What a set's function gives, one number for each of ``count``; UsageError where it does
    not."""
    try:
        values = np.asarray(function(of), np.float32)
    except TracekitError:
        raise
    except Exception as e:  # somebody else's function
        raise UsageError(f"{what}: {type(e).__name__}: {e}") from e
    if values.shape != (count,):
        raise UsageError(f"{what}: its function gives shape {values.shape}; ({count},) is needed")
    return values


def _computed(what: str, function: Callable[[Any], Any], k: int) -> _Step:
    def put(chunk: Any, begin: int, end: int, out: _assemble.Assembly) -> None:
        values = _values(what, function, chunk, chunk.rows)
        out.put(np.ascontiguousarray(values[begin:end]), k)

    return put


def _stored(name: str, bits: tuple[int, int] | None, k: int, entropy: str) -> _Step:
    stored = "bits" if name in schema.BITS else name
    put: Callable[[Any, _assemble.Assembly], None]
    if name in schema.BITS:
        mask = schema.BITS[name][0]
        put = lambda v, out: out.put_bit(v, mask, k)  # noqa: E731
    elif name.startswith("window_"):
        put = lambda v, out: out.put_lookup(v, _WINDOW_ENTROPY, k)  # noqa: E731
    elif name.startswith("p_"):
        of = _probability_entropy(entropy)
        put = lambda v, out: out.put(of(v), k)  # noqa: E731
    elif bits is not None:
        first, count = bits
        put = lambda v, out: out.put_bits_of(v, first, (1 << count) - 1, k)  # noqa: E731
    else:
        put = lambda v, out: out.put(v, k)  # noqa: E731
    return lambda chunk, begin, end, out: put(chunk.column(stored)[begin:end], out)
