"""The cores on the first rows of every fourth shared program, beside gem5's cycles of them."""

from __future__ import annotations

import hashlib
import json
import lzma
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import core_pins as pins
import numpy as np
from gem5_exec import SHARED
from shared_cycles import commits, folder, machine, machine_names

import tracekit
from tracekit import sim

FILE = pins.FOLDER / "shared.json"
ROWS, EVERY = 12_000, 4


def here() -> bool:
    return (SHARED / "commits").is_dir()


def stored() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def programs(arch: str) -> list[str]:
    """Every fourth program that has gem5's cycles."""
    return sorted(p.name.split(".")[0] for p in (folder(arch) / "commits").glob("*.zst"))[::EVERY]


def compared(arch: str, program: str, rows: int = ROWS) -> dict[str, Any]:
    """On all machines: a hash of the cores' totals, the mean and the worst error in percent of
    gem5's."""
    names = machine_names(arch)
    with lzma.open(folder(arch) / "exec" / f"{program}.xz") as f:
        text = b"".join(islice(f, rows))
    theirs = commits(arch, program, names)[:, :rows].sum(axis=1, dtype=float)
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "trace.txt"
        source.write_bytes(text)
        tracekit.extract(str(source), f"{work}/feats.zst")
        with tracekit.open(f"{work}/feats.zst") as trace:
            ours = sim.totals(trace, [machine(m) for m in names])[0]
    error = 100 * (ours - theirs) / theirs
    worst = int(np.argmax(np.abs(error)))
    return {
        "totals": hashlib.sha256(ours.astype("<f8").tobytes()).hexdigest()[:16],
        "mean_error": round(float(np.abs(error).mean()), 2),
        "worst": [names[worst], round(float(error[worst]), 2)],
    }


def all_values() -> dict[str, Any]:
    return {a: {p: compared(a, p) for p in programs(a)} for a in ("arm", "x86")}
