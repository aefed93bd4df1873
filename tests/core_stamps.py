"""Which cores the shipped artefacts were made with (golden/cores/stamps.json).

Each entry has ``made``, which changes when the thing is made again (a feature set's number, the
hash of a model's table or of class_residuals.json), and ``cores``, the digest of the golden cycles
that it belongs to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import core_pins as pins
import numpy as np

from tracekit import sim
from tracekit.calibration import row_classes
from tracekit.mixture import model
from tracekit.model.card import WEIGHTS
from tracekit.neuroscalar import instructions

FILE = pins.FOLDER / "stamps.json"
RESIDUALS = Path(row_classes.__file__).parent / "class_residuals.json"
#: Each shipped model: its instruction set and level, and the golden traces that it predicts.
MODELS = {"default_arm": ("arm", "micro", ("zstd.arm", "hashjoin.arm")),
          "default_x86": ("x86", "macro", ("chase_big.x86", "sqlite_join.x86")),
          "default_x86_micro": ("x86", "micro", ("chase_big.x86", "sqlite_join.x86")),
          "default_riscv": ("riscv", "micro", ("hash-chained.riscv",))}  # fmt: skip


def stored() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def feature_sets() -> dict[Path, str]:
    """The numbered feature sets whose values the cores make, by the source that names them."""
    return {Path(m.__file__): m.FEATURE_SET for m in (model, instructions)}


def predicted(shipped_as: str) -> dict[str, list[float]]:
    """Cycles that the shipped model says of the golden traces, of each of its machines: what the
    cores as they are give, times its table."""
    arch, level, names = MODELS[shipped_as]
    shipped = model.load_model(None, arch, level)
    out = {}
    for name in names:
        sums = sim.totals(pins.extracted(name, level), shipped.cores)
        out[name] = [round(float(v), 2) for v in np.ravel(shipped.cycles(sums))]
    return out


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def model_stamp(shipped_as: str, cores: str) -> dict[str, Any]:
    """A shipped model's entry."""
    arch, level, _ = MODELS[shipped_as]
    made = _sha256(model.default_model_path(arch, level) / WEIGHTS)
    return {"made": made, "cores": cores, "cycles": predicted(shipped_as)}


def current(cycles: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, Any]:
    """The stamps of what is here, with the cores whose pins are ``cycles``."""
    totals, whole = pins.digest(cycles, whole=False), pins.digest(cycles, whole=True)
    perfvec, timing = feature_sets().values()
    return {
        "feature_sets": {
            perfvec: {"made": perfvec, "cores": totals},
            timing: {"made": timing, "cores": whole},
        },
        "models": {name: model_stamp(name, totals) for name in MODELS},
        "files": {RESIDUALS.name: {"made": _sha256(RESIDUALS), "cores": totals}},
    }


def remedy(name: str) -> str:
    """What makes a thing of other cores one of these."""
    if name.startswith("default_"):
        return "train it again (docs/perfvec.md)"
    if name == RESIDUALS.name:
        return "give --manifest"
    return "raise FEATURE_SET (--bump)"
