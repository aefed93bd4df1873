"""The three sets that papers ask for: perfvec-ref, perfvec and neuroscalar (features.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import _core, schema
from tracekit.features.sets import Feature, FeatureSet, register

Array = npt.NDArray[Any]

_REF = np.array(_core.OP_CLASS_REF, np.float32)
_READ = schema.OP_CLASSES.index("MemRead")


def _flag(*names: str) -> Callable[[Any], Array]:
    return lambda t: np.logical_or.reduce([t.has(n) for n in names])


def _store(t: Any) -> Array:
    """Occupies the store queue and is neither a store-conditional nor an atomic."""
    out: Array = t.has("IsStore") & ~t.has("IsStoreConditional") & ~t.has("IsAtomic")
    return out


def _store_cond(t: Any) -> Array:
    out: Array = 1 * t.has("IsStoreConditional") + 2 * t.has("IsAtomic")
    return out


def _reg(kind: str, k: int, part: str) -> Callable[[Any], Array]:
    def value(t: Any) -> Array:
        cls = t.arrays[f"{kind}_class"][:, k]
        number = cls if part == "class" else t.arrays[f"{kind}_index"][:, k]
        return np.where(cls == 255, 0, number.astype(np.int64) + 1)

    return value


def _regs(kind: str, width: int) -> list[Feature]:
    return [
        Feature(f"{kind}{k}_{part}", static=_reg(kind, k, part))
        for k in range(width)
        for part in ("class", "index")
    ]


_PROPERTIES = (
    Feature("fault", column="fault"),
    Feature("op", static=lambda t: _REF[t.op] + 1),
    Feature("store", static=_store),
    Feature("load", static=lambda t: t.op == _READ),
    Feature("micro", static=_flag("IsMicroop")),
    Feature("cond", static=_flag("IsCondControl")),
    Feature("uncond", static=_flag("IsUncondControl")),
    Feature("direct", static=_flag("IsDirectControl")),
    Feature("squash_after", static=_flag("IsSquashAfter")),
    Feature("serialize_after", static=_flag("IsSerializeAfter")),
    Feature("serialize_before", static=_flag("IsSerializeBefore")),
    Feature("store_cond", static=_store_cond),
    Feature("read_barrier", static=_flag("IsReadBarrier")),
    Feature("write_barrier", static=_flag("IsWriteBarrier")),
    Feature("non_spec", static=_flag("IsNonSpeculative")),
    Feature("branching", column="taken"),
)
_OPERANDS = (*_regs("src", 8), *_regs("dst", 6))

PERFVEC_REF = register(
    FeatureSet(
        "perfvec-ref",
        1,
        (
            *_PROPERTIES,
            Feature("entropy_before", column="window_before"),
            Feature("entropy_now", column="window_now"),
            Feature("fetch_distance", column="fetch_distance"),
            Feature("is_mem", column="is_mem"),
            Feature("load_distance", column="load_distance_ref"),
            Feature("store_distance", column="store_distance_ref"),
            Feature("data_reuse", column="data_reuse"),
            *_OPERANDS,
        ),
    )
)

PERFVEC = register(
    FeatureSet(
        "perfvec",
        1,
        (
            *_PROPERTIES,
            Feature("entropy_local", column="p_local"),
            Feature("entropy_global", column="p_global"),
            Feature("fetch_distance", column="fetch_distance"),
            Feature("is_mem", column="is_mem"),
            Feature("load_distance", column="load_distance"),
            Feature("store_distance", column="store_distance"),
            Feature("data_distance", column="data_distance"),
            *_OPERANDS,
        ),
    )
)

#: Lowest bit and number of bits: each part is exact in a float32.
_PARTS = ((0, 22), (22, 22), (44, 20))


def _pc_part(shift: int, width: int) -> Callable[[Any], Array]:
    return lambda t: t.pc >> np.uint64(shift) & np.uint64((1 << width) - 1)


NEUROSCALAR = register(
    FeatureSet(
        "neuroscalar",
        1,
        (
            *(Feature(f"pc{k}", static=_pc_part(s, w)) for k, (s, w) in enumerate(_PARTS)),
            Feature("op", static=lambda t: t.op + 1.0),
            *(Feature(f"addr{k}", column="addr", bits=part) for k, part in enumerate(_PARTS)),
            *_regs("src", 2),
            *_regs("dst", 1),
        ),
    )
)
