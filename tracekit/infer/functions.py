"""Elementwise functions in float32 that LLVM can turn into vector code.

Each is within a few units in the last place of NumPy's; no libm call stands in the way of vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tracekit.infer.compiled import compiled
from tracekit.infer.emit import PRECISE

__all__ = ["apply_activation", "fast_expm1", "fast_sigmoid", "fast_tanh"]

F = np.float32
LIMIT = F(PRECISE[0])
OVER = tuple(F(a) for a in reversed(PRECISE[1]))
UNDER = tuple(F(b) for b in reversed(PRECISE[2]))
ZERO, ONE, TWO = F(0.0), F(1.0), F(2.0)
LOG2E, LN2_HIGH, LN2_LOW = F(1.4426950408889634), F(0.693359375), F(-2.12194440e-4)
ROUND = F(12582912.0)  # adding and subtracting 1.5 · 2^23 rounds to a whole number
E2, E3, E4, E5, E6 = (F(1 / n) for n in (2, 6, 24, 120, 720))
E7 = F(1 / 5040)
L3, L5, L7, L9, L11, L13 = (F(1 / n) for n in (3, 5, 7, 9, 11, 13))
LOWEST, HIGHEST = F(-87.0), F(88.0)


@intrinsic
def float_of_bits(typing, bits):  # type: ignore[no-untyped-def]
    """The float32 with these 32 bits."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@compiled()
def fast_tanh(x):  # type: ignore[no-untyped-def]
    """tanh within 6e-7, the rational function of the LSTM tiles."""
    x = min(max(x, -LIMIT), LIMIT)
    s = x * x
    over = under = ZERO
    for a in OVER:
        over = over * s + a
    for b in UNDER:
        under = under * s + b
    return x * over / under


@compiled()
def fast_exp(x):  # type: ignore[no-untyped-def]
    """eˣ, relative error 2e-7; x is clamped to where the result is a normal number."""
    x = min(max(x, LOWEST), HIGHEST)
    n = (x * LOG2E + ROUND) - ROUND
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    p = E7
    for a in (E6, E5, E4, E3, E2, ONE, ONE):
        p = p * r + a
    return p * float_of_bits((np.int32(n) + np.int32(127)) << np.int32(23))


@compiled()
def fast_sigmoid(x):  # type: ignore[no-untyped-def]
    """1 / (1 + e⁻ˣ)."""
    return ONE / (ONE + fast_exp(-x))


@compiled()
def fast_expm1(x):  # type: ignore[no-untyped-def]
    """eˣ - 1; a series near 0, where the difference would cancel."""
    p = E7
    for a in (E6, E5, E4, E3, E2, ONE):
        p = p * x + a
    return p * x if abs(x) < F(0.3) else fast_exp(x) - ONE


@compiled()
def fast_softplus(x):  # type: ignore[no-untyped-def]
    """ln(1 + eˣ) = max(x, 0) + 2 atanh(y / (2 + y)), y = e^-|x|."""
    y = fast_exp(-abs(x))
    s = y / (TWO + y)
    q = s * s
    p = L13
    for a in (L11, L9, L7, L5, L3, ONE):
        p = p * q + a
    return max(x, ZERO) + TWO * s * p


@compiled()
def apply_activation(kind, block, steps, rows, width, out):  # type: ignore[no-untyped-def]
    """out = function(block), elementwise; kind is the index in spec.ACTIVATIONS."""
    for t in range(steps):
        for r in range(rows):
            v, y = block[t, r], out[t, r]
            if kind == 0:
                for j in range(width):
                    y[j] = max(v[j], ZERO)
            elif kind == 1:
                for j in range(width):
                    y[j] = fast_softplus(v[j])
            elif kind == 2:
                for j in range(width):
                    y[j] = fast_sigmoid(v[j])
            elif kind == 3:
                for j in range(width):
                    y[j] = fast_tanh(v[j])
            elif kind == 4:
                for j in range(width):
                    y[j] = v[j] * fast_sigmoid(v[j])
            elif kind == 5:
                for j in range(width):
                    y[j] = fast_expm1(v[j])
            else:
                for j in range(width):
                    y[j] = fast_exp(v[j])
