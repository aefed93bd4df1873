"""The loops around the tiles: features in, results out, and the layers that need no tile.

Blocks are float32 [steps, rows, width]: rows are chunks of the trace side by side, steps are
successive instructions of each.  ``first[r]`` is the index into the features of row r's step 0.
"""

from __future__ import annotations

import math

import numpy as np

from tracekit.infer.compiled import compiled
from tracekit.infer.functions import fast_exp, fast_expm1, fast_sigmoid, fast_tanh

__all__ = [
    "add_block", "add_to_sums", "choose_head", "copy_block", "gather_bits", "gather_embedding",
    "gather_taps", "gather_values", "gru_step", "layer_norm", "mingru_scan", "read_distribution",
    "scatter", "to_bf16", "to_rounded", "to_signed", "to_u8",
]  # fmt: skip

F = np.float32
ZERO, HALF, ONE = F(0.0), F(0.5), F(1.0)
LARGEST = F(3.4e38)


@compiled()
def gather_values(  # type: ignore[no-untyped-def]
    features, first, steps, columns, logs, mean, inverse, clip, places, out
):
    """Standardised columns: out[t, r, places[j]] from features[first[r] + t, columns[j]]."""
    n = len(features)
    count = len(columns)
    for r in range(len(first)):
        for t in range(steps):
            i = first[r] + t
            target = out[t, r]
            if i < 0 or i >= n:
                for j in range(count):
                    target[places[j]] = ZERO
                continue
            row = features[i]
            for j in range(count):
                v = row[columns[j]]
                v = v if abs(v) <= LARGEST else ZERO  # nothing that check_finite lets pass
                if logs[j]:
                    v = F(math.log1p(max(v, ZERO)))
                v = (v - mean[j]) * inverse[j]
                target[places[j]] = min(max(v, -clip[j]), clip[j])


@compiled()
def gather_embedding(  # type: ignore[no-untyped-def]
    features, first, steps, column, edges, table, place, out
):
    """Rows of a table: by the value itself, or by the number of edges that are ≤ it."""
    n, last = len(features), len(table) - 1
    for r in range(len(first)):
        for t in range(steps):
            i = first[r] + t
            index = 0
            if 0 <= i < n:
                v = features[i, column]
                if len(edges):
                    index = np.searchsorted(edges, v if v == v else ZERO, side="right")
                elif v > ZERO:
                    index = last if v >= last else int(v)
            for j in range(table.shape[1]):
                out[t, r, place + j] = table[index, j]


@compiled()
def gather_bits(features, first, steps, column, bits, place, out):  # type: ignore[no-untyped-def]
    """The low bits of a whole number, lowest first, as 0 or 1."""
    n = len(features)
    for r in range(len(first)):
        for t in range(steps):
            i = first[r] + t
            v = features[i, column] if 0 <= i < n else ZERO
            whole = int(v) if abs(v) < F(1 << 62) else 0
            for j in range(bits):
                out[t, r, place + j] = F((whole >> j) & 1)


@compiled()
def scatter(block, first, low, high, steps, out, base):  # type: ignore[no-untyped-def]
    """out[i - base] = block[t, r] for the rows' steps i = first[r] + t from low[r] to high[r]."""
    width = out.shape[1]
    for r in range(len(first)):
        for t in range(steps):
            i = first[r] + t
            if low[r] <= i < high[r]:
                for j in range(width):
                    out[i - base, j] = block[t, r, j]


@compiled()
def add_to_sums(block, first, low, high, steps, bounds, place, sums):  # type: ignore[no-untyped-def]
    """sums[p] += block[t, r] where piece p, from bounds[p] to bounds[p + 1], holds step i.

    ``place[r]`` is the piece that row r has reached.  A piece lies within one chunk, so it is added
    up by one row in the order of the trace, whatever else runs beside it.
    """
    width = sums.shape[1]
    for r in range(len(first)):
        p = place[r]
        for t in range(steps):
            i = first[r] + t
            if i < low[r] or i >= high[r] or i < bounds[0] or i >= bounds[-1]:
                continue
            while bounds[p + 1] <= i:
                p += 1
            for j in range(width):
                sums[p, j] += block[t, r, j]
        place[r] = p


@compiled("two_way", reassociate=True)
def choose_head(  # type: ignore[no-untyped-def]
    block, steps, rows, hidden, weight, bias, cap, count, out
):
    """NeuroScalar's readout: block holds fc1's outputs, then the short heads', then the long ones'.

    weight and bias are the difference of the classifier's two logits, long minus short.
    """
    for t in range(steps):
        for r in range(rows):
            v = block[t, r]
            logit = bias
            for j in range(hidden):
                logit += weight[j] * max(v[j], ZERO)
            at = hidden + (count if logit > ZERO else 0)
            for j in range(count):
                out[t, r, j] = min(max(fast_expm1(v[at + j]), ZERO), cap)


@compiled()
def read_distribution(  # type: ignore[no-untyped-def]
    block, steps, rows, exact, scale, cap, kind, out
):
    """Cycles from the logits of 0 to exact - 1 cycles and of more, for each target, and behind them
    the logarithms of what is more.  kind: READOUTS of tracekit.model.spec by number."""
    count, width = len(scale), exact + 1
    for t in range(steps):
        for r in range(rows):
            v = block[t, r]
            for m in range(count):
                at, best = m * width, 0
                for k in range(1, width):
                    if v[at + k] > v[at + best]:
                        best = k
                top, total, expected, upto = v[at + best], ZERO, ZERO, ZERO
                for k in range(width):
                    share = fast_exp(v[at + k] - top)
                    total += share
                    expected += F(k) * share if k < exact else ZERO
                long = min(max(fast_expm1(v[count * width + m]), F(exact)), cap)
                if kind == 2:
                    share = fast_exp(v[at + exact] - top)
                    out[t, r, m] = (expected + share * long * scale[m]) / total
                    continue
                if kind == 0:
                    best = -1
                    while upto < HALF * total and best < exact:
                        best += 1
                        upto += fast_exp(v[at + best] - top)
                out[t, r, m] = long if best == exact else F(best)


@compiled()
def copy_block(source, steps, rows, width, out):  # type: ignore[no-untyped-def]
    """out = source."""
    for t in range(steps):
        for r in range(rows):
            for j in range(width):
                out[t, r, j] = source[t, r, j]


@compiled()
def add_block(source, steps, rows, width, out):  # type: ignore[no-untyped-def]
    """out += source."""
    for t in range(steps):
        for r in range(rows):
            for j in range(width):
                out[t, r, j] += source[t, r, j]


@compiled()
def to_bf16(bits, steps, rows, width, out):  # type: ignore[no-untyped-def]
    """float32 (its bits, uint32) to bfloat16 (uint16), to nearest, ties to even."""
    for t in range(steps):
        for r in range(rows):
            for j in range(width):
                v = bits[t, r, j]
                odd = (v >> np.uint32(16)) & np.uint32(1)
                out[t, r, j] = np.uint16((v + odd + np.uint32(0x7FFF)) >> np.uint32(16))


@compiled()
def to_rounded(bits, steps, rows, width, out):  # type: ignore[no-untyped-def]
    """float32 rounded to what bfloat16 can hold, both as uint32 bits."""
    for t in range(steps):
        for r in range(rows):
            for j in range(width):
                v = bits[t, r, j]
                odd = (v >> np.uint32(16)) & np.uint32(1)
                out[t, r, j] = (v + odd + np.uint32(0x7FFF)) & np.uint32(0xFFFF0000)


@compiled()
def to_signed(block, steps, rows, width, inverse, out):  # type: ignore[no-untyped-def]
    """round(x / scale) in ±127, as int16 or as float32 that holds the whole number."""
    for t in range(steps):
        for r in range(rows):
            for j in range(width):
                v = min(max(block[t, r, j] * inverse, F(-127.0)), F(127.0))
                out[t, r, j] = (v + F(12582912.0)) - F(12582912.0)


@compiled()
def to_u8(block, steps, rows, width, inverse, out):  # type: ignore[no-untyped-def]
    """round(x / scale) + 128, from 1 to 255."""
    for t in range(steps):
        for r in range(rows):
            for j in range(width):
                v = min(max(block[t, r, j] * inverse, F(-127.0)), F(127.0))
                out[t, r, j] = np.uint8(np.int32((v + F(12582912.0)) - F(12582912.0)) + 128)


@compiled()
def layer_norm(block, steps, rows, width, weight, bias, eps, out):  # type: ignore[no-untyped-def]
    """(x - mean) / sqrt(variance + eps) · weight + bias over the width, moments in float64."""
    for t in range(steps):
        for r in range(rows):
            v = block[t, r]
            mean = 0.0
            for j in range(width):
                mean += v[j]
            mean /= width
            variance = 0.0
            for j in range(width):
                variance += (v[j] - mean) ** 2
            scale = F(1.0 / math.sqrt(variance / width + eps))
            shift = F(mean)
            for j in range(width):
                out[t, r, j] = (v[j] - shift) * scale * weight[j] + bias[j]


@compiled()
def gather_taps(history, steps, rows, width, kernel, dilation, out):  # type: ignore[no-untyped-def]
    """Side by side, for each step, the inputs that a causal convolution sees, oldest first.

    history[:(kernel - 1)·dilation] are the steps before this block.
    """
    for t in range(steps):
        for r in range(rows):
            for k in range(kernel):
                row = history[t + k * dilation, r]
                for j in range(width):
                    out[t, r, k * width + j] = row[j]


@compiled()
def gru_step(direct, recurrent, rows, hidden, state, out):  # type: ignore[no-untyped-def]
    """One step of torch's GRU: both products (with biases) are there, gates r, z, n."""
    for r in range(rows):
        x, u, h, y = direct[r], recurrent[r], state[r], out[r]
        for j in range(hidden):
            reset = fast_sigmoid(x[j] + u[j])
            keep = fast_sigmoid(x[hidden + j] + u[hidden + j])
            new = fast_tanh(x[2 * hidden + j] + reset * u[2 * hidden + j])
            h[j] = new + keep * (h[j] - new)
            y[j] = h[j]


@compiled()
def mingru_scan(block, steps, rows, hidden, state, out):  # type: ignore[no-untyped-def]
    """h = h + sigmoid(z) (c - h) along the steps; block holds z, then c."""
    for t in range(steps):
        for r in range(rows):
            x, h, y = block[t, r], state[r], out[t, r]
            for j in range(hidden):
                h[j] = h[j] + fast_sigmoid(x[j]) * (x[hidden + j] - h[j])
                y[j] = h[j]
