"""Weights in the order in which the tiles read them (emit.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "GROUP",
    "aligned",
    "bf16_bits",
    "group_count",
    "pack",
    "pack_rows",
    "quantize_rows",
    "round_bf16",
    "round_up",
]

Array = NDArray[Any]
# Elements in a group of four bytes, and the NumPy type of a weight, for each kind of product.
GROUP = {"f32": 1, "bf16": 2, "i16": 2, "u8": 4}
WEIGHT = {"f32": np.float32, "bf16": np.uint16, "i16": np.int16, "u8": np.int8}


def round_up(n: int, step: int) -> int:
    """The least multiple of step that is not below n."""
    return -(-n // step) * step


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros that start at a cache line, so that whole vectors never cross one."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    out: Array = raw[skip : skip + size].view(dtype).reshape(shape)
    return out


def bf16_bits(x: Array) -> Array:
    """The upper halves of float32, rounded to nearest, ties to even; uint16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    out: Array = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return out


def round_bf16(x: Array) -> Array:
    """float32 values that bfloat16 can hold."""
    out: Array = (bf16_bits(x).astype(np.uint32) << 16).view(np.float32)
    return out


def group_count(width: int, kind: str) -> int:
    """Groups of a row of so many inputs."""
    return -(-width // GROUP[kind])


def quantize_rows(weight: Array) -> tuple[Array, Array]:
    """int8 [rows, in] and float32 scale [rows]: the largest of a row becomes 127."""
    largest = np.abs(weight).max(axis=1).astype(np.float64)
    scale = np.where(largest > 0, largest / 127, 1.0)
    return np.rint(weight / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def pack(weight: Array, kind: str, lanes: int, vectors: int, gates: int = 1) -> Array:
    """[gates · units, in] as [panel][group][vector][lane][element], a panel's bytes contiguous.

    With gates the vectors of a panel are the gates of ``lanes`` units; without, they are
    ``vectors`` times ``lanes`` successive outputs.  Missing outputs and inputs are zero.
    """
    each, per = GROUP[kind], lanes if gates > 1 else lanes * vectors
    units, width = weight.shape[0] // gates, weight.shape[1]
    panels, groups = -(-units // per), group_count(width, kind)
    full = np.zeros((gates, panels * per, groups * each), WEIGHT[kind])
    full[:, :units, :width] = weight.reshape(gates, units, width)
    if gates > 1:
        split = full.reshape(gates, panels, lanes, groups, each).transpose(1, 3, 0, 2, 4)
    else:
        split = full.reshape(panels, vectors, lanes, groups, each).transpose(0, 3, 1, 2, 4)
    out = aligned(split.shape, WEIGHT[kind])
    out[...] = split
    return out.reshape(panels, -1)


def pack_rows(values: Array, lanes: int, gates: int) -> Array:
    """[gates · units] as float32 [panel][gate][lane], zeros where there is no unit."""
    units = len(values) // gates
    padded = round_up(units, lanes)
    full = np.zeros((gates, padded), np.float32)
    full[:, :units] = values.reshape(gates, units)
    out = aligned((padded // lanes, gates, lanes), np.float32)
    out[...] = full.reshape(gates, padded // lanes, lanes).transpose(1, 0, 2)
    return out
