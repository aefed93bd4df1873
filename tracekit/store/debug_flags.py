"""gem5's debug flags that a trace's text was written without, and what is missing for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tracekit.store.reader import TraceFile
from tracekit.store.statics import StaticTable

__all__ = ["WITHOUT", "missing_debug_flags", "sentences", "without_debug_flags"]

#: Flag of ``gem5.opt --debug-flags`` -> what a trace without it lacks.
WITHOUT: Final[dict[str, str]] = {
    "ExecEnable": "no Exec lines: no row has an address, and traps are not known",
    "ExecEffAddr": "no row has an address: loads and stores reach no cache",
    "ExecFetchSeq": "Exec lines without FetchSeq: no row has a pipeline block's times",
    "ExecFlags": "no flags of instructions: their kinds follow from their text",
}


def missing_debug_flags(
    source: Mapping[str, Any], statics: StaticTable, addresses: int
) -> list[str]:
    """Those of `WITHOUT` that a gem5 text lacks, by the parser's numbers, the instructions and the
    number of rows with an address; none of other inputs."""
    if "fetch_seq" not in source:
        return []
    if not source["exec_lines"]:
        return ["ExecEnable"]
    missing = []
    if not addresses and _has_accesses(statics):
        missing.append("ExecEffAddr")
    if source["blocks"] and not source["fetch_seq"]:
        missing.append("ExecFetchSeq")
    if not source["exec_flags"]:
        missing.append("ExecFlags")
    return missing


def _has_accesses(statics: StaticTable) -> bool:
    """Whether an instruction that ran loads or stores, by its op class."""
    names = (statics.op_name(i) for i in np.flatnonzero(statics.count).tolist())
    return any(name.endswith(("MemRead", "MemWrite")) for name in names)


def without_debug_flags(trace: TraceFile) -> list[str]:
    """A sentence for each flag that the trace was written without; none of files of older
    versions."""
    return sentences(trace.index["source"].get("missing_debug_flags", ()))


def sentences(flags: Any) -> list[str]:
    """What is missing, and the flag that gives it."""
    return [f"{WITHOUT[f]} (gem5.opt --debug-flags={f},…)" for f in flags if f in WITHOUT]
