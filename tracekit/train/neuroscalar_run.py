"""One training: the network, its loss, steps, validations and checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tracekit.errors import TracekitError
from tracekit.model import ModelSpec
from tracekit.neuroscalar import presets
from tracekit.train.checkpoint import read_checkpoint, write_checkpoint
from tracekit.train.chunks import Sampler, prefetched
from tracekit.train.neuroscalar_options import Options

__all__ = ["Report", "Run"]

Array = npt.NDArray[Any]
Report = Callable[[dict[str, Any]], None]


class Run:
    """A network in training."""

    def __init__(
        self,
        torch: Any,
        spec: ModelSpec,
        columns: tuple[str, ...],
        o: Options,
        machines: Sequence[str],
    ) -> None:
        from tracekit.infer_torch.network import Network

        self.torch, self.spec, self.columns, self.o = torch, spec, columns, o
        self.machines = list(machines)
        self.net = Network(spec, columns).to(o.device)
        self.net.compact()
        self.head = spec.heads[0]
        if o.preset == "default":
            weights = self.net.tensors()
            presets.start_at_cores(spec, machines, weights)
            self.net.load(weights)
        self.mean = {n: self.net.tensor(n).detach().clone() for n in spec.tensors()}
        self.optimizer = torch.optim.AdamW(
            self.net.parameters(), o.rate, weight_decay=0.01, betas=(0.9, 0.98)
        )

    def _rate(self, step: int) -> float:
        """A short warm-up, then a cosine to 2 %."""
        part = step / self.o.steps
        warm = min(1.0, (step + 1) / min(100, 1 + self.o.steps // 10))
        return warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * part)))

    def loss(self, x: Any, y: Any, use: Any) -> Any:
        """Mean over rows and machines."""
        with self.torch.autocast(self.o.device, self.torch.bfloat16, enabled=self.o.half):
            r, _ = self.net(x)
            raw = self.net.raw(self.head, r[:, self.o.judged])
        raw, y = raw.float()[use], y[use].clamp(max=self.head.cap)
        f = self.torch.nn.functional
        if self.head.type == "two_way":
            long = y >= self.head.threshold
            error = (raw[:, 2:] - self.torch.log1p(y)).abs()
            short = self.torch.where(long, error[:, 1:], error[:, :1])
            return f.cross_entropy(raw[:, :2], long[:, 0].long()) + short.mean()
        n, k = self.head.width_out, self.head.exact
        logits = raw[:, : n * (k + 1)].reshape(-1, k + 1)
        kind = y.clamp(max=k).round().long()
        long = raw[:, n * (k + 1) :]
        error = (long - self.torch.log1p(y)).abs() * (kind == k)
        loss = f.cross_entropy(logits, kind.reshape(-1)) + 0.5 * error.mean()
        if not self.o.sums:
            return loss
        p = self.torch.softmax(logits, -1).reshape(-1, n, k + 1)
        # what is long keeps its own loss: only the shares are moved by sums
        more = self.torch.expm1(long.detach()).clamp(k, self.head.cap)
        mean = p[..., :k] @ self.torch.arange(k, dtype=p.dtype, device=p.device) + p[..., k] * more
        return loss + self.o.sums * self._sum_loss(mean, y, use)

    def _sum_loss(self, mean: Any, y: Any, use: Any) -> Any:
        """Errors of each chunk's time, and of its differences between machines, relative to it."""
        chunk = self.torch.nonzero(use)[:, 0]
        zero = mean.new_zeros(len(use), mean.shape[1])
        found, true = zero.index_add(0, chunk, mean), zero.index_add(0, chunk, y)
        size = true.mean(1, keepdim=True) + 64
        off = (found - true) / size
        apart = off - off.mean(1, keepdim=True)
        return (off.square() + 4 * apart.square()).clamp(max=1.0).mean()

    def fit(
        self,
        sampler: Sampler,
        watch: Sequence[tuple[Array, Array, Array]],
        place: Path,
        setup: str,
        state: dict[str, Any] | None,
        report: Report,
    ) -> dict[str, Any]:
        """Trains until the validation gets no better; the best step's tensors and validation."""
        torch, o = self.torch, self.o
        state = state or {"step": 0, "best": math.inf, "bad": 0, "best_step": 0, "validation": {}}
        best = state.pop("tensors", None)
        if best is None:  # what training has to beat
            found = self.validate(watch)
            report({"event": "start", **found})
            best = {n: v.cpu().numpy().copy() for n, v in self.mean.items()}
            state |= {"best": found["mae"], "validation": found}
        begin, lost, seen = time.monotonic(), 0.0, 0
        # Killed behind its last checkpoint, a run that had stopped early has nothing left to do.
        upto = o.steps if state["bad"] < o.patience else state["step"]
        for step, batch in prefetched(sampler, state["step"], upto):
            x, y, use = (torch.from_numpy(a).to(o.device) for a in batch)
            if not bool(use.any()):
                continue
            for group in self.optimizer.param_groups:
                group["lr"] = o.rate * self._rate(step)
            loss = self.loss(x, y, use)
            if not torch.isfinite(loss):
                raise TracekitError(f"step {step}: the loss is {loss.item()}")
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.optimizer.step()
            self._average(step)
            lost, seen = lost + loss.item(), seen + 1
            if (step + 1) % o.check and step + 1 != o.steps:
                continue
            found = self.validate(watch)
            seconds = time.monotonic() - begin
            report(
                {
                    "event": "step",
                    "step": step + 1,
                    "passes": round((step + 1) * sampler.passes, 3),
                    "loss": lost / max(seen, 1),
                    **found,
                    "rows_per_s": round(seen * o.batch * o.target / max(seconds, 1e-9)),
                    "seconds_left": round(seconds / max(seen, 1) * (o.steps - step - 1)),
                }
            )
            begin, lost, seen = time.monotonic(), 0.0, 0
            state["step"] = step + 1
            if found["mae"] < state["best"]:
                best = {n: v.cpu().numpy().copy() for n, v in self.mean.items()}
                state |= {"best": found["mae"], "bad": 0, "best_step": step + 1}
                state["validation"] = found
            else:
                state["bad"] += 1
            self._checkpoint(place, setup, state, best)
            if state["bad"] >= o.patience:
                report({"event": "stopped early", "step": step + 1})
                break
        return {"tensors": best, "step": state["best_step"], "validation": state["validation"]}

    def _average(self, step: int) -> None:
        """An exponential mean of the weights: what is validated and saved."""
        keep = min(0.995, (1 + step) / (10 + step))
        with self.torch.no_grad():
            for name, value in self.mean.items():
                value.lerp_(self.net.tensor(name), 1 - keep)

    def validate(self, watch: Sequence[tuple[Array, Array, Array]]) -> dict[str, float]:
        """MAE, Acc(round) over all machines, of the averaged weights."""
        torch = self.torch
        own = {n: self.net.tensor(n).detach().clone() for n in self.mean}
        errors, hits, rows = 0.0, 0, 0
        with torch.no_grad():
            for n, v in self.mean.items():
                self.net.tensor(n).copy_(v)
            for batch in watch:
                x, y, use = (torch.from_numpy(a).to(self.o.device) for a in batch)
                r, _ = self.net(x)
                p = self.net.head(None, r[:, self.o.judged])[use]
                errors += float((p - y[use]).abs().sum())
                hits += int((p.round() == y[use]).sum())
                rows += p.numel()
            for n, v in own.items():
                self.net.tensor(n).copy_(v)
        return {"mae": errors / max(rows, 1), "acc_round": hits / max(rows, 1)}

    def predict_raw(self, x: Array) -> Array:
        """``Network.raw`` of the first head at the rows of chunks where the loss is."""
        with self.torch.no_grad():
            r, _ = self.net(self.torch.from_numpy(x).to(self.o.device))
            out: Array = self.net.raw(self.head, r[:, self.o.judged]).float().cpu().numpy()
        return out

    def _checkpoint(self, place: Path, setup: str, state: dict[str, Any], best: Any) -> None:
        tensors = {n: self.torch.from_numpy(v) for n, v in (best or {}).items()}
        whole = {
            "state": state,
            "best": tensors,
            "net": self.net.state_dict(),
            "mean": self.mean,
            "optimizer": self.optimizer.state_dict(),
            "ended": state["step"] >= self.o.steps or state["bad"] >= self.o.patience,
        }
        write_checkpoint(self.torch, place, setup, whole)

    def restore(self, place: Path, setup: str) -> dict[str, Any]:
        """A checkpoint of this very run; UsageError where it is another's."""
        with read_checkpoint(self.torch, place, setup) as saved:
            self.net.load_state_dict(saved["net"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.mean = {n: saved["mean"][n].to(self.o.device) for n in self.mean}
            state = dict(saved["state"])
            best = {n: v.numpy() for n, v in saved["best"].items()}
        return {**state, "tensors": best or None}
