"""LLVM IR of the matrix tiles: rows x vectors of accumulators that never leave their registers.

A tile multiplies R rows of activations with a panel of weights and finishes what it computed (the
LSTM's gates, or a bias) before anything is stored.  Activations are read as groups of four bytes
(one float32, two bfloat16 or int16, four uint8) that are broadcast; a panel holds, for each group,
its vectors one after another: w[group][vector][lane][element of the group].

Numba has no vector types, so these functions build the IR that an ``@intrinsic`` returns
(kernels.py).  Sizes and strides are run-time arguments, in bytes; the shapes of the tile are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

__all__ = [
    "SIZE", "WHOLE", "Product", "Target", "emit_gather_tile", "emit_linear_tile", "emit_lstm_tile",
]  # fmt: skip

F32, I8, I16, I32, I64 = ir.FloatType(), *(ir.IntType(n) for n in (8, 16, 32, 64))
Value = Any
Rows = list[list[Value]]
# bytes of an element of each format in which activations are kept
SIZE = {"f32": 4, "f32bf16": 4, "f32int8": 4, "bf16": 2, "i16": 2, "u8": 1}
DEPTH = 6  # rows whose gates are finished side by side
AHEAD = 8  # rows whose features are on their way
DONE = object()
LARGEST = 3.4e38
WHOLE = ("u8", "i16", "f32int8")  # formats of whole numbers
MAGIC = 12582912.0  # 1.5 · 2^23 has a unit of 1: adding it rounds, and the low bits are the integer

# tanh(x) = x P(x²)/Q(x²), clamped: the limit, P and Q, fitted for the least largest error.
# PRECISE: within 4.2e-7, and 5.4e-7 as float32 computes it.  COARSE: within 1.5e-5, relatively, and
# 1 at the limit: gates of trained models are closed or open for long, and a gate that is open all
# but 5e-5 moved totals further than the rounding to bfloat16 did.
Ratio = tuple[float, tuple[float, ...], tuple[float, ...]]
PRECISE: Ratio = (
    8.0,
    (0.999999064887, 0.126997705694, 0.00268448375638, 7.08336212834e-06, -6.01983350327e-09),
    (1.0, 0.460327632673, 0.0227973418938, 0.000195297592009),
)
COARSE: Ratio = (
    6.5,
    (0.9999852007728975, 0.11347097028050922, 0.0014292071849075993),
    (1.0, 0.44671076278371585, 0.01710129643224429, 5.097414287805162e-05),
)


@dataclass(frozen=True)
class Product:
    """One matrix product: the kind of its operands, and whether a scale follows it."""

    kind: str  # f32, bf16, u8 (times int8) or i16
    scaled: bool = False  # quantised: the sum is multiplied by a scale for each output


@dataclass(frozen=True)
class Copy:
    """How h is stored once more, for a reader that is not an LSTM."""

    format: str = ""  # none: not at all
    rectified: bool = False  # as max(h, 0)


@dataclass(frozen=True)
class Target:
    """Shape of the tiles for an instruction set."""

    isa: str  # avx512, avx2 or portable
    lanes: int  # float32 in a vector
    rows: int  # rows of a tile

    @property
    def floats(self) -> ir.VectorType:
        """A vector of float32, one for each lane."""
        return ir.VectorType(F32, self.lanes)

    @property
    def ints(self) -> ir.VectorType:
        """A vector of int32, one for each lane."""
        return ir.VectorType(I32, self.lanes)


class Emitter:
    """Small vocabulary over an IRBuilder, for one target."""

    def __init__(self, builder: ir.IRBuilder, target: Target) -> None:
        self.b, self.t = builder, target

    def const(self, x: float) -> Value:
        """A vector with ``x`` in each lane."""
        return ir.Constant(self.t.floats, [x] * self.t.lanes)

    def call(self, name: str, result: ir.Type, args: Sequence[Value]) -> Value:
        """What the function ``name``, declared where it is not yet, makes of ``args``."""
        module = self.b.module
        function = module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(result, [a.type for a in args])
            function = ir.Function(module, kind, name)
        return self.b.call(function, args)

    def pointer(self, address: Value, offset: Value | int, kind: ir.Type) -> Value:
        """A pointer to a ``kind``, ``offset`` bytes behind ``address``."""
        if isinstance(offset, int):
            offset = ir.Constant(I64, offset)
        return self.b.inttoptr(self.b.add(address, offset), kind.as_pointer())

    def load(self, address: Value, offset: Value | int, kind: ir.Type, align: int = 4) -> Value:
        """The ``kind`` that lies ``offset`` bytes behind ``address``."""
        return self.b.load(self.pointer(address, offset, kind), align=align)

    def store(self, value: Value, address: Value, offset: Value | int, align: int = 1) -> None:
        """Write ``value``, ``offset`` bytes behind ``address``."""
        self.b.store(value, self.pointer(address, offset, value.type), align=align)

    def fetch(self, address: Value, offset: Value) -> None:
        """Say that these bytes will be read; they need not be there."""
        where = self.pointer(address, offset, I8)
        numbers = [ir.Constant(I32, n) for n in (0, 3, 1)]  # to read, often, as data
        self.call("llvm.prefetch.p0", ir.VoidType(), [where, *numbers])

    def splat(self, scalar: Value) -> Value:
        """A vector with ``scalar`` in each lane."""
        kind = ir.VectorType(scalar.type, self.t.lanes)
        one = self.b.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, self.t.lanes), [0] * self.t.lanes)
        return self.b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a · b + c, rounded once where the target can."""
        n = self.t.lanes
        if self.t.isa == "portable":  # let the compiler say whether the machine has an fma
            return self.call(f"llvm.fmuladd.v{n}f32", self.t.floats, [a, b, c])
        return self.call(f"llvm.fma.v{n}f32", self.t.floats, [a, b, c])

    def clamp(self, x: Value, limit: float) -> Value:
        """``x`` within ±``limit``."""
        if self.t.isa == "avx512":  # one vrangeps: the smaller magnitude, the sign of x
            mode, all_lanes = ir.Constant(I32, 2), ir.Constant(I16, 0xFFFF)
            args = [x, self.const(limit), mode, x, all_lanes, ir.Constant(I32, 4)]
            return self.call("llvm.x86.avx512.mask.range.ps.512", self.t.floats, args)
        # compare and select in the order that is one vminps and one vmaxps
        for side, sign in (("<", 1.0), (">", -1.0)):
            edge = self.const(sign * limit)
            x = self.b.select(self.b.fcmp_ordered(side, x, edge), x, edge)
        return x

    def reciprocal(self, x: Value, precise: bool) -> Value:
        """1/x; to 14 bits on AVX-512, unless ``precise``."""
        if self.t.isa != "avx512":
            return self.b.fdiv(self.const(1.0), x)
        mask = ir.Constant(I16, 0xFFFF)
        guess = self.call("llvm.x86.avx512.rcp14.ps.512", self.t.floats, [x, x, mask])
        if not precise:
            return guess
        # one step of Newton's from 2^-14 is exact to float32; both are cheaper than a division
        error = self.fma(self.b.fneg(x), guess, self.const(1.0))
        return self.fma(guess, error, guess)

    def tanh_ratio(
        self, x: Value, ratio: Ratio, half: bool = False, whole: bool = False
    ) -> tuple[Value, Value, float]:
        """p, q and k: tanh(x), or tanh(x/2), is k p/q; ``whole``: k is 1.

        Both polynomials begin with a coefficient of 1 where k can take the factor: an addition then
        stands for a multiplication, of which there is one unit for each of the tiles'.
        """
        limit, over, under = ratio
        if half:  # the scale goes into the coefficients, so it costs nothing
            limit *= 2
            over = tuple(a * 0.5 ** (2 * i + 1) for i, a in enumerate(over))
            under = tuple(a * 0.25**i for i, a in enumerate(under))
        k = 1.0
        if ratio is not PRECISE:  # whose rounding it would change
            first = under[-1]
            over, under = tuple(a / first for a in over), tuple(a / first for a in under)
            if not whole:
                k = over[-1]
                over = tuple(a / k for a in over)
        x = self.clamp(x, limit)
        square = self.b.fmul(x, x)
        return self.b.fmul(x, self.poly(square, over)), self.poly(square, under), k

    def poly(self, x: Value, coefficients: Sequence[float]) -> Value:
        """The polynomial of ``x``; the constant coefficient comes first."""
        *rest, last = coefficients
        monic = last == 1.0 and rest
        out = self.b.fadd(x, self.const(rest.pop())) if monic else self.const(last)
        for a in reversed(rest):
            out = self.fma(out, x, self.const(a))
        return out

    def finish_row(
        self,
        gates: Sequence[Value],
        ratio: Ratio,
        stored: str,
        copy: Copy,
        c: Value,
        out: Value,
        beside: Value,
        rest: Value,
    ) -> Iterator[None]:
        """Gates i, f, g, o to the new c and h of one row; yields where other rows may go on.

        Whole numbers round h with what rounding has left of the steps before (``rest``), so that
        their sum over the steps stays that of h: an LSTM adds up what it reads.
        """
        b, precise = self.b, ratio is PRECISE
        ratios = []
        for gate, scaled in zip(gates, (True, True, False, True), strict=True):
            ratios.append(self.tanh_ratio(gate, ratio, scaled, whole=not scaled))
            yield
        (pi, qi, k), (pf, qf, _), (pg, qg, _), (po, qo, _) = ratios

        def both(p: Value, q: Value) -> Value:
            return b.fadd(q, p) if k == 1.0 else self.fma(p, self.const(k), q)

        # sigmoid(f) c + sigmoid(i) tanh(g) over one denominator: one reciprocal for three functions
        qig = b.fmul(qi, qg)
        keep = b.fmul(b.fmul(both(pf, qf), self.load(c, 0, self.t.floats)), qig)
        add = b.fmul(b.fmul(both(pi, qi), pg), qf)
        yield
        half = b.fmul(qf, qig)  # doubled by an addition, for which there are units to spare
        below = self.reciprocal(b.fadd(half, half), precise)
        new_c = b.fmul(b.fadd(keep, add), below)
        self.store(new_c, c, 0)
        yield
        pc, qc, kc = self.tanh_ratio(new_c, ratio)
        yield
        new_h = b.fmul(b.fmul(both(po, qo), pc), self.const(0.5 * kc))
        new_h = b.fmul(new_h, self.reciprocal(b.fmul(qo, qc), precise))
        if stored in WHOLE:
            magic = self.const(MAGIC)
            value = self.fma(new_h, self.const(127.0), self.load(rest, 0, self.t.floats))
            value = self.clamp(value, 127.0)
            self.store(b.fsub(value, b.fsub(b.fadd(value, magic), magic)), rest, 0)
            self.store_as(stored, value, out, self.const(1.0))
        else:
            self.store_as(stored, new_h, out)
        if copy.format:
            if copy.rectified:
                zero = self.const(0.0)
                new_h = b.select(b.fcmp_ordered(">", new_h, zero), new_h, zero)
            factor = None
            if copy.format in WHOLE:  # rounded as blocks.Convert does
                new_h, factor = b.fmul(new_h, self.const(127.0)), self.const(1.0)
            self.store_as(copy.format, new_h, beside, factor)
        yield

    def loop(
        self, count: Value, state: list[Value], body: Callable[..., list[Value]]
    ) -> list[Value]:
        """``for i in range(count): state = body(i, state)``; count is at least 1."""
        b = self.b
        before = b.block
        head, done = b.append_basic_block("loop"), b.append_basic_block("done")
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add_incoming(ir.Constant(I64, 0), before)
        phis = [b.phi(v.type) for v in state]
        for phi, v in zip(phis, state, strict=True):
            phi.add_incoming(v, before)
        out = body(i, list(phis))
        after = b.add(i, ir.Constant(I64, 1))
        i.add_incoming(after, b.block)
        for phi, v in zip(phis, out, strict=True):
            phi.add_incoming(v, b.block)
        b.cbranch(b.icmp_signed("<", after, count), head, done)
        b.position_at_end(done)
        return out

    def add_products(
        self, product: Product, acc: Rows, parts: Sequence[tuple[Value, ...]], scale: Value
    ) -> Rows:
        """acc + products of one kind, in float32; those that are scaled are summed apart first.

        Each part is (activations, stride, groups, weights); the scale is that of all of them.
        """
        if not product.scaled:
            for part in parts:
                acc = self.product(product.kind, acc, *part)
            return acc
        vectors = len(acc[0])
        integer = product.kind in ("u8", "i16")
        zero = ir.Constant(self.t.ints, [0] * self.t.lanes) if integer else self.const(0.0)
        whole: Rows = [[zero] * vectors for _ in acc]
        for part in parts:
            whole = self.product(product.kind, whole, *part)
        scales = self.panel(scale, vectors)
        out = []
        for row, sums in zip(acc, whole, strict=True):
            if integer:
                sums = [self.b.sitofp(v, self.t.floats) for v in sums]
            out.append([self.fma(v, s, o) for v, s, o in zip(sums, scales, row, strict=True)])
        return out

    def product(self, kind: str, acc: Rows, a: Value, lda: Value, groups: Value, w: Value) -> Rows:
        """acc[r][v] += Σ over groups of a[r][group] · w[group][v]."""
        b, t = self.b, self.t
        vectors, size = len(acc[0]), 4 * t.lanes
        rows = [b.add(a, b.mul(lda, ir.Constant(I64, r))) for r in range(len(acc))]
        scalar = F32 if kind == "f32" else I32
        vector = t.floats if kind == "f32" else t.ints

        def body(i: Value, flat: list[Value]) -> list[Value]:
            at = b.mul(i, ir.Constant(I64, size * vectors))
            panel = b.add(w, at)
            weights = [self.load(panel, v * size, vector, size) for v in range(vectors)]
            offset = b.mul(i, ir.Constant(I64, 4))
            out = []
            for r, row in enumerate(rows):
                x = self.splat(self.load(row, offset, scalar))
                for v in range(vectors):
                    out.append(self.dot(kind, flat[r * vectors + v], x, weights[v]))
            return out

        flat = self.loop(groups, [v for row in acc for v in row], body)
        return [flat[r * vectors : (r + 1) * vectors] for r in range(len(acc))]

    def dot(self, kind: str, acc: Value, x: Value, w: Value) -> Value:
        """``acc``, and lane by lane the products of ``x`` and ``w``: of 1, 2 or 4 values."""
        if kind == "f32":
            return self.fma(x, w, acc)
        if kind == "bf16":
            return self.call("llvm.x86.avx512bf16.dpbf16ps.512", self.t.floats, [acc, x, w])
        if kind == "u8":
            return self.call("llvm.x86.avx512.vpdpbusd.512", self.t.ints, [acc, x, w])
        pairs = ir.VectorType(I16, 2 * self.t.lanes)
        x, w = self.b.bitcast(x, pairs), self.b.bitcast(w, pairs)
        return self.b.add(acc, self.call("llvm.x86.avx2.pmadd.wd", self.t.ints, [x, w]))

    def panel(self, address: Value, vectors: int) -> list[Value]:
        """``vectors`` vectors of float32, one behind the other at ``address``."""
        size = 4 * self.t.lanes
        return [self.load(address, v * size, self.t.floats, size) for v in range(vectors)]

    def store_as(self, kind: str, x: Value, address: Value, factor: Value | None = None) -> None:
        """Store a vector as f32, bf16, u8, i16, or f32 with a bf16's or an int8's value.

        The last three hold round(x · factor), which must be within ±127, as it is for h and 127.
        """
        b, ints = self.b, self.t.ints

        def whole(n: int) -> Value:
            return ir.Constant(ints, [n] * self.t.lanes)

        if kind == "f32":
            self.store(x, address, 0)
        elif kind == "bf16" and self.t.lanes == 16:  # a format of those that have the instruction
            half = ir.VectorType(I16, 16)
            self.store(self.call("llvm.x86.avx512bf16.cvtneps2bf16.512", half, [x]), address, 0)
        elif kind in ("bf16", "f32bf16"):
            bits = b.bitcast(x, ints)
            odd = b.and_(b.lshr(bits, whole(16)), whole(1))
            bits = b.add(b.add(bits, odd), whole(0x7FFF))  # to nearest, ties to even
            if kind == "bf16":
                half = ir.VectorType(I16, self.t.lanes)
                self.store(b.trunc(b.lshr(bits, whole(16)), half), address, 0)
            else:
                self.store(b.bitcast(b.and_(bits, whole(-65536)), self.t.floats), address, 0)
        else:
            magic = MAGIC + (128.0 if kind == "u8" else 0.0)
            factor = self.const(127.0) if factor is None else factor
            rounded = self.fma(x, factor, self.const(magic))
            if kind == "f32int8":
                self.store(b.fsub(rounded, self.const(magic)), address, 0)
            else:
                part = ir.VectorType(I8 if kind == "u8" else I16, self.t.lanes)
                self.store(b.trunc(b.bitcast(rounded, ints), part), address, 0)


def emit_lstm_tile(
    builder: ir.IRBuilder,
    target: Target,
    recurrent: Product,
    direct: Product,
    apart: Product | None,
    stored: str,
    args: Sequence[Value],
    ratio: Ratio,
    joint: bool,
    copy: Copy,
) -> None:
    """One step of one layer for ``target.rows`` rows x ``target.lanes`` units, all four gates.

    ``recurrent`` and ``direct`` are the products with h and with x, ``apart`` that with what of x
    is kept in another format, never scaled; ``stored`` is how the new h is stored; ``joint`` says
    that both products have the first scale.  Arguments, all 64-bit, strides in bytes:
    h, stride, groups; x, stride, groups; what is apart, stride, groups; weights (those of h, of x
    and of what is apart); bias [4][lanes];
    scales of h and of x [2][4][lanes] (of products in integers, else unused); c, stride;
    new h, stride; its copy, stride; what rounding h leaves, with c's stride (of whole numbers).
    """
    e = Emitter(builder, target)
    b, n = builder, target.lanes
    h, ldh, kh, x, ldx, kx, y, ldy, ky, w, bias, scale, c, ldc, out, ldo, outf, ldf, rest = args
    acc: Rows = [e.panel(bias, 4)] * target.rows
    wx = b.add(w, b.mul(kh, ir.Constant(I64, 16 * n)))
    first, second = (h, ldh, kh, w), (x, ldx, kx, wx)
    if joint:
        acc = e.add_products(recurrent, acc, [first, second], scale)
    else:
        acc = e.add_products(recurrent, acc, [first], scale)
        acc = e.add_products(direct, acc, [second], b.add(scale, ir.Constant(I64, 16 * n)))
    if apart is not None:
        acc = e.product(apart.kind, acc, y, ldy, ky, b.add(wx, b.mul(kx, ir.Constant(I64, 16 * n))))
    rows = [
        e.finish_row(acc[r], ratio, stored, copy, *(
            b.add(base, b.mul(stride, ir.Constant(I64, r)))
            for base, stride in ((c, ldc), (out, ldo), (outf, ldf), (rest, ldc))
        ))
        for r in range(target.rows)
    ]  # fmt: skip
    interleave(rows, DEPTH)


def interleave(parts: Sequence[Iterator[None]], depth: int) -> None:
    """Emit parts in turns, ``depth`` at a time: their chains of dependent operations overlap."""
    waiting = list(parts)
    active: list[Iterator[None]] = []
    while waiting or active:
        while waiting and len(active) < depth:
            active.append(waiting.pop(0))
        for part in list(active):
            if next(part, DONE) is DONE:
                active.remove(part)


def emit_linear_tile(
    builder: ir.IRBuilder,
    target: Target,
    product: Product,
    vectors: int,
    stored: str,
    args: Sequence[Value],
) -> None:
    """``vectors`` x lanes outputs of a linear layer for a tile of rows, stored in a format.

    Arguments: x, stride, groups; weights; bias; scales (of a scaled product, else unused); output,
    stride; 1/scale [lanes] for int8 formats.
    """
    e = Emitter(builder, target)
    x, ldx, kx, w, bias, scale, out, ldo, inverse = args
    size = SIZE[stored] * target.lanes
    start: Rows = [e.panel(bias, vectors)] * target.rows
    acc = e.add_products(product, start, [(x, ldx, kx, w)], scale)
    for r in range(target.rows):
        at = builder.mul(ldo, ir.Constant(I64, r))
        for v in range(vectors):
            place = builder.add(out, builder.add(at, ir.Constant(I64, size * v)))
            if stored in WHOLE:
                factor = e.load(inverse, 0, target.floats)
                scaled = e.clamp(builder.fmul(acc[r][v], factor), 127.0)
                e.store_as(stored, scaled, place, e.const(1.0))
            else:
                e.store_as(stored, acc[r][v], place)


def emit_gather_tile(
    builder: ir.IRBuilder, target: Target, stored: str, args: Sequence[Value]
) -> None:
    """One row's features to what the first layer reads: (x - mean) · inverse within ±clip.

    Arguments: x; its columns, at least as many as lanes; mean, inverse and clip; output.  What is
    not finite counts as 0.  Whole numbers must not leave ±127 (``clip``).
    """
    e = Emitter(builder, target)
    b, n = builder, target.lanes
    x, count, mean, inverse, clip, out = args
    zero, last = e.const(0.0), b.sub(count, ir.Constant(I64, n))

    def body(i: Value, state: list[Value]) -> list[Value]:
        first = b.mul(i, ir.Constant(I64, n))  # the last vector ends with the row
        first = b.select(b.icmp_signed("<", first, last), first, last)
        at = b.mul(first, ir.Constant(I64, 4))
        e.fetch(x, b.add(at, b.mul(count, ir.Constant(I64, 4 * AHEAD))))
        v = e.load(x, at, target.floats)
        size = e.call(f"llvm.fabs.v{n}f32", target.floats, [v])
        v = b.select(b.fcmp_ordered("<=", size, e.const(LARGEST)), v, zero)
        v = b.fmul(b.fsub(v, e.load(mean, at, target.floats)), e.load(inverse, at, target.floats))
        most = e.load(clip, at, target.floats)
        for side, edge in (("<", most), (">", b.fneg(most))):
            v = b.select(b.fcmp_ordered(side, v, edge), v, edge)
        to = b.add(out, b.mul(first, ir.Constant(I64, SIZE[stored])))
        e.store_as(stored, v, to, e.const(1.0))
        return []

    blocks = b.sdiv(b.add(count, ir.Constant(I64, n - 1)), ir.Constant(I64, n))
    e.loop(blocks, [], body)
