"""``tracekit train neuroscalar``: the paper's two-headed model, and one of our own (preset
``default``); over chunks with a burn-in, with the loss at every position behind it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit._version import __version__
from tracekit.dataset import Manifest, Program
from tracekit.errors import TracekitError, UsageError
from tracekit.model import Card, ModelSpec, save_card, save_model, write_safetensors
from tracekit.neuroscalar import history, instructions, presets
from tracekit.neuroscalar.readout import best_share, fit_mean_map
from tracekit.reference import TIMING
from tracekit.train.checkpoint import read_checkpoint, write_checkpoint
from tracekit.train.neuroscalar_data import (
    HELD,
    VALIDATION,
    Rows,
    part_of,
    read_default,
    read_paper,
)

__all__ = ["Options", "train_neuroscalar"]

CHECKPOINT, TABLES = "checkpoint.pt", "history.safetensors"
GOLDEN_ROWS = 384
#: Chunks that the mean readout is fitted on.
FITTED = 1000
#: Chunks of each program that the cores' share is chosen on.
SHARED_CHUNKS = 40
Array = npt.NDArray[Any]
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Options:
    """``window``: rows of a chunk (the paper's L); ``target``: its last rows, where the loss is
    (T), or, ``bidirectional`` (preset paper), those in its middle; ``width``: of the layers (64,
    and the paper's 256); ``steps`` batches of ``batch`` chunks, with a validation after every
    ``check``; training stops after ``patience`` validations without a better MAE.  ``drop``: share
    of the chunks without history; ``sums``: weight of the chunks' sums in the loss."""

    preset: str = "default"
    machines: tuple[str, ...] = ()
    steps: int = 1200
    batch: int = 32
    window: int = 288
    target: int = 256
    rate: float = 2e-3
    width: int | None = None
    bidirectional: bool = False
    history: bool = True
    drop: float = 0.2
    sums: float = 0.3
    check: int = 150
    patience: int = 6
    seed: int = 0
    threads: int | None = None
    device: str = "cpu"
    half: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.target <= self.window:
            raise UsageError(f"target {self.target} is not from 1 to the window, {self.window}")
        if min(self.steps, self.batch, self.check, self.patience, self.layer_width) < 1:
            raise UsageError("steps, batch, check, patience and width are at least 1")
        if self.bidirectional and (self.preset != "paper" or self.window - self.target < 2):
            raise UsageError("bidirectional: preset paper, and a window of at least 2 more rows")

    @property
    def layer_width(self) -> int:
        """``width``, or the preset's own."""
        return (256 if self.preset == "paper" else 64) if self.width is None else self.width

    @property
    def ahead(self) -> int:
        """Rows of a window behind those where the loss is."""
        return (self.window - self.target) // 2 if self.bidirectional else 0

    @property
    def judged(self) -> slice:
        """The rows of a window where the loss is."""
        end = self.window - self.ahead
        return slice(end - self.target, end)


def train_neuroscalar(
    manifest: Manifest,
    out: Path,
    options: Options,
    *,
    cache: Path | None = None,
    report: Report = lambda _: None,
) -> Path:
    """Train, and write the model folder ``out``.

    Families of the manifest's test are left out.  Of the others every tenth block of 5000 rows is
    held out, and another tenth stops the training early (or the families of the manifest's
    validation, where it names some).  ``cache``: where the programs' arrays are kept.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise UsageError("training needs torch", hint="pip install tracekit[train]") from None
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    programs = [p for p in manifest.programs if p.family not in manifest.test]
    if not programs:
        raise UsageError("no programs to train on", path=str(manifest.path))
    names = list(options.machines or _machines(manifest, programs[0]))
    data = _read(manifest, programs, names, options, cache or out / "cache", report)
    train = [r for r in data if r.program.family not in manifest.validation]
    check = [r for r in data if r.program.family in manifest.validation]
    spec = _spec(names, options, train)
    run = _Run(torch, spec, _columns(names, options), options, names)
    out.mkdir(parents=True, exist_ok=True)
    setup = f"{options} {sorted(r.program.name for r in train)} {sorted(manifest.validation)}"
    state = run.restore(out / CHECKPOINT, setup) if (out / CHECKPOINT).exists() else None
    if state:
        report({"event": "resumed", "step": state["step"]})
    sampler = _Sampler(train, options, _tenths(bool(check)))
    watch = _watched(check or train, options, None if check else VALIDATION)
    best = run.fit(sampler, watch, out / CHECKPOINT, setup, state, report)
    run.net.load(best["tensors"])
    training = {
        "tracekit": __version__,
        "torch": torch.__version__,
        "options": {k: getattr(options, k) for k in options.__dataclass_fields__},
        "validation": best["validation"],
        "best_step": best["step"],
        "programs": [{"name": r.program.name, "family": r.program.family} for r in train],
        "rows": sum(map(len, train)),
        "held_out_families": sorted(manifest.test),
        "held_out_blocks": f"every tenth of 5000 rows (number {HELD})",
    }
    judge = (check, None) if check else (train, VALIDATION)
    _save(run, manifest, out, data, names, options, sampler, training, judge)
    report({"event": "saved", **best["validation"], "step": best["step"]})
    return out


def _machines(manifest: Manifest, program: Program) -> tuple[str, ...]:
    """Those of the manifest that the program has targets of; all of these where it names none."""
    with program.open() as data:
        return tuple(m for m in data.machines if m in manifest.machines) or data.machines


def _tenths(separate: bool) -> frozenset[int]:
    """Tenths of the blocks that training does not see."""
    return frozenset({HELD}) if separate else frozenset({HELD, VALIDATION})


def _read(
    manifest: Manifest,
    programs: Sequence[Program],
    names: Sequence[str],
    options: Options,
    cache: Path,
    report: Report,
) -> list[Rows]:
    if options.preset == "paper":
        if len(names) != 1:
            raise UsageError("the preset paper is of one machine", hint="--machines NAME")
        return read_paper(programs, names[0], cache, report=report)
    if options.preset != "default":
        raise UsageError(f"no preset {options.preset!r}; there are default and paper")
    if unknown := [m for m in names if not manifest.machines.get(m)]:
        raise UsageError(
            f"the parameters of {', '.join(unknown)} are not known",
            hint="name their files in the manifest's machines",
        )
    machines = [{**manifest.machines[m], "name": m} for m in names]
    held = _tenths(bool(manifest.validation))
    return read_default(
        programs, machines, cache, held=held, report=report, threads=options.threads
    )


def _spec(names: Sequence[str], options: Options, train: Sequence[Rows]) -> ModelSpec:
    if options.preset == "paper":
        x = np.concatenate([r.columns[: 1 << 15] for r in train]).astype(np.float64)
        std = x.std(axis=0)
        std = np.where(std > 0, std, 1)
        return presets.paper_spec(
            x.mean(axis=0), std, options.layer_width, bidirectional=options.bidirectional
        )
    return presets.default_spec(names, options.layer_width, with_history=options.history)


def _columns(names: Sequence[str], options: Options) -> tuple[str, ...]:
    if options.preset == "paper":
        from tracekit import features

        return features.get("neuroscalar").columns
    own = instructions.columns(names)
    return own + history.columns(names) if options.history else own


class _Sampler:
    """Chunks in random order, pass after pass; a step's chunks depend on seed and step alone."""

    def __init__(self, data: Sequence[Rows], options: Options, held: frozenset[int]) -> None:
        self.data, self.o, self._held = data, options, held
        places = []
        for k, r in enumerate(data):
            at = np.arange(0, max(len(r) - options.target + 1, 1), options.target)
            places.append(np.stack([np.full(len(at), k), at], axis=1))
        self._places = np.concatenate(places)
        self.passes = options.batch / len(self._places)
        self._order: tuple[int, Array] = (-1, np.zeros(0, np.int64))

    def batch(self, step: int) -> tuple[Array, Array, Array]:
        """Columns, cycles and where the loss is: float32 [batch, window, columns], float32 [batch,
        target, machines], bool [batch, target]."""
        n, size = len(self._places), self.o.batch
        chosen = [self._place(i) for i in range(step * size, (step + 1) * size)]
        random = np.random.default_rng([self.o.seed, step, 1])
        shift = int(random.integers(0, self.o.target))  # the grid moves from step to step
        drop = random.random(size) < self.o.drop
        parts = []
        for (k, at), without in zip(chosen, drop, strict=True):
            r = self.data[k]
            begin = min(int(at) + shift, max(len(r) - self.o.target, 0))
            parts.append(chunk(r, begin, self.o, self._held, history=not without))
        del n
        return tuple(np.stack(p) for p in zip(*parts, strict=True))  # type: ignore[return-value]

    def _place(self, i: int) -> Array:
        number, k = divmod(i, len(self._places))
        if self._order[0] != number:
            random = np.random.default_rng([self.o.seed, number, 0])
            self._order = (number, random.permutation(len(self._places)))
        place: Array = self._places[self._order[1][k]]
        return place


def chunk(
    r: Rows, begin: int, o: Options, held: frozenset[int], *, history: bool = True
) -> tuple[Array, Array, Array]:
    """The window whose loss is at rows [begin, begin + target); zeros before the program's start
    and behind its end."""
    width = r.columns.shape[1]
    past = r.past if o.preset == "default" and o.history else None
    more = past.shape[1] if past is not None else 0
    x = np.zeros((o.window, width + more), np.float32)
    y = np.zeros((o.target, r.cycles.shape[1]), np.float32)
    use = np.zeros(o.target, bool)
    low = begin - o.judged.start
    first, end = max(low, 0), min(low + o.window, len(r))
    x[first - low : end - low, :width] = r.columns[first:end]
    if past is not None and history:
        x[first - low : end - low, width:] = past[first:end]
    n = min(begin + o.target, len(r)) - begin
    y[:n] = r.cycles[begin : begin + n]
    use[:n] = True
    if held:
        use[:n] &= ~np.isin(part_of(n, begin), list(held))
    return x, y, use


def _watched(
    data: Sequence[Rows], o: Options, tenth: int | None, chunks: int = 400
) -> list[tuple[Array, Array, Array]]:
    """Batches for the validation: chunks drawn from each program, about ``chunks`` in all."""
    random = np.random.default_rng([o.seed, 2])
    every: list[tuple[Array, Array, Array]] = []
    each = max(2, chunks // len(data))
    for r in data:
        tenths = part_of(len(r))
        ok = np.ones(len(r), bool) if tenth is None else tenths == tenth
        ok[max(len(r) - o.target, 0) + 1 :] = False
        at = np.flatnonzero(ok)
        if not len(at):
            continue
        for b in np.sort(random.choice(at, min(each, len(at)), replace=False)).tolist():
            x, y, use = chunk(r, b, o, frozenset())
            if tenth is not None:
                use[: len(r) - b] &= tenths[b : b + o.target] == tenth
            every.append((x, y, use))
    if not every:
        raise UsageError("no rows to validate on", hint="longer programs, or validation families")
    return [
        tuple(np.stack(p) for p in zip(*every[k : k + o.batch], strict=True))  # type: ignore[misc]
        for k in range(0, len(every), o.batch)
    ]


class _Run:
    """A network in training."""

    def __init__(
        self,
        torch: Any,
        spec: ModelSpec,
        columns: tuple[str, ...],
        o: Options,
        machines: Sequence[str],
    ) -> None:
        from tracekit.train.network import Network

        self.torch, self.spec, self.columns, self.o = torch, spec, columns, o
        self.machines = list(machines)
        self.net = Network(spec, columns).to(o.device)
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
        sampler: _Sampler,
        watch: Sequence[tuple[Array, Array, Array]],
        place: Path,
        setup: str,
        state: dict[str, Any] | None,
        report: Report,
    ) -> dict[str, Any]:
        torch, o = self.torch, self.o
        state = state or {"step": 0, "best": math.inf, "bad": 0, "best_step": 0, "validation": {}}
        best = state.pop("tensors", None)
        if best is None:  # what training has to beat
            found = self.validate(watch)
            report({"event": "start", **found})
            best = {n: v.cpu().numpy().copy() for n, v in self.mean.items()}
            state |= {"best": found["mae"], "validation": found}
        begin, lost, seen = time.monotonic(), 0.0, 0
        for step, batch in _ahead(sampler, state["step"], o.steps):
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


def _ahead(sampler: _Sampler, first: int, last: int) -> Iterator[tuple[int, Any]]:
    """Each step's batch."""
    for step in range(first, last):
        yield step, sampler.batch(step)


def _save(
    run: _Run,
    manifest: Manifest,
    out: Path,
    data: Sequence[Rows],
    names: Sequence[str],
    o: Options,
    sampler: _Sampler,
    training: dict[str, Any],
    judge: tuple[Sequence[Rows], int | None],
) -> None:
    """The model folder.  The mean readout is fitted on training chunks first, the cores' share in
    it on those of ``judge``: programs, and the tenth of their blocks."""
    raws, truths = [], []
    for step in range(max(1, FITTED // o.batch)):
        x, y, use = sampler.batch((1 << 30) + step)
        raws.append(run.predict_raw(x)[use])
        truths.append(y[use])
    raw, truth = np.concatenate(raws), np.concatenate(truths)
    extra: dict[str, Any] = {"history": bool(o.preset == "default" and o.history)}
    spec = run.spec
    torch = run.torch
    from tracekit.train.network import cycles_of

    if run.head.type == "two_way":
        found = cycles_of(run.head, torch.from_numpy(raw)).numpy()
        if o.bidirectional:
            extra["lookahead"] = o.ahead
        extra["mean_map"] = fit_mean_map(found[:, 0], truth[:, 0])
    else:
        scale = _mean_scale(run.head, raw, truth)
        spec = presets.default_spec(names, o.layer_width, with_history=o.history, scale=scale)
        run.net.spec = run.spec = spec
        extra["core_share"] = _core_share(run, *judge)
    first = data[0]
    sample = np.array(first.columns[:GOLDEN_ROWS])
    if extra["history"]:
        past = np.asarray(first.past)[: len(sample)].astype(np.float32)
        sample = np.hstack([sample, past])
    with torch.no_grad():
        r, _ = run.net(torch.from_numpy(sample)[None].to(o.device))
        golden = {"input": sample, "representation": r[0].float().cpu().numpy()}
        for head in spec.heads:
            golden[f"head.{head.name}"] = run.net.head(head.name, r)[0].cpu().numpy()
    machines = [{**manifest.machines.get(m, {}), "name": m} for m in names]
    with first.program.open() as opened:
        extra["arch"] = str(opened.trace.index.get("arch", ""))
    if o.preset == "default":
        extra["reference_cores"] = machines
    card = Card(
        name=out.name,
        spec=spec,
        columns=run.columns,
        feature_set=instructions.FEATURE_SET if o.preset == "default" else "neuroscalar",
        level="macro",
        preset=o.preset,
        microarchitectures=[{"name": m["name"], "parameters": m} for m in machines],
        training=training,
        extra=extra,
    )
    save_model(out, card, run.net.tensors(), golden)
    if extra["history"]:
        held = _tenths(bool(manifest.validation))
        parts = []
        for d in data:
            if d.program.family in manifest.validation:
                continue
            use = ~np.isin(part_of(len(d)), list(held))
            core = np.asarray(d.columns)[:, : 5 * len(names) : 5]
            parts.append(([np.asarray(k)[use] for k in d.keys], d.cycles[use], core[use]))
        write_safetensors(out / TABLES, history.make_tables(parts).tensors())
        save_card(out, card, [TABLES])


def _core_share(run: _Run, programs: Sequence[Rows], tenth: int | None) -> float:
    """How much of the reference cores' cycles is best in the mean, by the programs' total times."""
    torch, o = run.torch, run.o
    at = [run.columns.index(f"{m}.{TIMING[0]}") for m in run.machines]
    sums = []
    for r in programs:
        try:
            batches = _watched([r], o, tenth, SHARED_CHUNKS)
        except UsageError:  # too short to have rows there
            continue
        own = np.zeros((3, len(at)))
        for x, y, use in batches:
            with torch.no_grad():
                found, _ = run.net(torch.from_numpy(x).to(o.device))
                mean = run.net.head("mean", found[:, o.judged]).cpu().numpy()
            for k, values in enumerate((mean, x[:, o.judged, at], y)):
                own[k] += values[use].sum(axis=0, dtype=np.float64)
        sums.append(own)
    found, core, truth = np.stack(sums, axis=1)
    return best_share(found, core, truth)


def _mean_scale(head: Any, raw: Array, truth: Array) -> list[float]:
    """The factor of long predictions with which the total over all machines is right: one for all,
    so that it tells no machine from another."""
    import torch

    from tracekit.train.network import cycles_of

    def total(scale: float) -> float:
        plain = replace(head, readout="mean", scale=(scale,) * head.width_out)
        return float(cycles_of(plain, torch.from_numpy(raw)).double().sum())

    short = total(1e-9)
    long = total(1.0) - short
    wanted = float(truth.sum(dtype=np.float64)) - short
    scale = float(np.clip(wanted / long, 0.2, 5.0)) if long > 0 else 1.0
    return [scale] * head.width_out
