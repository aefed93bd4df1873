"""``tracekit train neuroscalar``: the paper's two-headed model, and one of our own (preset
``default``); over chunks with a burn-in, with the loss at every position behind it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracekit._version import __version__
from tracekit.dataset import Manifest, Program
from tracekit.errors import UsageError
from tracekit.extras import install_command
from tracekit.infer_torch.devices import check_device
from tracekit.model import ModelSpec
from tracekit.neuroscalar import history, instructions, presets
from tracekit.neuroscalar.program_rows import (
    HELD,
    VALIDATION,
    Rows,
    read_default,
    read_paper,
)
from tracekit.train.checkpoint import is_there, read_checkpoint
from tracekit.train.chunks import Sampler, tenths, watched
from tracekit.train.neuroscalar_model import save
from tracekit.train.neuroscalar_options import Options
from tracekit.train.neuroscalar_run import Report, Run

__all__ = ["Options", "train_neuroscalar"]

CHECKPOINT = "checkpoint.pt"


def train_neuroscalar(
    manifest: Manifest,
    out: Path,
    options: Options,
    *,
    cache: Path | None = None,
    report: Report = lambda _: None,
    force: bool = False,
) -> Path:
    """Train, and write the model folder ``out``.

    Families of the manifest's test are left out.  Of the others every tenth block of 5000 rows is
    held out, and another tenth stops the training early (or the families of the manifest's
    validation, where it names some).  ``cache``: where the programs' arrays are kept.  A run that
    was killed goes on where it was; ``force``: one that has ended, or another one, is replaced.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise UsageError("training needs torch", hint=install_command("train")) from None
    check_device(torch, options.device)
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    programs = [p for p in manifest.programs if p.family not in manifest.test]
    if not programs:
        raise UsageError("no programs to train on", path=str(manifest.path))
    names = list(_machines(manifest, programs[0]))
    if options.machines:
        with programs[0].open() as opened:
            names = manifest.chosen(options.machines, opened.machines)
    setup = _setup(manifest, programs, names, options)
    goes_on = _goes_on(torch, out / CHECKPOINT, setup, force)
    data = _read(manifest, programs, names, options, cache or out / "cache", report)
    train = [r for r in data if r.program.family not in manifest.validation]
    check = [r for r in data if r.program.family in manifest.validation]
    spec = _spec(names, options, train)
    run = Run(torch, spec, _columns(names, options), options, names)
    state = run.restore(out / CHECKPOINT, setup) if goes_on else None
    if state:
        report({"event": "resumed", "step": state["step"]})
    sampler = Sampler(train, options, tenths(bool(check)))
    watch = watched(check or train, options, None if check else VALIDATION)
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
    save(run, manifest, out, data, names, options, sampler, training, judge)
    report({"event": "saved", **best["validation"], "step": best["step"]})
    return out


def _setup(
    manifest: Manifest, programs: Sequence[Program], names: Sequence[str], options: Options
) -> str:
    """What names the run: its options, and its data and machines by what they hold."""
    data = sorted((p.name, p.family, p.data_digest()) for p in programs)
    machines = [(m, manifest.machines.get(m, {})) for m in names]
    of = [data, machines, sorted(manifest.validation)]
    return f"{options} {hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()}"


def _goes_on(torch: Any, place: Path, setup: str, force: bool) -> bool:
    """Whether there is a checkpoint to go on from.  Raises UsageError, before anything is computed,
    where it is another run's; with ``force`` that goes, and so does one of a run that has ended."""
    if not is_there(torch, place, setup, force):
        return False
    with read_checkpoint(torch, place, setup):
        return True


def _machines(manifest: Manifest, program: Program) -> tuple[str, ...]:
    """Those of the manifest that the program has targets of; all of these where it names none."""
    with program.open() as data:
        return tuple(m for m in data.machines if m in manifest.machines) or data.machines


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
    held = tenths(bool(manifest.validation))
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
