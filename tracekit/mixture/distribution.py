"""What a model has seen: the distribution of each feature in its training data, and the share of
another program's instructions that lies outside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracekit import schema
from tracekit.errors import FormatError
from tracekit.store.reader import TraceFile

__all__ = ["Distribution", "measure"]

#: log2 of a distance in lines; the last bucket is a first touch.
DISTANCES: Final = 28
#: Sixteenths of the taken probability of conditional branches.
PROBABILITIES: Final = 17
_COUNTED: Final = {
    "data_distance": DISTANCES,
    "fetch_distance": DISTANCES,
    "p_local": PROBABILITIES,
}
_WIDE: Final = (
    ("AVX-512", re.compile(r"zmm|\{k\d|\bk[0-7]\b|[xy]mm(1[6-9]|[23]\d)")),
    ("AVX", re.compile(r"ymm|^v[a-z]")),
)
F64 = npt.NDArray[np.float64]


@dataclass
class Distribution:
    """Counts of instructions: ``names`` by name (operation class where a trace has no names),
    ``sizes`` of accesses in bytes, ``histograms`` of each feature in its buckets; ``wide`` those of
    vector extensions; ``lines`` and ``code_lines`` the distinct lines of 64 bytes, of the largest
    program where several were put together."""

    instructions: float = 0
    names: dict[str, float] = field(default_factory=dict)
    sizes: dict[int, float] = field(default_factory=dict)
    histograms: dict[str, F64] = field(default_factory=dict)
    wide: dict[str, float] = field(default_factory=dict)
    system_calls: float = 0
    lines: int = 0
    code_lines: int = 0

    def add(self, other: Distribution) -> None:
        """Another program's counts, too."""
        self.instructions += other.instructions
        self.system_calls += other.system_calls
        for mine, its in ((self.names, other.names), (self.wide, other.wide)):
            for k, n in its.items():
                mine[k] = mine.get(k, 0.0) + n
        for size, n in other.sizes.items():
            self.sizes[size] = self.sizes.get(size, 0.0) + n
        for k, v in other.histograms.items():
            self.histograms[k] = self.histograms.get(k, np.zeros(_COUNTED[k])) + v
        self.lines = max(self.lines, other.lines)
        self.code_lines = max(self.code_lines, other.code_lines)

    def outside(self, seen: Distribution) -> dict[str, float]:
        """Shares of these instructions: ``names`` and access ``sizes`` that ``seen`` does not have,
        and values of each feature in buckets that are empty there."""
        n = max(self.instructions, 1.0)
        out = {
            "names": sum(v for k, v in self.names.items() if k not in seen.names) / n,
            "sizes": sum(v for k, v in self.sizes.items() if k not in seen.sizes) / n,
        }
        for k, v in self.histograms.items():
            empty = seen.histograms.get(k, np.zeros(_COUNTED[k])) == 0
            out[k] = float(v[empty].sum()) / n
        return out

    def of_values(self) -> float:
        """The share of micro-ops in X86 instructions that take as many as their values say, which
        no recording has: unsigned divisions.  Every other instruction counts as one micro-op."""
        divisions = self.names.get("div", 0.0)  # by name at the macro level of X86 alone
        if not divisions:
            return 0.0
        from tracekit.sim.microcode_loops import mean_turns
        from tracekit.sim.uop_cracking import crack
        from tracekit.sim.uop_forms import form_of

        uops = crack(form_of("div rcx"))
        turn = sum(uop.back + 1 for uop in uops if uop.back)
        parts = divisions * (len(uops) + turn * mean_turns("div"))
        return parts / (max(self.instructions, divisions) - divisions + parts)

    def unseen_names(self, seen: Distribution) -> list[str]:
        """Names that ``seen`` does not have, the most frequent first."""
        return [k for k in _most(self.names) if k not in seen.names]

    def as_dict(self) -> dict[str, Any]:
        """For a card; ``parse`` takes it back."""
        return {
            "instructions": round(self.instructions),
            "system_calls": round(self.system_calls),
            "lines": self.lines,
            "code_lines": self.code_lines,
            "names": {k: round(self.names[k]) for k in _most(self.names)},
            "sizes": {str(k): round(v) for k, v in sorted(self.sizes.items())},
            "wide": dict(self.wide),
            "histograms": {k: [round(x) for x in v.tolist()] for k, v in self.histograms.items()},
        }

    @classmethod
    def parse(cls, data: Any) -> Distribution:
        """What ``as_dict`` gave; FormatError where it is not that."""
        try:
            out = cls(
                float(data["instructions"]),
                {str(k): float(v) for k, v in data["names"].items()},
                {int(k): float(v) for k, v in data["sizes"].items()},
                {k: np.array(data["histograms"][k], np.float64) for k in _COUNTED},
                {str(k): float(v) for k, v in data["wide"].items()},
                float(data["system_calls"]),
                int(data["lines"]),
                int(data["code_lines"]),
            )
        except (TypeError, KeyError, ValueError, AttributeError):
            raise FormatError("training.distribution is not the distribution of features") from None
        if any(v.shape != (_COUNTED[k],) for k, v in out.histograms.items()):
            raise FormatError("training.distribution has other buckets")
        return out


def measure(
    trace: TraceFile, rows: Iterable[tuple[int, int]] | None = None, weights: F64 | None = None
) -> Distribution:
    """A trace's counts; ``rows``: of these ranges only, each instruction of range k counting
    ``weights[k]``."""
    ranges = list(rows) if rows is not None else [(0, len(trace))]
    scale = np.ones(len(ranges)) if weights is None else weights
    s = trace.statics
    out = Distribution()
    counts = np.zeros(len(s))
    data_lines: list[npt.NDArray[np.uint64]] = []
    for w, span in zip(scale.tolist(), ranges, strict=True):
        ids = trace.column("static_id", span)
        counts += w * np.bincount(ids, minlength=len(s))
        memory = trace.column("is_mem", span).astype(bool)
        branches = s.has("IsCondControl")[ids]
        values = {
            "data_distance": _log2(trace.column("data_distance", span)[memory]),
            "fetch_distance": _log2(trace.column("fetch_distance", span)),
            "p_local": np.rint(16 * trace.column("p_local", span)[branches]).astype(np.int64),
        }
        for k, v in values.items():
            found = w * np.bincount(np.clip(v, 0, _COUNTED[k] - 1), minlength=_COUNTED[k])
            out.histograms[k] = out.histograms.get(k, np.zeros(_COUNTED[k])) + found
        data_lines.append(np.unique(trace.column("addr", span)[memory] >> np.uint64(6)))
    used = counts > 0
    out.instructions = float(counts.sum())
    out.lines = len(np.unique(np.concatenate(data_lines))) if data_lines else 0
    out.code_lines = len(np.unique(s.pc[used] >> np.uint64(6)))
    out.system_calls = float(counts[s.has("IsSyscall")].sum())
    executed = counts.tolist()
    _count(out.names, _names(trace), executed)
    _count(out.wide, [wide(text) for text in s.disassembly], executed)
    # 16 bytes are two accesses of 8 in gem5's X86 text, one in machine code.
    sizes = np.where(s.access_size == 16, 8, s.access_size)
    sized = used & (sizes > 0)
    for size in np.unique(sizes[sized]).tolist():
        out.sizes[int(size)] = float(counts[sized & (sizes == size)].sum())
    return out


def _count(into: dict[str, float], labels: Iterable[str | None], times: list[float]) -> None:
    for label, k in zip(labels, times, strict=True):
        if k and label is not None:
            into[label] = into.get(label, 0.0) + k


def wide(text: str) -> str | None:
    """The vector extension beyond SSE that an instruction's text shows, None for none."""
    return next((label for label, pattern in _WIDE if pattern.search(text)), None)


def _names(trace: TraceFile) -> list[str]:
    if trace.arch == "x86" and trace.level == "macro":
        from tracekit.sim.uop_forms import form_of

        return [form_of(text).name for text in trace.statics.disassembly]
    return [schema.OP_CLASSES[k] for k in trace.statics.op.tolist()]


def _most(counts: dict[str, float]) -> list[str]:
    return sorted(counts, key=lambda k: -counts[k])


def _log2(distances: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    d = distances.astype(np.float64)
    out = np.floor(np.log2(np.maximum(d, 1))).astype(np.int64)
    return np.where(d >= schema.NEVER, DISTANCES - 1, np.minimum(out, DISTANCES - 2))


def of_card(training: Mapping[str, Any]) -> Distribution | None:
    """The training data's distribution; None for a model whose card has none."""
    return Distribution.parse(training["distribution"]) if "distribution" in training else None
