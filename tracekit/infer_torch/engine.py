"""The streaming engine on torch, for GPUs: what tracekit.infer.Engine does, with thousands of
chunks in one batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import TracekitError, UsageError
from tracekit.infer_torch.devices import check_device
from tracekit.model import Card, load_card, load_tensors
from tracekit.pipeline import overlap

__all__ = ["TorchEngine", "load_torch"]

Array = npt.NDArray[Any]
WARMUP, CHUNK = 256, 2048
#: Rows of all chunks together that go through the layers at once, and of one chunk.
SLAB_ROWS, SLAB = 1 << 21, 512
ROWS = 48  # as in tracekit.infer.engine
READY = 2  # batches that wait for the GPU


class TorchEngine:
    """Takes the place of an Engine in tracekit.infer.Stream; results differ from it by rounding.

    ``dtype``: f32, bf16 or f16; bf16 unless given on a GPU, f32 on the CPU.
    """

    def __init__(
        self,
        card: Card,
        tensors: Mapping[str, Array],
        device: str,
        dtype: str = "auto",
        *,
        chunk: int | None = None,
        warmup: int = WARMUP,
        lookahead: int | None = None,
        lanes: int = 64,
    ) -> None:
        import torch

        from tracekit.infer_torch.network import Network

        check_device(torch, device)
        kinds = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
        if dtype == "auto":
            dtype = "bf16" if device.startswith("cuda") else "f32"
        if dtype not in kinds:
            raise UsageError(f"dtype is {dtype!r}; auto or one of {', '.join(kinds)}")
        self.card, self.spec = card, card.spec
        self.dtype, self.isa, self.device = dtype, device, device
        self.lookahead = card.lookahead(lookahead)
        self.warmup, self.threads = warmup, lanes  # Stream fills threads x 48 chunks
        self._chunk, self._torch = chunk or CHUNK, torch
        self._net = Network(card.spec, card.columns)
        self._net.load(tensors)
        self._net.to(device=device, dtype=kinds[dtype]).eval().requires_grad_(False)
        self._net.compact()

    def check(self, features: Array, first: int = 0) -> None:
        """Raise UsageError unless these are features that the card describes; whether they are
        finite is asked on the device."""
        self.card.check_features(features)

    def grid(self, rows: int | None) -> int:
        """The chunk for a trace of so many rows: short ones are cut into more."""
        if rows is None:
            return self._chunk
        return min(self._chunk, max(WARMUP, -(-rows // 1024)))

    def width(self, output: str) -> int:
        """Width of an output; raises UsageError where there is none of that name."""
        return self.spec.head(output).width_out

    def feed(self, blocks: Iterable[Array], outputs: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Predictions of features that come in blocks: the results, and the cuts, of
        ``tracekit.infer.Stream``.  Blocks are read and put together in a thread of their own, into
        memory that the GPU can read, while it works on the batch before."""
        self.card.check_outputs(outputs)
        for features, base, low, high in overlap(lambda: self._batches(blocks), READY):
            out = {n: np.empty((high - low, self.width(n)), np.float32) for n in outputs}
            self.run_range(features, base, low, high, self._chunk, out, None)
            yield out

    def _batches(self, blocks: Iterable[Array]) -> Iterator[tuple[Array, int, int, int]]:
        """Features from a row ``base`` on, and the rows low to high that they are enough for."""
        size = self._chunk * ROWS * self.threads
        base = low = filled = 0
        room = self._room(self.warmup + size + self.lookahead)
        for block in blocks:
            self.check(block)
            at = 0
            while at < len(block):
                n = min(len(block) - at, low + size + self.lookahead - base - filled)
                room[filled : filled + n] = block[at : at + n]
                at, filled = at + n, filled + n
                if base + filled < low + size + self.lookahead:
                    continue
                yield room[:filled], base, low, low + size
                low += size
                keep = max(base, low - self.warmup)
                rest, room = room[keep - base : filled], self._room(len(room))
                room[: len(rest)] = rest
                base, filled = keep, len(rest)
        if base + filled > low:
            yield room[:filled], base, low, base + filled

    def _room(self, rows: int) -> Array:
        pinned = self.device.startswith("cuda")
        shape = rows, len(self.card.columns)
        out: Array = self._torch.empty(shape, pin_memory=pinned).numpy()
        return out

    def run_range(
        self,
        features: Array,
        base: int,
        low: int,
        high: int,
        chunk: int,
        out: Mapping[str, Array],
        sums: None,
    ) -> None:
        """As Engine.run_range, without sums."""
        torch = self._torch
        x = torch.from_numpy(np.ascontiguousarray(features)).to(self.device, non_blocking=True)
        finite = torch.isfinite(x).all()
        # results stay on the device until all is under way: one wait for all of them
        found = {n: torch.empty(v.shape, device=self.device) for n, v in out.items()}
        starts = np.arange(low, high, chunk)
        # windows that meet an end of the trace have a length of their own
        whole = starts >= self.warmup
        known = base + len(x)
        if self.lookahead:
            whole &= np.minimum(starts + chunk, high) + self.lookahead <= known
            whole &= starts + chunk <= high
        for start in starts[~whole].tolist():
            ahead = min(self.lookahead, known - min(start + chunk, high))
            warm, size = min(start, self.warmup), chunk
            if self.lookahead:
                size = min(chunk, high - start)
            self._run(x, base, np.array([start]), warm, size, ahead, low, found)
        rest = starts[whole]
        each = max(1, SLAB_ROWS // (self._slab(chunk)))
        for k in range(0, len(rest), each):
            part = rest[k : k + each]
            self._run(x, base, part, self.warmup, chunk, self.lookahead, low, found)
        if not bool(finite):
            self.card.check_finite(np.asarray(features), base)
        for name, values in found.items():
            torch.from_numpy(out[name]).copy_(values)
            if bad := int(values.isnan().any(1).sum()):
                hint = "float16 ends at 65,504: dtype bf16 or f32" if self.dtype == "f16" else None
                what = f"{name}: {bad:,} of the rows {low:,} to {high:,} are NaN in {self.dtype}"
                raise TracekitError(what, hint=hint)

    def _slab(self, chunk: int) -> int:
        """Rows of a chunk that go through the layers at once: a whole window, looking ahead."""
        window = chunk + self.warmup + self.lookahead
        return window if self.lookahead else min(SLAB, window)

    def _run(
        self,
        x: Any,
        base: int,
        starts: Array,
        warm: int,
        chunk: int,
        ahead: int,
        low: int,
        out: Mapping[str, Any],
    ) -> None:
        """Successive chunks side by side; their rows of ``out`` are one behind the other."""
        torch = self._torch
        first = torch.from_numpy(starts - warm - base).to(self.device, non_blocking=True)
        begin, shape = int(starts[0]) - low, (len(starts), chunk)
        results = {n: torch.empty((*shape, v.shape[1]), device=self.device) for n, v in out.items()}
        state: Any = None
        with torch.inference_mode():
            slab = self._slab(chunk)
            for at in range(0, warm + chunk, slab):
                steps = warm + chunk + ahead if ahead else min(slab, warm + chunk - at)
                index = first[:, None] + torch.arange(at, at + steps, device=self.device)
                rows = x[index.clamp_(max=len(x) - 1)]
                r, state = self._net(rows, state)
                skip = max(0, warm - at)
                if skip >= steps:
                    continue
                for name, to in results.items():
                    place = at + skip - warm
                    found = self._net.head(name, r[:, skip : steps - ahead])
                    to[:, place : place + steps - ahead - skip] = found
        for name, to in results.items():
            values = to.reshape(-1, to.shape[2])[: len(out[name]) - begin]
            out[name][begin : begin + len(values)] = values


def load_torch(
    folder: str | Path, device: str = "cuda", dtype: str = "auto", **options: Any
) -> TorchEngine:
    """A model folder for a GPU (or, to compare, torch on the CPU)."""
    card = load_card(folder)
    return TorchEngine(card, load_tensors(folder, card), device, dtype, **options)
