"""The macro level of features.md: one instruction from _core.decode_text of its micro-ops."""

from __future__ import annotations

from typing import Any

PARTS = {"IsMicroop", "IsFirstMicroop", "IsLastMicroop", "IsDelayedCommit"}
CONTROL = {"IsControl", "IsDirectControl", "IsIndirectControl", "IsCondControl", "IsUncondControl"}


def macro_row(arch: str, uops: list[dict[str, Any]], inner_branches: list[bool]) -> dict[str, Any]:
    """A branch inside the microcode (x86's ``br``) is no branch of the instruction."""
    ops = [u["op"] for u in uops]
    memory = [o for o in ops if "Mem" in o]
    other = [o for o in ops if o not in ("IntAlu", "No_OpClass")]
    op = (memory or other or ["IntAlu"])[0] if arch == "x86" or len(ops) > 1 else ops[0]
    limit = {0: 16, 2: 16} if arch == "x86" else {0: 32, 2: 32}  # temporaries stand from here on
    src: list[Any] = []
    dst: list[Any] = []
    flags: set[str] = set()
    for u, inner in zip(uops, inner_branches, strict=True):
        src += [r for r in u["src"] if r not in dst and r not in src]
        dst += [r for r in u["dst"] if r not in dst]
        flags |= set(u["flags"]) - (CONTROL if inner else set()) - PARTS
    branch = [u["branch"] for u, inner in zip(uops, inner_branches, strict=True) if not inner]
    keep = [r for r in src if r[1] < limit.get(r[0], 1 << 16)]
    out = [r for r in dst if r[1] < limit.get(r[0], 1 << 16)]
    return {"op": op, "flags": flags, "src": keep, "dst": out, "branch": max(branch, default=0)}
