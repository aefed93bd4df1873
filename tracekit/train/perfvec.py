"""The preset ``paper``: PerfVec's own model.  51 features, an LSTM of 2 x 256 and ReLU, a table
without bias, MSE on all machines of a row at once in units of 0.1 ns, Adam with its rate divided by
ten every ten passes; trained over streams with carried state, with the loss at every position (the
same function as windows of 256 for every row, for 1/256 of the work)."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit._version import __version__
from tracekit.dataset import Manifest, Program
from tracekit.errors import TracekitError, UsageError
from tracekit.extras import install_command
from tracekit.model import save_model
from tracekit.perfvec.network import FEATURES, LAYERS, card, columns, model_spec
from tracekit.pipeline import overlap
from tracekit.sim.clock import period
from tracekit.train.checkpoint import is_there, read_checkpoint, write_checkpoint
from tracekit.train.row_streams import Streams, statistics
from tracekit.train.workers import Workers
from tracekit.training_events import Report

__all__ = ["PaperOptions", "train_paper"]

CHECKPOINT = "checkpoint.pt"
F32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PaperOptions:
    """``rows``: only the first of each program.  ``minutes``: stop then, with a checkpoint; the
    same command goes on.  ``patience``: passes without a better validation error after which it
    ends.  ``bf16``: the LSTM in bfloat16 (weights, state and loss stay float32)."""

    epochs: int = 50
    rows: int | None = None
    minutes: float | None = None
    patience: int = 10
    seed: int = 0
    hidden: int = 256
    streams: int = 64
    step: int = 256
    bf16: bool = False
    device: str = "auto"
    threads: int | None = None
    checkpoint_s: float = 60.0

    def setup(self) -> dict[str, Any]:
        """What two runs must share for one to go on where the other ended."""
        free = ("epochs", "minutes", "patience", "device", "threads", "checkpoint_s")
        return {k: v for k, v in asdict(self).items() if k not in free}


@dataclass
class _Progress:
    """Where a training is; ``carried`` is the state of all streams before block ``block``."""

    epoch: int = 0
    block: int = 0
    lost: float = 0.0
    best: float = math.inf
    since_best: int = 0
    carried: Any = None


def train_paper(
    manifest: Manifest,
    out: Path,
    options: PaperOptions | None = None,
    report: Report = lambda _: None,
    *,
    force: bool = False,
) -> Path:
    """Train and write the model folder of the best pass on the validation families (of the last
    one where there are none).  A run that was killed goes on from its last checkpoint, to the same
    result.  ``force``: a run that has ended, or another one, is replaced."""
    options = options or PaperOptions()
    try:
        import torch
    except ModuleNotFoundError:
        raise UsageError("the preset paper needs torch", hint=install_command("train")) from None
    held = manifest.validation | manifest.test
    train = [p for p in manifest.programs if p.family not in held]
    check = [p for p in manifest.programs if p.family in manifest.validation]
    if not train:
        raise UsageError("no programs to train on", path=str(manifest.path))
    machines = manifest.common_machines()
    units = np.array([period(manifest.machines.get(m, {})) for m in machines]) * 1e10
    if not np.isfinite(units).all():
        raise UsageError("the preset paper counts in 0.1 ns: every machine needs clock_ghz")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    workers = Workers(torch, options.device)
    if options.streams % workers.world:
        raise UsageError(f"{options.streams} streams on {workers.world} processes: not a multiple")
    run = _Run(torch, workers, options, manifest, out, train, check, machines, units)
    try:
        run.train(report if workers.leads else lambda _: None, force)
    except torch.OutOfMemoryError as e:
        raise TracekitError(
            f"out of memory on {workers.device}: {e}".splitlines()[0],
            hint="fewer --streams, or a shorter --step",
        ) from None
    finally:
        run.streams.close()
        workers.close()
    return out


class _Run:
    def __init__(
        self,
        torch: Any,
        workers: Workers,
        options: PaperOptions,
        manifest: Manifest,
        out: Path,
        train: Sequence[Program],
        check: Sequence[Program],
        machines: Sequence[str],
        units: npt.NDArray[np.float64],
    ) -> None:
        self.torch, self.workers, self.options = torch, workers, options
        self.manifest, self.out = manifest, out
        self.programs, self.check, self.machines = train, check, machines
        self.units = torch.tensor(units, dtype=torch.float32, device=workers.device)
        self.columns = columns()
        self.mean, self.std = statistics(train, FEATURES, options.rows)
        self.streams = Streams(train, FEATURES, options.streams, options.step, options.rows)
        share = options.streams // workers.world
        self.mine = range(workers.rank * share, (workers.rank + 1) * share)
        self.network = _network(torch, len(self.columns), options.hidden, len(machines))
        self.network.to(workers.device)
        self.parallel = workers.wrap(self.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), 1e-3)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 10, 0.1)
        self.at = _Progress()

    @property
    def place(self) -> Path:
        return self.out / CHECKPOINT

    def goes_on(self, force: bool) -> bool:
        """Whether there is a checkpoint to go on from: the leading process's answer in all."""
        found = self.workers.leads and is_there(self.torch, self.place, self.setup, force)
        return bool(self.workers.decide(int(found)))

    def train(self, report: Report, force: bool) -> None:
        if self.goes_on(force):
            self.restore()
            report({"event": "resumed", "epoch": self.at.epoch, "block": self.at.block})
        begin = time.monotonic()
        while self.at.epoch < self.options.epochs:
            if self.at.since_best >= self.options.patience:
                report({"event": "stopped early", "epoch": self.at.epoch})
                return
            if not self.one_pass(begin, report):
                report({"event": "out of time", "epoch": self.at.epoch, "block": self.at.block})
                if not self.check or math.isinf(self.at.best):
                    self.save({"unfinished_pass": self.at.epoch + 1, "block": self.at.block})
                return

    def one_pass(self, begin: float, report: Report) -> bool:
        """The rest of the pass; False where the time was over before its end."""
        torch, at, o = self.torch, self.at, self.options
        started = saved = said = time.monotonic()
        first, blocks, size = at.block, self.streams.blocks, o.streams * o.step
        carried = self.share_of(at.carried)
        with closing(self.read_ahead(first)) as ahead:
            for block in ahead:
                x, y = self.to_device(*block)
                found, carried = self.forward(x, carried)
                loss = torch.nn.functional.mse_loss(found, y)
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                lost = float(self.workers.total(loss.detach().clone()).item()) / self.workers.world
                if not math.isfinite(lost):
                    raise TracekitError(
                        f"pass {at.epoch + 1}, block {at.block}: the loss is {lost}"
                    )
                self.optimizer.step()
                carried = tuple(h.detach() for h in carried)
                at.block, at.lost = at.block + 1, at.lost + lost
                now = time.monotonic()
                over = o.minutes is not None and now - begin > 60 * o.minutes
                what = 2 if over else 1 if now - saved > o.checkpoint_s else 0
                what = self.workers.decide(what if at.block < blocks else 0)
                if now - said > 10:
                    said, rate = now, (at.block - first) * size / (now - started)
                    report(self.progress(rate, lost))
                if what:
                    at.carried = tuple(self.workers.gather(h, 1) for h in carried)
                    self.checkpoint()
                    saved = now
                    if what == 2:
                        return False
        self.schedule.step()
        rate = (blocks - first) * size / (time.monotonic() - started)
        self.end_of_pass(rate, report)
        return True

    def progress(self, rate: float, lost: float) -> dict[str, Any]:
        at, blocks = self.at, self.streams.blocks
        size = self.options.streams * self.options.step
        left = (self.options.epochs - at.epoch) * blocks - at.block
        return {
            "event": "progress",
            "step": at.epoch * blocks + at.block,
            "epoch": at.epoch + 1,
            "share_of_pass": round(at.block / blocks, 4),
            "loss": lost,
            "rows_per_s": round(rate),
            "seconds_left": round(left * size / rate),
        }

    def end_of_pass(self, rate: float, report: Report) -> None:
        at, blocks = self.at, self.streams.blocks
        event: dict[str, Any] = {**self.progress(rate, at.lost / blocks), "event": "epoch"}
        score = -float(at.epoch + 1)
        if self.check:
            score = event["validation_mean_error"] = self.validation_error()
        at.since_best = 0 if score < at.best else at.since_best + 1
        if score < at.best:
            at.best = score
            self.save(event)
        at.epoch, at.block, at.lost, at.carried = at.epoch + 1, 0, 0.0, None
        self.checkpoint()
        report(event)

    # ---- one block

    def read_ahead(self, first: int) -> Generator[tuple[F32, F32], None, None]:
        """The pass's blocks from ``first`` on, read in a thread while the network works."""
        wanted = range(first, self.streams.blocks)
        return overlap(lambda: (self.read(self.streams, k, self.mine) for k in wanted))

    def read(self, streams: Streams, k: int, mine: Sequence[int]) -> tuple[F32, F32]:
        x, y = streams.block(k, mine)
        return (x - self.mean) / self.std, y

    def to_device(self, x: F32, y: F32) -> tuple[Any, Any]:
        device, torch = self.workers.device, self.torch
        return torch.from_numpy(x).to(device), torch.from_numpy(y).to(device) * self.units

    def forward(self, x: Any, carried: Any, network: Any = None) -> tuple[Any, Any]:
        kind = self.workers.device.split(":")[0]
        with self.torch.autocast(kind, self.torch.bfloat16, enabled=self.options.bf16):
            found, carried = (network or self.parallel)(x, carried)
        return found, carried

    def share_of(self, carried: Any) -> Any:
        if carried is None:
            return None
        mine = slice(self.mine.start, self.mine.stop)
        return tuple(h[:, mine].contiguous().to(self.workers.device) for h in carried)

    def validation_error(self) -> float:
        """Mean absolute relative error of total time, over programs that were not trained on."""
        torch, w = self.torch, self.workers
        errors = torch.zeros(len(self.check), dtype=torch.float64, device=w.device)
        with torch.no_grad():
            for i, p in enumerate(self.check):
                if i % w.world != w.rank:
                    continue
                found: Any = 0.0
                true: Any = 0.0
                carried = None
                count = min(self.options.streams, 16)
                with Streams([p], FEATURES, count, self.options.step, self.options.rows) as s:
                    for k in range(s.blocks):
                        x, y = self.to_device(*self.read(s, k, range(count)))
                        z, carried = self.forward(x, carried, self.network)
                        found, true = found + z.double().sum((0, 1)), true + y.double().sum((0, 1))
                errors[i] = (found / true - 1).abs().mean()
        return float(w.total(errors).mean())

    # ---- files

    def checkpoint(self) -> None:
        if not self.workers.leads:
            return
        state = {
            "progress": vars(self.at),
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "ended": self.ended,
        }
        write_checkpoint(self.torch, self.place, self.setup, state)

    @property
    def ended(self) -> bool:
        """Whether all passes are done, or the last ones gained nothing."""
        o, at = self.options, self.at
        return at.epoch >= o.epochs or at.since_best >= o.patience

    @cached_property
    def setup(self) -> dict[str, Any]:
        """What names the run: its options, and its data and machines by what they hold."""
        known = self.manifest.machines
        return {
            **self.options.setup(),
            "programs": [[p.name, p.data_digest()] for p in self.programs],
            "validation": [[p.name, p.data_digest()] for p in self.check],
            "machines": [[m, known.get(m, {})] for m in self.machines],
        }

    def restore(self) -> None:
        with read_checkpoint(self.torch, self.place, self.setup) as saved:
            self.network.load_state_dict(saved["network"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.schedule.load_state_dict(saved["schedule"])
            self.at = _Progress(**saved["progress"])

    def save(self, event: dict[str, Any]) -> None:
        """The model folder; every process may call it, the leading one writes."""
        if not self.workers.leads:
            return
        with self.programs[0].open() as data:
            sample = data.features(FEATURES, (0, min(len(data), 256)))
        _write(self, sample, event)


def _network(torch: Any, columns: int, hidden: int, machines: int) -> Any:
    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rnn = torch.nn.LSTM(columns, hidden, LAYERS, batch_first=True)
            self.table = torch.nn.Linear(hidden, machines, bias=False)

        def forward(self, x: Any, carried: Any) -> tuple[Any, Any]:
            r, carried = self.rnn(x, carried)
            with torch.autocast(x.device.type, enabled=False):
                return self.table(torch.relu(r.float())), carried

    return Network()


def _write(run: _Run, sample: F32, event: dict[str, Any]) -> None:
    torch, network = run.torch, run.network
    spec = model_spec(run.mean, run.std, run.options.hidden, len(run.machines))
    with torch.no_grad():
        x = torch.from_numpy((sample - run.mean) / run.std).to(run.workers.device)[None]
        r = torch.relu(network.rnn(x)[0])
        golden = {
            "input": sample,
            "representation": r[0].cpu().numpy(),
            "head.time": network.table(r)[0].cpu().numpy(),
        }
    training = {
        "tracekit": __version__,
        "preset": "paper",
        **run.options.setup(),
        "programs": [p.name for p in run.programs],
        "held_out_families": sorted(run.manifest.test),
        **{k: v for k, v in event.items() if k not in ("event", "seconds_left")},
    }
    machines = [{"name": m, "parameters": run.manifest.machines.get(m, {})} for m in run.machines]
    made = card(run.out.name, spec, machines, training)
    tensors = {k: v.detach().cpu().numpy() for k, v in network.state_dict().items()}
    save_model(run.out, made, tensors, golden)
