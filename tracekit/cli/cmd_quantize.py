"""``tracekit quantize``: int8 weights and corrected biases for a model, calibrated on traces; and
what the number formats change, on the same traces or on others."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tracekit.cli.report import add_json, reported
from tracekit.text import counted


def add_parser(sub: Any, help_text: str) -> None:
    """Add the options of ``tracekit quantize``."""
    p = sub.add_parser("quantize", help=help_text, description=__doc__)
    p.add_argument("model", help="a model folder; what is found is written into it")
    p.add_argument("files", nargs="+", metavar="FEATS", help="feats.zst files to calibrate on")
    p.add_argument(
        "--test",
        nargs="+",
        action="extend",
        default=[],
        metavar="FEATS",
        help="files for the table (those of the calibration unless given)",
    )
    p.add_argument(
        "--rows", type=int, default=100_000, help="rows of each file that are read (100000)"
    )
    p.add_argument(
        "--inputs",
        choices=("auto", "bf16", "int8"),
        default="auto",
        help="how int8 reads raw features (default: int8 where that does not harm the totals of "
        "the calibration rows)",
    )
    p.add_argument("--force", action="store_true", help="replace what an earlier run has found")
    add_json(p)
    p.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run ``tracekit quantize``; returns the exit code."""
    # imported late: the other commands need no Numba
    import functools

    from tracekit.errors import TracekitError, UsageError
    from tracekit.infer import CORRECTIONS, quantize
    from tracekit.infer.accuracy import accuracy
    from tracekit.mixture import FEATURE_SET
    from tracekit.model import load_card
    from tracekit.neuroscalar import apply_mean_map

    if args.rows < 1:
        raise UsageError(f"--rows is {args.rows}; at least 1")
    if load_card(args.model).feature_set == FEATURE_SET:
        raise UsageError("the model is a table of simulated cores: no network", path=args.model)
    if CORRECTIONS in load_card(args.model).files and not args.force:
        path = str(Path(args.model) / CORRECTIONS)
        raise TracekitError("exists already", path=path, hint="--force replaces it")
    blocks, targets = _read(args.model, args.files, args.rows)
    quantize(args.model, blocks, raw={"bf16": False, "int8": True}.get(args.inputs))
    if args.test:
        blocks, targets = _read(args.model, args.test, args.rows)
    card = load_card(args.model)
    heads = {h.name for h in card.spec.heads}
    entry = card.extra.get("mean_map")
    mean = functools.partial(apply_mean_map, entry) if entry else None
    formats = accuracy(args.model, blocks, targets, mean=mean)
    if "mean" in heads:  # a model of medians has a head whose sums are right
        sums = accuracy(args.model, blocks, head="mean")
        for row, own in zip(formats, sums, strict=True):
            row |= {k: v for k, v in own.items() if k.startswith("total_")}
    report = {
        "model": args.model,
        "tested_on": "other files" if args.test else "calibration",
        "rows": sum(map(len, blocks)),
        "formats": formats,
    }
    if reported(args, report):
        return 0
    print(
        f"{counted(report['rows'], 'row')} of {counted(len(blocks), 'file')}, {report['tested_on']}"
    )
    names = [k for k in formats[0] if k not in ("dtype", "corrected")]
    print(f"{'':<16}" + "".join(f"{n:>18}" for n in names))
    for row in formats:
        title = row["dtype"] + (", corrected" if row["corrected"] else "")
        print(f"{title:<16}" + "".join(f"{row[n]:18.6f}" for n in names))
    return 0


def _read(model: str, paths: list[str], rows: int) -> tuple[list[Any], list[Any]]:
    """Rows of the files as the model's columns, and their cycles where they are known: of models of
    instructions the first, of others those in the middle, for programs start alike."""
    import tracekit
    from tracekit.model import load_card
    from tracekit.neuroscalar import CycleModel, is_cycle_model

    card = load_card(model)
    cycles = CycleModel(model, device="cpu", dtype="f32") if is_cycle_model(model) else None
    blocks, targets = [], []
    for path in paths:
        with tracekit.open(path) as trace:
            begin = 0 if cycles is not None else max(0, (len(trace) - rows) // 2)
            part = (begin, min(begin + rows, len(trace)))
            if cycles is None:
                blocks.append(trace.features(card.feature_set, part))
                targets.append(_truth(trace, card, part))
            else:
                blocks.append(_instructions(cycles, trace, rows))
                macro = trace.level == "macro"
                targets.append(_truth(trace, card, part) if macro else None)
    return blocks, targets


def _instructions(model: Any, trace: Any, rows: int) -> Any:
    """The columns of a trace's first instructions."""
    import numpy as np

    parts, count = [], 0
    for block in model.rows(trace):
        parts.append(block[: rows - count])
        count += len(parts[-1])
        if count >= rows:
            break
    return np.ascontiguousarray(np.concatenate(parts), np.float32)


def _truth(trace: Any, card: Any, rows: tuple[int, int]) -> Any:
    """Cycles of the rows on the model's first machine: joined ones, else the trace's own; None
    where there are none."""
    from tracekit.dataset import Dataset

    names = [m.get("name") for m in card.microarchitectures]
    if "targets" in trace.index and names:
        with Dataset(trace.path) as data:
            if names[0] in data.machines and rows[1] <= len(data):
                return data.cycles(rows)[:, data.column_of(names[0])]
    return trace.targets("cycles", rows) if trace.timed else None
