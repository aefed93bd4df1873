"""What a training writes: the model folder, with a readout of the mean fitted to chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.dataset import Manifest
from tracekit.errors import UsageError
from tracekit.model import Card, save_model
from tracekit.neuroscalar import history, instructions, presets
from tracekit.neuroscalar.program_rows import (
    Rows,
    part_of,
)
from tracekit.neuroscalar.readout import best_share, fit_mean_map
from tracekit.sim import TIMING
from tracekit.train.chunks import Sampler, tenths, watched
from tracekit.train.neuroscalar_options import Options
from tracekit.train.neuroscalar_run import Run

__all__ = ["save"]

TABLES = "history.safetensors"
GOLDEN_ROWS = 384
#: Chunks that the mean readout is fitted on.
FITTED = 1000
#: Chunks of each program that the cores' share is chosen on.
SHARED_CHUNKS = 40
Array = npt.NDArray[Any]


def save(
    run: Run,
    manifest: Manifest,
    out: Path,
    data: Sequence[Rows],
    names: Sequence[str],
    o: Options,
    sampler: Sampler,
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
    from tracekit.infer_torch.network import cycles_of

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
        extra["arch"] = opened.trace.arch
    if o.preset == "default":
        extra["simulated_cores"] = machines
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
    more = {}
    if extra["history"]:
        held = tenths(bool(manifest.validation))
        parts = []
        for d in data:
            if d.program.family in manifest.validation:
                continue
            use = ~np.isin(part_of(len(d)), list(held))
            core = np.asarray(d.columns)[:, : 5 * len(names) : 5]
            parts.append(([np.asarray(k)[use] for k in d.keys], d.cycles[use], core[use]))
        more[TABLES] = history.make_tables(parts).tensors()
    save_model(out, card, run.net.tensors(), golden, more)


def _core_share(run: Run, programs: Sequence[Rows], tenth: int | None) -> float:
    """How much of the simulated cores' cycles is best in the mean, by the programs' total times."""
    torch, o = run.torch, run.o
    at = [run.columns.index(f"{m}.{TIMING[0]}") for m in run.machines]
    sums = []
    for r in programs:
        try:
            batches = watched([r], o, tenth, SHARED_CHUNKS)
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

    from tracekit.infer_torch.network import cycles_of

    def total(scale: float) -> float:
        plain = replace(head, readout="mean", scale=(scale,) * head.width_out)
        return float(cycles_of(plain, torch.from_numpy(raw)).double().sum())

    short = total(1e-9)
    long = total(1.0) - short
    wanted = float(truth.sum(dtype=np.float64)) - short
    scale = float(np.clip(wanted / long, 0.2, 5.0)) if long > 0 else 1.0
    return [scale] * head.width_out
