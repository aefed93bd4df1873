"""Model intervals: how far a model was off on families of programs that it had not seen.

Conformal prediction (Vovk, Gammerman and Shafer 2005) with scaled residuals (Papadopoulos et al.,
ECML 2002): of a program the half width is a quantile of the other programs' errors, in multiples of
each machine's own spread, wider where the program lies outside of what the model was fitted on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import FormatError
from tracekit.io.files import read_json
from tracekit.mixture.distribution import Distribution

__all__ = ["RESIDUALS", "Residuals", "joined", "strangeness"]

F64 = npt.NDArray[np.float64]
#: The file in a model's folder.
RESIDUALS = "residuals.json"
LEVEL = 0.95
#: How much wider an interval is for a program all of whose instructions are outside.
WIDER = 4.0


def strangeness(program: Distribution, seen: Distribution) -> float:
    """The largest share of a program's instructions, or of a feature's values, that lies outside
    of what was seen, or of its micro-ops, that depends on values: 0 to 1."""
    outside = max(program.outside(seen).values(), default=0.0)
    return float(min(1.0, max(outside, program.of_values())))


@dataclass(frozen=True)
class Residuals:
    """``logs`` float64 [programs, machines]: logarithm of predicted over true cycles, each program
    by a fit without its family; ``strange`` float64 [programs]: `strangeness` in the others;
    ``cores`` [programs, machines]: the same of each machine's own simulated core, which nothing was
    fitted to, or None."""

    machines: tuple[str, ...]
    programs: tuple[str, ...]
    families: tuple[str, ...]
    strange: F64
    logs: F64
    cores: F64 | None = None

    def half(self, machines: Sequence[str], strange: float) -> F64:
        """Half the 95 % interval of the logarithm of cycles on each machine, of a program that is
        so strange: float64 [machines]; NaN of machines that are not known."""
        known = {m: j for j, m in enumerate(self.machines)}
        widths = self._widths(self.logs, np.arange(len(self.programs)))
        own = [widths[known[m]] if m in known else math.nan for m in machines]
        return np.array(own) * _factor(strange)

    def pair_half(self, machines: Sequence[str], first: int, strange: float) -> F64:
        """Half the 95 % interval of the logarithm of each machine's cycles over those of
        ``machines[first]``: float64 [machines]; NaN of pairs that are not known, 0 of itself.  Two
        machines' errors on one program are often alike, so that it is narrower than of one."""
        known = {m: j for j, m in enumerate(self.machines)}
        out = np.full(len(machines), math.nan)
        if machines[first] in known:
            pairs = self.logs - self.logs[:, [known[machines[first]]]]
            widths = self._widths(pairs, np.arange(len(self.programs)))
            of = [widths[known[m]] if m in known else math.nan for m in machines]
            out = np.array(of) * _factor(strange)
        out[first] = 0.0
        return out

    def pair_halves(self, machines: Sequence[str], strange: float) -> F64:
        """`pair_half` by each machine: float64 [machines, machines]."""
        each = [self.pair_half(machines, j, strange) for j in range(len(machines))]
        return np.array(each).reshape(len(machines), len(machines))

    def design_half(self, strange: float) -> tuple[float, float] | None:
        """Half the 95 % intervals of the logarithm of a simulated core's cycles, of a design that
        no residual is known of, and of that of two designs' ratio: quantiles over all programs, and
        over all machines or pairs of them.  None where the residuals of cores are not known."""
        if self.cores is None:
            return None
        scale = _factors(self.strange)
        one = np.abs(self.cores) / scale[:, None]
        a, b = np.triu_indices(len(self.machines), 1)
        two = np.abs(self.cores[:, a] - self.cores[:, b]) / scale[:, None]
        level = min(1.0, LEVEL * (1 + 1 / len(self.programs)))
        halves = [float(np.quantile(x, level)) if x.size else math.nan for x in (one, two)]
        return halves[0] * _factor(strange), halves[1] * _factor(strange)

    def moments(self, machines: Sequence[str], without: Sequence[str] = ()) -> F64 | None:
        """Of a program inside of what the model was fitted on: the mean over families of the
        products of the logarithms on two machines, float64 [machines, machines]; None where one of
        them is not known.  ``without``: families that are left out."""
        known = {m: j for j, m in enumerate(self.machines)}
        if any(m not in known for m in machines):
            return None
        scaled = self.logs[:, [known[m] for m in machines]] / _factors(self.strange)[:, None]
        products = scaled[:, :, None] * scaled[:, None, :]
        families = np.array(self.families)
        kept = [f for f in dict.fromkeys(self.families) if f not in without]
        return np.asarray(np.mean([products[families == f].mean(axis=0) for f in kept], axis=0))

    @staticmethod
    def wider(strange: npt.ArrayLike) -> F64:
        """How many times larger errors are of programs that are so strange."""
        return _factors(np.clip(np.asarray(strange, np.float64), 0.0, 1.0))

    def coverage(self) -> dict[str, float]:
        """Of intervals that come from the other families alone: how many of program x machine hold
        the truth, the least by program and by machine, and the median half width as a share."""
        held, width = self._judged(self.logs)
        pairs = [self._judged(self.logs - self.logs[:, [j]])[0] for j in range(len(self.machines))]
        own = np.eye(len(self.machines), dtype=bool)
        told = np.stack(pairs, axis=1)[:, ~own]
        return {
            "held": float(held.mean()),
            "least_by_machine": float(held.mean(axis=0).min()),
            "most_by_machine": float(held.mean(axis=0).max()),
            "least_by_program": float(held.mean(axis=1).min()),
            "median_half_width": float(np.median(np.expm1(width))),
            "pairs_held": float(told.mean()) if told.size else math.nan,
        }

    def _judged(self, logs: F64) -> tuple[npt.NDArray[np.bool_], F64]:
        """Of ``logs`` [programs, …] which an interval of the other families' holds, and its half
        width."""
        held = np.zeros(logs.shape, bool)
        width = np.zeros(logs.shape)
        for i, family in enumerate(self.families):
            others = np.array([k for k, f in enumerate(self.families) if f != family])
            width[i] = self._widths(logs, others) * _factor(float(self.strange[i]))
            held[i] = np.abs(logs[i]) <= width[i]
        return held, width

    def _widths(self, logs: F64, programs: npt.NDArray[np.intp]) -> F64:
        """By machine: the mean size of its residuals, times the multiple of it that `LEVEL` of all
        machines' residuals are below.  A machine's own programs are too few for a quantile of their
        own; a mean square would follow the farthest of them."""
        scaled = np.abs(logs[programs]) / _factors(self.strange[programs])[:, None]
        spread: F64 = np.mean(scaled, axis=0)
        some = spread > 0
        if not some.any():
            return spread
        multiples = scaled[:, some] / spread[some]
        return spread * float(np.quantile(multiples, LEVEL, method="higher"))

    def as_dict(self) -> dict[str, Any]:
        """For residuals.json; `load` takes it back."""
        programs: list[dict[str, Any]] = []
        for i, name in enumerate(self.programs):
            strange = round(float(self.strange[i]), 4)
            entry = {"name": name, "family": self.families[i], "strange": strange}
            entry["logs"] = " ".join(f"{x:.4f}" for x in self.logs[i])
            if self.cores is not None:
                entry["cores"] = " ".join(f"{x:.4f}" for x in self.cores[i])
            programs.append(entry)
        return {"machines": list(self.machines), "programs": programs}

    @classmethod
    def load(cls, path: str | Path) -> Residuals:
        """From a file; `FormatError` for another one."""
        data = read_json(Path(path))
        try:
            machines = tuple(str(m) for m in data["machines"])
            programs = data["programs"]
            names = tuple(str(p["name"]) for p in programs)
            families = tuple(str(p["family"]) for p in programs)
            strange = np.array([float(p["strange"]) for p in programs])
            logs = np.array([[float(x) for x in p["logs"].split()] for p in programs])
            of_cores = [[float(x) for x in p["cores"].split()] for p in programs if "cores" in p]
            cores = np.array(of_cores) if of_cores else None
        except (TypeError, KeyError, ValueError, AttributeError):
            raise FormatError("not the residuals of a model", path=str(path)) from None
        whole = logs.shape == (len(names), len(machines)) and len(names) > 1
        if cores is not None:
            whole = whole and cores.shape == logs.shape and bool(np.isfinite(cores).all())
        if not whole or not np.isfinite(logs).all() or not np.isfinite(strange).all():
            raise FormatError("residuals: a number for each program and machine", path=str(path))
        return cls(machines, names, families, strange, logs, cores)


def joined(each: Sequence[Residuals]) -> Residuals | None:
    """Of machines of several models, over the programs that all of them know (a machine that two
    have: the first one's); None where that is fewer than two programs."""
    places = [{name: i for i, name in enumerate(r.programs)} for r in each]
    names = [n for n in each[0].programs if all(n in at for at in places)] if each else []
    if len(names) < 2:
        return None
    logs = np.hstack([r.logs[[at[n] for n in names]] for r, at in zip(each, places, strict=True)])
    machines = [m for r in each for m in r.machines]
    first = [j for j, m in enumerate(machines) if machines.index(m) == j]
    own = [places[0][n] for n in names]
    return Residuals(
        tuple(machines[j] for j in first),
        tuple(names),
        tuple(each[0].families[i] for i in own),
        each[0].strange[own],
        logs[:, first],
    )


def _factor(strange: float) -> float:
    return 1 + WIDER * strange


def _factors(strange: F64) -> F64:
    out: F64 = 1 + WIDER * strange
    return out
