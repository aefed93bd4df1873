"""The compiled tiles: LSTM steps and linear layers, one variant for each target and number format.

All addresses are integers and all strides are in bytes; callers keep the arrays alive and padded
(linear.py, lstm.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tracekit.infer.alternate import set_at
from tracekit.infer.compiled import compiled
from tracekit.infer.emit import (
    COARSE,
    PRECISE,
    SIZE,
    Copy,
    Product,
    Target,
    emit_gather_tile,
    emit_linear_tile,
    emit_lstm_tile,
)

__all__ = ["TARGETS", "Kernel", "gather_kernel", "linear_kernel", "lstm_kernel"]

Kernel = Callable[..., Any]
# The number of rows is what the registers hold: rows x 4 accumulators, 4 weights, 1 activation.
TARGETS = {
    "avx512": Target("avx512", 16, 6),
    "avx2": Target("avx2", 8, 3),
    "portable": Target("portable", 4, 3),
}


@functools.cache
def lstm_kernel(
    target: Target,
    recurrent: Product,
    direct: Product,
    apart: Product | None,
    stored: str,
    joint: bool,
    copy: Copy,
) -> Kernel:
    """``run(...)`` over steps x rows x units of one LSTM layer.

    h is a history of steps + 1 slots, of which the first holds the state before; new states go to
    the slots after it.  ``stored`` is its format (emit.Emitter.store_as).  Step t has the weights
    and biases of ``alternate.set_at(at + turn · t)``, sets ``each`` and ``apiece`` bytes apart.
    """
    ratio = PRECISE if stored == "f32" else COARSE

    @intrinsic
    def tile(  # type: ignore[no-untyped-def]
        typing, h, ldh, kh, x, ldx, kx, y, ldy, ky, w, bias, scale, c, ldc, out, ldo, outf, ldf,
        rest,
    ):  # fmt: skip
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            products = recurrent, direct, apart
            emit_lstm_tile(builder, target, *products, stored, args, ratio, joint, copy)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 19), generate

    lanes, tile_rows, size = target.lanes, target.rows, SIZE[stored]
    beside = SIZE[copy.format or "f32"]

    @compiled(f"lstm {target} {recurrent} {direct} {apart} {stored} {joint} {copy}")
    def run(  # type: ignore[no-untyped-def]
        steps, rows, units, h, ldh, sth, kh, x, ldx, stx, kx, y, ldy, sty, ky,
        w, panel, bias, scale, c, ldc, outf, ldf, stf, rest, at, turn, each, apiece,
    ):  # fmt: skip
        for t in range(steps):
            now = h + t * sth
            k = set_at(at + turn * t)
            # the panel of weights stays in the second-level cache while the rows pass by
            for p in range(units // lanes):
                for r in range(0, rows, tile_rows):
                    tile(
                        now + r * ldh, ldh, kh,
                        x + t * stx + r * ldx, ldx, kx,
                        y + t * sty + r * ldy, ldy, ky,
                        w + k * each + p * panel,
                        bias + k * apiece + p * lanes * 16,
                        scale + p * lanes * 32,
                        c + r * ldc + p * lanes * 4, ldc,
                        now + sth + r * ldh + p * lanes * size, ldh,
                        outf + t * stf + r * ldf + p * lanes * beside, ldf,
                        rest + r * ldc + p * lanes * 4,
                    )  # fmt: skip

    return run


@functools.cache
def linear_kernel(target: Target, product: Product, vectors: int, stored: str = "f32") -> Kernel:
    """``run(...)`` over rows of inputs and panels of ``vectors`` x lanes outputs."""

    @intrinsic
    def tile(typing, x, ldx, kx, w, bias, scale, out, ldo, inverse):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            emit_linear_tile(builder, target, product, vectors, stored, args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), generate

    per, tile_rows = target.lanes * vectors * 4, target.rows
    out_per = target.lanes * vectors * SIZE[stored]

    @compiled(f"linear {target} {product} {vectors} {stored}")
    def run(  # type: ignore[no-untyped-def]
        count, panels, x, ldx, kx, w, panel, bias, scale, out, ldo, inverse
    ):
        # groups of rows whose inputs stay in the first-level cache while the panels pass by
        for r in range(0, count, tile_rows):
            for p in range(panels):
                tile(
                    x + r * ldx, ldx, kx,
                    w + p * panel, bias + p * per, scale + p * per,
                    out + r * ldo + p * out_per, ldo, inverse,
                )  # fmt: skip

    return run


@functools.cache
def gather_kernel(target: Target, stored: str) -> Kernel:
    """``run(...)``: out[t, r] from row first[r] + t of the features, in the format that the first
    layer reads; zeros before the trace and behind it."""

    @intrinsic
    def tile(typing, x, count, mean, inverse, clip, out):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
            emit_gather_tile(builder, target, stored, args)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    @compiled(f"gather {target} {stored}")
    def run(  # type: ignore[no-untyped-def]
        features, rows, columns, first, steps, mean, inverse, clip, out, ldo, sto, block
    ):
        for r in range(len(first)):
            for t in range(steps):
                i = first[r] + t
                if i < 0 or i >= rows:
                    block[t, r] = 0
                else:
                    row, to = features + i * columns * 4, out + t * sto + r * ldo
                    tile(row, columns, mean, inverse, clip, to)

    return run
