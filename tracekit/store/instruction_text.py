"""The text of a trace's instruction as people read it."""

from __future__ import annotations

import re

from tracekit.schema import BRANCH_KINDS
from tracekit.store.reader import TraceFile

__all__ = ["instruction_text"]

#: Inputs whose text is capstone's, decoded at address 0 (docs/feats-format.md); gem5's own text
#: has a branch's target as it is.
_AT_ZERO = frozenset({"drmemtrace", "execlog", "tks"})
_DIRECT = frozenset(BRANCH_KINDS.index(kind) for kind in ("conditional", "jump", "call"))
_TARGET = re.compile(r"-?(?:0x[0-9a-f]+|\d+)$")


def instruction_text(trace: TraceFile, number: int) -> str:
    """The disassembly of the static instruction ``number``, a direct branch's with the address that
    it goes to."""
    s = trace.statics
    text = s.disassembly[number].strip()
    if trace.index.get("source", {}).get("format") not in _AT_ZERO:
        return text
    found = _TARGET.search(text) if int(s.branch[number]) in _DIRECT else None
    if found is None:
        return text
    return f"{text[: found.start()]}{(int(s.pc[number]) + int(found[0], 0)) % 2**64:#x}"
