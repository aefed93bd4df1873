"""The preset ``paper``: PerfVec's own model.  51 features, an LSTM of 2 x 256 and ReLU, a table
without bias, MSE on all machines of a row at once, Adam with its rate divided by ten every ten
passes; trained over streams with carried state, with the loss at every position (the same function
as windows of 256 for every row, for 1/256 of the work)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import features
from tracekit._version import __version__
from tracekit.dataset import Manifest, Program, open_targets
from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.model import Card, ModelSpec, save_model
from tracekit.perfvec.model import period
from tracekit.store.reader import TraceFile

__all__ = ["train_paper"]

FEATURES, HIDDEN, LAYERS = "perfvec", 256, 2
STREAMS, STEP = 64, 256
CHECKPOINT = "checkpoint.pt"
F32 = npt.NDArray[np.float32]


def train_paper(
    manifest: Manifest,
    out: Path,
    *,
    epochs: int = 50,
    rows: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    hidden: int = HIDDEN,
    streams: int = STREAMS,
    step: int = STEP,
    device: str = "cpu",
    report: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Path:
    """Train, with a checkpoint after each pass, and write the model folder of the best pass on the
    validation families (of the last one where there are none).  ``rows``: only the first of each
    program."""
    try:
        import torch
    except ModuleNotFoundError:
        raise UsageError(
            "the preset paper needs torch", hint="pip install tracekit[train]"
        ) from None
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(seed)
    held = manifest.validation | manifest.test
    train = [p for p in manifest.programs if p.family not in held]
    check = [p for p in manifest.programs if p.family in manifest.validation]
    if not train:
        raise UsageError("no programs to train on", path=str(manifest.path))
    machines = list(train[0].order or manifest.machines)
    units = np.array([period(manifest.machines.get(m, {})) for m in machines]) * 1e10
    if not np.isfinite(units).all():
        raise UsageError("the preset paper counts in 0.1 ns: every machine needs clock_ghz")
    columns = tuple(f.name for f in features.get(FEATURES).features)
    mean, std = _statistics(train, rows)

    net = torch.nn.LSTM(len(columns), hidden, LAYERS, batch_first=True).to(device)
    table = torch.nn.Linear(hidden, len(machines), bias=False).to(device)
    parameters = [*net.parameters(), *table.parameters()]
    optimizer = torch.optim.Adam(parameters, 1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.1)
    out.mkdir(parents=True, exist_ok=True)
    state: dict[str, Any] = {"epoch": 0, "best": math.inf}
    setup = (
        f"{len(machines)} {hidden} {streams} {step} {rows} {seed} {sorted(p.name for p in train)}"
    )
    place = out / CHECKPOINT
    if place.exists():
        state = _restore(torch, place, setup, net, table, optimizer, schedule)
        report({"event": "resumed", "epoch": state["epoch"]})

    def batches(programs: list[Program]) -> Iterator[tuple[Any, Any]]:
        for x, y in _batches(programs, rows, streams, step):
            x = (x - mean) / std
            yield (
                torch.from_numpy(x).to(device),
                torch.from_numpy((y * units).astype(np.float32)).to(device),
            )

    for epoch in range(state["epoch"], epochs):
        begin, done, lost, carried = time.monotonic(), 0, 0.0, None
        for x, y in batches(train):
            r, carried = net(x, carried)
            carried = tuple(h.detach() for h in carried)
            loss = torch.nn.functional.mse_loss(table(torch.relu(r)), y)
            if not torch.isfinite(loss):
                raise TracekitError(f"pass {epoch + 1}: the loss is {loss.item()}")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            n = x.shape[0] * x.shape[1]
            done, lost = done + n, lost + loss.item() * n
        schedule.step()
        seconds = time.monotonic() - begin
        event = {
            "event": "epoch",
            "epoch": epoch + 1,
            "loss": lost / max(1, done),
            "rows_per_s": round(done / seconds),
            "seconds_left": round(seconds * (epochs - epoch - 1)),
        }
        if check:
            event["validation_mean_error"] = _error(torch, net, table, batches, check)
        report(event)
        score = event.get("validation_mean_error", -float(epoch))
        if score < state["best"]:
            state["best"] = score
            sample = next(iter(_batches(train, rows, 1, step)))[0][0]
            training = {
                "tracekit": __version__,
                "preset": "paper",
                "seed": seed,
                "epochs": epoch + 1,
                "programs": [p.name for p in train],
                **event,
            }
            _save(torch, out, net, table, columns, mean, std, machines, manifest, sample, training)
        state["epoch"] = epoch + 1
        part = place.with_suffix(".part")
        torch.save(
            {
                "setup": setup,
                **state,
                "net": net.state_dict(),
                "table": table.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
            },
            part,
        )
        part.replace(place)
    return out


def _restore(
    torch: Any, place: Path, setup: str, net: Any, table: Any, optimizer: Any, schedule: Any
) -> dict[str, Any]:
    try:
        saved = torch.load(place, weights_only=True)
        if saved["setup"] != setup:
            raise UsageError(
                "the checkpoint is of another run", path=str(place), hint="use another folder"
            )
        net.load_state_dict(saved["net"])
        table.load_state_dict(saved["table"])
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])
    except (KeyError, RuntimeError, ValueError, EOFError) as e:
        raise FormatError(f"not a checkpoint of this version: {e}", path=str(place)) from None
    return {"epoch": int(saved["epoch"]), "best": float(saved["best"])}


def _statistics(programs: list[Program], rows: int | None) -> tuple[F32, F32]:
    """Mean and deviation of the columns, over the programs' first rows."""
    total, squares, n = 0.0, 0.0, 0
    for p in programs:
        with TraceFile(p.features) as trace:
            x = trace.features(FEATURES, (0, min(len(trace), rows or 1 << 17, 1 << 17))).astype(
                np.float64
            )
        total, squares, n = total + x.sum(axis=0), squares + (x * x).sum(axis=0), n + len(x)
    mean = np.asarray(total) / n
    std = np.sqrt(np.maximum(np.asarray(squares) / n - mean**2, 0))
    return mean.astype(np.float32), np.where(std > 1e-6, std, 1).astype(np.float32)


def _batches(
    programs: list[Program], rows: int | None, streams: int, step: int
) -> Iterator[tuple[F32, npt.NDArray[Any]]]:
    """Blocks of ``step`` rows of ``streams`` streams: the programs end to end, cut into equal
    streams, so that the state of one block is that of the next.  Rows that do not fill a block are
    left out."""
    parts, lengths = [], []
    for p in programs:
        trace = TraceFile(p.features)
        n = min(len(trace), rows or len(trace))
        parts.append((trace, open_targets(p.targets, p.order, len(trace)).cycles))
        lengths.append(n)
    ends = np.cumsum(lengths)
    each = int(ends[-1]) // streams // step * step
    if each == 0:
        raise UsageError(f"{int(ends[-1])} rows are too few for {streams} streams of {step}")

    def rows_of(begin: int, end: int) -> tuple[F32, npt.NDArray[Any]]:
        xs, ys = [], []
        while begin < end:
            k = int(np.searchsorted(ends, begin, "right"))
            first = int(ends[k]) - lengths[k]
            upto = min(end, int(ends[k]))
            a, b = begin - first, upto - first
            xs.append(parts[k][0].features(FEATURES, (a, b)))
            ys.append(parts[k][1][:, a:b].T)
            begin = upto
        return np.concatenate(xs), np.concatenate(ys)

    for at in range(0, each, step):
        found = [rows_of(s * each + at, s * each + at + step) for s in range(streams)]
        yield np.stack([x for x, _ in found]), np.stack([y for _, y in found])


def _error(torch: Any, net: Any, table: Any, batches: Any, programs: list[Program]) -> float:
    """Mean absolute relative error of total time of programs that were not trained on."""
    errors = []
    with torch.no_grad():
        for p in programs:
            found, true, carried = 0.0, 0.0, None
            for x, y in batches([p]):
                r, carried = net(x, carried)
                found = found + torch.relu(r).sum((0, 1)).double() @ table.weight.T.double()
                true = true + y.double().sum((0, 1))
            errors.append(float((found / true - 1).abs().mean()))
    return float(np.mean(errors))


def _save(
    torch: Any,
    out: Path,
    net: Any,
    table: Any,
    columns: tuple[str, ...],
    mean: F32,
    std: F32,
    machines: list[str],
    manifest: Manifest,
    sample: F32,
    training: dict[str, Any],
) -> None:
    spec = ModelSpec.parse(
        {
            "inputs": [
                {"column": c, "transform": "value", "mean": float(m), "std": float(s)}
                for c, m, s in zip(columns, mean, std, strict=True)
            ],
            "layers": [
                {"type": "lstm", "name": "rnn", "hidden": net.hidden_size, "layers": LAYERS},
                {"type": "relu"},
            ],
            "heads": [
                {
                    "name": "time",
                    "targets": True,
                    "layers": [
                        {"type": "linear", "name": "table", "out": len(machines), "bias": False}
                    ],
                }
            ],
        }
    )
    tensors = {f"rnn.{k}": v.detach().cpu().numpy() for k, v in net.state_dict().items()}
    tensors["table.weight"] = table.weight.detach().cpu().numpy()
    with torch.no_grad():
        x = torch.from_numpy((sample - mean) / std).to(table.weight.device)[None]
        r = torch.relu(net(x)[0])
        golden = {
            "input": sample,
            "representation": r[0].cpu().numpy(),
            "head.time": table(r)[0].cpu().numpy(),
        }
    card = Card(
        name=out.name,
        spec=spec,
        columns=columns,
        feature_set=FEATURES,
        level="micro",
        preset="paper",
        unit="0.1ns",
        microarchitectures=[
            {"name": m, "parameters": manifest.machines.get(m, {})} for m in machines
        ],
        training=training,
    )
    save_model(out, card, tensors, golden)
